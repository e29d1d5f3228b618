"""What the conditional mean answers on data whose truth is known: means, quantiles, intervals, defaults."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_score

import muhat as mh
from muhat.embedding import Embedding
from muhat.learning import leave_one_out

LEVELS = np.arange(1, 20) / 20


def sine(n, seed):
    """The noise grows tenfold from left to right."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (n, 1))
    return x, np.sin(6 * x[:, 0]) + (0.05 + 0.5 * x[:, 0]) * rng.standard_normal(n)


def smooth(n, seed):
    """Hardly any noise: clipped weights are far too wide."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + 0.05 * rng.standard_normal(n)


def steps(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 4))
    y = 1.0 * (x[:, 0] > 0.2) + 2.0 * (x[:, 1] > -0.3) - (x[:, 2] > 0.5)
    return x, y + 0.05 * rng.standard_normal(n)


def few(n=60, seed=0, columns=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    Y = np.c_[np.sin(2 * X[:, 0]), 5 + X[:, 1] ** 2][:, :columns] + 0.1 * rng.standard_normal((n, columns))
    return X, Y


def given(**options):
    """Nothing left to choose."""
    settings = {"kernel_x": mh.Gaussian(0.8), "kernel_y": mh.Gaussian(0.7), "reg": 1e-3, **options}
    return mh.ConditionalMean(**settings)


@cache
def fitted(make, n, seed=0):
    return mh.ConditionalMean().fit(*make(n, seed))


def held_out(make, n, seed):
    return make(n, 1000 + seed)


def cover(model, x, y, level):
    lower, upper = model.interval(x, level).T
    return np.mean((lower <= y) & (y <= upper))


def pinball(q, y):
    """The mean over levels, half of the CRPS; ``q`` (n, levels)."""
    gap = y[:, None] - q
    return np.maximum(LEVELS * gap, (LEVELS - 1) * gap).mean()


def clipped(model, x):
    """The embedding of the weights alone, whose quantiles are those of the projected weights."""
    mu = model.at(x)
    return Embedding(mu.kernel, mu.points, mu.weights)


def gaussian_only(X, y):
    """The default with its family fixed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leave_one_out, "rougher_kernels", lambda kernel, d: [])
        return mh.ConditionalMean().fit(X, y)


class TestFarFromTheData:
    FAR = np.array([[1e3, 0.0], [-1e3, 1e3]])

    @pytest.mark.parametrize("representation", [None, mh.Exact(memory=0), mh.Nystrom(30), mh.Fourier(40)])
    def test_mass_is_1_everywhere(self, representation):
        X, Y = few()
        mu = given(representation=representation).fit(X, Y).at(np.r_[X, self.FAR])
        assert_allclose(mu.weights.sum(axis=1), 1, rtol=1e-9)
        assert_allclose(mu.expect(lambda y: np.ones(len(y))), 1, rtol=1e-9)

    @pytest.mark.parametrize("representation", [None, mh.Exact(memory=0), mh.Nystrom(30)])
    def test_predict_is_the_mean(self, representation):
        X, Y = few()
        model = given(representation=representation).fit(X, Y)
        expected = np.tile(Y.mean(axis=0), (2, 1))
        assert_allclose(model.predict(self.FAR), expected, rtol=1e-9)
        assert_allclose(model.at(self.FAR).mean(), expected, rtol=1e-9)
        squares = np.tile((Y**2).mean(axis=0), (2, 1))
        assert_allclose(model.expect(lambda y: y**2, self.FAR), squares, rtol=1e-9)
        assert_allclose(model.at(self.FAR).cov()[0], np.cov(Y.T, bias=True), rtol=1e-6)

    def test_default_predicts_the_mean(self):
        X, y = few(columns=1)
        model = mh.ConditionalMean().fit(X, y[:, 0])
        assert_allclose(model.predict(1e4 * self.FAR), y.mean(), rtol=1e-6)

    def test_interval_is_that_of_the_marginal(self):
        X, Y = few(200)
        model = given().fit(X, Y)
        interval = model.interval(self.FAR, 0.9)
        assert interval.shape == (2, 2, 2)
        marginal = np.quantile(Y, [0.05, 0.95], axis=0).T
        assert_allclose(interval[0], marginal, atol=0.1 * np.ptp(marginal))
        near = model.interval(X, 0.9)
        assert (np.ptp(near, axis=2).mean(axis=0) < 0.5 * np.ptp(interval[0], axis=1)).all()


