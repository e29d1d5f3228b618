"""Which kernels a test uses: one, or many at once."""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import numpy as np

from muhat._tables import Encoder
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel, resolve_kernel
from muhat.kernels.delta import Delta
from muhat.kernels.dot import Linear, Polynomial
from muhat.kernels.ranked import Cosines, Ranked, column_knots
from muhat.kernels.standard import SquaredNorm, Standardized
from muhat.kernels.stationary import Gaussian, Laplace

NAMES = ("aggregate", "median", "learn")
# Distances that set the scales are taken among this many rows, drawn at random: rows at fixed places would
# not be exchangeable with the others.
SCALE_ROWS = 600
# Weights of the groups of kernels of the two-sample test, of which only ratios matter.
WEIGHTS = {
    "round": 1.5,
    "peaked": 1.0,
    "ranks": 3.0,
    "wide": 2.0,
    "margins": 1.0,
    "covariances": 1.5,
    "spread": 1.0,
    "categories": 1.0,
}
# The scale of detail of ranks, in units of that of a Gaussian kernel density.
RANK_DETAIL = 0.7


def choose_kernels(
    kernel: Any, Z: np.ndarray, encoder: Encoder, rng: np.random.Generator, bank: str, name: str = "kernel"
) -> tuple[list[Kernel], np.ndarray]:
    """The kernels that ``kernel`` asks for, with nothing left open, and their weights when aggregated.

    All are chosen from the rows ``Z`` (N, d) without regard to what is tested (the sample a row came
    from, the row it is paired with), so that permutation tests keep their level.
    """
    if kernel is None or (isinstance(kernel, str) and kernel == "aggregate"):
        return two_sample_bank(Z, encoder, rng) if bank == "two-sample" else dependence_bank(Z, encoder, rng)
    if isinstance(kernel, str):
        if kernel == "median":
            return _even([default_kernel(Z, encoder)])
        if kernel == "learn":
            return _even([_learned(Z, encoder, rng)])
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, NAMES))}, a kernel or a list of kernels, "
            f"got {kernel!r}."
        )
    if isinstance(kernel, (list, tuple)):
        if not kernel:
            raise ValueError(f'{name} is an empty list: give at least one kernel, or "aggregate".')
        return _even([resolve_kernel(k, Z, encoder, f"{name}[{i}]") for i, k in enumerate(kernel)])
    return _even([resolve_kernel(kernel, Z, encoder, name)])


def _even(kernels: list[Kernel]) -> tuple[list[Kernel], np.ndarray]:
    return kernels, np.full(len(kernels), 1 / len(kernels))


def _learned(Z: np.ndarray, encoder: Encoder, rng: np.random.Generator) -> Kernel:
    """The default kernel with the scale of its numbers learned; categories alone have none to learn."""
    from muhat.learning.learn_kernel import learn_kernel

    categorical, varies = _columns(Z, encoder)
    if not varies:
        return default_kernel(Z, encoder)
    numbers = learn_kernel(Z[:, varies], random_state=rng).kernel
    return _with_categories([numbers], varies, categorical, Z.shape[1])[0]


def _columns(Z: np.ndarray, encoder: Encoder) -> tuple[list[int], list[int]]:
    """The categorical columns, and the numeric ones that vary."""
    categorical = sorted(encoder.categories)
    sd = Z.std(axis=0)
    varies = [j for j in range(Z.shape[1]) if j not in categorical and sd[j] > 1e-14 * np.abs(Z[:, j].mean())]
    return categorical, varies


