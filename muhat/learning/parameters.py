"""The free parameters of a kernel as one vector of logarithms, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from muhat._array import Array, namespace
from muhat.kernels.algebra import Restricted, Scaled, _Pair
from muhat.kernels.base import Kernel
from muhat.kernels.delta import Delta
from muhat.kernels.median import median_distance, scaled_distances
from muhat.kernels.stationary import Stationary


@dataclass(frozen=True)
class Parameters:
    """Which numbers of ``kernel`` are free, all of them positive.

    Attributes:
        kernel: the kernel they belong to, with nothing left to the data.
        names: of the parameters, e.g. ``"lengthscale"``; ``"k2.lengthscale"`` in the second kernel of a
            sum or product.
        shapes: () or (d,) for each.
    """

    kernel: Kernel
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, kernel: Kernel) -> Parameters:
        """All parameters of ``kernel`` but the ``rest`` of a Delta, which is no scale."""
        found = list(_free(kernel))
        if not found:
            raise ValueError(
                f"kernel has no parameters to learn, got {kernel!r}: pass one with a lengthscale, e.g. "
                "mh.Gaussian()."
            )
        return cls(kernel, tuple(name for name, _ in found), tuple(np.shape(value) for _, value in found))

    @property
    def sizes(self) -> list[int]:
        """How many numbers each parameter is."""
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def labels(self) -> list[str]:
        """One name a number: ``"lengthscale"``, or ``"lengthscale[0]"`` and so on."""
        out = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            out.extend([f"{name}[{i}]" for i in range(shape[0])] if shape else [name])
        return out

    def is_lengthscale(self) -> np.ndarray:
        """For each number, whether it is a lengthscale, (p,)."""
        flags = [name.endswith("lengthscale") for name in self.names]
        return np.repeat(flags, self.sizes)

    def vector(self, kernel: Kernel | None = None) -> np.ndarray:
        """The logarithms of the parameters of ``kernel`` (the own one by default), (p,)."""
        values = [np.ravel(np.asarray(v, dtype=float)) for _, v in _free(kernel or self.kernel)]
        return np.log(np.concatenate(values))

    def split(self, values: Array) -> list[Array]:
        """The parameters in their shapes from a vector ``values`` (..., p)."""
        cuts = np.cumsum([0, *self.sizes])
        parts = [values[..., a:b] for a, b in pairwise(cuts)]
        return [part if shape else part[..., 0] for part, shape in zip(parts, self.shapes, strict=True)]

    def at(self, log_values: Array) -> Kernel:
        """The kernel whose parameters are ``exp(log_values)`` (p,), in that namespace."""
        xp = namespace(log_values)
        parts = iter(self.split(xp.exp(log_values)))
        return _map(self.kernel, lambda _: next(parts))


def _free(kernel: Kernel, prefix: str = "") -> list[tuple[str, Any]]:
    """Names and values of the free parameters, in the order of :func:`_map`."""
    if isinstance(kernel, Delta):
        return []
    if isinstance(kernel, _Pair):
        # A chain a + b + c nests to the left, yet its parts are in order.
        parts = enumerate(kernel.parts, 1)
        return [found for i, part in parts for found in _free(part, f"{prefix}k{i}.")]
    out: list[tuple[str, Any]] = []
    for name in kernel._parameters:
        value = getattr(kernel, name)
        out.extend(_free(value, prefix) if isinstance(value, Kernel) else [(prefix + name, value)])
    return [(name, value) for name, value in out if not isinstance(value, str) and np.all(value)]


def _map(kernel: Kernel, function: Callable[[Any], Any]) -> Kernel:
    """``kernel`` with ``function`` applied to each free parameter, in order."""
    if isinstance(kernel, Delta):
        return kernel
    changes = {}
    for name in kernel._parameters:
        value = getattr(kernel, name)
        if isinstance(value, Kernel):
            changes[name] = _map(value, function)
        elif not isinstance(value, str) and np.all(value):
            changes[name] = function(value)
    return kernel.replace(**changes) if changes else kernel


def reset_lengthscales(kernel: Kernel, X: np.ndarray, names: list[str] | None = None) -> Kernel:
    """``kernel`` with every lengthscale set from ``X``: the median distance, or one a column for ARD."""
    if isinstance(kernel, Stationary):
        vector = np.ndim(kernel.lengthscale) == 1 or kernel.lengthscale == "scaled"
        find = scaled_distances if vector else median_distance
        return kernel.replace(lengthscale=kernel._median_factor() * find(X, kernel._metric))
    if isinstance(kernel, Restricted):
        columns = list(kernel.resolve(X, names).columns)  # type: ignore[attr-defined]
        inner = names and [names[c] for c in columns]
        return Restricted(reset_lengthscales(kernel.kernel, X[:, columns], inner), columns)
    if isinstance(kernel, (_Pair, Scaled)):
        inside = [n for n in kernel._parameters if isinstance(getattr(kernel, n), Kernel)]
        return kernel.replace(**{n: reset_lengthscales(getattr(kernel, n), X, names) for n in inside})
    return kernel.resolve(X, names)


__all__ = ["Parameters", "reset_lengthscales"]