class TestScore:
    def test_is_r2_and_what_cross_validation_gives(self):
        X, y = few(80, columns=1)
        y = y[:, 0]
        folds = KFold(4, shuffle=True, random_state=0)
        ours = []
        for train, test in folds.split(X):
            model = given().fit(X[train], y[train])
            ours.append(model.score(X[test], y[test]))
            assert ours[-1] == pytest.approx(r2_score(y[test], model.predict(X[test])), rel=1e-12)
        assert_allclose(cross_val_score(given(), X, y, cv=folds), ours, rtol=1e-12)
        assert_allclose(cross_val_score(given(), X, y, cv=folds, scoring="r2"), ours, rtol=1e-12)

    def test_of_categories_is_the_share_explained(self):
        X = np.arange(40.0)[:, None]
        y = pd.Series(["p"] * 20 + ["q"] * 20)
        model = mh.ConditionalMean(mh.Gaussian(2.0), reg=1e-3).fit(X, y)
        assert model.score(X, y) == model.explained(X, y) > 0.5


class TestShapes:
    def test_of_several_outputs(self):
        X, Y = few()
        model = given().fit(X, Y)
        assert model.quantile(X[:7], 0.5).shape == (7, 2)
        assert model.quantile(X[:7], [0.1, 0.5, 0.9]).shape == (7, 3, 2)
        assert model.interval(X[:7], 0.8).shape == (7, 2, 2)
        q = model.quantile(X[:7], [0.1, 0.9])
        assert_allclose(model.interval(X[:7], 0.8), np.swapaxes(q, 1, 2), atol=1e-12)
        assert_allclose(model.at(X[:7]).quantile([0.1, 0.9]), q, rtol=0)
        assert_allclose(model.at(X[:7])[2].quantile([0.1, 0.9]), q[2], atol=1e-9)

    def test_of_a_vector(self):
        X, Y = few()
        model = given().fit(X, Y[:, 0])
        assert model.quantile(X[:7], 0.5).shape == (7,)
        assert model.quantile(X[:7], [0.1, 0.5, 0.9]).shape == (7, 3)
        assert model.interval(X[:7]).shape == (7, 2)
        assert (np.diff(model.quantile(X, LEVELS), axis=1) >= 0).all()

    @pytest.mark.parametrize("representation", [mh.Exact(memory=0), mh.Nystrom(10_000)])
    def test_representations_agree(self, representation):
        X, Y = few()
        near = given(representation=(representation, mh.Exact())).fit(X, Y).quantile(X, LEVELS)
        assert_allclose(near, given().fit(X, Y).quantile(X, LEVELS), atol=1e-3)

    @pytest.mark.parametrize("center", [True, False])
    def test_units_of_the_outputs(self, center):
        X, Y = few()
        q = given(center=center).fit(X, Y).quantile(X, LEVELS)
        scaled = given(center=center, kernel_y=mh.Gaussian(7e5)).fit(X, 1e6 * Y).quantile(X, LEVELS)
        assert_allclose(scaled / 1e6, q, atol=1e-6)

    def test_outputs_may_start_anywhere(self):
        X, Y = few()
        q = given().fit(X, Y).quantile(X, LEVELS)
        assert_allclose(given().fit(X, Y + 100).quantile(X, LEVELS) - 100, q, atol=1e-6)

    def test_equal_inputs(self):
        """In groups of thirty, of noise that is larger in some."""
        rng = np.random.default_rng(0)
        x = np.repeat(np.arange(20.0), 30)
        y = x / 5 + np.where(x < 10, 0.1, 1.0) * rng.standard_normal(600)
        model = mh.ConditionalMean(mh.Gaussian(2.0), mh.Gaussian(1.0), 1e-4).fit(x[:, None], y)
        assert model.groups_ is not None
        lower, upper = model.interval([[4.0], [15.0]], 0.8).T
        assert_allclose(upper - lower, 2 * 1.2816 * np.array([0.1, 1.0]), rtol=0.4)


