"""Inference from simulations as an estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from muhat._array import Array
from muhat._tables import is_frame, missing_rows
from muhat._validation import (
    as_generator,
    check_choice,
    check_count,
    check_positive,
    check_same_rows,
    check_share,
)
from muhat._words import percent
from muhat.embedding import Embedding
from muhat.gram import Neural
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel, resolve_kernel
from muhat.learning.likelihood_free import MethodChoice, choose_method, fit_method
from muhat.learning.moved import squares
from muhat.learning.prior_supports import support_of
from muhat.learning.simulations import (
    DEFAULT,
    METHODS,
    MOVED,
    WITH_PRIOR,
    Method,
    Options,
    Simulations,
    column_units,
    probabilities,
    smoothed_prior,
)
from muhat.learning.smoothed_prior import systematic
from muhat.learning.summaries import Summary, learn_summary
from muhat.learning.supports import Support, infer_support
from muhat.models.base import Estimator, encode_outputs
from muhat.models.density_ratio import numerator_points
from muhat.models.simulated_posterior import SimulatedPosterior
from muhat.operators.bayes import NoOverlap
from muhat.operators.ratio import covered

# Simulations below which the methods of this library have nothing to regress on.
LEAST = 10
# An observation is flagged that is lonelier than any simulation by this factor, or outside the simulated
# range by this share of it.
LONELY, BEYOND = 1.2, 0.1
# Posterior points that a kernel is scaled from, and an effective number of them that is too few.
SCALED_FROM, TOO_FEW = 400, 5.0
# A given prior conflicts with an observation if data as far out as that are so rare under it.
RARE = 0.01
# Less than this of a posterior cannot be told from rounding after weighting by a prior.
NEXT_TO_NOTHING = 1e-100
# The share of the prior that may lie where nothing was simulated without a warning.
PART = 0.05

# Simulations equal to the observation that are a posterior by themselves: a mean of 50 draws is off by .14
# posterior standard deviations, as the other methods are on average. Fewer stand for as many of 50 draws.
ENOUGH_MATCHES = 50
LEAST_MATCHES = 5  # that can contradict a method
# Of equal summaries the rounding, in standard deviations of the column.
ROUNDING = 1e-9

Ratio = Callable[[np.ndarray], np.ndarray]


class LikelihoodFree(Estimator):
    """The posterior of parameters θ of a simulator given an observation, from simulations alone.

    ``fit(theta, x)`` takes parameters, drawn from any proposal that covers the prior, and what the simulator
    made of them; ``posterior(x_obs, prior)`` is the distribution of θ given each observation.

    Args:
        method: ``"adjusted"``: the simulated θ moved to the observation by kernel regressions of their
            location and spread (on the logarithm of positive and the logit of uniform columns).
            ``"surrogate"``: draws of the prior weighted by a likelihood learned from x in the same way. Or as
            published: ``"dme"`` [HR19, Alg. 8.1], ``"kelfi"`` [HRA19], ``"kbr"`` [FSG13], ``"importance"``
            [X22], ``"kabc"`` [NFM13], ``"k2abc"`` [PJS16], ``"rejection"``. Several names, or None for
            adjusted, surrogate and rejection: the one with the largest held-out log posterior density,
            however small the difference; ``selection_.table()`` has it with its standard error. With None,
            simulations that equal the observation, as counts do, speak for themselves: 50 of them are the
            posterior, and fewer take their part of it (``posterior.matches``).
        kernel_theta: ℓ, on parameters, of the published methods; None for the default kernel with a
            lengthscale chosen. It is also the kernel of the posterior embedding; None for one scaled to each
            posterior.
        kernel_x: k, on observations, of the published methods; None for the default kernel with a lengthscale
            chosen.
        reg: on the operator scale: λ of ``kabc`` and ``importance``, δ of ``dme`` and ``kbr``.
        reg_prior: λ of the conditional operator of ``dme`` and ``kelfi``, η of the density ratio of ``kbr``
            and ``importance``.
        scale: ε: the width of κ_ε in standard deviations of x (``kelfi``, and ``dme`` learned by q̄), or the
            unit of the squared MMD (``k2abc``).
        share: of the simulations that ``rejection`` keeps.
        summary: None for x as it is; ``"learn"`` for the regression of θ on x, an estimate of the posterior
            mean [FP12]; ``mh.Neural(...)`` for a network's; or a function of rows, (n, d) → (n, s).
        learning: of ``dme`` and ``kelfi``: ``"held_out"`` (log posterior density) or ``"marginal"`` (the
            approximate marginal likelihood q̄ [HR19, Alg. 8.1, line 11] of held-out x).
        prior: where θ can be, from which no draw departs: the prior that theta was drawn from, as
            ``mh.simulate`` takes it (a frozen distribution of scipy.stats, or a list or dict of them), or
            ``mh.Support``, or a list or dict with a pair ``(lower, upper)`` for each parameter. None for the
            support of the simulations that ``fit`` is given; where that is unknown, too, it is inferred from
            theta, and ``support_`` says so.
        missing: ``"error"``, or ``"drop"`` for leaving out simulations with NaN or infinite values.
        random_state: seed.

    Attributes:
        method_: in use.
        selection_: the methods tried with their held-out scores; ``selection_.table()``.
        choices_: what was chosen in each.
        simulations_: in use, x summarised.
        support_: of theta, as given or inferred; ``print(model.support_)``.
        n_dropped_: simulations left out.
    """

    def __init__(
        self,
        method: Any = None,
        kernel_theta: Kernel | None = None,
        kernel_x: Kernel | None = None,
        reg: float | None = None,
        reg_prior: float | None = None,
        scale: float | None = None,
        share: float = 0.05,
        summary: Any = None,
        learning: str = "held_out",
        missing: str = "error",
        random_state: Any = 0,
        prior: Any = None,
    ) -> None:
        self.method = method
        self.kernel_theta = kernel_theta
        self.kernel_x = kernel_x
        self.reg = reg
        self.reg_prior = reg_prior
        self.scale = scale
        self.share = share
        self.summary = summary
        self.learning = learning
        self.missing = missing
        self.random_state = random_state
        self.prior = prior

    # -- fitting -----------------------------------------------------------------------------------

    def fit(self, theta: Any, x: Any = None) -> LikelihoodFree:
        """Take in simulations.

        Args:
            theta: parameters, (n, p) or (n,); or what ``mh.simulate`` returned, which knows its support.
            x: statistics, (n, d) or (n,); None if theta is what ``mh.simulate`` returned.
        """
        names = self._check_arguments()
        rng = as_generator(self.random_state)
        theta, x, known, columns = _taken_apart(theta, x)
        theta, x = self._drop(theta, x)
        self.flat_x_ = not is_frame(x) and np.ndim(x) == 1
        least = LEAST if set(names) & set(MOVED) else 2
        X = self._fit_rows(_as_columns(x), least, "x")
        self.encoder_theta_, T, self.flat_theta_ = encode_outputs(theta, "theta")
        check_same_rows(T, X, "theta", "x")
        for encoder, name in ((self.encoder_theta_, "theta"), (self.encoder_x_, "x")):
            if encoder.categories:
                raise ValueError(f"{name} has columns of text: give numbers, or leave these columns out.")
        T, X = np.asarray(T, dtype=np.float64), np.asarray(X, dtype=np.float64)
        constant = np.flatnonzero(np.ptp(T, axis=0) == 0)
        if len(constant):
            raise ValueError(
                f"Column {constant[0]} of theta is constant: nothing can be inferred; leave it out."
            )
        if not np.ptp(X, axis=0).any():
            raise ValueError("x is the same in every simulation, so it says nothing about theta.")
        stated = self.prior if self.prior is not None else known
        self.support_ = support_of(stated, T, columns or self.encoder_theta_.names)
        self.range_ = np.stack([X.min(axis=0), X.max(axis=0)])
        self.summary_: Summary | None = None
        if self.summary is not None:
            self.summary_, X = learn_summary(self.summary, X, T, rng, self.support_)
        self.simulations_ = Simulations.of(T, X, self.support_)
        self.options_ = self._options(self.simulations_)
        self.selection_: MethodChoice
        # Where simulations equal to the observation answer, no method is asked.
        asked = equal_rows(X) <= ENOUGH_MATCHES if self.method is None else None
        self.selection_, self.choices_ = choose_method(names, self.simulations_, self.options_, rng, asked)
        self.method_ = self.selection_.best
        self.seed_ = int(rng.integers(2**32))
        Z = self.simulations_.data / column_units(self.simulations_.data)
        self.loneliest_ = _loneliest(Z)
        return self

    def _check_arguments(self) -> tuple[str, ...]:
        names = DEFAULT if self.method is None else self.method
        names = (names,) if isinstance(names, str) else tuple(names)
        for name in names:
            check_choice(name, "method", METHODS)
        if not names:
            raise ValueError("method is empty: name one, several, or None.")
        for name in ("reg", "reg_prior", "scale"):
            if getattr(self, name) is not None:
                check_positive(getattr(self, name), name, "give a number > 0, or None for choice", True)
        check_share(self.share, "share", "give e.g. 0.05")
        check_choice(self.learning, "learning", ("held_out", "marginal"))
        check_choice(self.missing, "missing", ("error", "drop"))
        if self.summary is not None and not (
            self.summary == "learn" or isinstance(self.summary, Neural) or callable(self.summary)
        ):
            raise TypeError(
                f'summary must be None, "learn", mh.Neural(...) or a function of rows, got {self.summary!r}.'
            )
        if self.method == "dme":
            warnings.warn(
                'method="dme" is Bayes\' rule only where x is a function of theta; with noise in x its '
                "posterior leans too little on the prior. method=None chooses among methods without it.",
                stacklevel=3,
            )
        return names

    def _drop(self, theta: Any, x: Any) -> tuple[Any, Any]:
        """Simulations without missing values, and how many had some."""
        self.n_dropped_ = 0
        try:
            bad = [_bad_rows(A) for A in (theta, x)]
        except (TypeError, ValueError):
            return theta, x  # what is wrong is said where they are read
        if len(bad[0]) != len(bad[1]) or not (bad[0] | bad[1]).any():
            return theta, x
        either = bad[0] | bad[1]
        count = int(either.sum())
        if self.missing == "error":
            which = "x" if bad[1].any() else "theta"
            raise ValueError(
                f"{count} of {len(either)} simulations have NaN or infinite values (first in row "
                f"{int(np.argmax(either))}, in {which}): find out why, or pass missing='drop' to go without."
            )
        if len(either) - count < 2:
            raise ValueError(f"All but {len(either) - count} of {len(either)} simulations have NaN values.")
        self.n_dropped_ = count
        return _keep(theta, ~either), _keep(x, ~either)

    def _options(self, sims: Simulations) -> Options:
        kernels = []
        for name, A in (("kernel_theta", sims.theta), ("kernel_x", sims.x)):
            kernels.append(resolve_kernel(getattr(self, name), A, None, name))
        return Options(
            kernels[0],
            kernels[1],
            self.kernel_theta is None,
            self.kernel_x is None,
            self.reg,
            self.reg_prior,
            self.scale,
            self.share,
            self.learning,
        )

    # -- posteriors --------------------------------------------------------------------------------

    def posterior(self, x_obs: Any, prior: Any = None) -> SimulatedPosterior:
        """The posterior of θ given each observation.

        Args:
            x_obs: rows (q, d) for a batch of q posteriors; one observation (d,), or a number where x has one
                column, for a single one. (Where ``fit`` had x as a vector, a vector is q observations.)
            prior: samples (m, p), or an embedding over θ. None for the distribution of θ in the simulations.

        Where prior and observation conflict the answer is in a tail of both, which samples hardly show: the
        posterior is flagged, ``posterior.conflict`` says which are, and a warning why.
        """
        raw, X, single = self._observations(x_obs)
        weighted = None if prior is None else self._prior(prior)
        support = self._supported(weighted)
        ratio = self._ratio(weighted)
        parts = self._parts(self._method(weighted), X, weighted, support, ratio)
        parts, matches = self._with_matches(X, parts, support, ratio)
        kernels = [self._kernel(points, w) for points, w in parts]
        remoteness, outside, far = self._far(X, raw)
        conflict = np.zeros(len(X), dtype=bool)
        if weighted is not None and ratio is not None:
            conflict = self._conflicts(X, parts, weighted, ratio)
        out = SimulatedPosterior(
            parts,
            kernels,
            self.method_,
            remoteness,
            outside,
            far,
            self.encoder_theta_,
            single,
            support,
            conflict,
            matches,
        )
        self._warn(out)
        return out

    def sample(self, x_obs: Any, n: int, prior: Any = None) -> np.ndarray:
        """``n`` draws of the posterior given each observation, (n, p) or (q, n, p).

        They are points of :meth:`posterior`, each as often as its weight says (negative weights are projected
        onto the simplex), and so have its mean and quantiles. Of a posterior that rests on few points many
        draws are equal.
        """
        n = check_count(n, "n")
        _, X, single = self._observations(x_obs)
        weighted = None if prior is None else self._prior(prior)
        support, ratio = self._supported(weighted), self._ratio(weighted)
        parts = self._parts(self._method(weighted), X, weighted, support, ratio)
        parts, _ = self._with_matches(X, parts, support, ratio)
        out = []
        for points, w in parts:
            rng = as_generator(self.seed_)
            out.append(points[systematic(probabilities(w), n, rng)])
        return out[0] if single else np.stack(out)

    def _observations(self, x_obs: Any) -> tuple[np.ndarray, np.ndarray, bool]:
        """Observations (q, d), their summaries (q, s), and whether one alone is meant."""
        check_is_fitted(self)
        single = not is_frame(x_obs) and (
            np.ndim(x_obs) == 0 or (np.ndim(x_obs) == 1 and not (self.flat_x_ and np.size(x_obs) != 1))
        )
        if single:
            x_obs = np.asarray(x_obs).reshape(1, -1)
        elif not is_frame(x_obs) and np.ndim(x_obs) == 1:
            x_obs = np.asarray(x_obs).reshape(-1, 1)
        raw = np.asarray(self._rows(x_obs, "x_obs"), dtype=np.float64)
        return raw, (raw if self.summary_ is None else self.summary_.at(raw)), single

    def _method(self, prior: tuple[np.ndarray, np.ndarray] | None) -> Method:
        if self.method_ not in WITH_PRIOR:
            prior = None
        rng, choice = as_generator(self.seed_), self.choices_[self.method_]
        return fit_method(self.method_, self.simulations_, self.options_, rng, choice, prior)

    def _supported(self, prior: tuple[np.ndarray, np.ndarray] | None) -> Support:
        """The support of posteriors: that of theta, and of another prior as far as its samples show it."""
        if prior is None:
            return self.support_
        return self.support_.meet(infer_support(prior[0], hard=True))

    def _prior(self, prior: Any) -> tuple[Array, Array]:
        given: Any = prior
        table = isinstance(prior, Embedding) or is_frame(prior)
        if not table and self.flat_theta_ and np.ndim(given) == 1:
            prior = np.asarray(prior).reshape(-1, 1)
        theta = self.simulations_.theta
        points, weights = numerator_points(
            prior, self.encoder_theta_, theta.shape[1], "prior", "the theta seen in fit"
        )
        points = np.asarray(points, dtype=np.float64)
        there = self.simulations_.line_theta.without_boxes().to_line(points)
        near = np.asarray(covered(there, self.simulations_.inputs)) & self.support_.contains(points)
        lost = float(np.abs(weights[~near]).sum() / np.abs(weights).sum())
        if lost > 1 - 1e-6:
            raise NoOverlap(
                f"None of the prior's {len(points)} points lies near any simulated theta (which run from "
                f"{theta.min(axis=0)} to {theta.max(axis=0)}): simulate where the prior has mass."
            )
        if lost > PART:
            warnings.warn(
                f"{percent(lost)} of the prior lies where nothing was simulated, and is left out: simulate "
                "where the prior has mass.",
                stacklevel=3,
            )
        points, weights = points[near], weights[near]
        return points, np.asarray(weights, dtype=np.float64) / weights.sum()

    def _ratio(self, prior: tuple[np.ndarray, np.ndarray] | None) -> Ratio | None:
        """The density of the prior over that of the simulated θ, of points on the line.

        Both are smoothed, so that it goes to zero where the prior ends; a ratio learned by least squares is
        about right where both have mass, and tells nothing from little beyond.
        """
        if prior is None:
            return None
        rng = as_generator(self.seed_)
        above, below = (smoothed_prior(self.simulations_, which, rng) for which in (prior, None))
        return lambda L: above.density(L) / np.maximum(below.density(L), 1e-300)

    def _typical(self, X: np.ndarray, ratio: Ratio) -> np.ndarray:
        """The probability of data as far out as each row of ``X`` under the prior, (q,).

        By Mahalanobis' distance on the line, over the simulations weighted by the prior.
        """
        sims = self.simulations_
        w = ratio(sims.inputs)
        w, unit = w / w.sum(), column_units(sims.data)
        Z, Y = sims.data / unit, sims.line_x.to_line(X) / unit
        mean = w @ Z
        C = (Z - mean).T @ (w[:, None] * (Z - mean))
        values, V = np.linalg.eigh(C)
        root = V / np.sqrt(np.maximum(values, 1e-9 * values.max()))
        own, theirs = ((((A - mean) @ root) ** 2).sum(axis=1) for A in (Z, Y))
        return (own >= theirs[:, None] * (1 - 1e-9)) @ w

    def _parts(
        self,
        method: Method,
        X: np.ndarray,
        prior: tuple[np.ndarray, np.ndarray] | None,
        support: Support,
        ratio: Ratio | None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Points and weights given each observation; zero outside the support of another prior."""
        parts = self._reweighted(method.posteriors(X, as_generator(self.seed_)), ratio)
        if prior is None:
            return parts
        out = []
        for points, w in parts:
            kept = np.where(support.contains(points), w, 0.0)
            total = kept.sum()
            if not total > 1e-12 * np.abs(w).sum():
                raise NoOverlap(
                    "The prior has no mass where the posterior under the simulations lies, so nothing is "
                    "left: simulate from the prior."
                )
            out.append((points, kept if total == w.sum() else kept * (w.sum() / total)))
        return out

    def _with_matches(
        self,
        X: np.ndarray,
        parts: list[tuple[np.ndarray, np.ndarray]],
        support: Support,
        ratio: Ratio | None,
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Posteriors with the θ of simulations that equal the observation, and how many these are, (q,).

        Such θ are draws of the posterior, whatever the simulator. ``ENOUGH_MATCHES`` of them are the answer;
        fewer stand for themselves, and the method for the rest of so many draws, or for less where they
        contradict it. Counted by their effective number under another prior. A method that was asked for by
        name answers alone.
        """
        sims, counts, out = self.simulations_, np.zeros(len(X)), []
        if self.method is not None:
            return parts, counts
        slack, line = ROUNDING * column_units(sims.x), sims.line_theta.without_boxes().to_line
        for i, (points, w) in enumerate(parts):
            theirs = sims.theta[(np.abs(sims.x - X[i]) <= slack).all(axis=1)]
            if ratio is not None:
                theirs = theirs[support.contains(theirs)]
            own = np.ones(len(theirs)) if ratio is None or not len(theirs) else ratio(line(theirs))
            if not own.sum() > 0:
                out.append((points, w))
                continue
            counts[i] = own.sum() ** 2 / (own**2).sum()
            share = counts[i] / ENOUGH_MATCHES
            if counts[i] >= LEAST_MATCHES:
                doubt = _contradiction(line(theirs), own / own.sum(), line(points), w / w.sum())
                share = max(share, doubt)
            share = min(share, 1.0)
            both = np.concatenate([share * own / own.sum(), (1 - share) * w / w.sum()])
            every = np.concatenate([theirs, points])
            kept = slice(len(theirs)) if share == 1 else slice(None)
            out.append((every[kept], both[kept]))
        return out, counts

    def _reweighted(
        self, parts: list[tuple[np.ndarray, np.ndarray]], ratio: Ratio | None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Posteriors under the proposal times the prior over it, for methods that know no prior."""
        if ratio is None or self.method_ in WITH_PRIOR:
            return parts
        line = self.simulations_.line_theta.without_boxes().to_line
        out = []
        for points, w in parts:
            new = w * ratio(line(points))
            total = new.sum()
            if not total > 1e-12 * np.abs(new).sum() or not np.abs(new).sum() > NEXT_TO_NOTHING:
                raise NoOverlap(
                    "The prior has no mass where the posterior under the simulations lies, so nothing "
                    "is left: simulate from the prior."
                )
            out.append((points, new / total))
        return out

    def _kernel(self, points: np.ndarray, w: np.ndarray) -> Kernel:
        if self.kernel_theta is not None:
            return self.options_.kernel_theta
        index = systematic(probabilities(w), SCALED_FROM, np.random.default_rng(0))
        drawn = points[index]
        return default_kernel(drawn) if np.ptp(drawn, axis=0).any() else self.options_.kernel_theta

    def _saved(self) -> dict[str, Any]:
        """What a file keeps: of a prior, which may be any distribution, its support."""
        state = dict(vars(self))
        if self.prior is not None and hasattr(self, "support_"):
            state["prior"] = self.support_
        return state

    # -- how far an observation lies ----------------------------------------------------------------

    def _far(self, X: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sims = self.simulations_
        unit = column_units(sims.data)
        nearest = np.sqrt(squares(sims.line_x.to_line(X) / unit, sims.data / unit).min(axis=1))
        distance = nearest / self.loneliest_
        lower, upper = self.range_
        beyond = np.maximum(lower - raw, raw - upper) / np.where(upper > lower, upper - lower, 1.0)
        return distance, beyond > 0, (distance > LONELY) | (beyond > BEYOND).any(axis=1)

    def _conflicts(
        self,
        X: np.ndarray,
        parts: list[tuple[np.ndarray, np.ndarray]],
        prior: tuple[np.ndarray, np.ndarray],
        ratio: Ratio,
    ) -> np.ndarray:
        """Which observations conflict with a given prior, (q,), with a warning that says how."""
        typical = self._typical(X, ratio)
        conflict = typical < RARE
        if not conflict.any():
            return conflict
        i = int(np.flatnonzero(conflict)[np.argmin(typical[conflict])])
        points, w = parts[i]
        mean, drawn = probabilities(w) @ points, prior[0][prior[1] > 0]
        low, high = drawn.min(axis=0), drawn.max(axis=0)
        beyond = [
            f" {name} is {m:.3g} on average, but the prior's draws run from {a:.3g} to {b:.3g}."
            for name, m, a, b in zip(self.support_.names, mean, low, high, strict=True)
            if not a <= m <= b
        ]
        size = np.abs(w).sum() ** 2 / (w**2).sum()
        rests = "" if self.method_ in WITH_PRIOR else f", and its posterior rests on {size:.1f} points"
        warnings.warn(
            f"The prior and {int(conflict.sum())} of {len(X)} observations conflict, so that these "
            "posteriors are not to be relied on (posterior.conflict): under the prior, data as far out as "
            f"observation {i} have a probability of about {typical[i]:.1g}{rests}.{''.join(beyond)} Simulate "
            "from the prior, with more theta where prior and observation could agree, and fit again.",
            stacklevel=3,
        )
        return conflict

    def _warn(self, out: SimulatedPosterior) -> None:
        if len(out.unlike):
            columns = np.flatnonzero(out.outside[out.unlike].any(axis=0))
            beyond = f" (columns {columns.tolist()} lie outside the simulated range)" if len(columns) else ""
            warnings.warn(
                f"{len(out.unlike)} of {len(out.parts)} observations lie far from all simulations{beyond}: "
                "their posteriors are extrapolated. See posterior.remoteness and posterior.outside; "
                "simulate where such data arise, if the simulator can make them at all.",
                stacklevel=3,
            )
        some = out.matches[(out.matches > 0) & (out.matches < ENOUGH_MATCHES)]
        if len(some):
            wanted = len(self.simulations_.x) * ENOUGH_MATCHES / some.min()
            warnings.warn(
                f"{len(some)} of {len(out.parts)} observations are equal to some simulations, but to fewer "
                f"than {ENOUGH_MATCHES} (see posterior.matches). Data that repeat are taken for numbers "
                "without gaps then, which errs where they are few and whole. With about "
                f"{wanted:.0f} simulations, those that are equal would be the posterior itself.",
                stacklevel=3,
            )
        few = int((np.atleast_1d(out.effective_size()) < TOO_FEW).sum())
        if few and self.method_ in (*MOVED, "kelfi"):
            warnings.warn(
                f"{few} of {len(out.parts)} posteriors rest on fewer than {TOO_FEW:g} points (see "
                "posterior.effective_size()): give more simulations near the observation.",
                stacklevel=3,
            )


def _contradiction(A: np.ndarray, a: np.ndarray, B: np.ndarray, b: np.ndarray) -> float:
    """The share of draws ``A`` (m, p) against a biased answer ``B`` with which the mean errs least.

    ``1 − (p/m)/Δ²`` with Δ the distance of their means in standard deviations, which James and Stein's rule
    gives the sample; nothing if they are as near as chance has it.
    """
    means = a @ A, b @ B
    variance = (a @ (A - means[0]) ** 2 + b @ (B - means[1]) ** 2) / 2
    distance = ((means[0] - means[1]) ** 2 / np.where(variance > 0, variance, 1.0)).sum()
    noise = A.shape[1] * (a**2).sum()
    return float(1 - noise / distance) if distance > noise else 0.0


def equal_rows(X: np.ndarray) -> np.ndarray:
    """How many rows of ``X`` (n, d) each row equals, itself included, (n,)."""
    _, inverse, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse.ravel()])


