"""One array namespace for NumPy and JAX.

Pure functions are written once against ``xp``, the namespace of their arguments: NumPy for NumPy
arrays (BLAS speed, no compilation), ``jax.numpy`` as soon as one argument is a JAX array or tracer
(gradients, ``jit``, accelerators). JAX is never imported here: if nobody has imported it, no
argument can be a JAX array.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

# NumPy and JAX arrays share no useful static type; shapes are in the docstrings.
Array = Any
Namespace = Any


def is_jax(a: Any) -> bool:
    """Whether ``a`` is a JAX array or tracer."""
    jax = sys.modules.get("jax")
    return jax is not None and hasattr(jax, "Array") and isinstance(a, jax.Array)


def is_traced(a: Any) -> bool:
    """Whether ``a`` is abstract, so that its values cannot be inspected."""
    jax = sys.modules.get("jax")
    return jax is not None and hasattr(jax, "core") and isinstance(a, jax.core.Tracer)


def namespace(*arrays: Any) -> Namespace:
    """``jax.numpy`` when any argument is a JAX array, else ``numpy``."""
    if any(is_jax(a) for a in arrays):
        import jax.numpy as jnp

        return jnp
    return np


def special(xp: Namespace) -> Any:
    """The special functions that belong to ``xp``."""
    if xp is np:
        import scipy.special

        return scipy.special
    import jax.scipy.special

    return jax.scipy.special


def floating(X: Any, xp: Namespace) -> Array:
    """``X`` as an array of floating-point numbers: whole numbers and booleans become such."""
    X = xp.asarray(X)
    return X.astype(float) if X.dtype.kind in "biu" else X


def column_sd(A: np.ndarray) -> np.ndarray:
    """Standard deviations of the columns of ``A`` (n, d), (d,).

    Exactly 0 for a constant column, where the rounding of the mean makes plain ``std`` positive.
    """
    return np.where((A[:1] == A).all(axis=0), 0.0, A.std(axis=0))


def root(s: Array, xp: Namespace) -> Array:
    """√s for s ≥ 0, with derivative 0 (not infinity) at s = 0 under JAX."""
    if xp is np:
        return np.sqrt(s)
    positive = s > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, s, 1.0)), 0.0)
