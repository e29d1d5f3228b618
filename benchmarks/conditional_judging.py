"""``python -m benchmarks.conditional_judging``: conditional independence, muhat's test and its peers'.

How often each rejects at level 0.05 on the designs of ``benchmarks.conditional_designs``: true nulls in at
most 5 of 100 runs, alternatives as often as possible. Run r of a cell sees the same data by every method. A
cell (design, rows, columns of z, method) is a line of the file. A run that was stopped goes on where it was:
cells that are there with as many data sets are not made again; of two lines for a cell the later counts.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import muhat as mh
from benchmarks.conditional_designs import KINDS
from benchmarks.lines import append, names, read
from benchmarks.peers.packages import NotInstalled, peer

LEVEL = 0.05
# Of the generalised covariance measure: folds, draws of its null, depths and steps of its trees.
FOLDS, MULTIPLIERS, DEPTHS, STEPS = 5, 999, (1, 3), 100
OUT = Path(__file__).parent / "results" / "conditional.csv"


@dataclass(frozen=True)
class Verdict:
    """What a method says of one data set: its p-value, and whether it trusts it (None: it cannot say)."""

    pvalue: float
    trusted: bool | None = None


@dataclass(frozen=True)
class Cell:
    """Counts over the runs of a design by one method; NaN where it failed in all."""

    design: str
    kind: str
    n: int
    d: int
    method: str
    runs: int
    rejected: float
    rejected_trusted: float
    flagged: float
    seconds: float
    failed: int = 0

    @property
    def key(self) -> tuple[str, str, int, int, str]:
        return self.design, self.kind, self.n, self.d, self.method


def numbers(table: Any) -> np.ndarray:
    """Columns as numbers (n, k), a category as one indicator for each of its values."""
    if not isinstance(table, pl.DataFrame):
        return np.asarray(table, dtype=float).reshape(len(table), -1)
    words = [name for name, kind in table.schema.items() if kind == pl.String]
    return table.to_dummies(words).to_numpy().astype(float)


def ours(x: Any, y: Any, z: Any, seed: int) -> Verdict:
    result = mh.conditional_independence_test(x, y, z, random_state=seed)
    trusted = getattr(result, "trusted", None)
    return Verdict(result.pvalue, None if trusted is None else bool(trusted))


def kci(x: Any, y: Any, z: Any, seed: int) -> Verdict:
    del seed  # its null is a gamma distribution
    test = peer("causallearn.utils.KCI.KCI").KCI_CInd()
    return Verdict(float(test.compute_pvalue(numbers(x), numbers(y), numbers(z))[0]))


def rcit(x: Any, y: Any, z: Any, seed: int) -> Verdict:
    test = peer("causallearn.utils.RCIT.RCIT").RCIT()
    state = np.random.get_state()  # noqa: NPY002 - the peer draws from NumPy's global state
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        return Verdict(float(test.compute_pvalue(numbers(x), numbers(y), numbers(z))[0]))
    finally:
        np.random.set_state(state)  # noqa: NPY002


def gcm(x: Any, y: Any, z: Any, seed: int) -> Verdict:
    """The generalised covariance measure of Shah and Peters (2020), with boosted trees on held-out rows."""
    Z, rng = numbers(z), np.random.default_rng(seed)
    left, right = (_residuals(numbers(A), Z, seed) for A in (x, y))
    R = (left[:, :, None] * right[:, None, :]).reshape(len(Z), -1)
    mean, sd = R.mean(axis=0), R.std(axis=0)
    R = (R - mean) / sd
    observed = np.sqrt(len(Z)) * np.abs(mean / sd).max()
    drawn = np.abs(rng.standard_normal((MULTIPLIERS, len(Z))) @ R).max(axis=1) / np.sqrt(len(Z))
    return Verdict(float((1 + (drawn >= observed).sum()) / (1 + MULTIPLIERS)))


def _residuals(A: np.ndarray, Z: np.ndarray, seed: int) -> np.ndarray:
    """Errors of boosted trees on rows that they have not seen; depth and steps are those that err least."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold

    folds = list(KFold(FOLDS, shuffle=True, random_state=seed % 2**32).split(Z))
    out = np.empty_like(A)
    for column, a in enumerate(A.T):
        left = []
        for depth in DEPTHS:
            errors = np.empty((STEPS, len(a)))
            for seen, held in folds:
                trees = HistGradientBoostingRegressor(max_iter=STEPS, max_depth=depth)
                fitted = trees.fit(Z[seen], a[seen])
                errors[:, held] = [a[held] - step for step in fitted.staged_predict(Z[held])]
            left.append(errors)
        every = np.concatenate(left)
        out[:, column] = every[np.argmin((every**2).mean(axis=1))]
    return out


