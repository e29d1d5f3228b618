"""Classification of bags: accuracy, probabilities that mean what they say, bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone

import muhat as mh
from muhat.operators.bags import bag_noise

SHAPES = (
    lambda rng, n: rng.standard_normal((n, 1)),
    lambda rng, n: rng.uniform(-(3**0.5), 3**0.5, (n, 1)),
    lambda rng, n: rng.laplace(scale=0.5**0.5, size=(n, 1)),
)  # all of mean 0 and variance 1
TWO_STAGE = (mh.Fourier(100), mh.Fourier(150))


def data(n, seed, size=60, classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return [SHAPES[k](rng, size) for k in y], np.array(["normal", "uniform", "laplace"])[y]


@pytest.mark.slow
@pytest.mark.parametrize("representation", [mh.Exact(), TWO_STAGE], ids=["exact", "two-stage"])
def test_shapes_are_told_apart_where_moments_are_equal(representation, tmp_path):
    size = 20 if isinstance(representation, mh.Exact) else 60
    model = mh.DistributionClassifier(representation=representation, random_state=0).fit(*data(120, 0, size))
    bags, y = data(150, 1, size)
    P = model.predict_proba(bags)
    assert list(model.classes_) == ["laplace", "normal", "uniform"]
    assert_allclose(P.sum(axis=1), 1)
    assert model.score(bags, y) > (0.5 if size == 20 else 0.7)
    loss = -np.log(P[np.arange(150), np.searchsorted(model.classes_, y)]).mean()
    assert loss < np.log(3) - 0.1
    rng = np.random.default_rng(0)
    assert_allclose(model.predict_proba([rng.permutation(b) for b in bags[:9]]), P[:9], atol=1e-6)
    mh.save(model, tmp_path / "model")
    assert_allclose(mh.load(tmp_path / "model").predict_proba(bags[:9]), P[:9], rtol=1e-10)


@pytest.mark.statistics
def test_probabilities_are_calibrated():
    model = mh.DistributionClassifier(representation=TWO_STAGE, random_state=0)
    model.fit(*data(300, 0, 15, classes=2))  # few points: classes that overlap
    bags, y = data(1000, 1, 15, classes=2)
    p = model.predict_proba(bags)[:, 1]
    truth = y == model.classes_[1]
    for low, high in ((0, 0.25), (0.25, 0.75), (0.75, 1)):
        inside = (p >= low) & (p <= high)
        assert inside.sum() > 30
        assert abs(p[inside].mean() - truth[inside].mean()) < 0.12


def test_smaller_bags_are_less_sure():
    model = mh.DistributionClassifier(representation=TWO_STAGE, random_state=0).fit(*data(150, 0, classes=2))
    small, large = (model.predict_proba(data(200, 1, n, 2)[0]).max(axis=1).mean() for n in (4, 60))
    assert small < large
    # The same embedding from fewer points: the same class, less sure.
    for bag in data(9, 3, 6, 2)[0]:
        few, many = model.predict_proba([bag, np.repeat(bag, 20, axis=0)])
        assert few.argmax() == many.argmax()
        assert few.max() < many.max()


def test_clone_and_bad_input():
    model = mh.DistributionClassifier(mh.Cauchy(), random_state=3)
    assert clone(model).get_params() == model.get_params()
    bags, y = data(20, 0, 10)
    with pytest.raises(ValueError, match="one class"):
        model.fit(bags, ["a"] * 20)
    with pytest.raises(ValueError, match="19 targets for 20 bags"):
        model.fit(bags, y[:-1])
    with pytest.raises(ValueError, match="Bag 2 contains NaN"):
        model.fit([*bags[:2], np.full((3, 1), np.nan), *bags[3:]], y)


@pytest.mark.slow
@pytest.mark.parametrize("representation", [mh.Exact(), TWO_STAGE], ids=["exact", "two-stage"])
def test_small_bags_have_the_expected_sigmoid_of_their_noisy_logit(representation):
    model = mh.DistributionClassifier(representation=representation, random_state=0)
    model.fit(*data(80, 0, 30, classes=2))
    bags = mh.Bags(data(40, 1, 3, classes=2)[0])
    # The logit is one function, with its own slope and noise.
    coef = model.coef_[1] - model.coef_[0]
    logit = model.features_.of(bags) @ coef + model.intercept_[1] - model.intercept_[0]
    noise = bag_noise(model.features_.spreads(bags, coef), 4 * model.typical_[1], bags.effective_sizes)
    excess = np.maximum(noise - 4 * model.usual_[1], 0)
    assert np.median(excess) > 1
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    expected = expit(logit[:, None] + np.sqrt(excess)[:, None] * nodes) @ weights / weights.sum()
    assert_allclose(model.predict_proba(bags)[:, 1], expected, atol=0.025)


@pytest.mark.parametrize("missing", [None, np.nan], ids=["None", "NaN"])
def test_missing_labels_are_refused(missing):
    bags, _ = data(20, 0, 10)
    labels = [1.0, 0.0, missing, *[0.0, 1.0] * 8, 1.0]
    with pytest.raises(ValueError, match=r"label of bag 2 is (None|nan)"):
        mh.DistributionClassifier().fit(bags, labels)
    with pytest.raises(ValueError, match="label of bag 2 is"):
        mh.DistributionClassifier().fit(
            bags, np.array(["a", "b", missing, *["a", "b"] * 8, "a"], dtype=object)
        )


@pytest.mark.slow
def test_many_bags_of_an_iterator_are_learned_exactly():
    bags, y = data(510, 0, 2, classes=2)
    fit = [
        mh.DistributionClassifier(representation=mh.Exact(), random_state=0).fit(b, y)
        for b in (bags, iter(bags))
    ]
    assert_allclose(fit[1].predict_proba(bags[:9]), fit[0].predict_proba(bags[:9]))
    with pytest.raises(ValueError, match="iterator without bags"):
        fit[0].predict(iter([]))
