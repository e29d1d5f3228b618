"""Which kernels a test uses: one, or many at once."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np

from muhat._tables import Encoder
from muhat.kernels.algebra import Restricted
from muhat.kernels.base import Kernel
from muhat.kernels.default import default_kernel, resolve_kernel
from muhat.kernels.delta import Delta
from muhat.kernels.dot import Linear, Polynomial
from muhat.kernels.standard import SquaredNorm, Standardized
from muhat.kernels.stationary import Gaussian, Laplace

NAMES = ("aggregate", "median", "learn")
# Distances that set the range of scales are taken among this many rows, drawn at random: rows at fixed
# places would not be exchangeable with the others.
SCALE_ROWS = 700


def choose_kernels(
    kernel: Any, Z: np.ndarray, encoder: Encoder, rng: np.random.Generator, bank: str, name: str = "kernel"
) -> list[Kernel]:
    """The kernels that ``kernel`` asks for, with nothing left open: one, or several to be aggregated.

    All are chosen from the rows ``Z`` (N, d) without regard to what is tested (the sample a row came
    from, the row it is paired with), so that permutation tests keep their level.
    """
    if kernel is None or (isinstance(kernel, str) and kernel == "aggregate"):
        return two_sample_bank(Z, encoder, rng) if bank == "two-sample" else dependence_bank(Z, encoder, rng)
    if isinstance(kernel, str):
        if kernel == "median":
            return [default_kernel(Z, encoder)]
        if kernel == "learn":
            return [_learned(Z, encoder, rng)]
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, NAMES))}, a kernel or a list of kernels, "
            f"got {kernel!r}."
        )
    if isinstance(kernel, (list, tuple)):
        if not kernel:
            raise ValueError(f'{name} is an empty list: give at least one kernel, or "aggregate".')
        return [resolve_kernel(k, Z, encoder, f"{name}[{i}]") for i, k in enumerate(kernel)]
    return [resolve_kernel(kernel, Z, encoder, name)]


def _learned(Z: np.ndarray, encoder: Encoder, rng: np.random.Generator) -> Kernel:
    from muhat.learning.learn_kernel import learn_kernel

    _, varies = _columns(Z, encoder)
    if not varies:  # categories alone: there is no scale to learn
        return default_kernel(Z, encoder)
    kernel = default_kernel(Z, encoder)
    return learn_kernel(Z, kernel, random_state=rng).kernel


def _columns(Z: np.ndarray, encoder: Encoder) -> tuple[list[int], list[int]]:
    """The categorical columns, and the numeric ones that vary."""
    categorical = sorted(encoder.categories)
    sd = Z.std(axis=0)
    varies = [j for j in range(Z.shape[1]) if j not in categorical and sd[j] > 1e-14 * np.abs(Z[:, j].mean())]
    return categorical, varies


def _scales(
    A: np.ndarray, metric: str, low: float, high: float, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Scales from ``low`` times the 5% quantile of the distances to ``high`` times the 95% one."""
    from scipy.spatial.distance import pdist

    some = A[rng.choice(len(A), SCALE_ROWS, replace=False)] if len(A) > SCALE_ROWS else A
    distances = pdist(some, metric)  # type: ignore[arg-type]
    positive = distances[distances > 0]
    if not len(positive):
        positive = np.ones(1)
    ends = np.quantile(positive, [0.05, 0.95])
    return np.geomspace(low * ends[0], high * ends[1], count)


def _with_categories(
    kernels: list[Kernel], varies: list[int], categorical: list[int], d: int
) -> list[Kernel]:
    """Kernels of the numbers, each times a Delta on every category, where there are such columns."""
    whole = not categorical and len(varies) == d
    out = []
    for kernel in kernels:
        kernel = kernel if whole else kernel.on(varies)
        for j in categorical:
            kernel = kernel * Delta(exp(-0.5)).on(j)
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
    Z: np.ndarray, encoder: Encoder, rng: np.random.Generator, count: int = 10
) -> list[Kernel]:
    """Gaussian and Laplace kernels at ``count`` scales each, and two of second moments.

    The columns are brought to unit variance. Scales run over those of the data, so that differences at
    any scale are seen; the kernel (aᵀb)² sees covariances and ‖a‖²‖b‖² the overall spread, which in many
    dimensions no local kernel does.
    """
    categorical, varies = _columns(Z, encoder)
    out = _of_categories(categorical)
    if not varies:
        return out or [default_kernel(Z, encoder)]
    sd = Z[:, varies].std(axis=0)
    A = (Z[:, varies] - Z[:, varies].mean(axis=0)) / sd
    local: list[Kernel] = []
    for family, metric in ((Gaussian, "euclidean"), (Laplace, "cityblock")):
        local += [family(c * sd) for c in _scales(A, metric, 0.25, 2.0, count, rng)]
    whole = len(varies) == Z.shape[1]
    moments: list[Kernel] = [Standardized(Polynomial(2, 0.0)), Standardized(SquaredNorm())]
    moments = [k if whole else k.on(varies) for k in moments]
    return out + _with_categories(local, varies, categorical, Z.shape[1]) + [k.resolve(Z) for k in moments]


def dependence_bank(
    Z: np.ndarray, encoder: Encoder, rng: np.random.Generator, count: int = 4
) -> list[Kernel]:
    """Gaussian kernels at ``count`` scales and a linear one, columns brought to unit variance."""
    categorical, varies = _columns(Z, encoder)
    out = _of_categories(categorical)
    if not varies:
        return out or [default_kernel(Z, encoder)]
    sd = Z[:, varies].std(axis=0)
    A = (Z[:, varies] - Z[:, varies].mean(axis=0)) / sd
    local: list[Kernel] = [Gaussian(c * sd) for c in _scales(A, "euclidean", 0.5, 1.0, count, rng)]
    linear: Kernel = Standardized(Linear())
    whole = len(varies) == Z.shape[1]
    return (
        out
        + _with_categories(local, varies, categorical, Z.shape[1])
        + [(linear if whole else linear.on(varies)).resolve(Z)]
    )


def is_moment(kernel: Kernel) -> bool:
    """Whether the kernel is one of moments, which says how distributions differ but not where."""
    while isinstance(kernel, Restricted):
        kernel = kernel.kernel
    return isinstance(getattr(kernel, "kernel", kernel), Standardized) or isinstance(kernel, Standardized)
