"""Classification of bags: accuracy, probabilities that mean what they say, bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import muhat as mh

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


@pytest.mark.slow
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
