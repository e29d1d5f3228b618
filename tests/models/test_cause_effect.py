"""The direction of a pair."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone

import muhat as mh
from muhat.learning.causal_pairs import Generator, synthetic_pair
from muhat.learning.code_length import code_evidence
from muhat.models.cause_effect import CALIBRATIONS, shipped


def pair(n=400, seed=0):
    """x causes y: a noisy parabola, of which no function of y is the reverse."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return x, (x + 0.3) ** 2 + 0.1 * rng.standard_normal(n)


def artificial(count, seed, **settings):
    rng = np.random.default_rng(seed)
    return [synthetic_pair(Generator(**settings), rng) for _ in range(count)]


def small(**kwargs):
    return mh.CauseEffect(**{"rounds": 40, "leaves": 6, "rate": 0.1, **kwargs})


def test_exchange_turns_the_answer_around():
    x, y = pair()
    model = mh.CauseEffect()
    assert model.decision_function(x, y) > 0.1
    assert model.decision_function(y, x) == -model.decision_function(x, y)
    assert_allclose(model.predict_proba(y, x), 1 - model.predict_proba(x, y), atol=1e-12)
    assert model.predict(x, y) == -model.predict(y, x) == 1


def test_scale_place_sign_and_order_do_not_matter():
    x, y = pair()
    model = mh.CauseEffect()
    value = model.decision_function(x, y)
    order = np.random.default_rng(1).permutation(len(x))
    for a, b in ((100 * x + 7, y), (x, -1e-3 * y), (5 - x, y * 1e6), (x[order], y[order])):
        assert_allclose(model.decision_function(a, b), value, rtol=0.02)  # a split may fall either way
    for a, b in ((1e200 * x, y), (x, 1e-200 * y), (1e-300 * x, 1e300 * y)):
        assert_allclose(model.decision_function(a, b), value, rtol=0.02)
    assert abs(model.decision_function(x, y[order]) - value) > 0.5  # the pairing does matter


def test_a_variable_of_two_values_is_taken():
    x, y = pair()
    value = mh.CauseEffect().decision_function(x, y > 0.2)
    assert np.isfinite(value)
    assert_allclose(mh.CauseEffect().decision_function(x, np.where(y > 0.2, -3.0, 8.0)), value, atol=0.05)


def test_a_batch_is_its_pairs_one_by_one():
    model = mh.CauseEffect()
    pairs = [np.stack(pair(n, n), axis=1) for n in (50, 300, 120)]
    values = model.decision_function(pairs)
    assert_allclose(values, [model.decision_function(*p.T) for p in pairs], rtol=1e-9)
    assert_allclose(model.predict_proba(pairs), expit(values), rtol=1e-9)
    assert model.predict(pairs).shape == (3,)


def test_the_odds_are_the_weighed_evidence():
    pairs = [np.stack(pair(n, n), axis=1) for n in (50, 300)]
    x, y = pairs[1].T
    for calibration in CALIBRATIONS:
        model = mh.CauseEffect(calibration=calibration)
        evidence = model.evidence(pairs)
        assert evidence.shape == (2, 2)
        assert_allclose(evidence[1], model.evidence(x, y), rtol=1e-9)
        assert_allclose(model.evidence(y, x), -evidence[1], rtol=1e-9)
        assert_allclose(evidence[1, 1], code_evidence(x, y))
        assert_allclose(model.decision_function(pairs), evidence @ model.weights_)
    measured, artificial = (mh.CauseEffect(calibration=c).decision_function(x, y) for c in CALIBRATIONS)
    assert abs(measured) < abs(artificial)  # measured pairs are not that clear
    model = mh.CauseEffect()
    model.predict(x, y)
    assert model.set_params(calibration="artificial").decision_function(x, y) == artificial
    model.weights_[:] = 1.0  # its own: no other model has them
    assert model.decision_function(x, y) == pytest.approx(model.evidence(x, y).sum())
    assert mh.CauseEffect().decision_function(x, y) == measured


