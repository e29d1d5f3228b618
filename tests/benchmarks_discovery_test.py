"""Comparing searches for causal graphs: what counts as wrong, and a run that goes on where it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import discovery

CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)  # 0 → 1 → 2


def test_edges_are_right_wrong_or_missed_whatever_their_direction():
    found = np.zeros((3, 3), dtype=bool)
    found[1, 0] = found[0, 2] = True
    counts = discovery.compare(found, CHAIN)
    assert counts == {"edges": 2, "right": 1, "wrong": 1, "missed": 1, "distance": 3}
    assert discovery.compare(CHAIN | CHAIN.T, CHAIN)["distance"] == 0  # no method could direct a chain


def test_the_ends_that_causal_learn_gives_are_arrows():
    ends = np.zeros((4, 4))
    ends[0, 1], ends[1, 0] = -1, 1  # 0 → 1
    ends[1, 2] = ends[2, 1] = -1  # 1 — 2
    ends[2, 3] = ends[3, 2] = 1  # 2 ↔ 3
    arrows = [tuple(map(int, pair)) for pair in np.argwhere(discovery.arrows(ends))]
    assert arrows == [(0, 1), (1, 2), (2, 1), (2, 3), (3, 2)]


def test_a_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    calls = []

    def nothing(Z: np.ndarray, alpha: float) -> np.ndarray:
        calls.append((Z.shape, alpha))
        return np.zeros((Z.shape[1],) * 2, dtype=bool)

    monkeypatch.setitem(discovery.METHODS, "ours", nothing)
    monkeypatch.setitem(discovery.METHODS, "kci", nothing)
    arguments = ["--variables", "5", "--rows", "50", "--out", str(tmp_path / "found.csv"), "--graphs"]
    assert discovery.main([*arguments, "2"]) == 0
    assert calls == [((50, 5), 0.05)] * 4
    assert discovery.main([*arguments, "3"]) == 0
    assert len(calls) == 6
    lines = discovery.read(tmp_path / "found.csv", discovery.Found)
    assert [(f.graph, f.method) for f in lines] == [(g, m) for g in range(3) for m in ("ours", "kci")]
    assert all(f.missed == f.edges > 0 == f.wrong for f in lines)
    assert "recall 0.00, precision nan" in capsys.readouterr().out


def test_an_unknown_method_is_refused():
    with pytest.raises(SystemExit, match="--methods has gcm: choose from ours, ours-residual"):
        discovery.main(["--methods", "ours,gcm"])