def _taken_apart(theta: Any, x: Any) -> tuple[Any, Any, Support | None, list[str] | None]:
    """θ, x, and the support and names that a result of ``mh.simulate`` brings with it."""
    if x is not None:
        return theta, x, None, None
    if not (hasattr(theta, "theta") and hasattr(theta, "x")):
        raise TypeError(
            f"x is missing: give theta and x, or what mh.simulate returned; got a {type(theta).__name__}."
        )
    return theta.theta, theta.x, getattr(theta, "support", None), list(theta.names)


def _as_columns(x: Any) -> Any:
    if hasattr(x, "to_frame"):
        return x.to_frame()
    return np.asarray(x).reshape(-1, 1) if not is_frame(x) and np.ndim(x) == 1 else x


def _bad_rows(A: Any) -> np.ndarray:
    if is_frame(A):
        return missing_rows(A)
    array = np.asarray(A, dtype=np.float64)
    return np.asarray(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))


def _keep(A: Any, rows: np.ndarray) -> Any:
    if hasattr(A, "filter") and not hasattr(A, "iloc"):
        return A.filter(rows)
    return A[rows]


def _loneliest(Z: np.ndarray) -> float:
    """The largest distance of a simulation to its nearest neighbour."""
    from scipy.spatial import KDTree

    distance = KDTree(Z).query(Z, k=2)[0][:, 1]
    largest = float(distance.max())
    return largest if largest > 0 else 1.0