@pytest.mark.slow
class TestQuantiles:
    @pytest.mark.parametrize("level", [0.8, 0.9])
    @pytest.mark.parametrize("make", [sine, smooth])
    def test_intervals_cover_their_level(self, make, level):
        covers = [cover(fitted(make, 600, s), *held_out(make, 1500, s), level) for s in range(3)]
        assert abs(np.mean(covers) - level) < 0.05, covers

    def test_intervals_cover_their_level_where_the_noise_is_small_and_where_it_is_large(self):
        x, y = held_out(sine, 1500, 0)
        for part in (x[:, 0] < 0.3, x[:, 0] > 0.7):
            assert abs(cover(fitted(sine, 600), x[part], y[part], 0.9) - 0.9) < 0.08

    def test_clipped_weights_are_far_too_wide_where_there_is_little_noise(self):
        x, y = held_out(smooth, 1500, 0)
        model = fitted(smooth, 600)
        q, wide = model.quantile(x, LEVELS), clipped(model, x).quantile(LEVELS)[:, :, 0]
        assert pinball(q, y) < 0.5 * pinball(wide, y)
        width = np.mean(q[:, -1] - q[:, 0])
        assert width < 0.5 * np.mean(wide[:, -1] - wide[:, 0])
        # Not much above that of the noise itself.
        assert 0.9 * 2 * 1.645 * 0.05 < width < 2 * 2 * 1.645 * 0.05

    def test_no_worse_than_clipped_weights_where_the_noise_varies(self):
        x, y = held_out(sine, 1500, 0)
        model = fitted(sine, 600)
        assert pinball(model.quantile(x, LEVELS), y) < pinball(clipped(model, x).quantile(LEVELS)[:, :, 0], y)

    def test_branches_of_a_fork_are_both_covered(self):
        model = mh.ConditionalMean().fit(*mh.datasets.fork(600))
        x = np.array([0.5, 3.5])
        q = model.quantile(x[:, None], [0.05, 0.95]).reshape(2, 2)
        truth = mh.datasets.fork_quantile(x, [0.05, 0.95])
        centre, gap = 0.5 * np.sin(1.5 * 3.5), 1.1 * (3.5 - 1.2)
        assert q[1, 0] < centre - gap < centre + gap < q[1, 1]
        assert_allclose(np.ptp(q, axis=1), np.ptp(truth, axis=1), rtol=0.3)
        # Few outputs lie between: the cumulative probability hardly rises there.
        between = model.at([[3.5]]).marginals().cdf(0, np.array([[centre - 1.2, centre + 1.2]]))[0]
        assert between[1] - between[0] < 0.3
        assert between[0] > 0.2


class TestAtoms:
    @staticmethod
    def counts(n=300, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 4, (n, 1))
        return x, rng.poisson(0.5 + x[:, 0])

    @staticmethod
    def model(*data):
        return mh.ConditionalMean(mh.Gaussian(1.0), mh.Gaussian(1.0), 1e-3).fit(*data)

    def test_quantiles_are_values_that_were_seen(self):
        X, y = self.counts()
        model = self.model(X, y)
        q = model.quantile(X, LEVELS)
        assert set(np.unique(q)) <= set(np.unique(y).astype(float))
        assert_allclose(q[:, 9].mean(), y.mean(), atol=0.5)
        x, new = self.counts(1000, seed=1)
        lower, upper = model.interval(x, 0.9).T
        assert np.mean((lower <= new) & (new <= upper)) > 0.87  # at least the level: values are lumps

    def test_many_values_are_no_atoms(self):
        X, y = self.counts()
        q = self.model(X, y + np.linspace(0, 0.5, len(y))).quantile(X, LEVELS)
        assert len(np.unique(q)) > 100

    def test_a_coin_keeps_to_its_two_sides(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(-2, 2, (300, 1))
        y = (rng.uniform(size=300) < 1 / (1 + np.exp(-3 * x[:, 0]))).astype(float)
        q = self.model(x, y).quantile([[-1.5], [1.5]], [0.2, 0.5, 0.8])
        assert q.tolist() == [[0, 0, 0], [1, 1, 1]]


class TestPush:
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(30)])
    def test_of_a_point_has_the_quantiles_of_the_point(self, representation):
        X, Y = few()
        model = given(representation=representation).fit(X, Y)
        for x in X[:2]:
            pushed = model.push(mh.embed(x[None], model.kernel_x_))
            assert_allclose(pushed.quantile(LEVELS), model.quantile(x[None], LEVELS)[0], atol=1e-6)

    def test_of_two_points_mixes_their_distributions(self):
        X, Y = few()
        model = given().fit(X, Y[:, 0])
        two = X[:2]
        pushed = model.push(mh.embed(two, model.kernel_x_))
        median = pushed.quantile(0.5)[0]
        each = [model.at(x[None]) for x in two]
        below = []
        for mu in each:
            mu.quantile(0.5)
            below.append(mu.marginals.cdf(0, np.array([[median]]))[0, 0])
        assert np.mean(below) == pytest.approx(0.5, abs=0.02)

    def test_of_a_batch(self):
        X, Y = few()
        model = given().fit(X, Y)
        W = np.eye(60)[:3]
        batch = model.push(mh.embed(X, model.kernel_x_, weights=W))
        assert_allclose(batch.quantile(LEVELS), model.quantile(X[:3], LEVELS), atol=1e-6)


