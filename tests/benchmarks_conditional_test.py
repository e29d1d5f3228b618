"""Judging tests of conditional independence: the designs, what a run writes and does not repeat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import conditional_judging as judging
from benchmarks.conditional_designs import ALTERNATIVES, KINDS, NULLS
from benchmarks.conditional_judging import Cell, Verdict

CASES = [(kind, design, d) for kind in KINDS for design in KINDS[kind] for d in (1, 3)]


@pytest.mark.parametrize(("kind", "design", "d"), CASES)
def test_a_design_is_a_function_of_its_seed(kind: str, design: str, d: int):
    x, y, z = KINDS[kind][design](np.random.default_rng(1), 60, d)
    again = KINDS[kind][design](np.random.default_rng(1), 60, d)
    for A, B in zip((x, y, z), again, strict=True):
        np.testing.assert_array_equal(judging.numbers(A), judging.numbers(B))
    assert len(x) == len(y) == len(z) == (57 if design == "idle category" else 60)
    assert all((np.ptp(judging.numbers(A), axis=0) > 0).all() for A in (x, y, z))


def residuals(kind: str, design: str) -> tuple[np.ndarray, np.ndarray]:
    """What a forest leaves of x and of y given one column of z, of many rows."""
    from sklearn.ensemble import RandomForestRegressor

    x, y, z = KINDS[kind][design](np.random.default_rng(5), 6000, 1)
    forest = RandomForestRegressor(50, min_samples_leaf=30, oob_score=True, random_state=0)
    left, right = (
        judging.numbers(A)[:, 0] - forest.fit(judging.numbers(z), judging.numbers(A)[:, 0]).oob_prediction_
        for A in (x, y)
    )
    low, high = np.quantile(judging.numbers(z)[:, 0], [0.05, 0.95])  # beyond, the forest has few rows
    inside = (judging.numbers(z)[:, 0] >= low) & (judging.numbers(z)[:, 0] <= high)
    return left[inside], right[inside]


@pytest.mark.statistics
@pytest.mark.parametrize("design", [name for name in NULLS if name != "little noise"])
def test_given_z_a_null_leaves_nothing_in_common(design: str):
    left, right = residuals("nulls", design)
    for e, f in ((left, right), (np.abs(left), np.sign(right))):
        assert abs(np.corrcoef(e, f)[0, 1]) < 0.06  # five standard errors are 0.065


@pytest.mark.statistics
@pytest.mark.parametrize("design", ["linear", "linear, correlated z", "sign", "idle category"])
def test_given_z_an_alternative_leaves_what_it_says(design: str):
    left, right = residuals("alternatives", design)
    assert np.corrcoef(left, right)[0, 1] > 0.15


def test_categories_are_indicators_and_numbers_stay():
    z = ALTERNATIVES["idle category"](np.random.default_rng(0), 100, 3)[2]
    Z = judging.numbers(z)
    assert Z.shape == (95, 5)
    np.testing.assert_array_equal(Z[:, 2:].sum(axis=1), 1)


def test_a_run_goes_on_where_it_was_and_counts_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def strict(x: object, y: object, z: object, seed: int) -> Verdict:
        calls.append(seed)
        if len(calls) % 2:
            raise ValueError("this peer fails at every other call")
        return Verdict(0.01, False)

    monkeypatch.setitem(judging.METHODS, "kci", strict)
    out = tmp_path / "cells.csv"
    arguments = ["--rows", "60", "--columns", "2", "--runs", "4", "--methods", "kci", "--out", str(out)]
    judging.main([*arguments, "--kinds", "alternatives"])
    cells = judging.read(out, Cell)
    assert [cell.design for cell in cells] == list(ALTERNATIVES)
    assert {(c.runs, c.rejected, c.rejected_trusted, c.flagged, c.failed) for c in cells} == {(4, 2, 0, 2, 2)}
    assert len(set(calls)) == len(calls)  # other data each time
    done = len(calls)
    judging.main([*arguments, "--kinds", "alternatives"])
    assert len(calls) == done
    judging.main([*arguments, "--kinds", "nulls"])
    assert len(calls) == done + 4 * len(NULLS)


def test_where_all_fail_there_is_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> Verdict:
        return Verdict(float("nan"))

    monkeypatch.setitem(judging.METHODS, "rcit", broken)
    cell = judging.judge("linear", "nulls", 30, 1, "rcit", 2)
    assert np.isnan([cell.rejected, cell.rejected_trusted, cell.flagged, cell.seconds]).all()
    assert cell.failed == 2
    judging.append(tmp_path / "a.csv", cell)
    (there,) = judging.read(tmp_path / "a.csv", Cell)
    assert replace(there, rejected=0, rejected_trusted=0, flagged=0, seconds=0) == Cell(
        "linear", "nulls", 30, 1, "rcit", 2, 0, 0, 0, 0, 2
    )


def test_unknown_names_are_refused():
    with pytest.raises(SystemExit, match=r"--methods has kcl: choose from ours, kci"):
        judging.main(["--methods", "kcl"])


@pytest.mark.slow
def test_boosted_covariances_see_a_link_and_keep_quiet_without():
    rng = np.random.default_rng(0)
    x, y, z = ALTERNATIVES["linear"](rng, 600, 1)
    assert judging.gcm(x, y, z, 0).pvalue <= judging.LEVEL
    assert judging.gcm(x, rng.permutation(y), z, 0).pvalue > judging.LEVEL
