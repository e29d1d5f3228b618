"""Kernels made of kernels: sum, product, scaling, restriction to columns."""

from __future__ import annotations

from functools import reduce
from math import pi, prod
from typing import Any, ClassVar

import numpy as np

from muhat._array import Array, Namespace, is_jax, is_traced, namespace
from muhat._validation import check_positive
from muhat.kernels.base import Kernel
from muhat.kernels.distance import Plan


class _Pair(Kernel):
    _parameters: ClassVar[tuple[str, ...]] = ("left", "right")
    _sign = "?"

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left, self.right = left, right

    @property
    def parts(self) -> list[Kernel]:
        """The kernels of a chain of the same operation, in order."""
        out: list[Kernel] = []
        for part in (self.left, self.right):
            out.extend(part.parts if isinstance(part, type(self)) else [part])
        return out

    def __repr__(self) -> str:
        return f" {self._sign} ".join(
            f"({part!r})" if isinstance(part, Sum) and self._sign == "*" else repr(part)
            for part in self.parts
        )

    @property
    def isotropic(self) -> bool:  # type: ignore[override]
        return False


class Sum(_Pair):
    """k(x, x') = k₁(x, x') + k₂(x, x')."""

    _sign = "+"

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        left, right = self.left._plan(X, Y, xp), self.right._plan(X, Y, xp)
        return lambda rows: left(rows) + right(rows)

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return self.left._diag(X, xp) + self.right._diag(X, xp)

    @property
    def amplitude(self) -> Any:
        return self.left.amplitude + self.right.amplitude

    def spectral_sample(self, n: int, d: int, rng: np.random.Generator) -> Array:
        # The spectral measure of a sum is the mixture of the two, weighted by amplitude.
        first = rng.random((n, 1)) < self.left.amplitude / self.amplitude
        left, right = (part.spectral_sample(n, d, rng) for part in (self.left, self.right))
        return namespace(first, left, right).where(first, left, right)

    def integral(self, d: int) -> Any:
        return self.left.integral(d) + self.right.integral(d)

    def variance(self, d: int) -> Array:
        total = self.integral(d)
        return sum(part.integral(d) / total * part.variance(d) for part in (self.left, self.right))

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        """Closed where the terms are Gaussians, by the integrals of all pairs of them."""
        terms = [_gaussian_term(part, d) for part in self.parts]
        if sd is not None or None in terms:
            raise self._no("smoothing by itself", "it has one for sums of Gaussians under Lebesgue measure")
        crossed = [_cross(a, b, d) for a in terms for b in terms]
        return reduce(Sum, crossed)

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        return self.left.gaussian_embedding(X, mean, cov) + self.right.gaussian_embedding(X, mean, cov)


