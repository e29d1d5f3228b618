"""The density of y given x as an estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import Encoder
from muhat._validation import (
    as_generator,
    as_rows,
    check_choice,
    check_count,
    check_positive,
    check_same_columns,
    check_same_rows,
    check_share,
)
from muhat.embedding import Atoms, Embedding, Mixture, Reference
from muhat.embedding.density import SCHEDULE, scheduled_reg
from muhat.embedding.reference import KINDS, as_reference, box_reference
from muhat.embedding.simplex import project_simplex
from muhat.gram import (
    Exact,
    Features,
    LowRankGram,
    Neural,
    as_representation,
    default_representation,
    streamed_representation,
)
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel
from muhat.kernels.stationary import Gaussian
from muhat.learning.density import (
    DensityChoice,
    DensityTask,
    box_about,
    choose_density,
    default_output_kernel,
    grid_size,
    kernel_width,
    on_grid,
)
from muhat.learning.leave_one_out import LeaveOneOut, stretch
from muhat.learning.residuals import Way, standardize
from muhat.learning.scatter import find_atoms
from muhat.models.base import Estimator
from muhat.models.conditional_mean import ConditionalMean
from muhat.models.density_inputs import check_memory, take_rows
from muhat.operators.conditional import group_rows
from muhat.operators.density import DensityOperator, DensitySums, SummedDensity


def _input_kernel(way: Way, ways: list[Way], kernel: Kernel) -> tuple[Kernel, bool]:
    """Where the search of the kernel of x starts, and whether it already tells the columns apart.

    For the outputs themselves that of their regression, for residuals that of their spread.
    """
    last = ways[-1].standard
    if last is None or last.scale is None:
        return kernel, False
    found = (last.location if way.standard is None else last.scale).chosen.kernel
    return (found, True) if isinstance(found, type(kernel)) else (kernel, False)


class ConditionalDensity(Estimator):
    """The density of Y given X, by the conditional density operator [S20].

    ``p(·|x) = (Ĉ_ρ + α'I)⁻¹ Ĉ_YX (Ĉ_XX + λI)⁻¹ k(x, ·)``: several modes, several outputs, noise that
    changes with x. The raw solution may be negative; ``pdf`` clips it and divides by its mass.

    What is not given is learned: by the leave-one-out log density of the training rows. Then the operator is
    also tried on the outputs less their regression on x, and on these in units of their spread at x: where y
    is all but a function of x, its residuals have a density that is far easier to find. Of the three that
    with the highest log density is kept, among those whose leave-one-out CRPS is as good as the best.

    One output that takes few values (ratings, small counts) has no density. If everything is learned, it gets
    a probability for each value: ``density`` gives :class:`muhat.embedding.Atoms`, and ``atoms_`` the values.

    Args:
        kernel_x: k on the inputs: a kernel, ``"median"``, or None (``"learn"``).
        kernel_y: on the outputs, a kernel that is a density, ``"median"``, or None (``"learn"``).
        reg_x: λ, ``"schedule"`` for n^(-0.45), or None (``"learn"``).
        reg_y: α', ``"schedule"`` for that of [S20, Cor. 3.4], or None (``"learn"``).
        reference: where densities are reconstructed: ``"grid"``, ``"sobol"`` or ``"random"`` points in a
            box, points (M, k), or a list of axes of a grid. None for a grid in up to four dimensions, a
            Sobol sequence beyond.
        random_state: seed.
        box: opposite corners ``(lower, upper)`` of the box; None for one about the outputs.
        size: points along each axis of a grid, or points in all.
        mass: of reference points of your own, V; the volume of their box by default.
        grow: whether the box widens to hold every y, those of ``fit`` and those that are asked for. Else
            the density is 0 outside it.
        standardize: whether the operator is applied to residuals in units of their spread. None for what is
            best, if everything is learned; else to the outputs themselves.
        background: the share of a uniform density on the box, which keeps log densities finite. None to
            learn it, or 0 where nothing is learned.
        calibration: the share of rows that ``fit`` leaves out to calibrate ``interval``: then it covers a
            new y with at least its level, whatever the distribution (split conformal prediction).
        representation: how the Gram of x is held, e.g. ``mh.Nystrom(500)``. None for exact up to 4 000
            distinct inputs, and for landmarks beyond; ``representation_`` says which.
        memory: gigabytes that a fit may take; more is refused before anything is made.

    Attributes:
        kernel_x_, kernel_y_, reg_x_, reg_y_, background_, reference_: in use.
        selection_: what the search tried and found, or None.
        standard_: location and scale of the outputs given x, or None.
        calibration_: scores of the rows left out, (m, k), in order; or None.
        atoms_: the values of an output that takes few; else None. Then ``conditional_`` is the
            :class:`muhat.ConditionalMean` that their probabilities come from.
        representation_: of the Gram of x, in use.
    """

    _prepared: ClassVar[tuple[str, ...]] = ("_operator", "_nearness")
    encoder_y_: Encoder
    flat_y_: bool
    atoms_: np.ndarray | None
    conditional_: ConditionalMean | None
    # None of outputs that take few values:
    kernel_y_: Any
    reg_y_: Any
    reference_: Any
    standard_: Any
    selection_: DensityChoice | LeaveOneOut | None

    def __init__(
        self,
        kernel_x: Any = None,
        kernel_y: Any = None,
        reg_x: Any = None,
        reg_y: Any = None,
        reference: Any = None,
        random_state: Any = 0,
        *,
        box: Any = None,
        size: int | None = None,
        mass: float | None = None,
        grow: bool = False,
        standardize: bool | None = None,
        background: float | None = None,
        calibration: float | None = None,
        representation: Representation | None = None,
        memory: float = 4.0,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.reg_x = reg_x
        self.reg_y = reg_y
        self.reference = reference
        self.random_state = random_state
        self.box = box
        self.size = size
        self.mass = mass
        self.grow = grow
        self.standardize = standardize
        self.background = background
        self.calibration = calibration
        self.representation = representation
        self.memory = memory

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, X: Any, Y: Any, checkpoint: Any = None) -> ConditionalDensity:
        """Learn from pairs: ``X`` (n, d) and ``Y`` (n, k) or (n,), which must be numbers.

        Rows that outgrow memory (see :func:`muhat.open_rows`), and more than 20 000 rows in a low-rank
        representation, are read twice: for the sample that everything is chosen from, with the location and
        scale of the outputs, and for the sums of the operator. ``checkpoint`` is then the path of a file that
        an interrupted fit goes on from.
        """
        rng = as_generator(self.random_state)
        self._check_arguments()
        A, B, many, saved = take_rows(self, X, Y, checkpoint)
        if self.encoder_y_.categories:
            raise ValueError(
                "Y has categories, which have no density: use mh.ConditionalMean, whose expect(f, x) gives "
                "their probabilities."
            )
        B = np.asarray(B, dtype=np.float64)
        constant = np.flatnonzero(np.ptp(B, axis=0) == 0)
        if len(constant):
            raise ValueError(f"Column {constant[0]} of Y is constant, so it has no density: leave it out.")
        held, left = None, np.empty(0, dtype=int)
        if self.calibration is not None:
            share = check_share(self.calibration, "calibration", "give e.g. 0.25 of the rows")
            order = rng.permutation(len(A))
            count = int(np.ceil(share * len(A)))
            if len(A) - count < 5:
                raise ValueError(
                    f"calibration={share:g} leaves {len(A) - count} of {len(A)} rows to learn from: give "
                    "less."
                )
            rest, left = np.sort(order[count:]), np.sort(order[:count])
            held = (A[order[:count]], B[order[:count]])
            A, B = A[rest], B[rest]
        self.groups_ = group_rows(A)
        inputs = A if self.groups_ is None else self.groups_.points
        represent = as_representation(self.representation)
        if many is not None:
            represent = streamed_representation(self.representation)
        elif self.representation is None:
            represent = default_representation(len(inputs))
        self.representation_ = represent
        if isinstance(represent, Neural):
            raise TypeError(
                "representation=mh.Neural() is not for densities: train it in mh.ConditionalMean, and pass "
                "representation=mh.Features(model.kernel_x_.features)."
            )
        self.atoms_ = find_atoms(B[:, 0]) if many is None and B.shape[1] == 1 and self._all_free else None
        if self.atoms_ is not None:
            return self._fit_atoms(A, B, held)
        self.conditional_ = None
        check_memory(self, len(inputs), B.shape[1], isinstance(represent, Exact))
        self._choose(A, B, represent, rng, 0 if many is None else many.count)
        features: Any = represent.fit(self.kernel_x_, inputs, rng)
        self.sums_ = None
        if many is None:
            self.gram_ = represent.gram_of(features, inputs)
        else:
            self.gram_ = LowRankGram(features.features(inputs[:1]), features, inputs)
            self._prepare()
            without = many.index[left]
            self.sums_ = DensitySums.of(
                many.X, many.Y, features, self.standard_, self._operator, without, saved
            )
        if saved is not None:
            saved.finish()
        self._prepare()
        self.calibration_ = None
        if held is not None:
            self.calibration_ = np.sort(self._densities(held[0]).reach(held[1]), axis=0)
        return self

    @property
    def _all_free(self) -> bool:
        """Whether nothing is given of what a density of y needs."""
        given = (self.kernel_y, self.reg_y, self.reference, self.box, self.size, self.mass, self.standardize)
        return all(v is None for v in given) and not isinstance(self.kernel_x, str) and self.reg_x is None

    def _fit_atoms(
        self, A: Array, B: np.ndarray, held: tuple[Array, np.ndarray] | None
    ) -> ConditionalDensity:
        """Probabilities of few values, by the regression that conditional means stand on."""
        kernel = None if self.encoder_x_.categories else self.kernel_x
        model = ConditionalMean(kernel, representation=self.representation_, random_state=self.random_state)
        model._fit_encoded(A, B, self.encoder_x_, Encoder(), False)
        self.conditional_ = model
        self.kernel_x_, self.reg_x_, self.selection_ = model.kernel_x_, model.reg_, model.selection_
        self.kernel_y_ = self.reg_y_ = self.reference_ = self.standard_ = self.sums_ = None
        self.background_ = 1 / len(B) if self.background is None else self.background
        self.gram_, self.T_ = model.gram_, B
        self._prepare()
        self.calibration_ = None
        if held is not None:
            self.calibration_ = np.sort(self._densities(held[0]).reach(held[1]), axis=0)
        return self

    def _check_arguments(self) -> None:
        for name in ("kernel_x", "kernel_y"):
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(value, name, ("median", "learn"))
            elif value is not None and not isinstance(value, Kernel):
                raise TypeError(f'{name} must be a kernel, "median" or "learn", got {value!r}.')
        for name in ("reg_x", "reg_y"):
            value = getattr(self, name)
            if isinstance(value, str):
                check_choice(value, name, ("schedule", "learn"))
            elif value is not None:
                check_positive(value, name, 'give a number > 0, "schedule" or "learn"', scalar=True)
        if isinstance(self.reference, str):
            check_choice(self.reference, "reference", KINDS)
        if self.size is not None:
            check_count(self.size, "size", 2)
        if self.background is not None and self.background != 0:
            check_share(self.background, "background", "give e.g. 0.01")
        check_positive(self.memory, "memory", "give gigabytes", scalar=True)

    def _choose(
        self, A: Array, B: np.ndarray, represent: Representation, rng: np.random.Generator, count: int = 0
    ) -> None:
        """Kernels, regularisers, the way to take the outputs, and the reference; ``count`` rows in all."""
        kernel, tune_x = self._given(self.kernel_x)
        tune_y = self._given(self.kernel_y)[1]
        kernel_x = resolve_kernel(kernel, A, self.encoder_x_, "kernel_x")
        reg_x, reg_y = (None if v == "learn" else v for v in (self.reg_x, self.reg_y))
        if isinstance(represent, Features):  # the features are the kernel
            kernel_x, tune_x = represent.fit(kernel_x, A, rng), False
        learn = tune_x or tune_y or reg_x is None or reg_y is None
        if reg_x == "schedule":
            reg_x = float(np.asarray(kernel_x.diag(A)).mean()) * len(B) ** (-SCHEDULE / 2)
        ways = self._ways(
            A, B, kernel_x, tune_x and tune_y and reg_x is None and reg_y is None, represent, rng
        )
        background = self.background if self.background is not None or learn else 0.0
        tasks = []
        for way in ways:
            first, relevant = _input_kernel(way, ways, kernel_x)
            output = self._output_kernel(way.outputs)
            # The schedule is a share of the norm of Ĉ_ρ, which is all but the integral of the kernel.
            share, alpha = (len(B) ** (-SCHEDULE / 2), None) if reg_y == "schedule" else (None, reg_y)
            task = DensityTask(A, way.outputs, first, output, tune_x, tune_y, reg_x, alpha, background)
            tasks.append(replace(task, relevant=relevant, share_y=share))
        self.selection_ = None
        way, kernel_y, alpha = ways[0], tasks[0].kernel_y, reg_y
        self.kernel_x_, self.reg_x_, self.background_ = kernel_x, reg_x, background
        if learn or len(ways) > 1:
            way, chosen = choose_density(tasks, ways, int(rng.integers(2**32)))
            self.kernel_x_, self.reg_x_, self.background_ = chosen.kernel_x, chosen.reg_x, chosen.background
            self.selection_, kernel_y, alpha = chosen, chosen.kernel_y, chosen.reg_y
            if tune_y and len(chosen.rows) < len(B):
                # Found at the size of a subset; the width that n rows can show carries it to all.
                part, full = (default_output_kernel(T) for T in (way.outputs[chosen.rows], way.outputs))
                kernel_y = stretch(kernel_y, np.asarray(full.lengthscale) / np.asarray(part.lengthscale))
            if tune_y and count > len(B):
                finer = (count / len(B)) ** (-1 / (B.shape[1] + 4))
                kernel_y = stretch(kernel_y, np.full(B.shape[1], finer))
        self.standard_, self.T_ = way.standard, way.outputs
        self.span_ = np.stack(box_about(B, np.zeros(B.shape[1])))
        self.reference_ = self._make_reference(kernel_y, rng)
        self.kernel_y_ = on_grid(kernel_y, tune_y, self.reference_, self.T_)
        if reg_y == "schedule":
            alpha = scheduled_reg(self.reference_.gram(self.kernel_y_), self.reference_, len(B))
        self.reg_y_ = float(alpha)  # type: ignore[arg-type]

    @staticmethod
    def _given(kernel: Any) -> tuple[Kernel | None, bool]:
        """The kernel that an argument names, and whether it is to be learned."""
        if isinstance(kernel, str):
            return (Gaussian("median"), False) if kernel == "median" else (None, True)
        return kernel, kernel is None

    def _ways(
        self,
        A: Array,
        B: np.ndarray,
        kernel_x: Kernel,
        free: bool,
        represent: Representation,
        rng: np.random.Generator,
    ) -> list[Way]:
        """The ways to take the outputs that are to be tried."""
        ways = [] if self.standardize else [Way(None, B, np.ones_like(B))]
        if self.standardize or (self.standardize is None and free and self._free_reference):
            found = standardize(A, B, self.groups_, kernel_x, self._given(self.kernel_x)[1], represent, rng)
            ways += found[1:] if self.standardize else found
        if not ways:
            raise ValueError(
                "Y is a function of X without any noise, so its residuals have no density: pass "
                "standardize=False."
            )
        return ways

    @property
    def _free_reference(self) -> bool:
        """Whether the reference follows the outputs, in whatever units they are taken."""
        return self.box is None and (self.reference is None or isinstance(self.reference, str))

    def _output_kernel(self, T: np.ndarray) -> Kernel:
        given, tune = self._given(self.kernel_y)
        if tune:
            return default_output_kernel(T)
        kernel = resolve_kernel(given, T, None, "kernel_y")
        if not kernel.is_density(T.shape[1]):
            raise ValueError(
                f"kernel_y={kernel!r} is not a density on {T.shape[1]} columns: use e.g. mh.Gaussian, "
                "mh.Laplace or mh.Matern."
            )
        return kernel

    def _make_reference(self, kernel: Kernel, rng: np.random.Generator) -> Reference:
        T, k = self.T_, self.T_.shape[1]
        if self.reference is not None and not isinstance(self.reference, str):
            return as_reference(self.reference, self.mass, k)
        if self.mass is not None:
            raise ValueError("mass is that of your own reference points: give reference, too, or neither.")
        width = kernel_width(kernel, T)
        if self.box is None:
            lower, upper = box_about(T, width)
        else:
            lower, upper = self._given_box(k)
            outside = int((~((lower <= T) & (upper >= T)).all(axis=1)).sum())
            if outside and self.grow:
                lower, upper = np.minimum(lower, T.min(axis=0)), np.maximum(upper, T.max(axis=0))
            elif outside:
                raise ValueError(
                    f"{outside} of {len(T)} outputs lie outside the box: give a wider one, or grow=True."
                )
        size = self.size
        if size is None and self.reference in (None, "grid"):
            size = grid_size(lower, upper, width)
        return box_reference(lower, upper, width, self.reference, size, rng)

    def _given_box(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        try:
            lower, upper = (np.broadcast_to(np.asarray(c, dtype=float), (k,)) for c in self.box)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"box must be two corners (lower, upper) of {k} numbers, got {self.box!r}."
            ) from error
        if not (np.isfinite([lower, upper]).all() and (lower < upper).all()):
            raise ValueError(f"box must have lower < upper in every column, got {self.box!r}.")
        return lower, upper

    def _prepare(self) -> None:
        self._nearness = self._near(self.gram_.points)
        if self.atoms_ is not None:
            return
        reg_x: Any = self.reg_x_
        used = (self.gram_, self.groups_, self.T_, self.kernel_y_, self.reference_, float(reg_x), self.reg_y_)
        self._operator = DensityOperator(*used) if self.sums_ is None else SummedDensity(*used, self.sums_)

    # -- densities ---------------------------------------------------------------------------------

    def density(self, x: Any) -> Any:
        """The densities of Y given each row of ``x`` (q, d): a batch, with all its readouts.

        Its ``familiarity`` says how near each row is to the training rows, from 1 among them to 0, whatever
        the kernel. Its ``unlike`` are the rows far from all of these: their answer is no more than a guess.
        """
        return self._densities(self._rows(x, "x"))

    def _densities(self, x: Array) -> Any:
        if self.atoms_ is not None:
            return self._probabilities(x)
        location, scale = (None, None) if self.standard_ is None else self.standard_.at(x)
        return self._operator.density(
            x,
            background=self.background_,
            bounded=True,
            span=self.span_,
            location=location,
            scale=scale,
            familiarity=self._nearness.at(x),
        )

    def _probabilities(self, x: Array) -> Atoms:
        model: Any = self.conditional_
        cross = self.gram_.cross(x)
        weights = model._weights(cross, np.ones(len(x)))
        P = model._marginals(x, lambda: weights).probabilities()
        P = (1 - self.background_) * P + self.background_ / P.shape[1]  # type: ignore[operator]
        return Atoms(self.atoms_, P, self._nearness.at(x))  # type: ignore[arg-type]

    def at(self, mu: Any) -> Mixture | Atoms:
        """The density of Y where X is uncertain: distributed as ``mu``, an embedding or samples (m, d)."""
        check_is_fitted(self)
        if isinstance(mu, Embedding):
            if mu.is_batch:
                raise ValueError("mu is a batch of embeddings: take one, e.g. mu[0].")
            check_same_columns(mu.points, self.n_features_in_, "mu.points", "the X seen in fit")
            x = self.encoder_x_.recode(mu.points, mu.encoder or Encoder(), "mu")
            weights = project_simplex(np.asarray(mu.weights))
        else:
            x = self._rows(mu, "mu")
            weights = np.full(len(x), 1 / len(x))
        kept = np.flatnonzero(weights)
        if self.atoms_ is not None:
            atoms = self._probabilities(np.asarray(x)[kept])
            return Atoms(atoms.values, weights[kept] @ atoms.probabilities)
        return Mixture(self._densities(np.asarray(x)[kept]), weights[kept])

    def raw(self, x: Any, y: Any) -> np.ndarray:
        """What the operator itself gives, (len(x), len(y)): not clipped, completed or normalised."""
        A = self._rows(x, "x")
        if self.atoms_ is not None:
            raise ValueError(
                f"Y takes only {len(self.atoms_)} values, so it has probabilities and no density: use pdf, "
                "or give kernel_y to apply the operator all the same."
            )
        location, scale = (None, None) if self.standard_ is None else self.standard_.at(A)
        return self._operator.density(A, complete=False, location=location, scale=scale).raw(self._outputs(y))

    def pdf(self, x: Any, y: Any) -> np.ndarray:
        """The density of each row of ``y`` given each row of ``x``, (len(x), len(y))."""
        B = self._outputs(y)
        return self._grown(self._rows(x, "x"), B).pdf(B)

    def logpdf(self, x: Any, y: Any) -> np.ndarray:
        """Log densities, (len(x), len(y))."""
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(x, y))

    def score(self, X: Any, Y: Any) -> float:
        """The mean log density of the pairs."""
        A, B = self._rows(X), self._outputs(Y)
        check_same_rows(A, B, "X", "Y")
        with np.errstate(divide="ignore"):
            return float(np.log(self._grown(A, B, pairs=True).paired(B)).mean())

    def _outputs(self, y: Any) -> np.ndarray:
        k = self.T_.shape[1] if hasattr(self, "T_") else 1
        check_is_fitted(self)
        if np.ndim(y) == 0 or (k == 1 and np.ndim(y) == 1 and not hasattr(y, "columns")):
            y = np.asarray(y).reshape(-1, 1)
        B = self.encoder_y_.transform(y, "y") if self.encoder_y_.names else as_rows(y, "y")
        check_same_columns(B, k, "y", "the Y seen in fit")
        return np.asarray(B, dtype=np.float64)

    def _grown(self, x: Array, y: np.ndarray, pairs: bool = False) -> Any:
        """The densities at ``x``, on a box that holds ``y`` if it may grow."""
        density = self._densities(x)
        if not self.grow or self.atoms_ is not None:
            return density
        t = density._standard(y)
        if pairs and density.location is not None:
            t = ((y - density.location) / density.scale)[None]
        lower, upper = self.reference_.box()
        low, high = (np.minimum(lower, t.min(axis=(0, 1))), np.maximum(upper, t.max(axis=(0, 1))))
        if (low >= lower).all() and (high <= upper).all():
            return density
        return density.grown(low, high)

    # -- readouts ----------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """``E[Y | x]`` in closed form, (q, k), or (q,) when fitted on a vector; and standard deviations."""
        density = self.density(X)
        mean = self._flat(density.mean())
        return (mean, np.sqrt(self._flat(density.var()))) if return_std else mean

    def var(self, x: Any) -> np.ndarray:
        """Variances of Y given each row of ``x``, (q, k) or (q,)."""
        return self._flat(self.density(x).var())

    def cov(self, x: Any) -> np.ndarray:
        """Covariances of Y given each row of ``x``, (q, k, k)."""
        return self.density(x).cov()

    def quantile(self, x: Any, q: Any) -> np.ndarray:
        """Quantiles of each output: (q, k), or (q, m, k) for m levels; without k when fitted on a vector."""
        return self._flat(self.density(x).quantile(q))

    def interval(self, x: Any, level: float = 0.9) -> np.ndarray:
        """An interval for each output, (q, k, 2), or (q, 2) when fitted on a vector.

        Between the quantiles (1 ± level)/2; after calibration, between those that held ``level`` of the rows
        left out (and one more), so that it covers a new y with at least this probability.
        """
        level = check_share(level, "level", "give e.g. 0.9")
        density = self.density(x)
        if self.calibration_ is None:
            out = density.interval(level)
        else:
            m, k = self.calibration_.shape
            rank = int(np.ceil((m + 1) * level))
            if rank > m:  # too few rows for this level: only the whole line is sure
                out = np.tile([-np.inf, np.inf], (len(density), k, 1))
            else:
                reaches = self.calibration_[rank - 1]
                out = np.stack([density.within(float(r), j) for j, r in enumerate(reaches)], axis=1)
        return out[:, 0] if self.flat_y_ else out

    def sample(self, x: Any, n: int = 1, random_state: Any = None) -> np.ndarray:
        """``n`` draws of Y given each row of ``x``, (q, n, k), or (q, n) when fitted on a vector."""
        return self._flat(self.density(x).sample(n, random_state))

    def _flat(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self.flat_y_ else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.categorical = True
        return tags


__all__ = ["ConditionalDensity"]
