"""The kernel: what every k(x, x') can do, and how kernels combine.

A kernel is written as its formula; this base class pairs, batches, checks ranks and composes. It
also names the *facts* a kernel may know about itself in closed form. A kernel that does not know
one raises :class:`NoClosedForm`, which says so and what to use instead.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Self

import numpy as np

from muhat import _threads
from muhat._array import Array, Namespace, floating, is_jax, is_traced, namespace
from muhat._tables import encode
from muhat._validation import as_rows, check_count, check_same_columns
from muhat.kernels.distance import DIRECT_COLUMNS, Plan


class NoClosedForm(ValueError):
    """A kernel was asked for a fact that it does not have in closed form."""


class Kernel:
    """A positive semi-definite function k(x, x') of two points (rows).

    ``kernel(X, Y)`` is the matrix ``k(xᵢ, yⱼ)``, of shape (n, m), in the namespace of its arguments
    (NumPy or JAX); ``kernel.gram(X, Y)`` also checks its input, takes data frames and always gives a
    NumPy array. ``k1 + k2``, ``k1 * k2``, ``2.0 * k`` and ``k.on(columns)`` are kernels again.

    A subclass lists the names of its differentiable parameters (numbers or kernels) in
    ``_parameters`` and of its fixed choices in ``_choices``, and writes ``_plan``.
    """

    _parameters: ClassVar[tuple[str, ...]] = ()
    _choices: ClassVar[tuple[str, ...]] = ()
    _classes: ClassVar[list[type[Kernel]]] = []
    _pytrees: ClassVar[set[type[Kernel]]] = set()

    def __init_subclass__(cls) -> None:
        Kernel._classes.append(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if "jax" in sys.modules:
            _register_pytrees()
        return super().__new__(cls)

    # -- the formula ---------------------------------------------------------------------------

    def _plan(self, X: Array, Y: Array, xp: Namespace) -> Plan:
        """A function from a slice of rows of ``X`` to that block of ``k(X, Y)``."""
        raise TypeError(f"{type(self).__name__} does not define its formula: write _plan.")

    def _diag(self, X: Array, xp: Namespace) -> Array:
        """``k(xᵢ, xᵢ)``, shape (n,)."""
        raise TypeError(f"{type(self).__name__} does not define its diagonal: write _diag.")

    # -- use -----------------------------------------------------------------------------------

    def __call__(self, X: Array, Y: Array = None) -> Array:
        """The matrix ``k(xᵢ, yⱼ)``, shape (n, m); ``Y`` defaults to ``X``."""
        xp = namespace(X, Y, *self.leaves())
        X = floating(X, xp)
        Y = X if Y is None else floating(Y, xp)
        if X.ndim != 2 or Y.ndim != 2:
            raise ValueError(
                f"A kernel takes two arrays of rows, (n, d) and (m, d); got shapes {X.shape} and "
                f"{Y.shape}. Reshape a single point with x.reshape(1, -1)."
            )
        check_same_columns(Y, X.shape[1], "Y", "X")
        kernel = self.resolve(X)
        plan = kernel._plan(X, Y, xp)
        if xp is not np:
            return plan(slice(None))
        out = np.empty((X.shape[0], Y.shape[0]), np.result_type(X, Y, np.float32))
        elements = _threads.BLOCK_ELEMENTS * (1 if X.shape[1] <= DIRECT_COLUMNS else 8)

        def work(rows: slice) -> None:
            out[rows] = plan(rows)

        _threads.run_blocks(work, _threads.row_blocks(len(X), len(Y), elements))
        return out

    def diag(self, X: Array) -> Array:
        """``k(xᵢ, xᵢ)``, shape (n,), in the namespace of the arguments."""
        xp = namespace(X, *self.leaves())
        X = floating(X, xp)
        return self.resolve(X)._diag(X, xp)

    def gram(self, X: Any, Y: Any = None) -> np.ndarray:
        """The Gram matrix ``k(xᵢ, yⱼ)`` as a NumPy array, of checked input.

        Args:
            X: points, (n, d): an array or a data frame. In a frame, text columns are categories.
            Y: other points, (m, d); ``X`` itself when not given.
        """
        encoder, A = encode(X, "X")
        B = A if Y is None else encoder.transform(Y, "Y")
        check_same_columns(B, A.shape[1], "Y", "X")
        A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
        return np.asarray(self.resolve(A, encoder.names)(A, B))

    # -- composition ---------------------------------------------------------------------------

    def __add__(self, other: Any) -> Kernel:
        from muhat.kernels.algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        from muhat.kernels.algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        if np.ndim(other) == 0 and not isinstance(other, str):
            return Scaled(self, other)
        return NotImplemented

    __rmul__ = __mul__

    def on(self, columns: Any) -> Kernel:
        """This kernel on some columns alone: an index, a name (of a data frame), or a list."""
        from muhat.kernels.algebra import Restricted

        return Restricted(self, columns)

    # -- parameters ----------------------------------------------------------------------------

    def leaves(self) -> list[Any]:
        """The parameters of this kernel and of the kernels in it, in order."""
        out: list[Any] = []
        for name in self._parameters:
            value = getattr(self, name)
            out.extend(value.leaves() if isinstance(value, Kernel) else [value])
        return out

    def replace(self, **changes: Any) -> Kernel:
        """A copy with some parameters or choices changed."""
        fields = {name: getattr(self, name) for name in self._parameters + self._choices}
        unknown = set(changes) - set(fields)
        if unknown:
            raise ValueError(f"{type(self).__name__} has no {sorted(unknown)}; it has {sorted(fields)}.")
        return type(self)(**{**fields, **changes})

    def resolve(self, X: Array, names: list[str] | None = None) -> Kernel:
        """This kernel with everything that was left to the data set from ``X`` (n, d).

        ``"median"`` lengthscales become numbers and column names become indices.
        """
        changes = {}
        for name in self._parameters:
            value = getattr(self, name)
            if isinstance(value, Kernel):
                resolved = value.resolve(X, names)
                if resolved is not value:
                    changes[name] = resolved
        return self.replace(**changes) if changes else self

    def __eq__(self, other: Any) -> bool:
        if type(self) is not type(other):
            return False
        mine = [getattr(self, name) for name in self._parameters + self._choices]
        theirs = [getattr(other, name) for name in self._parameters + self._choices]
        return all(a is b or _same(a, b) for a, b in zip(mine, theirs, strict=True))

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_show(getattr(self, name))}" for name in self._parameters + self._choices)
        return f"{type(self).__name__}({shown})"

    # -- facts ---------------------------------------------------------------------------------

    def _no(self, fact: str, instead: str) -> NoClosedForm:
        return NoClosedForm(f"{self!r} has no closed form for {fact}: {instead}.")

    @property
    def amplitude(self) -> Any:
        """``k(x, x)`` where it is the same for every x."""
        raise self._no("its amplitude", "k(x, x) varies with x; use kernel.diag(X)")

    def spectral_sample(self, n: int, d: int, rng: np.random.Generator) -> Array:
        """``n`` frequencies ω from the spectral measure of the kernel on ℝᵈ, shape (n, d).

        ``k(x, x') = amplitude · E cos(ωᵀ(x − x'))`` (Bochner), the ground of random Fourier features
        [RR07].
        """
        raise self._no("spectral samples", "use mh.Nystrom(p), which takes every kernel")

    #: Whether the spectral measure is rotation invariant after scaling columns by the lengthscale.
    isotropic: bool = False

    def integral(self, d: int) -> Any:
        """``∫ k(x, u) du`` over ℝᵈ."""
        raise self._no("its integral over space", "use a kernel that is a density, e.g. mh.Gaussian")

    def variance(self, d: int) -> Array:
        """Variance of each coordinate of the density ``k(x, ·) / ∫k``, shape (d,)."""
        raise self._no("the variance of its density", "use a kernel that is a density, e.g. mh.Gaussian")

    def is_density(self, d: int) -> bool:
        """Whether ``k(x, ·) / ∫k`` is a probability density on ℝᵈ whose integral is known."""
        try:
            self.integral(check_count(d, "d"))
        except NoClosedForm:
            return False
        return True

    def smoothed(self, d: int, sd: float | None = None) -> Kernel:
        """The kernel smoothed by itself, ``r(x, y) = ∫ k(x, u) k(u, y) ν(du)`` on ℝᵈ [F16, A.3].

        Args:
            d: dimension of the space.
            sd: None for Lebesgue measure ν; else ν(du) = exp(−‖u‖²/(2 sd²)) du.
        """
        raise self._no("smoothing by itself", "use mh.Gaussian, or sum over samples of ν")

    def gaussian_embedding(self, X: Array, mean: Array, cov: Array) -> Array:
        """Mean embedding of a Gaussian, ``E k(xᵢ, Z)`` for ``Z ~ N(mean, cov)``, shape (n,)."""
        raise self._no("the mean embedding of a Gaussian", "embed a large sample of it instead")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Kernel) or isinstance(b, Kernel):
        return a == b
    if is_traced(a) or is_traced(b):
        return False
    try:
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    except ValueError:
        return False


def _show(value: Any) -> str:
    if is_traced(value):
        return str(value)
    if is_jax(value) or isinstance(value, (np.ndarray, np.generic)):
        return np.array2string(np.asarray(value), precision=4, separator=", ", threshold=6)
    if isinstance(value, float):
        return f"{value:.4g}"
    return repr(value)


def _register_pytrees() -> None:
    """Make kernels JAX pytrees, so that they pass through ``jit`` and ``grad``."""
    new = [cls for cls in Kernel._classes if cls not in Kernel._pytrees]
    if not new:
        return
    import jax

    for cls in new:
        Kernel._pytrees.add(cls)

        def flatten(kernel: Kernel, cls: type[Kernel] = cls) -> tuple[list[Any], Any]:
            children, fixed = [], []
            for name in cls._parameters:
                value = getattr(kernel, name)
                if isinstance(value, (str, type(None))):  # "median": not a number yet
                    fixed.append((name, value))
                    children.append(None)
                else:
                    children.append(value)
            choices = tuple((name, getattr(kernel, name)) for name in cls._choices)
            return children, (tuple(fixed), choices)

        def unflatten(aux: Any, children: Any, cls: type[Kernel] = cls) -> Kernel:
            kernel = object.__new__(cls)  # no checks: JAX also unflattens placeholders
            for name, value in zip(cls._parameters, children, strict=True):
                object.__setattr__(kernel, name, value)
            for part in aux:
                for name, value in part:
                    object.__setattr__(kernel, name, value)
            return kernel

        jax.tree_util.register_pytree_node(cls, flatten, unflatten)


def check_points(X: Array, name: str = "X") -> Array:
    """Rows for a fact: arrays in either namespace, checked."""
    return as_rows(X, name)
