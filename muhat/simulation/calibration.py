"""Are posteriors right on average? Simulation-based calibration and expected coverage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat._validation import as_generator, as_rows, check_count, check_levels, check_same_rows
from muhat._words import percent
from muhat.learning.prior_supports import support_of
from muhat.learning.supports import Support, infer_support
from muhat.simulation.draws import Weighted, posteriors

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

LEAST = 20  # simulations to check with
LEVEL = 0.05  # of the verdict
LEVELS = (0.5, 0.8, 0.9, 0.95)  # of the table
TIED = 1e-9  # relative difference of densities that count as equal
REGION = 200  # draws that a highest-density region is found by, and as many that it is tested on


@dataclass(frozen=True, eq=False)
class Calibration:
    """Where true parameters lie in their posteriors, over many simulations.

    Attributes:
        pit: the posterior probability below the true value, (m, p), randomised between neighbouring points
            and among equal ones: uniform on [0, 1] if posteriors are right, also discrete ones [TBV18].
        region: the probability of the smallest highest-density region that holds the true θ, (m,), randomised
            in the same way: uniform, too [HDR22].
        names: of the parameters.
        size: median number of equal weights that a posterior amounts to.
        negative: mean share of negative weight, which was projected away.
        without: how many more simulations had no posterior: their x is unlike any that the model knows.
        unlike: how many had one by extrapolation, as the model says itself.
        outside: mean share of draws outside the support.
        support: of the parameters.
    """

    pit: np.ndarray = field(repr=False)
    region: np.ndarray = field(repr=False)
    names: list[str]
    size: float
    negative: float
    without: int = 0
    unlike: int = 0
    outside: float = 0.0
    support: Support | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.pit)

    @property
    def ranks(self) -> np.ndarray:
        """The rank of the true value among ``size`` draws, (m, p), from 0 on."""
        return np.floor(self.pit * (self.size + 1)).astype(int)

    @property
    def bins(self) -> int:
        """Of the χ² test: at least ten simulations each are expected."""
        return int(np.clip(len(self) // 10, 2, 20))

    @property
    def chi2_pvalues(self) -> np.ndarray:
        """Of equal counts in equal bins, (p,)."""
        from scipy.stats import chisquare

        counts = [np.histogram(u, self.bins, (0.0, 1.0))[0] for u in self.pit.T]
        return np.array([chisquare(count).pvalue for count in counts])

    @property
    def ks_pvalues(self) -> np.ndarray:
        """Of the largest distance to the uniform distribution function (Kolmogorov–Smirnov), (p,)."""
        from scipy.stats import kstest

        return np.array([kstest(u, "uniform").pvalue for u in self.pit.T])

    @property
    def pvalues(self) -> np.ndarray:
        """Of each parameter, (p,): twice the smaller of both, at most one."""
        return np.minimum(1.0, 2 * np.minimum(self.chi2_pvalues, self.ks_pvalues))

    @property
    def region_pvalue(self) -> float:
        """Of the highest-density regions, which see what no single parameter shows."""
        from scipy.stats import kstest

        return float(kstest(self.region, "uniform").pvalue)

    @property
    def pvalue(self) -> float:
        """Of all together: the smallest, times their number (Bonferroni)."""
        every = np.append(self.pvalues, self.region_pvalue)
        return float(min(1.0, len(every) * every.min()))

    def coverage(self, levels: Any) -> np.ndarray:
        """How often central intervals hold the true value, (k, p).

        Of discrete parameters, how often randomised intervals do, whose probability is what they claim: an
        end that carries probability belongs to them with a chance. With both ends they hold it more often.

        Args:
            levels: probabilities that the intervals claim, (k,).
        """
        c = check_levels(levels, "levels")
        return (np.abs(2 * self.pit - 1)[None] <= c[:, None, None]).mean(axis=1)

    def region_coverage(self, levels: Any) -> np.ndarray:
        """How often highest-density regions hold the true θ, (k,); randomised as :meth:`coverage` is."""
        c = check_levels(levels, "levels")
        return (self.region[None] <= c[:, None]).mean(axis=1)

    def table(self) -> pl.DataFrame:
        """One row a parameter, and one for the highest-density region: p-values and coverage."""
        import polars as pl

        nothing = np.nan
        rows: dict[str, Any] = {
            "parameter": [*self.names, "(region)"],
            "chi2_pvalue": [*self.chi2_pvalues, nothing],
            "ks_pvalue": [*self.ks_pvalues, self.region_pvalue],
            "mean_pit": [*self.pit.mean(axis=0), self.region.mean()],
            "spread": [*self._spread, nothing],
        }
        shares = np.column_stack([self.coverage(LEVELS), self.region_coverage(LEVELS)])
        rows |= {f"covers_{level:g}": share for level, share in zip(LEVELS, shares, strict=True)}
        return pl.DataFrame(rows)

    @property
    def _spread(self) -> np.ndarray:
        """Of the probabilities, over that of uniform ones: above 1 posteriors are too narrow."""
        return self.pit.std(axis=0) * np.sqrt(12)

    @property
    def summary(self) -> str:
        """The verdict in plain words."""
        from muhat.testing.result import format_pvalue

        p = f"p = {format_pvalue(self.pvalue)}, {len(self)} simulations"
        kept = f" Of the weights {percent(self.negative)} were negative and projected away." * (
            self.negative >= 0.01
        )
        kept += f" {self.without} more had no posterior: their x is unlike any known." * bool(self.without)
        kept += f" {self.unlike} of them lie far from anything that was simulated." * bool(self.unlike)
        kept += self._outside_words
        if self.pvalue > LEVEL:
            return f"Nothing speaks against the calibration of these posteriors ({p}).{kept}"
        found = "; ".join(
            f"{name}: {self._fault(j)}" for j, name in enumerate(self.names) if self.pvalues[j] <= LEVEL
        )
        if not found:
            found = (
                f"the {LEVELS[2]:.0%} region holds the truth in {percent(self.region_coverage(LEVELS[2])[0])}"
            )
        return f"These posteriors are not calibrated ({p}). {found}.{kept}"

    @property
    def _outside_words(self) -> str:
        """What is said of draws outside the support; nothing if there are none and none was stated."""
        if self.outside > 0 and self.support is not None:
            share = percent(self.outside)
            return f" A share of {share} of the draws lies outside the support: {self.support.words}."
        stated = self.support is not None and not self.support.inferred.all()
        return " No draw lies outside the support." if stated else ""

    def _fault(self, j: int) -> str:
        """What is wrong with a parameter: its place, its width, or its shape."""
        from scipy.stats import norm

        m, u = len(self), self.pit[:, j]
        shift = (u.mean() - 0.5) * np.sqrt(12 * m)  # standard normal if uniform
        width = (u.var() - 1 / 12) * np.sqrt(180 * m)
        words = []
        if abs(shift) > norm.ppf(0.975):
            words.append(f"lie too {'low' if shift > 0 else 'high'}")
        if abs(width) > norm.ppf(0.975):
            words.append(f"are too {'narrow' if width > 0 else 'wide'}")
        share = self.coverage(LEVELS[2])[0, j]
        fault = "they " + " and ".join(words) if words else "their shape is off"
        return fault + (f" (a {LEVELS[2]:.0%} interval holds the truth in {percent(share)})")

    def __str__(self) -> str:
        return self.summary

    def plot(self) -> Figure:
        """Histograms of the probabilities below the truth, and coverage against what was claimed."""
        from muhat.report.calibration import calibration

        return calibration(self)


def check_calibration(
    model: Any,
    theta: Any,
    x: Any,
    n: int = 500,
    names: Any = None,
    random_state: Any = 0,
    support: Any = None,
) -> Calibration:
    """Simulation-based calibration [TBV18] and expected coverage [HDR22] of a fitted model.

    If θ comes from the prior and x from the simulator at θ, then θ is one more draw of its posterior: over
    many simulations its place among draws of right posteriors is uniform. Wrong ones show as lying too
    high, too low, too wide or too narrow; posteriors that equal the prior pass, so look at widths as well.

    Args:
        model: fitted, with ``posterior(x)`` that returns an embedding, or ``sample(x, n)``.
        theta: true parameters from the prior that the model stands for, (m, p): new ones, not those it was
            fitted on.
        x: the data simulated at each, (m, d).
        n: draws of each posterior, if the model gives draws.
        names: of the parameters.
        random_state: seed of the randomisation.
        support: where parameters can be, to count draws that lie elsewhere: ``mh.Support``, a prior of
            distributions, or bounds. None for that of the model; if it has none, what ``theta`` shows.

    Weighted points count by their weights, as if θ were one more point of average weight: its place is
    uniform between both of its neighbours, and among points that are equal to it, as those of whole numbers
    are. Different points with θ among them are taken for all values that θ can have. Negative weights are
    projected onto the simplex, as for quantiles, and their share is reported.
    """
    if not (hasattr(model, "posterior") or hasattr(model, "sample")):
        raise TypeError(f"model must have posterior(x) or sample(x, n), but is a {type(model).__name__}.")
    columns = list(theta.columns) if hasattr(theta, "columns") else None
    truths = np.asarray(as_rows(_column(theta), "theta", LEAST), dtype=np.float64)
    rows = np.asarray(as_rows(_column(x), "x", LEAST), dtype=np.float64)
    check_same_rows(truths, rows, "theta", "x")
    p = truths.shape[1]
    names = list(names or columns or (["theta"] if p == 1 else [f"theta{j + 1}" for j in range(p)]))
    if len(names) != p:
        raise ValueError(f"names has {len(names)} entries but theta has {p} columns: give one a parameter.")
    rng = as_generator(random_state)
    within = _support(model, truths, names, support)
    places: list[tuple[np.ndarray, float, float, float, float]] = []
    unlike = 0
    for i, (posterior, far) in enumerate(posteriors(model, rows, check_count(n, "n", 10))):
        unlike += far and posterior is not None
        if posterior is None:
            continue
        if posterior.points.shape[1] != p:
            raise ValueError(
                f"theta has {p} columns but the posteriors of model have {posterior.points.shape[1]}: "
                "give the parameters that the model was fitted on."
            )
        below, level = probability_below(posterior, truths[i], rng), region_level(posterior, truths[i], rng)
        outside = float(posterior.weights @ ~within.contains(posterior.points))
        places.append((below, level, posterior.size, posterior.negative, outside))
    if len(places) < LEAST:
        raise ValueError(
            f"Only {len(places)} of the {len(rows)} x have a posterior: the others are unlike any that the "
            "model was fitted on. Fit on simulations from the prior that theta comes from."
        )
    pit, region, sizes, negative, away = (np.array(part) for part in zip(*places, strict=True))
    names, lost = [str(name) for name in names], len(rows) - len(places)
    return Calibration(
        pit,
        region,
        names,
        float(np.median(sizes)),
        float(negative.mean()),
        lost,
        unlike,
        float(away.mean()),
        within,
    )


def _support(model: Any, truths: np.ndarray, names: list[Any], given: Any) -> Support:
    """The support that is given, that of the model, or what true parameters show for certain."""
    if given is not None:
        return support_of(given, truths, names)
    own = getattr(model, "support_", None)
    if isinstance(own, Support) and len(own) == truths.shape[1]:
        return own
    return infer_support(truths, names, hard=True)


def _column(rows: Any) -> Any:
    return np.reshape(rows, (-1, 1)) if not hasattr(rows, "columns") and np.ndim(rows) == 1 else rows


def probability_below(posterior: Weighted, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Randomised probability integral transform, (p,).

    ``(L F + U (L T + 1))/(L + 1)`` with F the weight below θ, T that of points equal to it, and L the
    effective number of points: with L equal weights, of which r lie below θ and t are equal to it, this is
    ``(r + U (t + 1))/(L + 1)``, exactly uniform if θ is one more draw [TBV18, Thm. 1], ties or not.

    Points that are different from each other, with θ among them, are values that θ can have: their weights
    are probabilities, and ``F + U T`` is exactly uniform.
    """
    below = posterior.weights @ (posterior.points < theta)
    ties = posterior.weights @ (posterior.points == theta)
    return _place(below, ties, np.inf if _is_grid(posterior, theta) else posterior.size, rng)


