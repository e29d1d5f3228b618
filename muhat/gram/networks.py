"""Networks as feature maps: ready architectures, and any equinox module.

A network is kept as a *skeleton* (what it is: a description of ours, or a module without its arrays) and
its arrays, so that it compares, compiles once and, where the skeleton is ours, is saved.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from muhat._array import Array
from muhat._validation import check_count

# Rows of one evaluation: three shapes, so that little is compiled and little is filled up.
LARGE, SMALL = 256, 16


@dataclass(frozen=True)
class Perceptron:
    """Dense layers with ReLU between them.

    Args:
        widths: of the hidden layers.
    """

    widths: tuple[int, ...] = (128, 64)
    together = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", _counts(self.widths, "widths"))

    def build(self, d: int, p: int, key: Any) -> Any:
        """An equinox module from rows (d,) to features (p,)."""
        import equinox as eqx
        import jax

        sizes = (d, *self.widths, p)
        keys = jax.random.split(key, len(sizes) - 1)
        layers: list[Any] = []
        for (a, b), k in zip(pairwise(sizes), keys, strict=True):
            layers += [eqx.nn.Linear(a, b, key=k), eqx.nn.Lambda(jax.nn.relu)]
        return eqx.nn.Sequential(layers[:-1])


@dataclass(frozen=True)
class Convolutional:
    """Convolutions with stride 2 and ReLU, then one dense layer, for rows that are images.

    Args:
        shape: (height, width, colours) of the image that each row holds, in this order.
        channels: of the convolutions: 5 × 5 the first, 3 × 3 the others.
        pool: side of the squares of pixels whose mean the network sees; it divides height and width. None
            for 2 where the image has 32 rows and columns or more and 2 divides them, else 1.
    """

    shape: tuple[int, int, int]
    channels: tuple[int, ...] = (16, 32, 32)
    pool: int | None = None
    together = True  # one scale for all pixels: a shifted image must stay a shifted image

    def __post_init__(self) -> None:
        shape = _counts(self.shape, "shape")
        if len(shape) != 3:
            raise ValueError(f"shape must be (height, width, colours), got {self.shape!r}: e.g. (64, 64, 1).")
        pool = self.pool
        if pool is None:
            pool = 2 if min(shape[:2]) >= 32 and not any(side % 2 for side in shape[:2]) else 1
        if any(side % check_count(pool, "pool") for side in shape[:2]):
            raise ValueError(
                f"pool={pool} does not divide the image of {shape[0]} × {shape[1]}: pass pool=1."
            )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "channels", _counts(self.channels, "channels"))
        object.__setattr__(self, "pool", int(pool))

    def build(self, d: int, p: int, key: Any) -> Any:
        """An equinox module from rows (d,) to features (p,)."""
        import equinox as eqx
        import jax

        if d != np.prod(self.shape):
            raise ValueError(
                f"shape={self.shape} has {np.prod(self.shape)} numbers but the rows of X have {d}: pass the "
                "(height, width, colours) of the images, and X as images.reshape(n, -1)."
            )
        keys = jax.random.split(key, len(self.channels) + 1)
        inputs = (self.shape[2], *self.channels)
        height, width = (side // self.pool for side in self.shape[:2])  # type: ignore[operator]
        layers: list[Any] = [eqx.nn.Lambda(_as_image(self.shape, self.pool))]
        for i, ((a, b), k) in enumerate(zip(pairwise(inputs), keys, strict=False)):
            side = 5 if i == 0 else 3
            layers += [eqx.nn.Conv2d(a, b, side, 2, side // 2, key=k), eqx.nn.Lambda(jax.nn.relu)]
            height, width = -(-height // 2), -(-width // 2)
        flat = height * width * inputs[-1]
        return eqx.nn.Sequential([*layers, eqx.nn.Lambda(_flat), eqx.nn.Linear(flat, p, key=keys[-1])])


def _counts(values: Any, name: str) -> tuple[int, ...]:
    try:
        values = tuple(values)
    except TypeError:
        raise TypeError(f"{name} must be several whole numbers, got {values!r}: e.g. (128, 64).") from None
    return tuple(check_count(value, name) for value in values)


@lru_cache
def _as_image(shape: tuple[int, int, int], pool: int) -> Callable[[Array], Array]:
    """From a row to (colours, height, width); the same function for the same sizes: compiled once."""
    height, width, colours = shape

    def image(x: Array) -> Array:
        squares = x.reshape(height // pool, pool, width // pool, pool, colours)
        return pool * squares.mean(axis=(1, 3)).transpose(2, 0, 1)  # white noise keeps its variance

    return image


def _flat(x: Array) -> Array:
    return x.reshape(-1)


Ready = (Perceptron, Convolutional)


@dataclass(frozen=True)
class Skeleton:
    """A module of the user's without its arrays.

    Attributes:
        module: with None in their place.
        places: their positions among its leaves.
    """

    module: Any
    places: tuple[int, ...]


def split(module: Any) -> tuple[Skeleton, tuple[np.ndarray, ...]]:
    """The skeleton of an equinox module and its arrays, numbers in single precision."""
    import jax

    leaves, structure = jax.tree.flatten(module, is_leaf=_is_none)
    places = tuple(i for i, leaf in enumerate(leaves) if _is_array(leaf))
    rest = [None if _is_array(leaf) else leaf for leaf in leaves]
    return Skeleton(jax.tree.unflatten(structure, rest), places), tuple(_single(leaves[i]) for i in places)


def join(skeleton: Any, arrays: tuple[Array, ...], d: int, p: int) -> Any:
    """The module with these arrays, in the order of :func:`split`."""
    import equinox as eqx
    import jax

    if isinstance(skeleton, Ready):
        skeleton, _ = split(eqx.filter_eval_shape(skeleton.build, d, p, jax.random.key(0)))
    leaves, structure = jax.tree.flatten(skeleton.module, is_leaf=_is_none)
    for place, array in zip(skeleton.places, arrays, strict=True):
        leaves[place] = array
    return jax.tree.unflatten(structure, leaves)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _is_array(leaf: Any) -> bool:
    import jax

    return isinstance(leaf, (jax.Array, np.ndarray, jax.ShapeDtypeStruct))


def _single(array: Any) -> Any:
    import jax

    if isinstance(array, jax.ShapeDtypeStruct):
        return array
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def takes_key(module: Any) -> bool:
    """Whether a module is called with ``key=``, as those with dropout are."""
    try:
        return "key" in inspect.signature(module).parameters
    except (TypeError, ValueError):
        return False


def check_output(module: Any, d: int) -> int:
    """p, the number of features that a module gives of a row (d,)."""
    import jax

    row = jax.ShapeDtypeStruct((d,), np.float32)
    try:
        out = jax.eval_shape(
            lambda x: module(x, key=jax.random.key(0)) if takes_key(module) else module(x), row
        )
    except Exception as error:  # whatever the module stumbles over, what it was given is the news
        raise ValueError(
            f"module cannot take a row of X, an array of shape ({d},): {type(error).__name__}: {error}. It "
            "must be an equinox module from one row (d,) to its features (p,)."
        ) from error
    if getattr(out, "ndim", None) != 1 or np.dtype(out.dtype).kind != "f":
        seen = f"{out.dtype} {out.shape}" if hasattr(out, "shape") else type(out).__name__
        raise ValueError(
            f"module must give the features of one row as numbers of shape (p,), but for shape ({d},) it "
            f"gave {seen}: end it with a layer that flattens."
        )
    return int(out.shape[0])


@lru_cache
def forward() -> Callable[[Any, Array], Array]:
    """The compiled map from a module and rows (b, d) to features (b, p)."""
    import equinox as eqx
    import jax

    return eqx.filter_jit(lambda module, X: jax.vmap(module)(X))


def evaluate(module: Any, X: np.ndarray, p: int) -> np.ndarray:
    """The features of every row, float64 (n, p), in blocks."""
    out, compiled = np.empty((len(X), p)), forward()
    start = 0
    while start < len(X):
        left = len(X) - start
        size = LARGE if left > 4 * SMALL else SMALL if left > 1 else 1
        rows = X[start : start + size]
        if len(rows) < size:
            rows = np.concatenate([rows, np.repeat(rows[:1], size - len(rows), axis=0)])
        out[start : start + size] = np.asarray(compiled(module, rows))[:left]
        start += size
    return out


def check_finite_features(Phi: np.ndarray) -> None:
    """Raise unless all features (n, p) are numbers."""
    if np.isfinite(Phi).all():
        return
    row, column = np.argwhere(~np.isfinite(Phi))[0]
    raise ValueError(
        f"The network gives non-finite features (feature {column} of row {row} is {Phi[row, column]}). "
        "Check the module for logarithms, divisions and exponentials of large numbers, and the row for "
        "values far from those seen in training; in training, lower learning_rate."
    )
