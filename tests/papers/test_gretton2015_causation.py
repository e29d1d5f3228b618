"""Scores of directions."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from muhat.datasets.causation import SIMULATED, TUEBINGEN, CausalPairs
from papers.gretton2015.causation import auc, decision_rate, run, shortened
from papers.gretton2015.causation_stacked import stacked


def test_auc_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    values, labels = rng.standard_normal(50).round(1), rng.choice([-1, 1], 50)
    assert_allclose(auc(values, labels), roc_auc_score(labels, values))


def test_decisions_by_hand():
    margins, weights = np.array([0.1, -3.0, 2.0, 5.0]), np.array([0.5, 1.0, 0.5, 2.0])
    decided, accuracy = decision_rate(margins, weights)  # order: 5, −3, 2, 0.1
    assert_allclose(decided, [0.5, 0.75, 0.875, 1.0])
    assert_allclose(accuracy, [1.0, 2 / 3, 2.5 / 3.5, 0.75])


def test_shortened_pairs_keep_their_rows_together():
    pairs = [np.stack([np.arange(n), 2 * np.arange(n)], axis=1) for n in (5, 50)]
    data = CausalPairs(pairs, np.ones(2), np.ones(2), np.arange(2), [("a", "b")] * 2)
    few = shortened(data, 10)
    assert [len(p) for p in few.pairs] == [5, 10]
    assert all((p[:, 1] == 2 * p[:, 0]).all() and len(np.unique(p[:, 0])) == len(p) for p in few.pairs)
    assert shortened(data, None) is data


def test_pairs_are_decided_by_those_of_other_sources():
    rng = np.random.default_rng(0)
    labels, sources = rng.choice([-1, 1], 40), tuple(np.repeat(["a", "b", "c", "d"], 10))
    F = np.stack([labels * rng.normal(1, 0.3, 40), rng.standard_normal(40)], axis=1)
    data = CausalPairs([], labels, np.ones(40), np.arange(40), [], sources)
    odds = stacked(F, data)
    assert (np.sign(odds) == labels).all()
    assert_allclose(stacked(-F, data), odds, rtol=1e-5)  # the other sources say what a sign means
    wrong = np.where(np.array(sources) == "b", -labels, labels)
    changed = stacked(F, data._replace(labels=wrong))
    assert_allclose(changed[10:20], odds[10:20])
    assert (np.abs(changed - odds) > 1e-3)[:10].all()


@pytest.mark.slow
def test_the_experiment_leaves_its_files(tmp_path):
    folder = Path(os.environ.get("MUHAT_DATA") or "nowhere")
    if not all((folder / file).is_file() for file in (TUEBINGEN, SIMULATED)):
        pytest.skip(f"no {TUEBINGEN} and {SIMULATED} in MUHAT_DATA")
    rows = run(tmp_path, quick=True)
    assert [row["univariate"] for row in rows] == [77, 102, 100, 100, 100, 100]
    assert all(row["AUC"] > 0.8 for row in rows[2:])  # the simulated ones
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {"causation.csv", "causation_pairs.csv", "causation_decisions.csv", "causation.png"}
