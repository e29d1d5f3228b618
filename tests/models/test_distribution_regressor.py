"""Regression on bags: against a Gaussian process written out, refits, limits, coverage."""

from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import muhat as mh
from muhat.operators.bags import Landmarks, TwoStage, bag_noise, rank_one

TWO_STAGE = (mh.Fourier(60), mh.Fourier(80))


def data(n, seed, sizes=(5, 40), d=1, noise=0.1):
    """Bags of N(0, s²) with target d log s: their entropy, up to a constant."""
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.5, 2, n)
    counts = rng.integers(sizes[0], sizes[1] + 1, n)
    bags = [a * rng.standard_normal((m, d)) for a, m in zip(s, counts, strict=True)]
    return bags, d * np.log(s) + noise * rng.standard_normal(n)


LANDMARKS = (mh.Fourier(60), mh.Nystrom(30))


@pytest.fixture(
    scope="module", params=[mh.Exact(), TWO_STAGE, LANDMARKS], ids=["exact", "two-stage", "landmarks"]
)
def fitted(request):
    bags, y = data(60, 0)
    return mh.DistributionRegressor(representation=request.param, random_state=0).fit(bags, y), bags, y


def test_it_is_the_gaussian_process_of_its_kernel(fitted):
    model, bags, y = fitted
    new, _ = data(7, 1, sizes=(12, 40))
    if isinstance(model.features_, Landmarks):
        K, C, diag = model.kernel_(bags), model.kernel_(new, bags), model.kernel_.diag(new)
    else:
        Psi, Chi = model.features_.of(mh.Bags(bags)), model.features_.of(mh.Bags(new))
        K, C, diag = Psi @ Psi.T, Chi @ Psi.T, (Chi**2).sum(axis=1)
        diag = diag + model.features_.missing(mh.Bags(new), Chi)
    noise = model._training_noise(mh.Bags(bags)) * model.scale_**2 + model.noise_**2
    S = model.amplitude_ * K + np.diag(noise)
    mean = model.offset_ + model.amplitude_ * C @ np.linalg.solve(S, y - model.offset_)
    variance = model.amplitude_ * diag - model.amplitude_**2 * (C * np.linalg.solve(S, C.T).T).sum(axis=1)
    got, std = model.predict(new, return_std=True)
    assert_allclose(got, mean, atol=1e-7)
    coef = model.unit_amplitude_**0.5 * model.weights_.mean
    spread = model.features_.spreads(mh.Bags(new), coef)
    own = bag_noise(spread, model.typical_, mh.Bags(new).effective_sizes) * model.share_ * model.scale_**2
    assert_allclose((std / model.stretch_) ** 2, variance + own + model.noise_**2, atol=1e-6)


def test_spreads_are_the_variance_of_the_slope(fitted):
    """The slope of f from P towards a point x is the derivative of f at (1 − t)P + t x."""
    model, bags, _ = fitted
    check_spread(model, bags[3])


@pytest.mark.parametrize(
    "representation",
    [TWO_STAGE, (mh.Nystrom(40), mh.Fourier(80)), (mh.Nystrom(40), mh.Nystrom(30)), mh.Exact()],
    ids=["fourier", "nystrom-fourier", "nystrom", "exact"],
)
def test_spreads_of_a_kernel_with_location_are_the_variance_of_the_slope(representation):
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=2) + rng.gamma(rng.uniform(0.5, 3), size=(20, 2)) for _ in range(40)]
    y = np.array([np.mean((bag - bag.mean(axis=0)) ** 3) + bag[:, 0].mean() for bag in bags])
    kernel = mh.OnDistributions(mh.Gaussian(), mh.Gaussian(), location=[1.5, 3.0])
    model = mh.DistributionRegressor(kernel, representation=representation, random_state=0).fit(bags, y)
    check_spread(model, bags[3])


def check_spread(model, bag):
    features = model.features_
    coef = model.unit_amplitude_**0.5 * model.weights_.mean
    n, t = len(bag), 1e-4

    def towards(a, t):
        w = np.full(n, (1 - t) / n)
        w[a] += t
        return float((features.of(mh.Bags([bag], weights=[w])) @ coef)[0])

    slopes = [(towards(a, t) - towards(a, -t / n)) / (t + t / n) for a in range(n)]
    assert_allclose(features.spreads(mh.Bags([bag]), coef)[0], np.var(slopes, ddof=1), rtol=2e-3)