def region_level(posterior: Weighted, theta: np.ndarray, rng: np.random.Generator) -> float:
    """The probability of higher density than at θ, by a Gaussian density on draws.

    The density is made of one half of the points and the probability taken over the other, so that θ is
    one more of these and its place is uniform, however rough the density; of points with the density at θ, as
    equal ones have, a random part counts. Where the points are the values that θ can have, the density is
    their weight.
    """
    from scipy.spatial.distance import cdist

    if _is_grid(posterior, theta):
        own = posterior.weights[(posterior.points == theta).all(axis=1)][0]
        above, ties = _above(posterior.weights, own, posterior.weights)
        return float(_place(above, ties, np.inf, rng))
    part = rng.permutation(len(posterior.points))
    half = np.zeros(len(part), dtype=bool)
    half[part[: max(1, len(part) // 2)]] = True
    if len(part) < 4 or not 0 < posterior.weights[half].sum() < 1:
        return float(rng.random())  # a posterior of a point or two has no regions
    made, tested = (
        _few(Weighted(posterior.points[h], posterior.weights[h] / posterior.weights[h].sum(), 0.0), rng)
        for h in (half, ~half)
    )
    mean = made.weights @ made.points
    spread = np.sqrt(made.weights @ (made.points - mean) ** 2)
    width = np.maximum(spread, 1e-12 * (1 + np.abs(mean))) * made.size ** (
        -1 / (len(mean) + 4)
    )  # Scott's rule

    def density(points: np.ndarray) -> np.ndarray:
        """In logarithms, up to a constant."""
        squares = cdist(points / width, made.points / width, "sqeuclidean")
        least = squares.min(axis=1)
        return np.log(np.exp(-(squares - least[:, None]) / 2) @ made.weights) - least / 2

    logs = density(np.concatenate([theta[None], tested.points]))
    above, ties = _above(logs[1:], logs[0], tested.weights)
    return float(_place(above, ties, min(tested.size, posterior.size / 2), rng))


def _is_grid(posterior: Weighted, theta: np.ndarray) -> bool:
    """Whether θ is one of the points, and no two of them are equal; draws with ties repeat themselves."""
    among = (posterior.points == theta).all(axis=1)
    return int(among.sum()) == 1 and len(np.unique(posterior.points, axis=0)) == len(posterior.points)


def _above(values: np.ndarray, own: float, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weight of values above ``own``, and of those equal to it but for rounding."""
    slack = TIED * (1 + abs(own))
    level = np.abs(values - own) <= slack
    return weights @ ((values > own) & ~level), weights @ level


def _place(before: Any, ties: Any, L: float, rng: np.random.Generator) -> np.ndarray:
    """A random place among L points and θ, of whose weight some come before and some are tied with θ."""
    before, ties = np.clip(before, 0.0, 1.0), np.clip(ties, 0.0, 1.0)
    U = rng.random(np.shape(before))
    if np.isinf(L):
        return np.minimum(before + U * ties, 1.0)
    return np.minimum((L * before + U * (L * ties + 1)) / (L + 1), 1.0)


def _few(part: Weighted, rng: np.random.Generator) -> Weighted:
    """At most so many points as a region is found by."""
    if len(part.points) <= REGION:
        return part
    return Weighted(part.resample(REGION, rng), np.full(REGION, 1 / REGION), 0.0)