def _standardised(
    Z: np.ndarray, varies: list[int], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The spread of each column that varies, and some rows in units of it."""
    sd = Z[:, varies].std(axis=0)
    return sd, _some(Z, rng)[:, varies] / sd


def _some(Z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return Z if len(Z) <= SCALE_ROWS else Z[rng.choice(len(Z), SCALE_ROWS, replace=False)]


def detail(A: np.ndarray) -> float:
    """The scale of detail of rows ``A`` (n, d).

    It is the width of the Gaussian kernel density with the greatest leave-one-out likelihood (rows that
    coincide do not count as neighbours).
    """
    from scipy.spatial.distance import pdist, squareform

    n, d = A.shape
    squares = pdist(A, "sqeuclidean")
    positive = squares[squares > 0]
    if len(positive) < 2:
        return float((4 / (d + 2) / n) ** (1 / (d + 4)))  # the best width for normal rows
    widths = np.sqrt(np.median(positive)) * np.geomspace(0.02, 1.0, 25)
    S = squareform(np.where(squares > 0, squares, np.inf))
    np.fill_diagonal(S, np.inf)
    S = S[np.isfinite(S).any(axis=1)]
    nearest = S.min(axis=1, keepdims=True)
    beyond = S - nearest
    scores = [
        np.mean(np.log(np.exp(beyond * (-0.5 / h**2)).sum(axis=1)) - nearest[:, 0] / (2 * h**2))
        - d * np.log(h)
        for h in widths
    ]
    return float(widths[int(np.argmax(scores))])


def _with_categories(
    kernels: list[Kernel], varies: list[int], categorical: list[int], d: int
) -> list[Kernel]:
    """Kernels of the numbers, each times a Delta on every category, where there are such columns."""
    whole = not categorical and len(varies) == d
    factors = [Delta(exp(-0.5)).on(j) for j in categorical]  # shared, so that blocks are made once
    out = []
    for kernel in kernels:
        kernel = kernel if whole else kernel.on(varies)
        for factor in factors:
            kernel = kernel * factor
        out.append(kernel)
    return out


def _of_categories(categorical: list[int]) -> list[Kernel]:
    """Kernels of the categories alone: how often each occurs, and each combination."""
    if not categorical:
        return []
    out: list[Kernel] = []
    for rest in (0.0, exp(-0.5)):
        kernel: Kernel = Delta(rest).on(categorical[0])
        for j in categorical[1:]:
            kernel = kernel * Delta(rest).on(j)
        out.append(kernel)
        if len(categorical) == 1:
            break  # for one category both give the same test
    return out


def two_sample_bank(
    Z: np.ndarray, encoder: Encoder, rng: np.random.Generator
) -> tuple[list[Kernel], np.ndarray]:
    """Kernels at the scale of detail of rows and of their ranks, a wide one, one of margins, second moments.

    The columns are brought to unit variance, or to ranks, which neither heavy tails nor skewness bend. The
    kernel of margins sees each column by itself, which a kernel of many columns hardly does; (aᵀb)² sees
    covariances, and ‖a‖²‖b‖² the overall spread.
    """
    categorical, varies = _columns(Z, encoder)
    categories = _of_categories(categorical)
    if not varies:
        return _even(categories or [default_kernel(Z, encoder)])
    numbers = Z[:, varies]
    sd, rows, knots = numbers.std(axis=0), _some(numbers, rng), column_knots(numbers)
    A, U = rows / sd, Ranked(Linear(), knots).ranks(rows, np)
    _, far, across = distance_scales(A)
    fine = detail(A)
    fine_ranks = RANK_DETAIL * distance_scales(U)[2] * detail(U)
    local: list[tuple[Kernel, str]] = [
        *((Gaussian(c * fine * sd), "round") for c in (1, sqrt(2))),
        (Laplace(across * fine * sd), "peaked"),
        (Ranked(Laplace(fine_ranks), knots), "ranks"),
        (Gaussian(2 * far * sd), "wide"),
    ]
    moments: list[tuple[Kernel, str]] = [
        (Standardized(Polynomial(2, 0.0)).resolve(numbers), "covariances"),
        (Standardized(SquaredNorm()).resolve(numbers), "spread"),
        (Ranked(Standardized(SquaredNorm(), 0.5, 1.0), knots), "spread"),
    ]
    if len(varies) > 1:
        moments.append((Ranked(Cosines(), knots), "margins"))
    kernels = _with_categories([k for k, _ in local], varies, categorical, Z.shape[1])
    kernels += [k if len(varies) == Z.shape[1] else k.on(varies) for k, _ in moments] + categories
    groups = [g for _, g in local + moments] + ["categories"] * len(categories)
    weights = np.array([WEIGHTS[group] / groups.count(group) for group in groups])
    return kernels, weights / weights.sum()


def distance_scales(A: np.ndarray) -> tuple[float, float, float]:
    """Median and 95% point of the distances of rows that differ, and the median of their ℓ1 against ℓ2."""
    from scipy.spatial.distance import pdist

    distances, city = pdist(A), pdist(A, "cityblock")
    differ = distances > 0
    if not differ.any():
        return 1.0, 1.0, 1.0
    median, far = np.quantile(distances[differ], [0.5, 0.95])
    return float(median), float(far), float(np.median(city[differ]) / median)


def dependence_bank(
    Z: np.ndarray, encoder: Encoder, rng: np.random.Generator
) -> tuple[list[Kernel], np.ndarray]:
    """Gaussian kernels at the median distance (of double weight), a half and a quarter of it; a linear."""
    categorical, varies = _columns(Z, encoder)
    categories = _of_categories(categorical)
    if not varies:
        return _even(categories or [default_kernel(Z, encoder)])
    from scipy.spatial.distance import pdist

    sd, A = _standardised(Z, varies, rng)
    distances = pdist(A)
    median = float(np.median(distances[distances > 0]))
    local: list[Kernel] = [Gaussian(c * median * sd) for c in (1.0, 0.5, 0.25)]
    linear: Kernel = Standardized(Linear())
    linear = linear if len(varies) == Z.shape[1] else linear.on(varies)
    kernels = [*_with_categories(local, varies, categorical, Z.shape[1]), linear.resolve(Z), *categories]
    weights = np.ones(len(kernels))
    weights[0] = 2
    return kernels, weights / weights.sum()


def is_moment(kernel: Kernel) -> bool:
    """Whether the kernel is one of moments, which says how distributions differ but not where."""
    inner: Any = kernel
    while not isinstance(inner, Standardized) and hasattr(inner, "kernel"):  # restricted, ranked, features
        inner = inner.kernel
    return isinstance(inner, Standardized)
