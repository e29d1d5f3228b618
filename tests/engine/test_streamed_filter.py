"""The filter on training sequences that are read in blocks gives the answers of those in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from row_forms import FORMS, as_form

import muhat as mh
from muhat.engine import open_rows, stretches
from muhat.models import kernel_bayes_filter
from muhat.operators import streamed_filtering

pytestmark = [
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
    pytest.mark.filterwarnings("ignore:rule="),
]
RULES = ("importance", "kbr_b", "kbr_a", "deconditional")
N = 330


def _orbit(n, rng):
    angle = np.cumsum(0.3 + 0.05 * rng.normal(size=n))
    Z = np.column_stack([np.cos(angle), np.sin(angle)])
    return Z + 0.3 * rng.normal(size=Z.shape), Z


X, Z = _orbit(N, np.random.default_rng(0))
SEEN = _orbit(12, np.random.default_rng(1))[0]
TABLE = np.column_stack([X, Z])
GIVEN: Any = {
    "representation": mh.Nystrom(25),
    "kernel_x": mh.Gaussian(1.0),
    "kernel_z": mh.Gaussian(0.7),
    "reg": 1e-3,
    "reg_prior": 1e-2,
    "reg_transition": 1e-4,
}


def model(rule, **given):
    return mh.KernelBayesFilter(rule, **(GIVEN | given))


def sources(form, folder, table=TABLE, block=70):
    return [as_form(form, table, folder, list(c), block) for c in (("c0", "c1"), ("c2", "c3"))]


def close(a, b, tolerance=1e-8):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def same(a, b):
    close(a.mean(), b.mean())
    close(a.cov(), b.cov())
    close(a(Z[:4]), b(Z[:4]))


def same_steps(a, b):
    same(a, b)
    for name in ("mass", "familiarity", "observed"):
        close(getattr(a, name), getattr(b, name))


def same_tracks(here, there, initial=None):
    gone = SEEN.copy()
    gone[[0, 5]] = np.nan
    for rows in (SEEN, gone):
        a, b = (m.filter(rows, initial, missing="predict", restarts=[9]) for m in (here, there))
        same_steps(a, b)
    same(here.forecast(3), there.forecast(3))
    for x in (SEEN[0], None, SEEN[1]):
        same_steps(here.update(x), there.update(x))
    same_steps(*(m.reset().update(SEEN[0], initial) for m in (here, there)))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES)
def test_same_answers(form, tmp_path, rule):
    here = model(rule).fit(X, Z)
    same_tracks(here, model(rule).fit(*sources(form, tmp_path)))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("normalize", [True, False], ids=["normalized", "as in the papers"])
def test_from_a_given_start(rule, normalize):
    given: Any = {"representation": mh.Fourier(40), "normalize": normalize}
    here, there = model(rule, **given).fit(X, Z), model(rule, **given).fit(open_rows(X), open_rows(Z))
    same_tracks(here, there, Z[:20])


@pytest.mark.parametrize("rule", ["kbr_b", "kbr_a"])
def test_by_passes_where_tensors_are_large(rule, monkeypatch):
    here = model(rule).fit(X, Z)
    monkeypatch.setattr(streamed_filtering, "MEMORY", 1e4)
    there = model(rule).fit(open_rows(X), open_rows(Z))
    assert there.moments_ is not None
    assert there.moments_.evidence is None
    same_tracks(here, there)


@pytest.mark.parametrize(
    ("rule", "more"),
    [("importance", (1, 1)), ("kbr_b", (0, 0)), ("kbr_a", (0, 0)), ("deconditional", (0, 1))],
)
def test_passes(rule, more):
    """Two to fit, and one for an observation where weights are truncated; none for a prediction."""
    of_x, of_z = open_rows(X), open_rows(Z)
    there = model(rule).fit(of_x, of_z)
    assert (of_x.passes, of_z.passes) == (2, 2)
    there.update(SEEN[0])
    there.update(None)
    there.forecast(4)
    assert (of_x.passes - 2, of_z.passes - 2) == more


@pytest.mark.parametrize("rule", ["importance", "kbr_a"])
@pytest.mark.parametrize("form", ["generator", "dask array"])
def test_lists_of_sequences(rule, form, tmp_path):
    """The step from the end of one sequence to the start of the next is none."""
    parts = [TABLE[:150], TABLE[180:]]
    here = model(rule).fit([p[:, :2] for p in parts], [p[:, 2:] for p in parts])
    folders = [tmp_path / str(i) for i in range(2)]
    for folder in folders:
        folder.mkdir()
    xs, zs = zip(*[sources(form, f, p) for f, p in zip(folders, parts, strict=True)], strict=True)
    there = model(rule).fit(list(xs), list(zs))
    assert there.lengths_ == [150, 150]
    same_tracks(here, there)


def test_blocks_of_one_row():
    """All steps are from one block to the next."""
    of_x, of_z = (open_rows(lambda A=A: (A[[i]] for i in range(N))) for A in (X, Z))
    same_tracks(model("kbr_a").fit(X, Z), model("kbr_a").fit(of_x, of_z))


class TestChoices:
    """What is free is chosen from stretches of the rows, the same ones in memory and in blocks."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(stretches, "STRETCH", 20)
        pick, read = stretches.stretch_indices, stretches.sample_stretches
        monkeypatch.setattr(kernel_bayes_filter, "stretch_indices", lambda n: pick(n, 160))
        monkeypatch.setattr(kernel_bayes_filter, "sample_stretches", lambda s: read(s, 160))

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", ["importance", "kbr_b"])
    def test_of_more_rows_than_the_sample(self, rule, monkeypatch):
        monkeypatch.setattr("muhat.learning.filtering.EVALUATIONS", 5)
        free = mh.KernelBayesFilter(rule, representation=mh.Nystrom(20))
        here = free.fit(X, Z)
        choice, found = here.choice_, here.filter(SEEN)
        there = mh.KernelBayesFilter(rule, representation=mh.Nystrom(20)).fit(open_rows(X), open_rows(Z))
        assert len(there.X_) == 160 < len(here.X_)
        assert (choice.reg, choice.reg_transition) == (there.choice_.reg, there.choice_.reg_transition)
        assert (choice.kernel_carried is not None) == (rule == "importance")
        same(found, there.filter(SEEN))

    def test_stretches(self):
        index: Any = stretches.stretch_indices(N, 160)
        lengths, read, (A,) = stretches.sample_stretches([(X[:100],), (X[100:],)], 160, ("X",))
        assert lengths == [100, N - 100]
        np.testing.assert_array_equal(index, read)
        close(A, X[index])
        parts = stretches.stretch_lengths(index, lengths)
        assert sum(parts) == 160
        ends = np.cumsum(parts)
        for a, b in zip(ends - parts, ends, strict=True):
            np.testing.assert_array_equal(np.diff(index[a:b]), 1)
            assert (index[a] < 100) == (index[b - 1] < 100)
        assert stretches.stretch_indices(160, 160) == slice(None)


