"""Messages: distributions of one family, many at a time, and what an operator needs of them.

A message is embedded where it has no bounds: a Gaussian as it is, a Beta by its log odds, a Gamma by its
logarithm. There all three have characteristic functions in closed form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, loggamma, polygamma

Own = TypeVar("Own", bound="Message")


class Message(ABC):
    """n distributions of a family on the line with two parameters each, (n,)."""

    names: ClassVar[tuple[str, str]]
    # Which of the parameters must be above 0.
    positive: ClassVar[tuple[bool, bool]] = (True, True)

    def __init__(self, first: Any, second: Any) -> None:
        values = [np.asarray(v, dtype=np.float64) for v in (first, second)]
        try:
            values = np.broadcast_arrays(*(np.atleast_1d(v) for v in values))
        except ValueError:
            shapes = " and ".join(str(np.shape(v)) for v in values)
            raise ValueError(
                f"{self.names[0]} and {self.names[1]} have shapes {shapes}: pass one number a message each."
            ) from None
        for name, value, positive in zip(self.names, values, self.positive, strict=True):
            self._check(name, value, positive)
        self.first, self.second = (np.array(v) for v in values)

    def _check(self, name: str, value: np.ndarray, positive: bool) -> None:
        if value.ndim != 1:
            raise ValueError(f"{name} has shape {value.shape}: pass one number a message, (n,).")
        wrong = ~np.isfinite(value) | ((value <= 0) if positive else False)
        if wrong.any():
            i = int(np.argmax(wrong))
            need = "finite and above 0" if positive else "finite"
            raise ValueError(
                f"{name} of message {i} is {value[i]:g}, but must be {need}: an improper message has no "
                "embedding. Leave it out, or damp the updates that led to it."
            )

    @classmethod
    def _of(cls: type[Own], first: np.ndarray, second: np.ndarray) -> Own:
        return cls(first, second)

    def __len__(self) -> int:
        return len(self.first)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.names[0]}, {self.names[1]}) × {len(self)}"

    dimension: ClassVar[int] = 1

    def select(self: Own, index: Any) -> Own:
        """Some of the messages."""
        return self._of(self.first[index], self.second[index])

    def joined(self: Own, other: Own) -> Own:
        """These messages and then the others."""
        return self._of(np.append(self.first, other.first), np.append(self.second, other.second))

    @abstractmethod
    def characteristic(self, omega: np.ndarray) -> np.ndarray:
        """``E exp(iωt)`` with t where the family has no bounds, for ``omega`` (q,): (n, q), complex."""

    @abstractmethod
    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """``size`` draws of each, (n, size), where the family has no bounds."""

    @abstractmethod
    def kl(self, other: Any) -> np.ndarray:
        """``KL(self ‖ other)`` of each pair, (n,)."""

    @abstractmethod
    def relative_to(self, base: Any) -> np.ndarray:
        """Two free numbers that say how these differ from ``base``, (n, 2); 0 where they are the same.

        They are of the scale of ``base``: a small error ε in the first costs ε²/2 nats where these are as
        wide as ``base``, whatever that is, and up to c times as much where their variance is c times smaller;
        in the second between ε²/4 and ε²/2.
        """

    @classmethod
    @abstractmethod
    def moved(cls, base: Any, steps: np.ndarray) -> Any:
        """The inverse of ``relative_to``: always proper."""


class Normal(Message):
    """N(mean, var).

    Args:
        first: the means, (n,).
        second: the variances, (n,), above 0.
    """

    names = ("mean", "var")
    positive = (False, True)

    @property
    def mean(self) -> np.ndarray:
        """(n,)."""
        return self.first

    @property
    def var(self) -> np.ndarray:
        """(n,)."""
        return self.second

    def characteristic(self, omega: np.ndarray) -> np.ndarray:
        return np.exp(1j * np.outer(self.mean, omega) - 0.5 * np.outer(self.var, omega**2))

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.mean[:, None] + np.sqrt(self.var)[:, None] * rng.standard_normal((len(self), size))

    def kl(self, other: Any) -> np.ndarray:
        ratio = self.var / other.var
        return 0.5 * (ratio - 1 - np.log(ratio) + (self.mean - other.mean) ** 2 / other.var)

    def relative_to(self, base: Any) -> np.ndarray:
        return np.stack(
            [(self.mean - base.mean) / np.sqrt(base.var), np.log(self.var) - np.log(base.var)], axis=1
        )

    @classmethod
    def moved(cls, base: Any, steps: np.ndarray) -> Any:
        return cls(base.mean + np.sqrt(base.var) * steps[:, 0], base.var * _factor(steps[:, 1]))


class Beta(Message):
    """Beta(a, b), embedded by its log odds.

    Args:
        first: a, (n,), above 0.
        second: b, (n,), above 0.
    """

    names = ("a", "b")

    @property
    def a(self) -> np.ndarray:
        """(n,)."""
        return self.first

    @property
    def b(self) -> np.ndarray:
        """(n,)."""
        return self.second

    def characteristic(self, omega: np.ndarray) -> np.ndarray:
        # E (p/(1−p))^{iω} = B(a + iω, b − iω)/B(a, b)
        up = loggamma(self.a[:, None] + 1j * omega) + loggamma(self.b[:, None] - 1j * omega)
        return np.exp(up - (gammaln(self.a) + gammaln(self.b))[:, None])

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        # As a ratio of Gammas, in logarithms: a small parameter draws a p that rounds to 0 or 1.
        return _log_gamma(self.a, size, rng) - _log_gamma(self.b, size, rng)

    def kl(self, other: Any) -> np.ndarray:
        both, others = self.a + self.b, other.a + other.b
        return (
            betaln(other.a, other.b)
            - betaln(self.a, self.b)
            + (self.a - other.a) * digamma(self.a)
            + (self.b - other.b) * digamma(self.b)
            + (others - both) * digamma(both)
        )

    def relative_to(self, base: Any) -> np.ndarray:
        odds = np.log(self.a / self.b) - np.log(base.a / base.b)
        sizes = np.log(self.a + self.b) - np.log(base.a + base.b)
        return np.stack([base._steepness() * odds, sizes], axis=1)

    @classmethod
    def moved(cls, base: Any, steps: np.ndarray) -> Any:
        mean = expit(np.clip(np.log(base.a / base.b) + steps[:, 0] / base._steepness(), -30, 30))
        size = (base.a + base.b) * _factor(steps[:, 1])
        return cls(size * mean, size * (1 - mean))

    def _steepness(self) -> np.ndarray:
        """Root of the Fisher information on the log odds of the mean a/(a + b), with a + b fixed."""
        return self.a * self.b / (self.a + self.b) * np.sqrt(polygamma(1, self.a) + polygamma(1, self.b))


class Gamma(Message):
    """Gamma(shape, rate), embedded by its logarithm.

    Args:
        first: the shapes, (n,), above 0.
        second: the rates, (n,), above 0.
    """

    names = ("shape", "rate")

    @property
    def shape(self) -> np.ndarray:
        """(n,)."""
        return self.first

    @property
    def rate(self) -> np.ndarray:
        """(n,)."""
        return self.second

    @classmethod
    def of_moments(cls, mean: np.ndarray, log_mean: np.ndarray) -> Gamma:
        """The Gamma with given E x and E log x: the projection of a density on the family."""
        gap = np.log(mean) - log_mean  # log s − ψ(s), above 0 by Jensen
        # Within 1.5%, then Newton; within 1e-9 for small gaps, which Newton's differences would lose.
        first = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
        aim, shape = np.maximum(gap, 1e-5), np.minimum(first, 5e4)
        for _ in range(5):
            slope = 1 / shape**2 * 1 / (1 / shape - polygamma(1, shape))
            shape = 1 / (1 / shape + (np.log(shape) - digamma(shape) - aim) * slope)
        shape = np.where(gap < 1e-5, first, shape)
        return cls(shape, shape / mean)

    def characteristic(self, omega: np.ndarray) -> np.ndarray:
        # E x^{iω} = Γ(s + iω)/Γ(s) rate^{−iω}
        up = loggamma(self.shape[:, None] + 1j * omega) - 1j * np.outer(np.log(self.rate), omega)
        return np.exp(up - gammaln(self.shape)[:, None])

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return _log_gamma(self.shape, size, rng) - np.log(self.rate)[:, None]

    def kl(self, other: Any) -> np.ndarray:
        return (
            (self.shape - other.shape) * digamma(self.shape)
            - gammaln(self.shape)
            + gammaln(other.shape)
            + other.shape * (np.log(self.rate) - np.log(other.rate))
            + self.shape * (other.rate / self.rate - 1)
        )

    def relative_to(self, base: Any) -> np.ndarray:
        means = np.log(self.shape / self.rate) - np.log(base.shape / base.rate)
        return np.stack([np.sqrt(base.shape) * means, np.log(self.shape) - np.log(base.shape)], axis=1)

    @classmethod
    def moved(cls, base: Any, steps: np.ndarray) -> Any:
        mean = base.shape / base.rate * _factor(steps[:, 0] / np.sqrt(base.shape))
        shape = base.shape * _factor(steps[:, 1])
        return cls(shape, shape / mean)


def _factor(log: np.ndarray) -> np.ndarray:
    """``exp``, within bounds that keep a wild prediction proper."""
    return np.exp(np.clip(log, -50, 50))


def _log_gamma(shape: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Logarithms of Gamma(shape, 1) draws, (n, size); G(s) = G(s+1) U^{1/s} keeps small shapes finite."""
    draws = np.log(rng.standard_gamma(shape[:, None] + 1, (len(shape), size)))
    return draws + np.log(rng.uniform(size=draws.shape)) / shape[:, None]


__all__ = ["Beta", "Gamma", "Message", "Normal"]
