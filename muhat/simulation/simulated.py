"""What :func:`muhat.simulate` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from muhat.learning.supports import Support

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Failure:
    """A simulation without an output.

    Attributes:
        index: its number among those asked for.
        theta: its parameters, (p,).
        message: what went wrong.
    """

    index: int
    theta: np.ndarray
    message: str


@dataclass(frozen=True, eq=False)
class Simulated:
    """Parameters and the data simulated at them.

    Attributes:
        theta: parameters of the simulations that succeeded, (m, p), in the order of the draws.
        x: their outputs, (m, d).
        failures: the others.
        index: which of the draws succeeded, (m,).
        n: how many simulations were asked for.
        names: of the parameters.
        seed: what was drawn from; ``random_state`` if that was a number.
        support: of the parameters, as far as the prior states it; None for samples and functions.
    """

    theta: np.ndarray
    x: np.ndarray
    failures: tuple[Failure, ...]
    index: np.ndarray = field(repr=False)
    n: int
    names: list[str]
    seed: list[int] = field(repr=False)
    support: Support | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def n_failed(self) -> int:
        """How many failed."""
        return len(self.failures)

    @property
    def summary(self) -> str:
        """What came out, in plain words."""
        if not self.failures:
            return f"{len(self)} simulations, none failed."
        first = self.failures[0]
        done = len(self) + self.n_failed
        return (
            f"{self.n_failed} of {done} simulations failed, the first (number {first.index}, θ = "
            f"{first.theta.tolist()}) with: {first.message}. The others are of the prior where the simulator "
            "works: if failures depend on θ, so does what can be inferred."
        )

    def __str__(self) -> str:
        return self.summary

    def table(self) -> pl.DataFrame:
        """One row a simulation that succeeded: parameters by name, then x1, …, xd (or x)."""
        import polars as pl

        d = self.x.shape[1]
        outputs = ["x"] if d == 1 else [f"x{j + 1}" for j in range(d)]
        columns = np.hstack([self.theta, self.x])
        return pl.DataFrame(dict(zip([*self.names, *outputs], columns.T, strict=True)))