@pytest.mark.parametrize("rule", ["importance", "kbr_b", "kbr_a"])
def test_saved_and_loaded(rule, tmp_path):
    there = model(rule).fit(open_rows(X), open_rows(Z))
    found = there.filter(SEEN[:3])
    mh.save(there, tmp_path / "f.mh")
    again = mh.load(tmp_path / "f.mh")
    close(again.forecast(2).mean(), there.forecast(2).mean(), 1e-12)
    if rule == "importance":
        with pytest.raises(ValueError, match="reads them for every observation: fit it again"):
            again.update(SEEN[3])
    else:
        close(again.update(SEEN[3]).mean(), there.update(SEEN[3]).mean(), 1e-12)
    mh.save(found, tmp_path / "s.mh")
    close(mh.load(tmp_path / "s.mh").cov(), found.cov(), 1e-12)


def test_going_on_from_a_state_that_was_found():
    here, there = model("importance").fit(X, Z), model("importance").fit(open_rows(X), open_rows(Z))
    states = [m.filter(SEEN[:4])[-1] for m in (here, there)]
    same(here.filter(SEEN[4:], states[0]), there.filter(SEEN[4:], states[1]))
    assert (
        "12 steps; 1 predicted without an observation"
        in there.filter(np.vstack([SEEN[:11], [[np.nan] * 2]]), missing="predict").summary()
    )


class TestRefusals:
    def test_smoothing(self):
        with pytest.raises(ValueError, match="smooth needs the training points in memory"):
            model("importance").fit(open_rows(X), open_rows(Z)).smooth(SEEN)

    def test_exact(self):
        with pytest.raises(ValueError, match="representation is exact"):
            model("importance", representation=mh.Exact()).fit(open_rows(X), open_rows(Z))

    def test_rows_that_differ(self):
        with pytest.raises(ValueError, match="X has 330 rows but Z has 329"):
            model("importance").fit(open_rows(X), open_rows(Z[1:]))
        with pytest.raises(ValueError, match="2 sequences but Z has 1"):
            model("importance").fit([open_rows(X), open_rows(X)], [open_rows(Z)])
        with pytest.raises(ValueError, match="Z of sequence 1 has 1 columns"):
            model("importance").fit([open_rows(X), open_rows(X)], [open_rows(Z), open_rows(Z[:, :1])])
        with pytest.raises(ValueError, match="X has 1 row: a sequence needs at least 2"):
            model("importance").fit(open_rows(X[:1]), open_rows(Z[:1]))

    def test_a_start_beyond_all_states(self):
        with pytest.raises(ValueError, match="no mass near any z"):
            model("importance").fit(open_rows(X), open_rows(Z)).filter(SEEN, np.full((3, 2), 50.0))


def test_third_order_moments_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    A, B, C = (rng.standard_normal((17, k)) for k in (2, 3, 4))
    expected = np.einsum("ia,ib,ic->abc", A, B, C).reshape(6, 4)
    for elements in (1, 30, 1000):  # rows one by one, by fives, all at once
        monkeypatch.setattr(streamed_filtering, "BLOCK_ELEMENTS", elements)
        np.testing.assert_allclose(streamed_filtering.third(A, B, C), expected, rtol=1e-12)
