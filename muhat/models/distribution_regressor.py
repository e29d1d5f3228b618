"""Regression on bags: one example is a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import RegressorMixin

from muhat._bags import AnyBags, as_bags
from muhat._threads import one_blas_thread
from muhat._validation import check_positive, refuse_dates
from muhat.kernels.base import Kernel
from muhat.kernels.on_distributions import products
from muhat.learning.bag_scales import held_out_scores
from muhat.learning.bags import choose_noise
from muhat.models.distribution_base import (
    SEARCH_BAGS,
    BagEstimator,
    as_targets,
    in_memory,
    new_seed,
    products_with,
    targets_of,
)
from muhat.operators.bags import Landmarks, Weights, bag_noise, no_weights

# Intervals of this level are made to hold bags left out in learning, where a fold has so many bags.
LEVEL, MIN_FOLD = 0.9, 10
# Bags of fewer points than this quantile of those learned from are smaller than any that were seen.
SMALL = 0.05
# Share of the variance of targets that predictions have at least, where small bags are drawn to the mean.
MIN_SIGNAL = 0.05
# Bags whose features are held until the posterior takes them in.
UPDATE_BAGS = 4096


class DistributionRegressor(RegressorMixin, BagEstimator):
    """A number from a sample of points: Bayesian regression on the embeddings of bags [G15].

    ``y = f(P) + ε``, f a Gaussian process with kernel ``a K(P, Q)``, K the kernel on distributions. Few bags
    are taken exactly; many by two stages of random features, bag → mean of d features → d' features, with
    Bayesian linear regression on top. By default K looks at a bag as its place and its shape at six scales
    (:class:`OnDistributions` with ``location``), and the marginal likelihood weighs them: what does not
    count for y is not looked at.

    A bag of n points gives P only up to its sampling error: to first order f then varies by the variance of
    its slope over the points, V/n, of which a learned share is added to the noise [MR11]. The share is of
    the sizes in learning alone: where y belongs to the very points of a bag (the mean of a day's hours) it is
    near 0. A bag of m points, fewer than the ``size_`` n₀ in learning, is taken as a sample of such a bag.
    V(1/m − 1/n₀) is then added in full, and the prediction is drawn to the mean of y by the share of this in
    the variance of predictions. From 30 bags on, and unless ``noise`` is given, standard deviations are
    stretched so that 90% intervals hold 90% of bags that were left out in learning.

    Args:
        kernel: the outer kernel, or a whole ``mh.OnDistributions``. None for ``mh.Cauchy()``. A lengthscale
            that is a number is kept; one that is ``"median"`` is learned.
        inner: the kernel on points, alike, for bags as they are; None for place and scales of shape.
        representation: ``mh.Exact()``, ``mh.Fourier(p)`` or a pair for points and embeddings,
            ``(mh.Fourier(600), mh.Nystrom(500))``. None chooses by cost.
        noise: standard deviation of y around f; None to learn it. Where it is given nothing is stretched.
        warm_start: whether ``fit`` keeps the kernel, the noise and the random features of the fit before.
        random_state: seed of the features and of the bags that the parameters are learned from.

    Attributes:
        kernel_: the kernel on distributions in use.
        amplitude_: a, in units of y².
        noise_: standard deviation of y around f.
        selection_: what the marginal likelihood tried and found.
        features_: of bags.
        weights_: posterior of their coefficients.
        share_: of the first-order variance of finite bags, what counts at the sizes in learning.
        size_: points of the smallest bags in learning, but for 5% of them.
        stretch_: factor of standard deviations, from bags left out in learning; 1 where there is none.
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        inner: Kernel | None = None,
        representation: Any = None,
        noise: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.inner = inner
        self.representation = representation
        self.noise = noise
        self.warm_start = warm_start
        self.random_state = random_state

    # -- learning ------------------------------------------------------------------------------

    def fit(self, bags: Any, y: Any) -> DistributionRegressor:
        """Learn from bags (arrays in a list or iterator, ``mh.Bags``, ``mh.GaussianBags``) and y (n,).

        The parameters are learned from 500 of the bags at most, and of these from 20 000 points each. Bags of
        a table that outgrows memory (see :meth:`muhat.Bags.from_table`) are read once for this sample (twice
        if some are larger) and then once for every 7 000 bags or so; ``predict`` reads them alike, and once
        more for ``return_std``. Few enough to be taken exactly, they are brought into memory.
        """
        if self.noise is not None:
            check_positive(self.noise, "noise", "give a standard deviation, or None to learn it", scalar=True)
        warm = self.warm_start and hasattr(self, "weights_")
        if not warm:
            self.seed_ = new_seed(self.random_state)
        bags, sample = self._take(bags)
        targets = _numbers(as_targets(y, bags))
        with one_blas_thread():  # small systems and blocks of bags: BLAS's own threads would only wait
            if not warm:
                self._learn(bags, sample, targets)
            self.__dict__.pop("_index", None)
            self._start()
            return self._add(bags, targets)

    def _learn(self, bags: Any, sample: AnyBags, y: np.ndarray) -> None:
        """Kernel, amplitude and noise, and the slopes that the noise of finite bags is taken from."""
        looked = self._looked(y, sample)
        if len(looked) < 3:
            raise ValueError(f"There are {len(looked)} bags, but at least 3 are needed: pass more.")
        self.offset_, self.scale_ = float(looked.mean()), float(looked.std())
        if not self.scale_ > 0:
            raise ValueError(
                f"y is constant ({self.offset_:g}): there is nothing to learn. Pass other targets."
            )
        self.n_features_in_ = sample.dimension
        z = (looked - self.offset_) / self.scale_
        learner = self._choose(bags, sample, z[:, None])
        amplitude, noise = self.selection_.amplitude, self.selection_.noise
        if self.noise is not None:
            noise = (self.noise / self.scale_) ** 2
        kept = range(min(SEARCH_BAGS, len(sample)))
        if isinstance(self.features_, Landmarks):
            kept = range(len(self.features_.bags))
        sample, z = sample.select(kept), z[: len(kept)]
        Psi = self.features_.of(sample)
        K = Psi @ Psi.T
        sizes, share = sample.effective_sizes, 1.0
        self.size_ = float(np.quantile(sizes, SMALL, method="lower"))
        known = spreads = np.zeros(len(z))
        for _ in range(2):  # the noise of bags depends on the function, and the function on the noise
            variance = share * known + noise
            posterior = no_weights(Psi.shape[1]).updated(amplitude**0.5 * Psi, z, variance)
            self.pilot_coef_ = amplitude**0.5 * posterior.mean
            spreads = self.features_.spreads(sample, self.pilot_coef_)
            self.typical_ = float(spreads[sizes > 1].mean()) if (sizes > 1).any() else 0.0
            known = bag_noise(np.full(len(z), self.typical_), self.typical_, sizes)
            amplitude, noise, share, _ = choose_noise(K, z, known, amplitude, noise, self.noise is None)
        self.share_ = share
        # Of standardised targets: the variance that is not noise is that of predictions.
        self.signal_ = max(1.0 - noise - share * float(known.mean()), MIN_SIGNAL)
        self.stretch_ = 1.0
        if self.noise is None and len(z) >= 3 * MIN_FOLD:
            own = bag_noise(spreads, self.typical_, sizes)
            scores = held_out_scores(learner, z, known, own, self._rng(4))
            self.stretch_ = float(np.quantile(np.abs(scores), LEVEL, method="higher")) / ndtri(
                (1 + LEVEL) / 2
            )
        self.unit_amplitude_, self.unit_noise_ = amplitude, noise
        self.amplitude_, self.noise_ = amplitude * self.scale_**2, noise**0.5 * self.scale_

    def _start(self) -> None:
        """Forget the examples, keep the parameters."""
        self.bags_ = None
        if isinstance(self.features_, Landmarks):
            self.products_, self.targets_, self.known_ = np.empty((0, 0)), np.empty(0), np.empty(0)
        else:
            self.weights_ = no_weights(self.features_.size)

    def partial_fit(self, bags: Any, y: Any) -> DistributionRegressor:
        """Learn from more bags, with the parameters of the first fit.

        With two-stage features each bag is a rank-one update, at a cost that does not grow with the bags
        seen before; the exact Gram grows by a row.
        """
        if not hasattr(self, "weights_"):
            return self.fit(bags, y)
        return self._add(bags, _numbers(as_targets(y, bags)))

    def _add(self, bags: Any, y: np.ndarray) -> DistributionRegressor:
        z = (y - self.offset_) / self.scale_
        if isinstance(self.features_, Landmarks):
            return self._add_exact(in_memory(as_bags(bags, self.n_features_in_)), z)
        weights, held, rows = self.weights_, [], 0
        for batch, part in targets_of(z, self._known(bags)):
            Psi = self.unit_amplitude_**0.5 * self.features_.of(batch)
            held.append((Psi, part, self.unit_noise_ + self._training_noise(batch)))
            rows += len(part)
            if rows >= UPDATE_BAGS:  # many at once: each update of many factors anew
                weights, held, rows = weights.updated(*map(np.concatenate, zip(*held, strict=True))), [], 0
        if held:
            weights = weights.updated(*map(np.concatenate, zip(*held, strict=True)))
        self.weights_ = weights  # only now: a bag that is refused leaves the model as it was
        return self

    def _add_exact(self, bags: AnyBags, z: np.ndarray) -> DistributionRegressor:
        if len(z) != len(bags):
            raise ValueError(f"y has {len(z)} targets for {len(bags)} bags: pass one for every bag.")
        known = self._training_noise(bags)
        if self.bags_ is None:
            self.bags_, self.products_ = bags, products(bags, bags, self.kernel_)
        else:
            if type(bags) is not type(self.bags_):
                raise TypeError(
                    "The new bags are of another kind than those before: pass samples, or Gaussians."
                )
            joined = self.bags_.joined(bags)  # type: ignore[arg-type]
            self.products_ = products_with(self.bags_, self.products_, bags, self.kernel_)
            self.bags_ = joined
        self.targets_, self.known_ = np.append(self.targets_, z), np.append(self.known_, known)
        self.features_ = Landmarks.fit(self.kernel_, self.bags_, self.products_)
        Psi = self.unit_amplitude_**0.5 * self.features_.lower
        prior = no_weights(Psi.shape[1])
        self.weights_: Weights = prior.updated(Psi, self.targets_, self.unit_noise_ + self.known_)
        return self

    def _training_noise(self, bags: AnyBags) -> np.ndarray:
        """Of bags to learn from: the typical spread, so that points are passed over once."""
        sizes = bags.effective_sizes
        spreads = np.full(len(sizes), self.typical_)
        return self.share_ * self._usual_noise(spreads, sizes) + self._lost(spreads, sizes)

    def _usual_noise(self, spreads: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """First-order variance of bags of the sizes in learning, (n,)."""
        return bag_noise(spreads, self.typical_, np.maximum(sizes, self.size_))

    def _lost(self, spreads: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """What a bag that is smaller than those in learning has more, ``V(1/m − 1/n₀)``, (n,)."""
        small = sizes < self.size_
        full = bag_noise(spreads, self.typical_, sizes) - self._usual_noise(spreads, sizes)
        return np.where(small, max(self.share_, 1.0) * np.maximum(full, 0.0), 0.0)

    # -- answers -------------------------------------------------------------------------------

    def predict(self, bags: Any, return_std: bool = False) -> Any:
        """E y of each bag, (n,), and with ``return_std`` the standard deviation of a new y of that bag, (n,).

        It holds what is not known of f, the noise, and the finite size of the bag.
        """
        means, stds = [], []
        for batch in self._known(bags):
            coef = self.unit_amplitude_**0.5 * self.weights_.mean
            Psi, spreads = (
                self.features_.both(batch, coef) if return_std else (self.features_.of(batch), None)
            )
            sizes = batch.effective_sizes
            # Errors of the input draw the best prediction to the mean; for means typical spreads will do.
            kept = self.signal_ / (self.signal_ + self._lost(np.full(len(sizes), self.typical_), sizes))
            means.append(self.offset_ + self.scale_ * kept * (Psi @ coef))
            if spreads is not None:
                variance = self.weights_.variance(self.unit_amplitude_**0.5 * Psi)
                variance = variance + self.unit_amplitude_ * self.features_.missing(batch, Psi)
                variance = variance + self.share_ * self._usual_noise(spreads, sizes) + self.unit_noise_
                lost = kept**2 * self._lost(spreads, sizes) + (1 - kept) ** 2 * self.signal_
                stds.append(self.scale_ * np.sqrt(self.stretch_**2 * variance + lost))
        mean = np.concatenate(means)
        return (mean, np.concatenate(stds)) if return_std else mean


def _numbers(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind not in "biuf":
        refuse_dates(y, "y")
        raise TypeError(
            f"y must hold numbers, but has dtype {y.dtype}: use mh.DistributionClassifier for classes."
        )
    if not np.isfinite(y).all():
        raise ValueError(
            f"y contains NaN or inf (first at {int(np.argmin(np.isfinite(y)))}): drop these bags."
        )
    return y.astype(np.float64)


__all__ = ["DistributionRegressor"]