METHODS: dict[str, Callable[[Any, Any, Any, int], Verdict]] = {
    "ours": ours,
    "kci": kci,
    "rcit": rcit,
    "gcm": gcm,
}


def seed_of(design: str, kind: str, n: int, d: int, run: int) -> int:
    """The seed of a data set; the same whatever else is run."""
    return zlib.crc32(f"{kind}/{design}/{n}/{d}/{run}".encode())


def judge(design: str, kind: str, n: int, d: int, method: str, runs: int) -> Cell:
    """Count what ``method`` says of ``runs`` data sets."""
    verdicts: list[Verdict] = []
    spent = 0.0
    for run in range(runs):
        seed = seed_of(design, kind, n, d, run)
        x, y, z = KINDS[kind][design](np.random.default_rng(seed), n, d)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                verdict = METHODS[method](x, y, z, seed)
        except NotInstalled:
            raise
        except Exception:
            if method == "ours":
                raise
            continue  # a failure of a peer is counted
        spent += time.perf_counter() - start
        if np.isfinite(verdict.pvalue):
            verdicts.append(verdict)
    done = len(verdicts)
    rejected = [v for v in verdicts if v.pvalue <= LEVEL]

    def count(number: int) -> float:
        return number if done else float("nan")

    return Cell(
        design,
        kind,
        n,
        d,
        method,
        runs,
        rejected=count(len(rejected)),
        rejected_trusted=count(sum(v.trusted is not False for v in rejected)),
        flagged=count(sum(v.trusted is False for v in verdicts)),
        seconds=round(spent / done, 4) if done else float("nan"),
        failed=runs - done,
    )


def said(cell: Cell) -> str:
    """The cell on a line."""
    return (
        f"{cell.kind:12} {cell.design:20} n = {cell.n}, d = {cell.d:2}  {cell.method:5} "
        f"{cell.rejected:4.0f} of {cell.runs}, trusted {cell.rejected_trusted:.0f}, "
        f"failed {cell.failed}, {cell.seconds:.3f} s each"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Make the cells that are asked for and not yet in the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="200", help="rows, between commas")
    parser.add_argument("--columns", default="1,3,10", help="columns of z, between commas")
    parser.add_argument("--runs", type=int, default=200, help="data sets a cell")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="two data sets a cell, 100 rows, one column")
    args = parser.parse_args(argv)
    rows, columns = ([int(value) for value in text.split(",")] for text in (args.rows, args.columns))
    runs = args.runs
    if args.quick:
        rows, columns, runs = [100], [1], 2
    methods, kinds = (
        names(args.methods, list(METHODS), "--methods"),
        names(args.kinds, list(KINDS), "--kinds"),
    )
    there = {cell.key: cell.runs for cell in read(args.out, Cell)}
    for kind, d, n in product(kinds, columns, rows):
        for design, method in product(KINDS[kind], methods):
            if there.get((design, kind, n, d, method), 0) < runs:
                cell = judge(design, kind, n, d, method, runs)
                append(args.out, cell)
                print(said(cell), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