def test_updates_are_refits(fitted):
    model, bags, y = fitted
    more, z = data(9, 5)
    online = deepcopy(model)
    for bag, target in zip(more, z, strict=True):  # one at a time: rank-one
        online.partial_fit([bag], [target])
    again = deepcopy(model).set_params(warm_start=True).fit(bags + more, np.append(y, z))
    new, _ = data(30, 6)
    for a, b in zip(online.predict(new, return_std=True), again.predict(new, return_std=True), strict=True):
        assert_allclose(a, b, rtol=0, atol=1e-8)
    assert abs(online.predict(new) - model.predict(new)).max() > 1e-3
    batch = deepcopy(model).partial_fit(more, z)
    assert_allclose(batch.predict(new), again.predict(new), atol=1e-8)


def test_many_rank_one_updates_do_not_drift():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 12)) * 10 ** rng.uniform(-3, 3, 12)
    L = np.eye(12)
    for x in rows:
        L = rank_one(L, x)
    A = np.eye(12) + rows.T @ rows
    assert_allclose(
        L @ L.T, A, rtol=1e-10, atol=1e-10 * np.sqrt(np.outer(np.diag(A), np.diag(A))).max() * 1e-6
    )
    assert_allclose(np.triu(L, 1), 0)


def test_points_may_be_permuted_and_bags_be_of_any_kind(fitted):
    model, *_ = fitted
    rng = np.random.default_rng(0)
    new, _ = data(12, 2)
    want, std = model.predict(new, return_std=True)
    got, other = model.predict([rng.permutation(b) for b in new], return_std=True)
    assert_allclose(got, want, atol=1e-9)
    assert_allclose(other, std, atol=1e-6)
    assert_allclose(model.predict(iter(new)), want, atol=1e-12)
    assert_allclose(model.predict(mh.Bags(new)), want, atol=1e-12)
    table = {"bag": np.repeat(np.arange(12), [len(b) for b in new]), "x": np.concatenate(new)[:, 0]}
    assert_allclose(model.predict(mh.Bags.from_table(table, "bag")), want, atol=1e-12)
    counts = [rng.integers(1, 4, len(b)) for b in new]
    repeated = [np.repeat(b, c, axis=0) for b, c in zip(new, counts, strict=True)]
    assert_allclose(model.predict(mh.Bags(new, counts)), model.predict(repeated), atol=1e-9)


@pytest.mark.slow
def test_two_stages_come_to_the_exact_answer():
    bags, y = data(50, 0, sizes=(20, 20))
    new, _ = data(40, 1, sizes=(20, 20))
    kernel = mh.OnDistributions(mh.Gaussian(0.4), mh.Gaussian(1.0))
    exact = mh.DistributionRegressor(kernel, representation=mh.Exact(), noise=0.2, random_state=0).fit(
        bags, y
    )
    want, errors = exact.predict(new), []
    for p in (20, 1500):
        model = mh.DistributionRegressor(kernel, representation=mh.Fourier(p), noise=0.2, random_state=0)
        errors.append(np.sqrt(np.mean((model.fit(bags, y).predict(new) - want) ** 2)))
    assert errors[1] < 0.03 * np.std(want)
    assert errors[1] < errors[0] / 2


def test_an_iterator_gives_what_the_list_gives():
    bags, y = data(400, 0, sizes=(5, 5))
    kernel = mh.OnDistributions(mh.Gaussian(0.4), mh.Gaussian(1.0))
    model = mh.DistributionRegressor(kernel, representation=TWO_STAGE, noise=0.2, random_state=0)
    streamed = clone(model).fit(iter(bags), y)
    again = deepcopy(streamed).set_params(warm_start=True).fit(bags, y)
    assert_allclose(streamed.predict(bags[:20]), again.predict(bags[:20]), atol=1e-9)
    with pytest.raises(ValueError, match="399 targets"):
        clone(model).fit(iter(bags), y[:-1])


def test_gaussians_are_learned_from_and_have_no_noise_of_their_own():
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2, 60)
    known = mh.GaussianBags(np.zeros((60, 1)), s[:, None] ** 2)
    for representation in (mh.Exact(), (mh.Fourier(100), mh.Fourier(200))):
        model = mh.DistributionRegressor(representation=representation, random_state=0)
        model.fit(known.select(range(40)), np.log(s[:40]))
        assert np.abs(model.predict(known.select(range(40, 60))) - np.log(s[40:])).max() < 0.1
        assert not model.features_.spreads(known, model.pilot_coef_).any()