class Product(_Pair):
    """k(x, x') = k₁(x, x') k₂(x, x')."""

    _sign = "*"

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        left, right = self.left._plan(X, Y, xp), self.right._plan(X, Y, xp)
        return lambda rows: left(rows) * right(rows)

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return self.left._diag(X, xp) * self.right._diag(X, xp)

    @property
    def amplitude(self) -> Any:
        return self.left.amplitude * self.right.amplitude

    def spectral_sample(self, n: int, d: int, rng: np.random.Generator) -> Array:
        # The spectral measure of a product is the convolution: frequencies add.
        return self.left.spectral_sample(n, d, rng) + self.right.spectral_sample(n, d, rng)

    def integral(self, d: int) -> Any:
        scale, parts = self._factors(d, "its integral over space")
        return scale * prod(part.kernel.integral(len(part.columns)) for part in parts)

    def variance(self, d: int) -> Array:
        _, parts = self._factors(d, "the variance of its density")
        out = np.empty(d)
        for part in parts:
            out[list(part.columns)] = part.kernel.variance(len(part.columns))
        return out

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        scale, parts = self._factors(d, "smoothing by itself")
        factors = [part.kernel.smoothed(len(part.columns), sd).on(part.columns) for part in parts]
        return scale**2 * reduce(Product, factors)

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        d = X.shape[1]
        scale, parts = self._factors(d, "the mean embedding of a Gaussian")
        xp = namespace(X, mean, cov, *self.leaves())
        mean = xp.broadcast_to(xp.asarray(mean), (d,))
        cov = xp.asarray(cov)
        cov = cov if cov.ndim == 2 else xp.diag(xp.broadcast_to(cov, (d,)))
        inside = np.zeros((d, d), dtype=bool)
        for part in parts:
            inside[np.ix_(part.columns, part.columns)] = True
        if not is_traced(cov) and np.any(np.asarray(cov)[~inside] != 0):
            raise self._no(
                "the mean embedding of a Gaussian whose columns are correlated across factors",
                "use one kernel for these columns, or embed a large sample",
            )
        out = scale
        for part in parts:
            c = np.array(part.columns)
            out = out * part.kernel.gaussian_embedding(X[:, c], mean[c], cov[np.ix_(c, c)])
        return out

    def _factors(self, d: int, fact: str) -> tuple[Any, list[Restricted]]:
        """The scale and the factors, when these share no column and together cover all d."""
        scale: Any = 1.0
        parts: list[Restricted] = []
        others, open_ = 0, self.parts
        while open_:
            part = open_.pop(0)
            if isinstance(part, Scaled):
                scale = scale * part.scale
                open_.insert(0, part.kernel)
            elif isinstance(part, Product):
                open_ = part.parts + open_
            elif isinstance(part, Restricted):
                parts.append(part)
            else:
                others += 1
        used = [c for part in parts for c in part.indices(d)]
        if others or sorted(used) != list(range(d)):
            raise self._no(
                fact,
                "it needs factors on separate columns that cover all of them, k1.on(0) * k2.on(1)",
            )
        return scale, parts


class Scaled(Kernel):
    """k(x, x') = a · k₁(x, x'), a > 0."""

    _parameters: ClassVar[tuple[str, ...]] = ("kernel", "scale")

    def __init__(self, kernel: Kernel, scale: Any) -> None:
        check_positive(scale, "scale", "multiply a kernel by a positive number")
        self.kernel, self.scale = kernel, scale

    def __repr__(self) -> str:
        shown = f"{self.kernel!r}"
        scale = self.scale if is_jax(self.scale) else f"{float(self.scale):.4g}"
        return f"{scale} * ({shown})" if isinstance(self.kernel, Sum) else f"{scale} * {shown}"

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        block = self.kernel._plan(X, Y, xp)
        return lambda rows: self.scale * block(rows)

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return self.scale * self.kernel._diag(X, xp)

    @property
    def isotropic(self) -> bool:  # type: ignore[override]
        return self.kernel.isotropic

    @property
    def amplitude(self) -> Any:
        return self.scale * self.kernel.amplitude

    def spectral_sample(self, n: int, d: int, rng: np.random.Generator) -> Array:
        return self.kernel.spectral_sample(n, d, rng)

    def integral(self, d: int) -> Any:
        return self.scale * self.kernel.integral(d)

    def variance(self, d: int) -> Array:
        return self.kernel.variance(d)

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        return self.scale**2 * self.kernel.smoothed(d, sd)

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        return self.scale * self.kernel.gaussian_embedding(X, mean, cov)


