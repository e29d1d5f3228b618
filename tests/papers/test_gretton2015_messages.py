"""The experiments of message operators, in small."""

import csv
import os
from pathlib import Path

import pytest

from papers.gretton2015.__main__ import main

DATA = Path(os.environ.get("MUHAT_DATA", "")) / "ep_binary_classification.npz"


def rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.statistics
def test_batch_is_better_than_published_and_than_forests(tmp_path):
    main(["--quick", "--experiment", "batch", "--out", str(tmp_path)])
    found = {row["method"]: row for row in rows(tmp_path / "messages_batch.csv")}
    assert float(found["ours"]["relative"]) < -15
    assert float(found["ours"]["absolute"]) < float(found["ours"]["published"])
    for kind in ("relative", "absolute"):
        assert float(found["ours"][kind]) < float(found["extra trees"][kind])
    assert (tmp_path / "messages_batch.png").stat().st_size > 1000


@pytest.mark.statistics
def test_later_problems_need_few_calls(tmp_path):
    main(["--quick", "--experiment", "toy", "--out", str(tmp_path)])
    first, *later = rows(tmp_path / "messages_toy.csv")
    assert int(first["calls"]) >= 300
    for row in later:
        assert int(row["calls"]) < 300  # of 3000
        assert abs(float(row["error"]) - float(row["error, exact"])) < 0.01


@pytest.mark.statistics
@pytest.mark.skipif(not DATA.is_file(), reason="needs ep_binary_classification.npz in the folder MUHAT_DATA")
def test_real_problems_have_the_oracles_error(tmp_path):
    main(["--quick", "--experiment", "uci", "--out", str(tmp_path)])
    for row in rows(tmp_path / "messages_uci.csv"):
        assert abs(float(row["error"]) - float(row["error, oracle alone"])) < 0.02
        assert int(row["calls"]) < int(row["messages"])


@pytest.mark.slow
def test_compound_gamma_needs_fewer_calls_with_time(tmp_path):
    main(["--quick", "--experiment", "gamma", "--out", str(tmp_path)])
    found = rows(tmp_path / "messages_gamma.csv")
    assert int(found[0]["calls"]) == 30
    assert sum(int(row["calls"]) for row in found[-3:]) < 20
    assert all(float(row["worst KL"]) < 0.01 for row in found[-5:])
