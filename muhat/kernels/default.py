"""The kernel for a table when the user names none."""

from __future__ import annotations

from math import exp

import numpy as np

from muhat._array import Array, is_traced
from muhat._tables import Encoder
from muhat.kernels.base import Kernel
from muhat.kernels.delta import Delta
from muhat.kernels.stationary import Gaussian


def default_kernel(X: Array, encoder: Encoder | None = None) -> Kernel:
    """A Gaussian on the numbers times a Delta on each category, scaled from ``X`` (n, d).

    Numbers are brought to unit variance column by column, with the median distance as lengthscale.
    A category that differs costs the same factor, e^{-1/2}, as numbers one median apart.
    """
    categorical = sorted(encoder.categories) if encoder else []
    numeric = [j for j in range(X.shape[1]) if j not in categorical]
    if categorical and not is_traced(X):  # numbers that never differ have no scale
        A = np.asarray(X)
        numeric = [j for j in numeric if (A[:, j] != A[0, j]).any()]
    parts: list[Kernel] = [Delta(exp(-0.5)).on(j) for j in categorical]
    if numeric:
        gaussian = Gaussian("scaled")
        parts.insert(0, gaussian.on(numeric) if categorical else gaussian)
    out = parts[0]
    for part in parts[1:]:
        out = out * part
    return out.resolve(X)


def resolve_kernel(kernel: Kernel | None, X: Array, encoder: Encoder | None, name: str) -> Kernel:
    """``kernel``, or the default for ``X``, with nothing left open."""
    if kernel is None:
        return default_kernel(X, encoder)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"{name} must be a kernel or None, got {kernel!r}: pass e.g. mh.Gaussian(1.0).")
    kernel = kernel.resolve(X, encoder.names if encoder else None)
    kernel(X[:1])  # what does not fit the points is refused before any work
    return kernel


__all__ = ["default_kernel", "resolve_kernel"]