@pytest.mark.slow
@pytest.mark.parametrize("representation", [None, (mh.Fourier(100), mh.Nystrom(100))])
def test_bags_smaller_than_all_in_learning_are_samples_of_such_bags(representation):
    """Where y belongs to the points of a bag no sampling error shows in learning: half a bag has one."""
    rng = np.random.default_rng(0)
    bags = [rng.normal() + rng.normal(size=(24, 1)) for _ in range(300)]
    y = np.array([bag.mean() + np.abs(bag - bag.mean()).mean() for bag in bags])
    model = mh.DistributionRegressor(representation=representation, random_state=0)
    model.fit(bags[:150], y[:150])
    assert model.size_ == 24
    for size in (24, 12, 6):
        few = [bag[:size] for bag in bags[150:]]
        mean, std = model.predict(few, return_std=True)
        assert_allclose(model.predict(few), mean)
        assert 0.82 < (abs(y[150:] - mean) < 1.645 * std).mean() < 0.97
        slope = np.polyfit(mean, y[150:], 1)[
            0
        ]  # 1 of the best prediction, .81 of the whole bag's with 6 points
        assert 0.92 < slope < 1.1


def test_smaller_bags_are_less_sure():
    bags, y = data(80, 0)
    model = mh.DistributionRegressor(representation=TWO_STAGE, random_state=0).fit(bags, y)
    stds = [model.predict(data(40, 1, (n, n))[0], return_std=True)[1].mean() for n in (1, 4, 16, 64)]
    assert np.all(np.diff(stds) < 0), stds


@pytest.mark.statistics
@pytest.mark.parametrize(
    "representation", [mh.Exact(), (mh.Fourier(200), mh.Fourier(300))], ids=["exact", "two"]
)
def test_intervals_cover(representation):
    covered, total = 0, 0
    for seed in range(4):
        bags, y = data(100, 10 + seed)
        model = mh.DistributionRegressor(representation=representation, random_state=0).fit(bags, y)
        new, truth = data(150, 20 + seed)
        mean, std = model.predict(new, return_std=True)
        covered, total = covered + np.sum(np.abs(truth - mean) < 1.645 * std), total + len(new)
    assert 0.85 <= covered / total <= 0.95, covered / total


def test_numbers_are_kept_and_words_are_learned():
    bags, y = data(40, 0)
    model = mh.DistributionRegressor(mh.Cauchy(0.7), mh.Gaussian(1.3), mh.Exact(), noise=0.25).fit(bags, y)
    assert model.kernel_ == mh.OnDistributions(mh.Cauchy(0.7), mh.Gaussian(1.3))
    assert_allclose(model.noise_, 0.25)
    free = mh.DistributionRegressor(mh.Cauchy(), mh.Gaussian(1.3), mh.Exact()).fit(bags, y)
    assert isinstance(free.kernel_.outer, mh.Cauchy)
    scores = free.selection_.path[:, 2]
    assert_allclose(free.selection_.log_likelihood, scores.max())
    assert len(set(scores)) > 3


@pytest.mark.parametrize("representation", [mh.Exact(), TWO_STAGE], ids=["exact", "two-stage"])
def test_what_depends_on_the_shape_is_learned_wherever_bags_are(representation):
    """Without a place the same shapes elsewhere are the same; a kernel of bags as they are learns each."""
    bags, y = data(60, 0, sizes=(20, 20))
    rng = np.random.default_rng(0)
    moved = [bag + 3 * rng.normal() for bag in bags]
    new, truth = data(80, 1, sizes=(20, 20))
    gone = [bag + 3 * rng.normal() for bag in new]
    errors = [
        np.std(
            mh.DistributionRegressor(None, inner, representation, random_state=0).fit(moved, y).predict(gone)
            - truth
        )
        for inner in (None, mh.Gaussian("scaled"))
    ]
    assert errors[0] < 0.25 < np.std(truth)
    assert errors[0] < 0.8 * errors[1]


def test_a_kernel_with_a_location_is_kept_and_its_parts_are_learned():
    bags, y = data(40, 0, sizes=(10, 20))
    kernel = mh.OnDistributions(mh.Cauchy(), mh.Gaussian("scaled"), location=2.0)
    new, _ = data(5, 1)
    found = []
    for representation in (mh.Exact(), (mh.Fourier(2000), mh.Nystrom(40))):
        model = mh.DistributionRegressor(kernel, representation=representation, random_state=0).fit(bags, y)
        assert model.kernel_.location == 2.0
        assert isinstance(model.kernel_.outer.lengthscale, float)
        found.append(model.predict(new))
    assert_allclose(found[1], found[0], atol=0.1)