class TestKept:
    @pytest.mark.parametrize("asked", [False, True])
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(30)])
    def test_quantiles_outlive_saving(self, tmp_path, asked, representation):
        X, Y = few()
        model = given(representation=representation, center=True).fit(X, Y)
        if asked:
            model.quantile(X[:1], 0.5)
        mh.save(model, tmp_path / "model")
        twin = mh.load(tmp_path / "model")
        assert twin.center is True
        assert_allclose(twin.quantile(X, LEVELS), model.quantile(X, LEVELS), rtol=1e-9, atol=1e-9)
        assert_allclose(twin.predict(X), model.predict(X), rtol=1e-12)

    def test_a_new_fit_forgets_the_scatter(self):
        X, Y = few()
        model = given().fit(X, Y)
        model.quantile(X, 0.5)
        model.fit(X[:30], -3 * Y[:30])
        again = given().fit(X[:30], -3 * Y[:30])
        assert_allclose(model.quantile(X, LEVELS), again.quantile(X, LEVELS), rtol=0)

    @pytest.mark.parametrize("center", [True, False])
    def test_streamed_sums_give_what_memory_gives(self, center):
        X, Y = few(200)
        Z = X[:25], Y[:20]
        options = {
            "representation": tuple(mh.Nystrom(len(z), landmarks=z) for z in Z),
            "center": center,
        }
        memory = given(**options).fit(X, Y)
        streamed = given(**options).fit(mh.open_rows(X), mh.open_rows(Y))
        parts = given(**options)
        for rows in np.array_split(np.arange(200), 4):
            parts.partial_fit(X[rows], Y[rows])
        x = np.r_[X[:20], [[50.0, 50.0]]]
        expected = memory.at(x)
        for model in (streamed, parts):
            assert model.moments_ is not None
            assert_allclose(model.predict(x), memory.predict(x), rtol=1e-6, atol=1e-8)
            mu = model.at(x)
            assert_allclose(mu.mean(), expected.mean(), rtol=1e-6, atol=1e-8)
            assert_allclose(mu.cov(), expected.cov(), rtol=1e-5, atol=1e-6)
            assert_allclose(mu(Y[:5]), expected(Y[:5]), rtol=1e-6, atol=1e-8)
        f = streamed.expect(lambda y: y[:, 0] ** 3, x)
        assert_allclose(f, memory.expect(lambda y: y[:, 0] ** 3, x), rtol=1e-6, atol=1e-8)
        far = Y.mean(axis=0) if center else np.zeros(2)
        assert_allclose(streamed.predict(x)[-1], far, rtol=1e-9, atol=1e-9)


class TestDefaults:
    @pytest.mark.slow
    def test_steps_get_the_product_of_laplace_kernels(self):
        X, y = steps(500, 0)
        x, new = held_out(steps, 1000, 0)
        model, other = mh.ConditionalMean().fit(X, y), gaussian_only(X, y)
        assert isinstance(model.kernel_x_, mh.Laplace)
        assert model.kernel_x_.norm == 1
        assert isinstance(other.kernel_x_, mh.Gaussian)
        ours, theirs = (np.sqrt(np.mean((m.predict(x) - new) ** 2)) for m in (model, other))
        assert ours < 0.75 * theirs

    @pytest.mark.slow
    def test_a_smooth_function_keeps_its_gaussian(self):
        assert isinstance(fitted(smooth, 600).kernel_x_, mh.Gaussian)

    @pytest.mark.slow
    def test_sums_of_categories_are_learned_as_well_as_by_a_line(self):
        effects = dict(zip("abcdef", [0, 1, -1, 2, 0.5, -2.0], strict=True))

        def table(n, seed):
            rng = np.random.default_rng(seed)
            X = pd.DataFrame({name: rng.choice(list("abcdef"), n) for name in "pqr"})
            X["z"] = rng.standard_normal(n)
            y = sum(w * X[c].map(effects).to_numpy(float) for c, w in zip("pqr", (1, 0.5, 1.5), strict=True))
            return X, y + X["z"].to_numpy() + 0.3 * rng.standard_normal(n)

        X, y = table(500, 0)
        x, new = table(800, 1)
        model = mh.ConditionalMean().fit(X, y)
        line = LinearRegression().fit(pd.get_dummies(X, dtype=float), y)
        best = line.score(pd.get_dummies(x, dtype=float), new)
        assert model.score(x, new) > best - 0.025
        # The column that matters least is the one whose categories are most alike.
        rest = {p.columns[0]: p.kernel.rest for p in model.kernel_x_.parts if isinstance(p.kernel, mh.Delta)}
        assert rest[1] > max(rest[0], rest[2])

    def test_few_rows_are_exact(self):
        X, Y = few()
        assert given().fit(X, Y).representation_ == mh.Exact()
        many = np.repeat(X, 80, axis=0)  # 4 800 rows, 60 distinct inputs
        assert given(kernel_y=mh.Linear()).fit(many, np.repeat(Y, 80, axis=0)).representation_ == mh.Exact()

    @pytest.mark.slow
    def test_many_rows_have_landmarks_and_the_same_answer(self):
        X, y = smooth(4500, 0)
        x, new = held_out(smooth, 1000, 0)
        kernel = mh.Gaussian(0.7)
        model = mh.ConditionalMean(kernel, mh.Gaussian(1.0), 1e-6).fit(X, y)
        exact = mh.ConditionalMean(kernel, mh.Gaussian(1.0), 1e-6, mh.Exact()).fit(X, y)
        assert isinstance(model.representation_, mh.Nystrom)
        assert model.representation_.landmarks == "uniform"
        assert exact.representation_ == mh.Exact()
        ours, theirs = (np.sqrt(np.mean((m.predict(x) - new) ** 2)) for m in (model, exact))
        assert abs(ours / theirs - 1) < 0.02
        assert np.sqrt(np.mean((model.predict(x) - exact.predict(x)) ** 2)) < 0.02 * y.std()


