"""What a test returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from muhat.testing.restricted import Restriction

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class TestResult:
    """The outcome of a test.

    Attributes:
        statistic: the value observed. With one kernel the MMD² or HSIC; with several, minus the log of
            the harmonic mean p-value over the kernels.
        pvalue: the probability of a statistic at least as large if there were nothing to find.
        null: the statistic under the null: one value a permutation or bootstrap draw; for the gamma
            approximation its quantiles.
        effect_size: how large the effect is, whatever the sample size (see the test).
        method: where the p-value comes from: "permutation", "gamma", "wild" or "multipliers".
        kernels: all kernels that took part.
        best: which of them shows the effect most.
        restriction: which rows could move and what that allows, where groups, blocks, strata or weights were
            given and mattered; None else.
    """

    __test__ = False  # not a test case, whatever its name suggests to pytest

    statistic: float
    pvalue: float
    null: np.ndarray = field(repr=False)
    effect_size: float
    method: str
    kernels: tuple[Any, ...] = field(repr=False)
    best: int = field(repr=False)
    restriction: Restriction | None = None

    @property
    def kernel(self) -> Any:
        """The kernel used; of several, the one that shows the effect most; None where none was chosen."""
        return self.kernels[self.best] if self.kernels else None

    @property
    def summary(self) -> str:
        """The outcome in plain words."""
        raise TypeError("write summary")

    def plot(self) -> Figure:
        """A figure of the data, the witness function, and the null with the statistic."""
        raise TypeError("write plot")

    def __str__(self) -> str:
        return self.summary

    def _how(self) -> str:
        many = f"{len(self.kernels)} kernels, " if len(self.kernels) > 1 else ""
        return f"p = {format_pvalue(self.pvalue)}; {many}{self.source}"

    @property
    def source(self) -> str:
        """Where the p-value comes from, in words."""
        complete = self.restriction is not None and self.restriction.complete
        if complete and self.method == "permutation":
            return f"all {len(self.null) + 1} arrangements"
        return {
            "permutation": f"{len(self.null)} permutations",
            "wild": f"{len(self.null)} wild bootstrap draws",
            "multipliers": f"{len(self.null)} bootstrap draws",
            "gamma": "gamma approximation",
        }[self.method]


@dataclass(frozen=True)
class ColumnEffect:
    """How one column takes part in a difference or dependence.

    Attributes:
        name: of the column.
        effect_size: on the scale of the test, for this column alone.
        pvalue: adjusted for the number of columns (family-wise).
        interval: of the effect size, with probability 0.95; None where the test has none.
        missing: share of missing cells in each sample; empty if no cell of the column is missing, or if they
            were not compared.
        rows: of each sample that the test of this column used.
    """

    name: str
    effect_size: float
    pvalue: float
    interval: tuple[float, float] | None = None
    missing: tuple[float, ...] = ()
    rows: tuple[int, ...] = ()


def column_effects(
    names: list[str],
    effects: list[float],
    scores: np.ndarray,
    intervals: list[Any] | None = None,
    missing: list[Any] | None = None,
    rows: tuple[int, ...] = (),
) -> list[ColumnEffect]:
    """The columns, the strongest first, from their scores (columns, 1 + B), observed and permuted.

    p-values are adjusted for the number of columns by the largest score in each permutation.
    """
    largest = scores[:, 1:].max(axis=0)
    counts = 1 + (largest >= scores[:, :1] - 1e-9).sum(axis=1)
    order = np.argsort(-scores[:, 0], kind="stable")
    return [
        ColumnEffect(
            names[j],
            effects[j],
            float(counts[j] / scores.shape[1]),
            None if intervals is None else intervals[j],
            () if missing is None else missing[j],
            rows,
        )
        for j in order
    ]


def format_pvalue(p: float) -> str:
    """A p-value for a sentence: two digits that matter."""
    return f"{p:.2g}" if p >= 1e-4 else f"{p:.1e}"


__all__ = ["ColumnEffect", "TestResult", "column_effects", "format_pvalue"]