def test_bags_of_one_point_are_rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 80)
    model = mh.DistributionRegressor(random_state=0).fit([[[v]] for v in x], np.sin(2 * x))
    new = np.linspace(-1.8, 1.8, 20)
    mean, std = model.predict([[[v]] for v in new], return_std=True)
    assert np.abs(mean - np.sin(2 * new)).max() < 0.1
    assert np.isfinite(std).all()


@pytest.mark.slow
def test_an_iterator_of_other_columns_or_with_a_gap_names_the_bag():
    bags, y = data(600, 0, sizes=(3, 5))
    for bad, message in ((np.ones((2, 2)), "2 columns"), (np.full((2, 1), np.nan), "Bag 550 contains NaN")):
        spoilt = [*bags[:550], bad, *bags[551:]]
        with pytest.raises(ValueError, match=message):
            mh.DistributionRegressor(representation=TWO_STAGE, random_state=0).fit(iter(spoilt), y)


def test_few_are_exact_and_many_in_two_stages():
    bags, y = data(30, 0)
    assert isinstance(mh.DistributionRegressor(random_state=0).fit(bags, y).features_, Landmarks)
    bags, y = data(30, 0, sizes=(200, 200))
    assert isinstance(mh.DistributionRegressor(random_state=0).fit(bags, y).features_, TwoStage)


def test_clone_save_and_load(fitted, tmp_path):
    model, *_ = fitted
    twin = clone(model)
    assert twin.get_params()["representation"] == model.representation
    assert not hasattr(twin, "weights_")
    mh.save(model, tmp_path / "model")
    loaded = mh.load(tmp_path / "model")
    new, z = data(8, 3)
    for a, b in zip(loaded.predict(new, True), model.predict(new, True), strict=True):
        assert_allclose(a, b, rtol=1e-12)
    more = deepcopy(model).partial_fit(new, z).predict(new)
    assert_allclose(loaded.partial_fit(new, z).predict(new), more, rtol=1e-10)
    assert model.score(*data(60, 4)) > 0.7


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda b, y: (b, y[:-1]), ValueError, "19 targets for 20 bags"),
        (lambda b, y: (b, np.where(np.arange(20) == 3, np.nan, y)), ValueError, "NaN or inf .first at 3"),
        (lambda b, y: (b, np.ones(20)), ValueError, "y is constant"),
        (lambda b, y: (b, list("ab" * 10)), TypeError, "DistributionClassifier"),
        (lambda b, y: (b[:2], y[:2]), ValueError, "at least 3"),
        (lambda b, y: ([*b[:-1], np.empty((0, 1))], y), ValueError, "Bag 19 is empty"),
        (lambda b, y: ([*b[:-1], np.full((2, 1), np.inf)], y), ValueError, "Bag 19 contains inf"),
    ],
)
def test_bad_input(change, error, message):
    with pytest.raises(error, match=message):
        mh.DistributionRegressor(random_state=0).fit(*change(*data(20, 0)))


def test_bad_parameters_and_bags_of_another_space(fitted):
    bags, y = data(20, 0)
    with pytest.raises(TypeError, match="representation must be"):
        mh.DistributionRegressor(representation="fourier").fit(bags, y)
    with pytest.raises(mh.NoClosedForm, match="no spectral samples"):
        mh.DistributionRegressor(mh.Student(), representation=mh.Fourier(50)).fit(bags, y)
    with pytest.raises(ValueError, match="leave inner out"):
        mh.DistributionRegressor(mh.OnDistributions(), mh.Gaussian()).fit(bags, y)
    with pytest.raises(ValueError, match="noise must be positive"):
        mh.DistributionRegressor(noise=-1.0).fit(bags, y)
    with pytest.raises(TypeError, match=r"y must hold numbers, but holds dates.*days since a start"):
        mh.DistributionRegressor().fit(bags, np.full(len(y), np.datetime64("2020-01-01")))
    model, *_ = fitted
    before = model.predict(bags)
    for call in (lambda b: model.predict(b), lambda b: model.partial_fit(b, [1.0])):
        with pytest.raises(ValueError, match="2 columns, but 1 were seen"):
            call([np.ones((3, 2))])
    assert_allclose(model.predict(bags), before)