def test_the_coarser_column_is_favoured_as_the_cause():
    """A caveat in the documentation: an effect that was rounded passes for the cause, by measured weights."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (10, 500))
    y = np.exp(-1.5 * x) + 0.3 * rng.standard_normal(x.shape)
    coarse = np.round(4 * y / np.ptp(y))
    plain, rounded = (list(np.stack([x, v], axis=2)) for v in (y, coarse))
    assert (mh.CauseEffect().predict(plain) == 1).all()
    assert (mh.CauseEffect().predict(rounded) == -1).mean() > 0.7
    assert (mh.CauseEffect(calibration="artificial").predict(rounded) == 1).mean() > 0.7


TEXTBOOK = {
    "cube": lambda x: x**3,
    "tanh": lambda x: np.tanh(2 * x),
    "square": lambda x: x**2,
}


@pytest.mark.statistics
@pytest.mark.parametrize("name", TEXTBOOK)
@pytest.mark.parametrize("law", ["uniform", "standard_normal"])
def test_textbook_mechanisms_with_additive_noise(name, law):
    rng = np.random.default_rng(11)
    pairs = []
    for _ in range(50):
        x = rng.standard_normal(500) if law == "standard_normal" else rng.uniform(-1, 1, 500)
        f = TEXTBOOK[name](x)
        pairs.append(np.stack([x, f + 0.3 * f.std() * rng.standard_normal(500)], axis=1))
    assert np.mean(mh.CauseEffect(calibration="artificial").predict(pairs) == 1) >= 0.8
    found = mh.CauseEffect().predict(pairs)
    if (name, law) == ("tanh", "standard_normal"):  # code length takes this one for its reverse
        assert np.mean(found == -1) <= 0.1
    else:
        assert np.mean(found == 1) >= 0.8


@pytest.mark.slow
def test_a_line_has_a_direction_if_its_noise_is_not_gaussian():
    rng = np.random.default_rng(12)
    x = rng.uniform(-1, 1, (50, 500))
    pairs = list(np.stack([x, x + 0.6 * rng.uniform(-1, 1, x.shape)], axis=2))
    assert np.mean(mh.CauseEffect().predict(pairs) == 1) >= 0.8


@pytest.mark.slow
def test_a_gaussian_line_has_none():
    rng = np.random.default_rng(13)
    x = rng.standard_normal((60, 500))
    p = mh.CauseEffect().predict_proba(list(np.stack([x, x + 0.6 * rng.standard_normal(x.shape)], axis=2)))
    assert 0.3 < np.mean(p > 0.5) < 0.7
    assert abs(p.mean() - 0.5) < 0.07
    assert np.median(np.abs(p - 0.5)) < 0.2
    assert np.mean((p > 0.1) & (p < 0.9)) > 0.9


@pytest.mark.slow
def test_shipped_trees_know_held_out_artificial_pairs():
    p = mh.CauseEffect(calibration="artificial").predict_proba(artificial(150, 987_654))
    assert np.mean(p > 0.5) > 0.8


@pytest.mark.statistics
def test_probability_is_calibrated_on_held_out_artificial_pairs():
    p = mh.CauseEffect(calibration="artificial").predict_proba(artificial(1200, 123_456_789))
    sure, right = np.maximum(p, 1 - p), p > 0.5
    for low, high in ((0.5, 0.7), (0.7, 0.9), (0.9, 0.98), (0.98, 1.0)):
        inside = (sure >= low) & (sure < high) if high < 1 else sure >= low
        expected = sure[inside].mean()
        error = np.sqrt(expected * (1 - expected) / inside.sum())
        assert abs(right[inside].mean() - expected) < 0.02 + 2.5 * error


def test_decide_abstains_below_the_level():
    model = mh.CauseEffect()
    pairs = artificial(8, 5)
    p = model.predict_proba(pairs)
    for level in (0.5, 0.6, 0.9, 0.99):
        expected = np.where(p >= level, 1, np.where(1 - p >= level, -1, 0))
        assert (model.decide(pairs, level=level) == expected).all()
        assert (mh.CauseEffect(level=level).predict(pairs) == expected).all()
    x, _ = pair()
    assert model.decide(x, x + 0.0, level=0.5) == 0  # a variable and itself


@pytest.mark.slow
def test_fit_learns_the_direction_it_is_told():
    """Labels turned around turn the answer around: it is the labels that are learned."""
    pairs = [np.stack(pair(100, i), axis=1) for i in range(60)]
    tests = [np.stack(pair(100, i), axis=1) for i in range(100, 130)]
    signs = np.where(np.arange(60) % 3 == 0, -1, 1)
    told = [p[:, ::-1] if s < 0 else p for p, s in zip(pairs, signs, strict=True)]
    right, wrong = small().fit(told, signs), small().fit(told, -signs)
    assert np.mean(right.decision_function(tests) > 0) > 0.9
    assert np.mean(wrong.decision_function(tests) > 0) < 0.1
    assert not right.shipped_


@pytest.mark.slow
def test_retrain_is_reproducible_and_better_than_chance():
    easy = {"mechanisms": ("additive",), "level": 0.5, "warped": 0.0, "measured": 0.0, "rounded": 0.0}
    first, again = (small().retrain(150, Generator(**easy)) for _ in range(2))
    tests = artificial(100, 3, **easy)
    values = first.decision_function(tests)
    assert_allclose(values, again.decision_function(tests), rtol=1e-9)
    assert np.mean(values > 0) > 0.7
    other = small(random_state=1, members=2).retrain(20)
    assert len(other.trees_.roots) == 80
    assert np.abs(values - other.decision_function(tests)).max() > 1e-2


def test_save_and_load(tmp_path):
    x, y = pair()
    known = [np.stack(pair(100, i), axis=1) for i in range(12)]
    models = (
        mh.CauseEffect(calibration="artificial"),
        small(level=0.7).retrain(20),
        small().fit(known, np.ones(12)),
    )
    for i, model in enumerate(models):
        mh.save(model, tmp_path / f"{i}.muhat")
        loaded = mh.load(tmp_path / f"{i}.muhat")
        assert loaded.predict_proba(x, y) == model.predict_proba(x, y)
        assert loaded.get_params() == model.get_params()
        assert loaded.shipped_ == (i == 0)
        assert loaded.calibration_ == ("artificial", "artificial", "given")[i]


@pytest.mark.slow
def test_clone_forgets_what_was_learned():
    assert not hasattr(clone(small().retrain(20)), "trees_")


def test_what_is_shipped_is_small_and_plain():
    trees, weights = shipped()
    assert (
        sum(getattr(trees, name).nbytes for name in ("feature", "threshold", "left", "right", "value")) < 2e6
    )
    assert (weights["measured"] > 0).all()
    assert weights["artificial"][0] > 0.5 > abs(weights["artificial"][1])  # codes say nothing there
    for child in (trees.left, trees.right):
        assert child.min() >= 0
        assert child.max() < len(trees.value)


X, Y = pair(50)
BAD = {
    "nan": ((np.where(np.arange(50) == 3, np.nan, X), Y), ValueError, "x has nan at row 3"),
    "infinite": ((X, np.where(np.arange(50) == 4, np.inf, Y)), ValueError, "y has inf at row 4"),
    "constant": ((np.ones(50), Y), ValueError, "x is constant"),
    "few": ((X[:10], Y[:10]), ValueError, "x has 10 values, but at least 20"),
    "lengths": ((X, Y[:40]), ValueError, "x has 50 values but y has 40"),
    "matrix": ((np.stack([X, X], 1), Y), ValueError, r"x must be one variable, \(n,\)"),
    "text": ((np.array(["a"] * 50), Y), TypeError, "x must be numbers"),
    "one array": ((np.stack([X, Y], 1),), ValueError, "list of arrays"),
    "no pairs": (([],), ValueError, "pairs is empty"),
    "columns": (([np.stack([X, Y, Y], 1)],), ValueError, r"pairs\[0\] must have two columns"),
    "second pair": (
        ([np.stack([X, Y], 1), np.ones((50, 2))],),
        ValueError,
        r"pairs\[1\]\[:, 0\] is constant",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_pairs(case):
    arguments, error, message = BAD[case]
    with pytest.raises(error, match=message):
        mh.CauseEffect().decision_function(*arguments)


@pytest.mark.parametrize("level", [0.4, 0.2, 1.0, "high"])
def test_bad_level(level):
    with pytest.raises(ValueError, match="level must be"):
        mh.CauseEffect().decide(X, Y, level)


def test_bad_labels_counts_and_settings():
    pairs = [np.stack([X, Y], 1)] * 12
    with pytest.raises(ValueError, match="labels must be"):
        mh.CauseEffect().fit(pairs, np.zeros(12))
    with pytest.raises(ValueError, match="labels must be"):
        mh.CauseEffect().fit(pairs, np.ones(11))
    with pytest.raises(ValueError, match="at least 10 are needed"):
        mh.CauseEffect().fit(pairs[:5], np.ones(5))
    with pytest.raises(ValueError, match="count must be at least"):
        mh.CauseEffect().retrain(3)
    with pytest.raises(ValueError, match="leaves must be at least 2"):
        mh.CauseEffect(leaves=1).retrain(20)
    with pytest.raises(ValueError, match="members must be at least 1"):
        mh.CauseEffect(members=0).retrain(20)
    with pytest.raises(ValueError, match="rate must be"):
        mh.CauseEffect(rate=0).retrain(20)
    with pytest.raises(ValueError, match="calibration must be one of 'measured', 'artificial'"):
        mh.CauseEffect(calibration="real").predict(X, Y)