def test_intervals_cover_without_centring_too():
    """The plain form falls short of outputs far from 0; its own residuals say by how much."""
    (X, y), (x, new) = few(300, columns=1), few(1500, seed=5, columns=1)
    model = given(reg=1e-2, center=False).fit(X, y[:, 0] + 20)
    assert abs(cover(model, x, new[:, 0] + 20, 0.9) - 0.9) < 0.08


@pytest.fixture(scope="module")
def spent():
    """A model of sums that are often 0, and new rows."""
    rng = np.random.default_rng(0)

    def draw(n):
        X = rng.standard_normal((n, 2))
        none = rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))
        return X, np.where(none, 0.0, np.exp(0.5 * X[:, 1] + 0.5 * rng.standard_normal(n)))

    X, y = draw(800)
    return mh.ConditionalMean(random_state=0).fit(X, y), draw(2000)


@pytest.mark.slow
class TestMasses:
    """Outcomes that are often one value and continuous otherwise: rain, claims, sums that are spent."""

    @pytest.mark.parametrize("level", [0.5, 0.8])
    def test_intervals_hold_their_share(self, spent, level):
        """The half-interval held .29 when the zeros were smeared by the residuals."""
        model, (X, y) = spent
        low, high = model.interval(X, level).T
        assert np.mean((low <= y) & (y <= high)) > level - 0.02

    def test_the_median_is_0_where_most_are(self, spent):
        model, _ = spent
        assert model.quantile([[2.0, 0.0]], 0.5)[0] == 0.0
        assert model.quantile([[-2.0, 0.0]], 0.5)[0] > 0.3


class TestExtrapolation:
    """Outside the training inputs a nearly linear regression goes on, and its error grows."""

    @pytest.fixture(scope="class")
    @staticmethod
    def line():
        rng = np.random.default_rng(0)
        X = rng.normal(200, 14, (200, 1))
        return mh.ConditionalMean(mh.Gaussian(300.0), reg=1e-8).fit(X, 50 * X[:, 0] + rng.normal(0, 300, 200))

    def test_intervals_grow(self, line):
        low, high = line.interval([[200.0], [260.0], [300.0], [400.0]], 0.9).T
        width = high - low
        assert width[0] < 1300
        assert (np.diff(width) > 0).all()
        assert low[3] < 50 * 400 < high[3]

    def test_they_are_those_of_a_gaussian_process(self, line):
        """By the dense formula, relative to the mean over training rows that are left out."""
        X, c = line.gram_.points, len(line.gram_) * 1e-8
        K = line.kernel_x_(X)
        R = np.linalg.inv(K + c * np.eye(len(X)))
        x = np.array([[260.0], [150.0]])
        k = line.kernel_x_(X, x)
        expected = np.sqrt(1 + (1 - (k * (R @ k)).sum(axis=0)) / c) / np.sqrt(np.mean(1 / (c * np.diag(R))))
        found = line.at(x)
        assert_allclose(found.marginals().wider, np.maximum(expected, 1), rtol=1e-3)

    def test_inside_nothing_changes(self, line):
        assert (line.at(line.gram_.points).marginals().wider == 1).all()