class Restricted(Kernel):
    """k(x, x') = k₁(x[columns], x'[columns])."""

    _parameters: ClassVar[tuple[str, ...]] = ("kernel",)
    _choices: ClassVar[tuple[str, ...]] = ("columns",)

    def __init__(self, kernel: Kernel, columns: Any) -> None:
        self.kernel = kernel
        single = isinstance(columns, str) or not np.iterable(columns)
        self.columns: tuple[Any, ...] = tuple(_column(c) for c in ([columns] if single else columns))
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns must name at least one column and none twice, got {columns!r}.")

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, (_Pair, Scaled)) else repr(self.kernel)
        return f"{inner}.on({list(self.columns)})"

    def resolve(self, X: Array, names: list[str] | None = None) -> Kernel:
        columns = tuple(self._index(c, X.shape[1], names) for c in self.columns)
        kernel = self.kernel.resolve(X[:, np.array(columns)], names and [names[c] for c in columns])
        same = columns == self.columns and kernel is self.kernel
        return self if same else Restricted(kernel, columns)

    def _index(self, column: Any, d: int, names: list[str] | None) -> int:
        if isinstance(column, str):
            if names is None or column not in names:
                have = f"the columns are {names}" if names else "the data has no column names"
                raise ValueError(f"columns names {column!r}, but {have}: use an index or pass a frame.")
            return names.index(column)
        if not -d <= column < d:
            raise ValueError(f"columns has index {column}, but the points have {d} columns.")
        return column % d

    def indices(self, d: int) -> list[int]:
        """The columns as indices from 0 to d − 1; names are not known here."""
        return [self._index(c, d, None) for c in self.columns]

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        c = np.array(self.columns)
        return self.kernel._plan(X[:, c], Y[:, c], xp)

    def _diag(self, X: Array, xp: Namespace) -> Array:
        return self.kernel._diag(X[:, np.array(self.columns)], xp)

    @property
    def amplitude(self) -> Any:
        return self.kernel.amplitude

    def spectral_sample(self, n: int, d: int, rng: np.random.Generator) -> Array:
        place = np.eye(d)[self.indices(d)]
        return self.kernel.spectral_sample(n, len(self.columns), rng) @ place

    def integral(self, d: int) -> Any:
        return self._everything(d, "its integral over space").integral(d)

    def variance(self, d: int) -> Array:
        inner = self._everything(d, "the variance of its density").variance(d)
        return inner[np.argsort(self.indices(d))]

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        return self._everything(d, "smoothing by itself").smoothed(d, sd).on(self.columns)

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        c = np.array(self.indices(X.shape[1]))
        xp = namespace(X, mean, cov)
        mean, cov = xp.asarray(mean), xp.asarray(cov)
        mean = mean[c] if mean.ndim else mean
        cov = cov[np.ix_(c, c)] if cov.ndim == 2 else cov[c] if cov.ndim else cov
        return self.kernel.gaussian_embedding(X[:, c], mean, cov)

    def _everything(self, d: int, fact: str) -> Kernel:
        if sorted(self.indices(d)) != list(range(d)):
            raise self._no(fact, "it does not depend on every column; multiply it by a kernel on the others")
        return self.kernel


def _gaussian_term(kernel: Kernel, d: int) -> tuple[Any, Array] | None:
    """``(a, ℓ)`` of a term ``a · Gaussian(ℓ)``, ℓ as a vector (d,); None for any other kernel."""
    from muhat.kernels.stationary import Gaussian

    if isinstance(kernel, Scaled):
        inner = _gaussian_term(kernel.kernel, d)
        return inner and (kernel.scale * inner[0], inner[1])
    return (1.0, kernel._lengthscales(d)) if isinstance(kernel, Gaussian) else None


def _cross(first: Any, second: Any, d: int) -> Kernel:
    """``∫ a k₁(x, u) b k₂(u, y) du`` of two Gaussian terms: a Gaussian whose squared ℓ add up."""
    from muhat.kernels.stationary import Gaussian

    (a, l1), (b, l2) = first, second
    xp = namespace(a, b, l1, l2)
    total = xp.sqrt(l1**2 + l2**2)
    return (a * b * (2 * pi) ** (d / 2) * (l1 * l2 / total).prod()) * Gaussian(total)


def used_columns(kernel: Any, d: int) -> list[int]:
    """Those of ``d`` columns that a resolved kernel looks at, as far as its form tells, in order."""
    if isinstance(kernel, Restricted):
        own = kernel.indices(d)
        return sorted(own[j] for j in used_columns(kernel.kernel, len(own)))
    values = [getattr(kernel, name, None) for name in (*kernel._parameters, "kernel")]
    inner = [v for v in values if isinstance(v, Kernel)]
    return sorted(set().union(*(used_columns(k, d) for k in inner))) if inner else list(range(d))


def _column(column: Any) -> Any:
    if isinstance(column, str):
        return column
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
        return int(column)
    raise TypeError(f'columns must be indices or names, got {column!r}: pass e.g. 0, [0, 2] or "age".')
