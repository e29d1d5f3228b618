"""All messages that come into a factor, as one distribution of its variables side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat._bags import Bags, GaussianBags
from muhat._validation import check_same_columns
from muhat.messages.families import Message

Incoming = Message | Bags | GaussianBags


class Tuples:
    """n tuples of messages, one batch for every variable that sends; they can stand in for bags.

    Args:
        messages: a batch, or a tuple of batches of the same length: :class:`Message`, ``mh.GaussianBags``,
            ``mh.Bags`` or a list of samples.
    """

    def __init__(self, messages: Any) -> None:
        if isinstance(messages, Tuples):
            messages = messages.parts
        parts = messages if isinstance(messages, tuple) else (messages,)
        if not parts:
            raise ValueError("messages is empty: pass one batch of messages for every variable that sends.")
        self.parts: tuple[Incoming, ...] = tuple(_as_message(part, i) for i, part in enumerate(parts))
        sizes = [len(part) for part in self.parts]
        if len(set(sizes)) > 1:
            raise ValueError(f"messages has batches of {sizes} messages: pass as many from every variable.")
        if not sizes[0]:
            raise ValueError("messages is empty: pass at least one message from every variable.")

    def __len__(self) -> int:
        return len(self.parts[0])

    @property
    def dimension(self) -> int:
        """Of all variables together."""
        return sum(part.dimension for part in self.parts)

    @property
    def kinds(self) -> list[str]:
        """What each variable sends, for messages."""
        return [f"{type(part).__name__}[{part.dimension}]" for part in self.parts]

    def check_same(self, kinds: list[str]) -> None:
        """Raise unless the variables send what they sent before."""
        if self.kinds != kinds:
            raise ValueError(
                f"messages are of {', '.join(self.kinds)}, but those learned from are of {', '.join(kinds)}: "
                "pass the same kinds in the same order."
            )

    def select(self, index: Any) -> Tuples:
        """Some of the tuples."""
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype == bool else index
        return Tuples(tuple(part.select(index) for part in self.parts))

    def joined(self, other: Tuples) -> Tuples:
        """These tuples and then the others."""
        pairs = zip(self.parts, other.parts, strict=True)
        return Tuples(tuple(a.joined(b) for a, b in pairs))  # type: ignore[arg-type]

    def pool(self, most: int = 2000) -> np.ndarray:
        """Draws from all tuples together, with a fixed seed, (m, d): data that have their spread."""
        rng, n = np.random.default_rng(0), len(self)
        share = max(2, most // n)
        X = np.hstack([_draw(part, share, rng) for part in self.parts])
        return X if len(X) <= most else X[np.sort(rng.choice(len(X), most, replace=False))]

    def mean_features(self, first: Any) -> np.ndarray:
        """``E φ(t)`` with t of all variables side by side and φ Fourier features, (n, d) [JIT15, Alg. 1].

        The messages of a tuple are independent: its characteristic function is the product of theirs.
        """
        omega = np.asarray(first.frequencies)
        check_same_columns(omega, self.dimension, "The features", "the messages")
        out: Any = np.ones((len(self), len(omega)), dtype=complex)
        start = 0
        for part in self.parts:
            columns = omega[:, start : start + part.dimension]
            out *= _characteristic(part, columns)
            start += part.dimension
        return np.hstack([out.real, out.imag]) * float(first.scale)


def _as_message(value: Any, i: int) -> Incoming:
    if isinstance(value, (Message, Bags, GaussianBags)):
        return value
    if isinstance(value, list):
        return Bags(value)
    raise TypeError(
        f"messages[{i}] must be messages, got {type(value).__name__}: pass muhat.messages.Normal(mean, var), "
        "Beta(a, b) or Gamma(shape, rate), mh.GaussianBags, or a list of samples; of several variables, a "
        "tuple of them."
    )


def _characteristic(part: Incoming, omega: np.ndarray) -> np.ndarray:
    """``E exp(iωᵀt)`` for ``omega`` (q, d), (n, q); of samples, their mean."""
    if isinstance(part, Message):
        return part.characteristic(omega[:, 0])
    if isinstance(part, GaussianBags):
        spread = np.einsum("qd,nde,qe->nq", omega, part.covs, omega)
        return np.exp(1j * part.means @ omega.T - 0.5 * spread)
    return np.stack([part.weights(i) @ np.exp(1j * x @ omega.T) for i, x in enumerate(part.parts)])


def _draw(part: Incoming, share: int, rng: np.random.Generator) -> np.ndarray:
    """``share`` draws of every message, one below the other."""
    if isinstance(part, Message):
        return part.draw(share, rng).reshape(-1, 1)
    if isinstance(part, GaussianBags):
        draws = rng.standard_normal((len(part), share, part.dimension))
        factors = np.swapaxes(np.linalg.cholesky(part.covs), 1, 2)
        return (part.means[:, None] + draws @ factors).reshape(-1, part.dimension)
    rows = [x[rng.choice(len(x), share, p=part.weights(i))] for i, x in enumerate(part.parts)]
    return np.concatenate(rows)


__all__ = ["Incoming", "Tuples"]
