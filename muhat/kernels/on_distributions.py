"""Kernels between distributions: a kernel of the mean embeddings of two bags."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from muhat._bags import AnyBags, GaussianBags, as_bags
from muhat._validation import check_same_columns
from muhat.kernels.algebra import Product, Scaled, Sum
from muhat.kernels.base import Kernel
from muhat.kernels.dot import Linear, Polynomial
from muhat.kernels.stationary import Gaussian, Stationary

# Points on each side of one block of the inner Gram: 2 × 8 MB.
BLOCK_ROWS = 1024
# Bags whose distances give the median.
MEDIAN_BAGS = 300


class OnDistributions(Kernel):
    """K(P, Q) = outer(μ_P, μ_Q), with μ_P = E k(x, ·) the embedding of a bag and k the inner kernel [G15].

    ========================================  =====================================================
    ``outer``                                 K(P, Q), with D = ‖μ_P − μ_Q‖ = MMD(P, Q)
    ========================================  =====================================================
    ``mh.Linear()``                           ⟨μ_P, μ_Q⟩ (the set kernel)
    ``mh.Gaussian(ℓ)``                        exp(−D²/(2ℓ²))
    ``mh.Laplace(ℓ, norm=2)``                 exp(−D/ℓ); [G15] writes ℓ = 2θ²
    ``mh.Cauchy(ℓ)``                          1/(1 + D²/ℓ²)
    ``mh.Student(ℓ, power)``                  1/(1 + (D/ℓ)^power), power ≤ 2
    ``mh.InverseMultiquadric(ℓ)``             1/√(1 + D²/ℓ²); [G15] has it divided by θ = ℓ
    ========================================  =====================================================

    Sums, products and multiples of these are outer kernels as well. ``kernel(bags, others)`` is the matrix
    K(Pᵢ, Qⱼ); bags are lists of arrays, ``mh.Bags`` (weights, tables) or ``mh.GaussianBags`` (closed form).

    With ``location`` a bag is taken as its mean and its shape: ``D² = MMD²(P̃, Q̃) + ‖(m − m')/location‖²``
    with m the mean of the bag and P̃ the bag moved to mean 0. No less is known of it, and what depends on the
    shape alone need not be learned anew at every place.

    Args:
        outer: the kernel on embeddings; ``"median"`` is the median D between bags.
        inner: k, any kernel on points; ``"median"`` is that of the points of all bags.
        location: lengthscale of the means, a number or one a column (inf: they do not count); None to embed
            bags where they are.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("outer", "inner", "location")

    def __init__(
        self, outer: Kernel | None = None, inner: Kernel | None = None, location: Any = None
    ) -> None:
        self.outer: Kernel = Gaussian() if outer is None else outer
        self.inner: Kernel = Gaussian("scaled") if inner is None else inner
        self.location = None if location is None else _check_location(location)
        for name in ("outer", "inner"):
            value = getattr(self, name)
            if not isinstance(value, Kernel) or isinstance(value, OnDistributions):
                raise TypeError(f"{name} must be a kernel on points, got {value!r}: pass e.g. mh.Gaussian().")
        check_outer(self.outer)

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        """The matrix ``K(Pᵢ, Qⱼ)``, (n, m); ``Y`` defaults to ``X``."""
        A = as_bags(X)
        kernel = self.resolve(A)
        if Y is None:
            C = products(A, A, kernel)
            return outer_of(kernel.outer, C, np.diagonal(C), np.diagonal(C))
        B = as_bags(Y)
        check_same_bags(B, A)
        C = products(A, B, kernel)
        return outer_of(kernel.outer, C, norms(A, kernel), norms(B, kernel))

    def gram(self, X: Any, Y: Any = None) -> np.ndarray:
        """The same as a call: input is checked in both."""
        return self(X, Y)

    def diag(self, X: Any) -> np.ndarray:
        """``K(Pᵢ, Pᵢ)``, (n,)."""
        A = as_bags(X)
        kernel = self.resolve(A)
        return outer_diag(kernel.outer, norms(A, kernel))

    def mmd(self, X: Any, Y: Any = None) -> np.ndarray:
        """D for all pairs of bags: ``‖μ_P − μ_Q‖`` of the inner kernel, (n, m)."""
        A = as_bags(X)
        kernel = OnDistributions(self.outer, self.inner.resolve(A.pool()), self.location)
        B = A if Y is None else as_bags(Y)
        check_same_bags(B, A)
        return np.sqrt(squared_mmd(products(A, B, kernel), norms(A, kernel), norms(B, kernel)))

    def resolve(self, X: Any, names: list[str] | None = None) -> OnDistributions:
        """This kernel with what was left to the data set from bags ``X``."""
        A = as_bags(X)
        inner = self.inner.resolve(A.pool(), names)
        outer = self.outer
        if has_open(outer):
            some = A if len(A) <= MEDIAN_BAGS else A.select(_some(len(A), MEDIAN_BAGS))
            outer = resolve_outer(outer, products(some, some, OnDistributions(outer, inner, self.location)))
        if inner is self.inner and outer is self.outer:
            return self
        return OnDistributions(outer, inner, self.location)

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(
            "Kernels on distributions do not combine with others: combine their outer kernels instead, e.g. "
            "mh.OnDistributions(mh.Gaussian(1.0) + mh.Linear(), inner)."
        )

    __add__ = __mul__ = __rmul__ = on = _refuse  # type: ignore[assignment]


def check_same_bags(bags: AnyBags, others: AnyBags) -> None:
    """Raise unless both are of the same dimension."""
    if bags.dimension != others.dimension:
        check_same_columns(np.empty((0, bags.dimension)), others.dimension, "Y", "X")


def _check_location(location: Any) -> Any:
    value = np.asarray(location, dtype=np.float64)
    if value.ndim > 1 or not (value > 0).all():
        raise ValueError(
            f"location must be a positive lengthscale, or one for every column, got {location!r}."
        )
    return value if value.ndim else float(value)


# -- what stands for a bag: its embedding, or its mean and the embedding of its shape -------------


def products(A: AnyBags, B: AnyBags, kernel: OnDistributions) -> np.ndarray:
    """Inner products of what stands for the bags, (n, m)."""
    if kernel.location is None:
        return inner_products(A, B, kernel.inner)
    shapes = A.centred()
    others = shapes if B is A else B.centred()
    return inner_products(shapes, others, kernel.inner) + located(A, kernel) @ located(B, kernel).T


def norms(A: AnyBags, kernel: OnDistributions) -> np.ndarray:
    """Squared norms of what stands for the bags, (n,)."""
    if kernel.location is None:
        return squared_norms(A, kernel.inner)
    return squared_norms(A.centred(), kernel.inner) + (located(A, kernel) ** 2).sum(axis=1)


def located(A: AnyBags, kernel: OnDistributions) -> np.ndarray:
    """The means of the bags in units of ``location``, (n, d)."""
    assert kernel.location is not None
    if np.ndim(kernel.location) and len(kernel.location) != A.dimension:
        raise ValueError(
            f"location has {len(kernel.location)} lengthscales for bags of {A.dimension} columns: give "
            "one for every column, or one number."
        )
    return A.means / kernel.location


# -- inner: ⟨μ_P, μ_Q⟩ -------------------------------------------------------------------------


def inner_products(A: AnyBags, B: AnyBags, inner: Kernel) -> np.ndarray:
    """``⟨μ_P, μ_Q⟩ = Σ wₐ w'_b k(xₐ, y_b)`` of all pairs of bags, (n, m), a block at a time."""
    if isinstance(A, GaussianBags):
        return (
            _gaussian_products(A, B, inner) if isinstance(B, GaussianBags) else inner_products(B, A, inner).T
        )
    if isinstance(B, GaussianBags):
        out = np.zeros((len(A), len(B)))
        for block in A.blocks(BLOCK_ROWS):
            out[block.of] += block.sums(_gaussian_values(block.X, B, inner))
        return out
    out = np.zeros((len(A), len(B)))
    others = list(B.blocks(BLOCK_ROWS))
    for i, rows in enumerate(A.blocks(BLOCK_ROWS)):
        for j, columns in enumerate(others):
            if A is B and j < i:
                continue
            part = columns.sums(rows.sums(inner(rows.X, columns.X)).T).T
            out[np.ix_(rows.of, columns.of)] += part  # a bag is in a block once
            if A is B and j > i:  # the mirrored block
                out[np.ix_(columns.of, rows.of)] += part.T
    return out


def values_at(X: np.ndarray, B: AnyBags, inner: Kernel) -> np.ndarray:
    """``μ_Q(xₐ)`` for points ``X`` (m, d) and bags, (m, bags)."""
    if isinstance(B, GaussianBags):
        return _gaussian_values(X, B, inner)
    out = np.zeros((len(X), len(B)))
    for columns in B.blocks(BLOCK_ROWS):
        for start in range(0, len(X), BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            out[rows, columns.of] += columns.sums(inner(columns.X, X[rows])).T  # a bag is in a block once
    return out


def squared_norms(A: AnyBags, inner: Kernel) -> np.ndarray:
    """``‖μ_P‖²`` of each bag, (n,)."""
    if isinstance(A, GaussianBags):
        return np.array([_gaussian_products(one, one, inner)[0, 0] for one in A.batches(1)])
    out = np.empty(len(A))
    for i, X in enumerate(A.parts):
        if len(X) <= BLOCK_ROWS:
            w = A.weights(i)
            out[i] = w @ inner(X, X) @ w
        else:
            one = A.select([i])
            out[i] = inner_products(one, one, inner)[0, 0]
    return out


def _gaussian_values(X: np.ndarray, B: GaussianBags, inner: Kernel) -> np.ndarray:
    columns = [inner.gaussian_embedding(X, m, S) for m, S in zip(B.means, B.covs, strict=True)]
    return np.stack(columns, axis=1)


def _gaussian_products(A: GaussianBags, B: GaussianBags, inner: Kernel) -> np.ndarray:
    """``E k(X, Y)`` for X ~ N(m, S), Y ~ N(m', S')."""
    if isinstance(inner, Sum):  # the expectation is linear in k
        return _gaussian_products(A, B, inner.left) + _gaussian_products(A, B, inner.right)
    if isinstance(inner, Scaled):
        return inner.scale * _gaussian_products(A, B, inner.kernel)
    if isinstance(inner, Linear):
        return A.means @ B.means.T + inner.bias
    if not isinstance(inner, Stationary):
        raise inner._no("the product of two embedded Gaussians", "use mh.Gaussian, or bags of draws")
    if isinstance(inner, Gaussian):
        return _gaussian_gaussian(A, B, inner._lengthscales(A.dimension))
    # X − Y ~ N(m − m', S + S'), and k is a function of it alone.
    out = np.empty((len(A), len(B)))
    for i in range(len(A)):
        for j in range(len(B)):
            cov = A.covs[i] + B.covs[j]
            out[i, j] = inner.gaussian_embedding(A.means[i : i + 1], B.means[j], cov)[0]
    return out


def _gaussian_gaussian(A: GaussianBags, B: GaussianBags, ell: np.ndarray) -> np.ndarray:
    """|I + Λ⁻¹(S + S')|^{-1/2} exp(−½ (m−m')ᵀ(Λ + S + S')⁻¹(m−m')), Λ = diag ℓ²."""
    d = A.dimension
    step = max(1, BLOCK_ROWS**2 // (len(B) * d * d))
    out = np.empty((len(A), len(B)))
    for start in range(0, len(A), step):
        rows = slice(start, start + step)
        factor = np.linalg.cholesky(np.diag(ell**2) + A.covs[rows, None] + B.covs)
        z = np.linalg.solve(factor, (A.means[rows, None] - B.means)[..., None])[..., 0]
        log_scale = np.log(ell).sum() - np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
        out[rows] = np.exp(log_scale - 0.5 * (z**2).sum(axis=-1))
    return out


# -- outer: a function of ⟨μ_P, μ_Q⟩, ‖μ_P‖² and ‖μ_Q‖² ------------------------------------------


def check_outer(outer: Kernel) -> None:
    """Raise unless ``outer`` is a function of distances or inner products alone."""
    for part in _parts(outer):
        euclidean = isinstance(part, Stationary) and part._metric == "euclidean"
        if not (euclidean or isinstance(part, (Linear, Polynomial))):
            raise TypeError(
                f"outer must be a function of the distance or inner product of embeddings, got {part!r}: use "
                "mh.Gaussian, mh.Laplace(norm=2), mh.Matern, mh.Cauchy, mh.Student, mh.InverseMultiquadric "
                "or mh.Linear, and their sums and products."
            )
        if isinstance(part, Stationary) and np.ndim(part.lengthscale):
            raise ValueError(
                f"outer has {np.size(part.lengthscale)} lengthscales, but embeddings have no columns: give "
                'one number, or "median".'
            )
        if isinstance(part, Stationary) and part.lengthscale == "scaled":
            raise ValueError('outer has lengthscale="scaled", but embeddings have no columns: use "median".')


def _parts(outer: Kernel) -> list[Kernel]:
    if isinstance(outer, (Sum, Product)):
        return [*_parts(outer.left), *_parts(outer.right)]
    return _parts(outer.kernel) if isinstance(outer, Scaled) else [outer]


def has_open(outer: Kernel) -> bool:
    """Whether a lengthscale of ``outer`` is left to the data."""
    return any(isinstance(getattr(part, "lengthscale", None), str) for part in _parts(outer))


def resolve_outer(outer: Kernel, C: np.ndarray) -> Kernel:
    """``outer`` with the median of the MMD as its lengthscale where that is open, from ``C`` (n, n)."""
    if not has_open(outer):
        return outer
    return _set_open(outer, median_mmd(C))


def median_mmd(C: np.ndarray) -> float:
    """The median MMD of pairs i < j of bags with inner products ``C`` (n, n)."""
    distances = np.sqrt(squared_mmd(C, np.diagonal(C), np.diagonal(C)))[np.triu_indices(len(C), 1)]
    median = float(np.median(distances)) if len(distances) else 0.0
    if median == 0.0 and distances.any():
        median = float(np.median(distances[distances > 0]))
    if median == 0.0:
        raise ValueError(
            'The lengthscale "median" of outer is undefined: there are no two different bags. Give a number.'
        )
    return median


def _set_open(outer: Kernel, median: float) -> Kernel:
    if isinstance(outer, (Sum, Product)):
        return type(outer)(_set_open(outer.left, median), _set_open(outer.right, median))
    if isinstance(outer, Scaled):
        return outer.replace(kernel=_set_open(outer.kernel, median))
    if isinstance(outer, Stationary) and isinstance(outer.lengthscale, str):
        return outer.replace(lengthscale=outer._median_factor() * median)
    return outer


def squared_mmd(C: np.ndarray, x2: np.ndarray, y2: np.ndarray) -> np.ndarray:
    """``‖μ_P − μ_Q‖²`` from inner products (n, m) and squared norms (n,) and (m,)."""
    return _distance(C, x2[:, None] + y2)


def _distance(C: np.ndarray, size: np.ndarray) -> np.ndarray:
    s = size - 2 * C
    # Where the difference is all rounding error, its root would be noise of size √eps.
    return np.where(s > 1e-14 * np.abs(size), s, 0.0)


def outer_of(outer: Kernel, C: np.ndarray, x2: np.ndarray, y2: np.ndarray) -> np.ndarray:
    """``outer(μ_P, μ_Q)`` from ``⟨μ_P, μ_Q⟩`` (n, m), ``‖μ_P‖²`` (n,) and ``‖μ_Q‖²`` (m,)."""
    return _value(outer, C, x2[:, None] + y2)


def outer_diag(outer: Kernel, x2: np.ndarray) -> np.ndarray:
    """``outer(μ_P, μ_P)`` from ``‖μ_P‖²`` (n,)."""
    return _value(outer, x2, 2 * x2)


def outer_slopes(
    outer: Kernel, C: np.ndarray, x2: np.ndarray, y2: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of ``outer`` in ``⟨μ_P, μ_Q⟩`` and in ``‖μ_P‖²``, (n, m) each, by central differences.

    The steps are relative to the distance, so that kernels with a kink at 0 keep on their side of it.
    """
    size = x2[:, None] + y2
    step = 1e-4 * (_distance(C, size) + 1e-8 * np.abs(size) + 1e-300)
    along = (_value(outer, C + step, size) - _value(outer, C - step, size)) / (2 * step)
    across = (_value(outer, C, size + step) - _value(outer, C, size - step)) / (2 * step)
    return along, across


def _value(outer: Kernel, C: np.ndarray, size: np.ndarray) -> np.ndarray:
    """``outer`` where the inner product is ``C`` and the squared norms add up to ``size``."""
    if isinstance(outer, Sum):
        return _value(outer.left, C, size) + _value(outer.right, C, size)
    if isinstance(outer, Product):
        return _value(outer.left, C, size) * _value(outer.right, C, size)
    if isinstance(outer, Scaled):
        return outer.scale * _value(outer.kernel, C, size)
    if isinstance(outer, Linear):
        return C + outer.bias
    if isinstance(outer, Polynomial):
        return (C + outer.bias) ** outer.degree
    assert isinstance(outer, Stationary)
    return np.asarray(outer._of(_distance(C, size) / outer.lengthscale**2, np))


def _some(n: int, count: int) -> np.ndarray:
    return np.sort(np.random.default_rng(0).choice(n, count, replace=False))


__all__ = ["OnDistributions"]
