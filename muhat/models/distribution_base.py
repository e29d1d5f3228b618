"""What regression and classification of bags share: the kernel on distributions and its features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._bags import AnyBags, Bags, as_bags, batches_of, is_bags
from muhat._streamed_bags import StreamedBags
from muhat._validation import as_generator
from muhat.engine import SAMPLE
from muhat.gram.octaves import OctaveKernel, octave_kernel
from muhat.gram.representation import Exact, Fourier, Nystrom, Representation
from muhat.kernels.base import Kernel, NoClosedForm
from muhat.kernels.dot import Linear
from muhat.kernels.on_distributions import OnDistributions, has_open, outer_of, products, resolve_outer
from muhat.kernels.stationary import Cauchy, Stationary
from muhat.learning.bag_scales import OCTAVES, Scales, choose_weights, gram_of
from muhat.learning.bags import BagsChoice, choose_bags, embedded, features_of
from muhat.models.base import Estimator
from muhat.operators.bags import BagFeatures, Landmarks, two_stage

# The parameters are learned from at most this many bags, and landmarks are chosen among so many.
SEARCH_BAGS, SAMPLE_BAGS = 300, 500
# Up to so many points in so many bags the Gram over bags is exact unless said otherwise.
EXACT_POINTS, EXACT_BAGS = 4000, 1000
# Points of the bags that are worked on at a time.
BATCH_POINTS = 1 << 14
# From indices of bags, the Gram over all that are looked at, amplitude and noise.
Learner = Callable[[np.ndarray], tuple[np.ndarray, float, float]]
FIRST, SECOND = Fourier(600), Nystrom(SAMPLE_BAGS)


class BagEstimator(Estimator):
    """An estimator whose examples are bags of points."""

    kernel: Kernel | None
    inner: Kernel | None
    representation: Any
    random_state: Any
    seed_: int
    kernel_: OnDistributions
    features_: BagFeatures
    selection_: BagsChoice

    def _take(self, bags: Any) -> tuple[Any, AnyBags]:
        """All bags (which may be an iterator), and those that the parameters are learned from."""
        if isinstance(bags, Iterator) and isinstance(self.representation, Exact):
            bags = list(bags)  # all are kept as landmarks
        if isinstance(bags, Iterator):
            head = list(islice(bags, SAMPLE_BAGS))
            sample: AnyBags = Bags(head)
            self._index = np.arange(len(head))
            return (sample if len(head) < SAMPLE_BAGS else chain(head, bags)), sample
        known = as_bags(bags)
        if self._exact(known):
            known = in_memory(known)
        index = np.arange(len(known))
        if len(known) > SAMPLE_BAGS:
            index = self._rng(0).choice(len(known), SAMPLE_BAGS, replace=False)
        self._index = index
        if isinstance(known, StreamedBags):
            return known, known.select(index, SAMPLE)
        sample = known if len(index) == len(known) else known.select(index)
        if isinstance(sample, Bags) and not self._exact(known):
            sample = sample.thinned(SAMPLE)
        return known, sample

    def _exact(self, bags: Any) -> bool:
        """Whether the Gram over these bags is exact: they are few, or it is asked for."""
        if self.representation is None:
            return is_bags(bags) and len(bags) <= EXACT_BAGS and bags.sizes.sum() <= EXACT_POINTS
        return isinstance(self.representation, Exact)

    def _looked(self, y: np.ndarray, sample: AnyBags) -> np.ndarray:
        """The targets of the bags that the parameters are learned from."""
        index = self.__dict__.pop("_index")
        if len(y) <= index.max():
            raise ValueError(
                f"y has {len(y)} targets for {len(sample)} bags or more: pass one for every bag."
            )
        return y[index]

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed_, stream])

    def _choose(self, bags: Any, sample: AnyBags, Y: np.ndarray) -> Learner:
        """Learn the kernel from the sample with standardised targets ``Y`` (n, k) and make the features.

        Returns what learns the Gram again from some of the bags looked at.
        """
        start = self._kernel()
        stages = self._stages(bags, start, sample)
        count = min(SEARCH_BAGS, len(sample))
        if stages is None:  # exact: as many bags as have few enough points
            count = int(np.searchsorted(np.cumsum(sample.sizes[:count]), 2.5 * EXACT_POINTS, side="right"))
            count = min(max(count, 20), len(sample))
        looked = sample if count == len(sample) else sample.select(range(count))
        scales, location, first = None, None, None
        if self._weighs(start, stages):
            scales = Scales.of(looked)
            if stages is not None:
                assert isinstance(stages[0], Fourier)
                first = octave_kernel(scales.longest, np.ones(OCTAVES), stages[0].p, self._rng(3))
            weights, learner = self._weigh(looked, Y[:count], start.outer, scales, first)
            if first is not None:
                first = first.replace(weights=weights[1:])
        else:
            learner = self._search(looked, Y[:count], start, stages)
        self.kernel_ = self.selection_.kernel
        if stages is None:
            self.features_ = Landmarks.fit(self.kernel_, looked)
            return learner
        if self.kernel_.location is not None:
            location = np.broadcast_to(1 / np.asarray(self.kernel_.location), (sample.dimension,)).copy()
        if first is None:
            first = features_of(self.kernel_.inner, sample, stages[0], self.seed_)
        marks = sample if isinstance(stages[1], Nystrom) else None
        self.features_ = two_stage(
            first,  # type: ignore[arg-type]
            self.kernel_.outer,
            stages[1].p,
            self._rng(1),
            location,
            marks,
        )
        return learner

    def _weighs(self, start: OnDistributions, stages: Any) -> bool:
        """Whether place and scales of shape are weighed against each other: all of it is left to us."""
        given = self.inner is not None or isinstance(self.kernel, OnDistributions)
        open_outer = isinstance(start.outer, Stationary) and has_open(start.outer)
        return not given and open_outer and (stages is None or isinstance(stages[0], Fourier))

    def _weigh(
        self, looked: AnyBags, Y: np.ndarray, outer: Any, scales: Scales, first: OctaveKernel | None
    ) -> tuple[np.ndarray, Learner]:
        unit = outer.replace(lengthscale=1.0)
        D = scales.distances(looked, first)
        found = choose_weights(D, Y, unit)
        self.selection_ = BagsChoice(
            scales.kernel(unit, found.weights),
            found.amplitude,
            found.noise,
            found.log_likelihood,
            np.empty((0, 3)),
            found.weights * np.array([np.median(d) for d in D]),
        )

        def learn(rest: np.ndarray) -> tuple[np.ndarray, float, float]:
            again = choose_weights(D[:, rest[:, None], rest], Y[rest], unit)
            return gram_of(D, again.weights, unit), again.amplitude, again.noise

        return found.weights, learn

    def _search(self, looked: AnyBags, Y: np.ndarray, start: OnDistributions, stages: Any) -> Learner:
        represent = None if stages is None else stages[0]
        inner = start.inner.resolve(looked.pool())
        outer = start.outer
        if has_open(outer):
            outer = resolve_outer(outer, embedded(inner, looked, represent, self.seed_, start.location))
        self.selection_ = choose_bags(
            looked,
            Y,
            OnDistributions(outer, inner, start.location),
            any(isinstance(leaf, str) for leaf in start.inner.leaves()),
            has_open(start.outer),
            represent,
            self.seed_,
        )
        kernel, amplitude, noise = self.selection_.kernel, self.selection_.amplitude, self.selection_.noise
        C = embedded(kernel.inner, looked, represent, self.seed_, kernel.location)
        K = outer_of(kernel.outer, C, np.diagonal(C), np.diagonal(C))
        return lambda rest: (K, amplitude, noise)

    def _kernel(self) -> OnDistributions:
        if isinstance(self.kernel, OnDistributions):
            if self.inner is not None:
                raise ValueError(
                    "kernel is an mh.OnDistributions, which has an inner kernel: leave inner out."
                )
            return self.kernel
        return OnDistributions(Cauchy() if self.kernel is None else self.kernel, self.inner)

    def _stages(
        self, bags: Any, kernel: OnDistributions, sample: AnyBags
    ) -> tuple[Representation, Fourier | Nystrom] | None:
        """How points and embeddings become features; None for the exact Gram over bags."""
        chosen = self.representation
        if self._exact(bags):
            return None
        if chosen is None:
            inner = kernel.inner.resolve(sample.pool())
            first = FIRST if _has_spectrum(inner, sample.dimension) else Nystrom(FIRST.p)
            return first, SECOND
        pair = chosen if isinstance(chosen, tuple) and len(chosen) == 2 else None
        if isinstance(chosen, (Fourier, Nystrom)):
            pair = (chosen, Fourier(chosen.p))
        if (
            pair is None
            or not isinstance(pair[0], Representation)
            or not isinstance(pair[1], (Fourier, Nystrom))
        ):
            raise TypeError(
                "representation must be None, mh.Exact(), mh.Fourier(p), or a pair for the points and the "
                f"embeddings whose second is mh.Fourier(p) or mh.Nystrom(p), got {chosen!r}."
            )
        fourier = isinstance(pair[1], Fourier) and not isinstance(kernel.outer, Linear)
        if fourier and not _has_spectrum(kernel.outer, 2):
            raise NoClosedForm(
                f"{kernel.outer!r} has no spectral samples, which two-stage features need: use "
                "mh.Nystrom(p) for the second, or another outer kernel, e.g. mh.Gaussian()."
            )
        return pair

    def _known(self, bags: Any) -> Iterator[AnyBags]:
        """Checked bags of the dimension of the training ones, some at a time."""
        check_is_fitted(self)
        if isinstance(bags, StreamedBags):
            known: StreamedBags = as_bags(bags, self.n_features_in_)
            if isinstance(self.features_, Landmarks):
                return (in_memory(part) for part in known.batches(self.features_.size))
            return known.batches(self.features_.first.size)  # type: ignore[return-value]
        return batches_of(bags, BATCH_POINTS, self.n_features_in_)


def in_memory(bags: Any) -> Any:
    """Bags that are read in blocks, all in memory; others as they are."""
    return bags.select(range(len(bags))) if isinstance(bags, StreamedBags) else bags


def products_with(old: AnyBags, C: np.ndarray, new: AnyBags, kernel: OnDistributions) -> np.ndarray:
    """Inner products of old and new bags together, where those of the old are known."""
    cross = products(old, new, kernel)
    return np.block([[C, cross], [cross.T, products(new, new, kernel)]])


def as_targets(y: Any, bags: Any) -> np.ndarray:
    """The labels as a vector, one a bag."""
    if y is None:
        raise ValueError("y is None: pass one target for every bag.")
    out = np.asarray(y)
    if out.ndim == 2 and out.shape[1] == 1:
        out = out[:, 0]
    if out.ndim != 1:
        raise ValueError(f"y must be a vector with one target a bag, but has shape {out.shape}.")
    if is_bags(bags) and len(out) != len(bags):
        raise ValueError(f"y has {len(out)} targets for {len(bags)} bags: pass one for every bag.")
    return out


def targets_of(y: np.ndarray, batches: Iterator[AnyBags]) -> Iterator[tuple[AnyBags, np.ndarray]]:
    """Batches of bags with their targets; raises when one runs out before the other."""
    start = 0
    for batch in batches:
        stop = start + len(batch)
        if stop > len(y):
            raise ValueError(f"There are more bags than the {len(y)} targets in y: pass one for every bag.")
        yield batch, y[start:stop]
        start = stop
    if start != len(y):
        raise ValueError(f"y has {len(y)} targets for {start} bags: pass one for every bag.")


def new_seed(random_state: Any) -> int:
    """One number that all random choices of an estimator come from."""
    return int(as_generator(random_state).integers(2**31))


def _has_spectrum(kernel: Kernel, d: int) -> bool:
    if has_open(kernel):
        kernel = resolve_outer(kernel, np.eye(2))
    try:
        kernel.spectral_sample(1, d, np.random.default_rng(0))
        _ = kernel.amplitude
    except (NoClosedForm, ValueError):
        return False
    return True


__all__ = [
    "BATCH_POINTS",
    "BagEstimator",
    "as_targets",
    "in_memory",
    "new_seed",
    "products_with",
    "targets_of",
]
