"""Representations: how a Gram is held, passed to estimators as ``representation=``.

A representation turns a kernel and the data into the kernel it works with (``fit``: the kernel
itself, or one with finitely many features) and that into a Gram (``gram``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muhat._array import Array
from muhat._validation import (
    as_generator,
    as_rows,
    check_choice,
    check_count,
    check_positive,
    check_same_columns,
)
from muhat.gram.base import Gram
from muhat.gram.blocked import BLOCK_ELEMENTS, BlockedGram
from muhat.gram.dense import DenseGram
from muhat.gram.features import FeatureKernel, MapKernel
from muhat.gram.fourier import fourier_kernel
from muhat.gram.landmarks import kmeanspp_landmarks, leverage_landmarks, uniform_landmarks
from muhat.gram.lowrank import LowRankGram
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel


class Representation:
    """How a Gram is held. A subclass writes ``fit``."""

    def fit(self, kernel: Kernel, X: Array, random_state: Any = None) -> Kernel:
        """The kernel this representation works with, made for the points ``X`` (n, d)."""
        raise TypeError("write fit")

    def gram(self, kernel: Kernel, X: Array, random_state: Any = None) -> Gram:
        """The Gram of ``X`` (n, d) in this representation."""
        return self.gram_of(self.fit(kernel, X, random_state), X)

    def gram_of(self, kernel: Kernel, X: Array) -> Gram:
        """The Gram of ``X`` for a kernel that ``fit`` made."""
        if isinstance(kernel, FeatureKernel):
            return LowRankGram(kernel.features(X), kernel, X)
        return DenseGram(None, kernel, X)


@dataclass(frozen=True)
class Exact(Representation):
    """The kernel itself: dense while the n×n matrix fits ``memory``, in blocks beyond.

    Args:
        memory: bytes that one Gram matrix may take before it is made in blocks and solved by
            preconditioned conjugate gradients. 4 GB by default: n of about 22 000.
        block: entries of one block.
        rank: of the Nyström preconditioner in blocks.
        tolerance: relative residual of the iterative solve.
        max_iterations: where it gives up, with a warning.
    """

    memory: float = 4e9
    block: int = BLOCK_ELEMENTS
    rank: int = 500
    tolerance: float = 1e-8
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        check_count(self.block, "block")
        check_count(self.rank, "rank")
        check_count(self.max_iterations, "max_iterations")
        check_positive(self.tolerance, "tolerance", "give a relative residual, e.g. 1e-8")
        if not self.memory >= 0:
            raise ValueError(f"memory must be a number of bytes, got {self.memory!r}; 0 means blocks.")

    def fit(self, kernel: Kernel, X: Array, random_state: Any = None) -> Kernel:
        return kernel.resolve(X)

    def gram_of(self, kernel: Kernel, X: Array) -> Gram:
        if X.dtype.itemsize * X.shape[0] ** 2 <= self.memory:
            return super().gram_of(kernel, X)
        return BlockedGram(kernel, X, self.block, self.rank, self.tolerance, self.max_iterations)


@dataclass(frozen=True)
class Nystrom(Representation):
    """p landmarks among the data; takes every kernel [WS01].

    Args:
        p: number of landmarks (all points if there are fewer).
        landmarks: how they are chosen: ``"kmeans++"``, ``"uniform"`` or ``"leverage"`` (ridge
            leverage scores); or the landmarks themselves, (p, d).
    """

    p: int = 500
    landmarks: Any = "kmeans++"

    def __post_init__(self) -> None:
        check_count(self.p, "p")
        if isinstance(self.landmarks, str):
            check_choice(self.landmarks, "landmarks", ("kmeans++", "uniform", "leverage"))

    def fit(self, kernel: Kernel, X: Array, random_state: Any = None) -> Kernel:
        kernel, rng = kernel.resolve(X), as_generator(random_state)
        p = min(self.p, X.shape[0])
        if not isinstance(self.landmarks, str):
            Z = as_rows(self.landmarks, "landmarks")
            check_same_columns(Z, X.shape[1], "landmarks", "X")
        elif p == X.shape[0]:
            Z = X
        elif self.landmarks == "uniform":
            Z = uniform_landmarks(X, p, rng)
        elif self.landmarks == "kmeans++":
            Z = kmeanspp_landmarks(X, p, rng, kernel)
        else:
            Z = leverage_landmarks(X, p, rng, kernel)
        return NystromKernel.fit(kernel, Z)


@dataclass(frozen=True)
class Fourier(Representation):
    """p random Fourier features; for stationary kernels on numbers [RR07].

    Args:
        p: number of features (two for every frequency).
        orthogonal: whether frequencies are drawn orthogonal where the kernel allows it [YU16].
    """

    p: int = 500
    orthogonal: bool = True

    def __post_init__(self) -> None:
        check_count(self.p, "p", 2)

    def fit(self, kernel: Kernel, X: Array, random_state: Any = None) -> Kernel:
        rng = as_generator(random_state)
        return fourier_kernel(kernel.resolve(X), self.p, X.shape[1], rng, self.orthogonal)


@dataclass(frozen=True)
class Features(Representation):
    """Any feature map φ: rows (n, d) to features (n, p). The kernel is then φ(x)ᵀφ(x')."""

    function: Callable[[Array], Array]

    def fit(self, kernel: Kernel, X: Array, random_state: Any = None) -> Kernel:
        return MapKernel(self.function, MapKernel(self.function, 0).features(X[:1]).shape[1])


# Distinct inputs up to which a default fit is exact: a few seconds on two cores, and 128 MB a Gram.
EXACT_INPUTS = 4000
# Landmarks beyond, and the features of all rows together, which bound them for many rows (.4 GB).
LANDMARKS = 2000
FEATURES = 5e7


def default_representation(n: int) -> Representation:
    """Of ``n`` distinct inputs where none is asked for: exact while that takes seconds, landmarks beyond."""
    if n <= EXACT_INPUTS:
        return Exact()
    return Nystrom(max(200, int(min(LANDMARKS, FEATURES / n))), "uniform")


def as_representation(value: Any, name: str = "representation") -> Representation:
    """``value``, or :class:`Exact` for None."""
    if value is None:
        return Exact()
    if not isinstance(value, Representation):
        raise TypeError(f"{name} must be a representation or None, got {value!r}: pass e.g. mh.Nystrom(500).")
    return value


def streamed_representation(representation: Any, name: str = "representation") -> Representation:
    """The representation for rows that are read in blocks: Nyström's unless another is given."""
    if representation is None:
        return Nystrom()
    if isinstance(as_representation(representation, name), Exact):
        raise ValueError(
            f"{name} is exact, which needs all rows in memory: use mh.Nystrom(500) or mh.Fourier(500) for "
            "rows that are read in blocks."
        )
    return representation
