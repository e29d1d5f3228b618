"""The conditional mean estimator against dense NumPy, scikit-learn and itself in other representations."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

import muhat as mh

KX, KY, REG = mh.Laplace(1.2), mh.Gaussian(0.6), 1e-2


def data(n=60, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    Y = np.c_[np.sin(2 * X[:, 0]), X[:, -1] ** 2] + 0.1 * rng.standard_normal((n, 2))
    return X, Y


def grouped(seed=0):
    """Rows that share inputs, in groups of unequal size."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.standard_normal((12, 2)), rng.integers(1, 9, 12), axis=0)
    X = X[rng.permutation(len(X))]
    return X, np.c_[np.sin(2 * X[:, 0]), X[:, 1] ** 2] + 0.1 * rng.standard_normal((len(X), 2))


def plain_weights(X, x, kernel=KX, reg=REG):
    """The formula of the papers."""
    n = len(X)
    return np.linalg.solve(kernel(X) + n * reg * np.eye(n), kernel(X, x)).T


def dense_weights(X, x, kernel=KX, reg=REG):
    """Of centred outputs: ``1/n + w − w 1 1ᵀ/n``, the mean and the regression of what differs from it."""
    n = len(X)
    centring = np.eye(n) - np.full((n, n), 1 / n)
    return 1 / n + plain_weights(X, x, kernel, reg) @ centring


def model(representation=None, **options):
    settings = {"kernel_x": KX, "kernel_y": KY, "reg": REG, **options}
    return mh.ConditionalMean(representation=representation, **settings)


QUERY = np.random.default_rng(9).standard_normal((7, 2))

SAME = {
    "default": None,
    "exact": mh.Exact(),
    "blocked": mh.Exact(memory=0, tolerance=1e-12, rank=20),
    "all landmarks": mh.Nystrom(10_000),
}
NEAR = {
    "nystrom": mh.Nystrom(100),
    "uniform": mh.Nystrom(100, landmarks="uniform"),
    "fourier": mh.Fourier(1000),
}


class TestExact:
    def test_weights_equal_dense_numpy(self):
        X, Y = data()
        mu = model().fit(X, Y).at(QUERY)
        assert len(mu) == 7
        assert_allclose(mu.weights, dense_weights(X, QUERY), rtol=1e-8, atol=1e-12)
        assert_allclose(mu.weights.sum(axis=1), 1, rtol=1e-12)
        assert_allclose(mu.points, Y, rtol=0)
        assert mu.kernel == KY

    @pytest.mark.parametrize("make", [data, grouped])
    def test_without_centring_weights_are_those_of_the_papers(self, make):
        X, Y = make()
        fitted = model(center=False).fit(X, Y)
        W = plain_weights(X, QUERY)
        assert_allclose(fitted.at(QUERY).weights, W, rtol=1e-8, atol=1e-12)
        assert_allclose(fitted.predict(QUERY), W @ Y, rtol=1e-8, atol=1e-12)
        assert_allclose(fitted.expect(lambda y: np.exp(y), QUERY), W @ np.exp(Y), rtol=1e-8, atol=1e-12)
        assert_allclose(fitted.push(mh.embed(QUERY, KX)).weights, W.mean(axis=0), rtol=1e-8, atol=1e-12)

    @pytest.mark.parametrize("flat", [True, False])
    def test_predict_is_kernel_ridge(self, flat):
        X, Y = data()
        Y = Y[:, 0] if flat else Y
        theirs = KernelRidge(alpha=len(X) * REG, kernel=lambda a, b: KX(a[None], b[None])[0, 0])
        plain, ours = model(center=False).fit(X, Y), model().fit(X, Y)
        assert ours.predict(QUERY).shape == ((7,) if flat else (7, 2))
        assert_allclose(plain.predict(QUERY), theirs.fit(X, Y).predict(QUERY), rtol=1e-8, atol=1e-10)
        mean = Y.mean(axis=0)
        expected = mean + theirs.fit(X, Y - mean).predict(QUERY)
        assert_allclose(ours.predict(QUERY), expected, rtol=1e-8, atol=1e-10)

    def test_predict_is_the_mean_of_the_embedding(self):
        X, Y = data()
        fitted = model().fit(X, Y)
        assert_allclose(fitted.predict(QUERY), fitted.at(QUERY).mean(), rtol=1e-8, atol=1e-10)

    @pytest.mark.parametrize("make", [data, grouped])
    def test_expect_is_the_expectation_of_the_embedding(self, make):
        X, Y = make()
        fitted = model().fit(X, Y)
        for f in (
            lambda y: y[:, 0] * y[:, 1],
            lambda y: np.exp(y),
            Y[:, 0] > 0,
            list(Y[:, 0]),
            np.c_[Y, Y**2],
        ):
            assert_allclose(fitted.expect(f, QUERY), fitted.at(QUERY).expect(f), rtol=1e-7, atol=1e-10)

    def test_interpolates_without_noise_and_regulariser(self):
        X, Y = data(30)
        fitted = model(reg=1e-12).fit(X, Y)
        assert_allclose(fitted.predict(X), Y, atol=1e-6)

    def test_heavy_regularisation_gives_the_mean_or_nothing(self):
        X, Y = data()
        fitted = model(reg=1e8).fit(X, Y)
        assert_allclose(fitted.predict(QUERY), np.tile(Y.mean(axis=0), (7, 1)), atol=1e-6)
        assert_allclose(fitted.at(QUERY).weights, 1 / len(X), atol=1e-6)
        assert np.abs(model(reg=1e8, center=False).fit(X, Y).predict(QUERY)).max() < 1e-6

    def test_units_of_the_outputs_may_start_anywhere(self):
        X, Y = data()
        moved = model().fit(X, Y + 1000.0)
        assert_allclose(moved.predict(QUERY), model().fit(X, Y).predict(QUERY) + 1000.0, rtol=1e-11)


class TestRepresentations:
    @pytest.mark.parametrize("make", [data, grouped])
    @pytest.mark.parametrize("name", SAME)
    def test_that_are_exact(self, name, make):
        X, Y = make()
        fitted = model(SAME[name]).fit(X, Y)
        W = dense_weights(X, QUERY)
        mu = fitted.at(QUERY)
        assert_allclose(fitted.predict(QUERY), W @ Y, rtol=1e-6, atol=1e-8)
        assert_allclose(mu.weights, W, rtol=1e-6, atol=1e-8)
        assert_allclose(mu.mean(), W @ Y, rtol=1e-6, atol=1e-8)
        assert_allclose(mu(Y[:5]), W @ KY(Y, Y[:5]), rtol=1e-4, atol=1e-5)
        assert_allclose(fitted.expect(lambda y: y[:, 0] ** 2, QUERY), W @ Y[:, 0] ** 2, rtol=1e-6, atol=1e-8)
        exact = model().fit(X, Y)
        assert_allclose(fitted.score(X, Y), exact.score(X, Y), atol=1e-5)
        assert_allclose(fitted.explained(X, Y), exact.explained(X, Y), atol=1e-4)
        nu = mh.embed(QUERY, KX)
        assert_allclose(fitted.push(nu).weights, W.mean(axis=0), rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("name", NEAR)
    def test_that_are_near(self, name):
        X, Y = data(300)
        kernel = mh.Gaussian(1.0)
        exact = model(kernel_x=kernel).fit(X, Y)
        fitted = model(NEAR[name], kernel_x=kernel).fit(X, Y)
        off = np.abs(fitted.predict(X) - exact.predict(X))  # the outputs spread over about ±1
        assert off.mean() < 0.05
        assert np.abs(fitted.at(QUERY)(Y[:50]) - exact.at(QUERY)(Y[:50])).mean() < 0.04
        assert_allclose(fitted.score(X, Y), exact.score(X, Y), atol=0.05)
        assert_allclose(fitted.explained(X, Y), exact.explained(X, Y), atol=0.03)

    @pytest.mark.parametrize("representation", [mh.Nystrom(20), mh.Fourier(40)])
    @pytest.mark.parametrize("make", [data, grouped])
    def test_low_rank_equals_the_dense_formula_of_its_own_kernel(self, representation, make):
        X, Y = make()
        fitted = model(representation).fit(X, Y)
        W = dense_weights(X, QUERY, fitted.kernel_x_)
        mu = fitted.at(QUERY)
        assert_allclose(mu.weights, W, rtol=1e-6, atol=1e-9)
        assert_allclose(fitted.predict(QUERY), W @ Y, rtol=1e-6, atol=1e-9)
        assert_allclose(mu(Y[:5]), W @ fitted.kernel_y_(Y, Y[:5]), rtol=1e-6, atol=1e-8)
        assert_allclose(mu[2](Y[:5]), mu(Y[:5])[2], rtol=1e-10)
        assert_allclose(mu.norm() ** 2, np.einsum("ij,jk,ik->i", W, fitted.kernel_y_(Y), W), rtol=1e-5)
        pushed = fitted.push(mh.embed(QUERY, KX))
        assert_allclose(pushed(Y[:5]), mu(Y[:5]).mean(axis=0), rtol=1e-8, atol=1e-10)

    @pytest.mark.parametrize("representation", [mh.Nystrom(10), mh.Fourier(30)])
    def test_random_state(self, representation):
        X, Y = data()
        first, again, other = (
            model(representation, random_state=s).fit(X, Y).predict(QUERY) for s in (3, 3, 4)
        )
        assert_allclose(first, again, rtol=0)
        assert np.abs(first - other).max() > 1e-6

    def test_generator_and_randomstate_are_accepted(self):
        X, Y = data()
        for seed in (np.random.default_rng(0), np.random.RandomState(0), None):
            assert model(mh.Nystrom(10), random_state=seed).fit(X, Y).predict(QUERY).shape == (7, 2)

    def test_features_of_the_user(self):
        X, Y = data()

        def features(z):
            return np.c_[np.ones(len(z)), z, z**2]

        fitted = mh.ConditionalMean(KX, KY, 1e-3, mh.Features(features)).fit(X, Y)
        Phi = features(X)
        c = len(X) * 1e-3
        solve = np.linalg.solve(Phi.T @ Phi + c * np.eye(Phi.shape[1]), Phi.T)
        expected = Y.mean(axis=0) + features(QUERY) @ solve @ (Y - Y.mean(axis=0))
        assert_allclose(fitted.predict(QUERY), expected, rtol=1e-8)
        plain = mh.ConditionalMean(KX, KY, 1e-3, mh.Features(features), center=False).fit(X, Y)
        assert_allclose(plain.predict(QUERY), features(QUERY) @ solve @ Y, rtol=1e-8)


class TestGroups:
    def test_equal_inputs_are_grouped_without_a_trace(self):
        X, Y = grouped()
        fitted = model().fit(X, Y)
        assert len(fitted.gram_) == 12
        W = dense_weights(X, QUERY)
        assert_allclose(fitted.at(QUERY).weights, W, rtol=1e-10, atol=1e-10)
        assert_allclose(fitted.predict(QUERY), W @ Y, rtol=1e-10, atol=1e-10)
        nearly = X + 1e-13 * np.arange(len(X))[:, None]
        apart = model().fit(nearly, Y)
        assert apart.groups_ is None
        assert_allclose(apart.predict(QUERY), fitted.predict(QUERY), rtol=1e-8, atol=1e-8)

    def test_automatic_choice_is_that_of_ungrouped_rows(self):
        X, Y = grouped()
        fitted = model(reg=None).fit(X, Y)
        apart = model(reg=None).fit(X + 1e-13 * np.arange(len(X))[:, None], Y)
        assert apart.groups_ is None
        assert_allclose(fitted.reg_, apart.reg_)
        assert_allclose(fitted.selection_.score, apart.selection_.score, rtol=1e-5)


class TestPush:
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20), mh.Fourier(40), SAME["blocked"]])
    @pytest.mark.parametrize("make", [data, grouped])
    def test_of_a_point_is_at(self, representation, make):
        X, Y = make()
        fitted = model(representation).fit(X, Y)
        for x in QUERY[:2]:
            point = fitted.push(mh.embed(x[None], KX))
            at = fitted.at(x[None])[0]
            assert not point.is_batch
            assert_allclose(point.weights, at.weights, rtol=1e-6, atol=1e-10)
            assert_allclose(point(Y[:5]), at(Y[:5]), rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    def test_is_linear_and_takes_batches(self, representation):
        X, Y = data()
        fitted = model(representation).fit(X, Y)
        W = np.random.default_rng(3).standard_normal((4, 7))
        batch = fitted.push(mh.embed(QUERY, KX, weights=W))
        assert len(batch) == 4
        assert_allclose(batch.weights, W @ fitted.at(QUERY).weights, rtol=1e-8, atol=1e-12)
        assert_allclose(batch(Y[:5]), W @ fitted.at(QUERY)(Y[:5]), rtol=1e-8, atol=1e-10)
        mu, nu = mh.embed(QUERY[:3], KX), mh.embed(QUERY[3:], KX)
        mixture = fitted.push(0.3 * mu - 2.0 * nu)
        separately = 0.3 * fitted.push(mu) - 2.0 * fitted.push(nu)
        assert_allclose(mixture(Y[:5]), separately(Y[:5]), rtol=1e-8, atol=1e-10)

    def test_marginal_of_x_gives_the_marginal_of_y(self):
        X, Y = data(300)
        fitted = model(reg=1e-5).fit(X, Y)
        pushed = fitted.push(mh.embed(X, KX))
        assert pushed.distance(mh.embed(Y, KY)) < 0.01
        assert_allclose(pushed.mean(), Y.mean(axis=0), atol=0.01)

    def test_of_a_gaussian_input_integrates_the_regression(self):
        X, Y = data(200)
        fitted = model(kernel_x=mh.Gaussian(0.8)).fit(X, Y)
        many = np.array([0.2, -0.1]) + 0.3 * np.random.default_rng(5).standard_normal((20_000, 2))
        expected = fitted.gram_.kernel.gaussian_embedding(X, np.array([0.2, -0.1]), 0.09)
        weights = np.linalg.solve(fitted.kernel_x_(X) + 200 * REG * np.eye(200), expected)
        mean = Y.mean(axis=0)
        expected = mean + weights @ (Y - mean)
        assert_allclose(fitted.push(mh.embed(many, KX)).mean(), expected, atol=0.02)


class TestChain:
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    @pytest.mark.parametrize("make", [data, grouped])
    def test_joint_against_brute_force(self, representation, make):
        X, Y = make()
        fitted = model(representation).fit(X, Y)
        mu = mh.embed(QUERY, KX, weights=np.random.default_rng(3).dirichlet(np.ones(7), 3))
        joint = fitted.chain(mu)
        assert_allclose(joint.points[:, :2], X, rtol=0)
        assert_allclose(joint.points[:, 2:], Y, rtol=0)
        W = mu.weights @ dense_weights(X, QUERY, fitted.kernel_x_)
        product = np.sin(X[:, 0]) * Y[:, 1] ** 2
        got = joint.expect(lambda z: np.sin(z[:, 0]) * z[:, 3] ** 2)
        assert_allclose(got, W @ product, rtol=1e-6, atol=1e-9)
        # Marginals: y is what push gives, for any function of y.
        assert_allclose(joint.expect(lambda z: z[:, 2:]), fitted.push(mu).mean(), rtol=1e-8, atol=1e-10)
        x, y = QUERY[:2], Y[:2]
        K = fitted.kernel_x_(X, x) * fitted.kernel_y_(Y, y)
        assert_allclose(joint(np.c_[x, y]), W @ K, rtol=1e-6, atol=1e-9)

    def test_of_one_embedding_is_one(self):
        X, Y = data()
        fitted = model().fit(X, Y)
        assert not fitted.chain(mh.embed(QUERY, KX)).is_batch

    def test_marginal_on_x_is_the_input(self):
        X, Y = data(300)
        fitted = model(kernel_x=mh.Gaussian(0.8), reg=1e-8).fit(X, Y)
        joint = fitted.chain(mh.embed(QUERY, KX))
        assert_allclose(joint.mean()[:2], QUERY.mean(axis=0), atol=5e-3)


class TestScore:
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    @pytest.mark.parametrize("columns", [1, 2])
    def test_linear_output_kernel_gives_r2(self, representation, columns):
        X, Y = data(80)
        test_X, test_Y = data(40, seed=1)
        Y, test_Y = Y[:, :columns], test_Y[:, :columns]
        fitted = model(representation, kernel_y=mh.Linear()).fit(X, Y)
        expected = r2_score(test_Y, fitted.predict(test_X), multioutput="variance_weighted")
        assert_allclose(fitted.explained(test_X, test_Y), expected, rtol=1e-6)
        w = np.random.default_rng(2).uniform(0.5, 2, 40)
        weighted = r2_score(test_Y, fitted.predict(test_X), sample_weight=w, multioutput="variance_weighted")
        assert_allclose(fitted.explained(test_X, test_Y, sample_weight=w), weighted, rtol=1e-6)

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20)])
    @pytest.mark.parametrize("columns", [1, 2])
    def test_is_the_r2_of_scikit_learn_whatever_the_output_kernel(self, representation, columns):
        X, Y = data(80)
        test_X, test_Y = data(40, seed=1)
        Y, test_Y = Y[:, :columns], test_Y[:, :columns]
        fitted = model(representation).fit(X, Y)
        assert_allclose(fitted.score(test_X, test_Y), r2_score(test_Y, fitted.predict(test_X)), rtol=1e-12)
        w = np.random.default_rng(2).uniform(0.5, 2, 40)
        weighted = r2_score(test_Y, fitted.predict(test_X), sample_weight=w)
        assert_allclose(fitted.score(test_X, test_Y, sample_weight=w), weighted, rtol=1e-12)

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(25), mh.Fourier(50)])
    def test_explained_is_the_share_of_the_variance_in_the_rkhs(self, representation):
        X, Y = data(80)
        x, y = data(30, seed=1)
        fitted = model(representation).fit(X, Y)
        W, L = fitted.at(x).weights, fitted.kernel_y_
        left = [L(y[[i]])[0, 0] - 2 * W[i] @ L(Y, y[[i]])[:, 0] + W[i] @ L(Y) @ W[i] for i in range(30)]
        spread = np.trace(L(y)) - L(y).sum() / 30
        assert_allclose(fitted.explained(x, y), 1 - sum(left) / spread, rtol=1e-5)

    def test_is_high_for_signal_and_none_for_noise(self):
        X, Y = data(200)
        test = data(100, seed=1)
        fitted = mh.ConditionalMean().fit(X, Y)
        assert 0.85 < fitted.score(*test) < 1
        assert 0.85 < fitted.explained(*test) < 1
        noise = np.random.default_rng(4).standard_normal((200, 1))
        fitted = mh.ConditionalMean().fit(X, noise)
        x, other = np.split(np.random.default_rng(5).standard_normal((2000, 3)), [2], axis=1)
        assert -0.05 < fitted.score(x, other) < 0.05
        assert -0.05 < fitted.explained(x, other) < 0.05

    def test_constant_target_is_0_or_1_as_in_scikit_learn(self):
        X, Y = data()
        fitted = model(kernel_y=mh.Linear()).fit(X, Y[:, 0])
        zero = model(kernel_y=mh.Linear()).fit(X, np.zeros(len(X)))
        for name in ("score", "explained"):
            assert getattr(fitted, name)(X, np.ones(len(X))) == 0
            assert getattr(zero, name)(X, np.zeros(len(X))) == 1


class TestAutomatic:
    def test_nothing_to_choose(self):
        X, Y = data()
        fitted = model().fit(X, Y)
        assert fitted.selection_ is None
        assert fitted.reg_ == REG
        assert fitted.kernel_x_ == KX

    def test_given_kernel_keeps_its_lengthscale(self):
        X, Y = data()
        fitted = model(reg=None).fit(X, Y)
        assert fitted.kernel_x_ == KX
        assert fitted.reg_ == fitted.selection_.reg
        median = model(kernel_x=mh.Gaussian("median"), reg=None).fit(X, Y)
        assert median.kernel_x_ == mh.Gaussian("median").resolve(X)

    def test_beats_bad_choices_and_is_near_the_best(self):
        X, Y = data(200)
        test = data(300, seed=1)

        def loss(**options):
            """Of the outputs and of their features, which count alike in the choice."""
            fitted = mh.ConditionalMean(**options).fit(X, Y)
            return 1 - (fitted.score(*test) + fitted.explained(*test)) / 2

        chosen = loss()
        grid = [
            loss(kernel_x=mh.Gaussian(ell), reg=reg)
            for ell in (0.2, 0.5, 1.0, 2.0)
            for reg in (1e-7, 1e-5, 1e-4, 1e-3, 1e-1)
        ]
        assert chosen < 1.1 * min(grid)
        assert chosen < 0.3 * loss(kernel_x=mh.Gaussian(0.05), reg=1e-3)
        assert chosen < 0.3 * loss(kernel_x=mh.Gaussian(0.5), reg=10.0)

    def test_finds_that_the_detail_is_fine(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(0, 10, (300, 1))
        wiggly = mh.ConditionalMean().fit(x, np.sin(5 * x))
        smooth = mh.ConditionalMean().fit(x, np.sin(0.3 * x))
        assert wiggly.kernel_x_.lengthscale < 0.3 * smooth.kernel_x_.lengthscale


class TestDistribution:
    def test_quantiles_widen_with_the_noise(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(0, 1, (1000, 1))
        y = np.sin(3 * x) + (0.05 + 0.5 * x) * rng.standard_normal((1000, 1))
        fitted = mh.ConditionalMean().fit(x, y)
        lower, upper = np.moveaxis(fitted.at([[0.1], [0.5], [0.9]]).quantile([0.1, 0.9])[:, :, 0], 1, 0)
        width = upper - lower
        # ±1.2816 standard deviations: .26, .77 and 1.28; regularisation mixes in the neighbours.
        assert_allclose(width, 2 * 1.2816 * (0.05 + 0.5 * np.array([0.1, 0.5, 0.9])), atol=0.2)
        assert 1.5 * width[0] < width[1] < width[2] / 1.2

    def test_order_of_rows_does_not_matter(self):
        X, Y = data()
        order = np.random.default_rng(0).permutation(len(X))
        for options in ({"reg": REG}, {"reg": None, "kernel_x": None}):
            here = model(**options).fit(X, Y)
            there = model(**options).fit(X[order], Y[order])
            assert_allclose(there.predict(QUERY), here.predict(QUERY), rtol=1e-6, atol=1e-8)
            assert_allclose(there.at(QUERY).weights, here.at(QUERY).weights[:, order], rtol=1e-5, atol=1e-8)

    def test_refit_forgets(self):
        X, Y = data()
        first = model(mh.Nystrom(20)).fit(X, Y)
        first.fit(X[:30, :1], Y[:30, 0])
        again = model(mh.Nystrom(20)).fit(X[:30, :1], Y[:30, 0])
        assert_allclose(first.predict(QUERY[:, :1]), again.predict(QUERY[:, :1]), rtol=0)

    def test_training_data_is_left_alone(self):
        X, Y = data()
        before = X.copy(), Y.copy()
        fitted = model().fit(X, Y)
        fitted.predict(X)
        assert_allclose(X, before[0], rtol=0)
        assert_allclose(Y, before[1], rtol=0)

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20), mh.Fourier(40), SAME["blocked"]])
    def test_deepcopy(self, representation):
        X, Y = data()
        fitted = model(representation).fit(X, Y)
        twin = copy.deepcopy(fitted)
        assert_allclose(twin.predict(QUERY), fitted.predict(QUERY), rtol=0)
        fitted.fit(X[::2], -Y[::2])
        assert np.abs(twin.predict(QUERY) - fitted.predict(QUERY)).max() > 0.1


class TestHardButFine:
    def test_duplicated_data(self):
        X, Y = data()
        once, twice = model().fit(X, Y), model().fit(np.r_[X, X], np.r_[Y, Y])
        # Averages are the same, so the operators are.
        assert_allclose(twice.predict(QUERY), once.predict(QUERY), rtol=1e-8, atol=1e-10)

    def test_all_rows_the_same(self):
        Y = np.arange(5.0)
        fitted = mh.ConditionalMean(mh.Gaussian(1.0), mh.Gaussian(1.0), 1e-8).fit(np.ones((5, 2)), Y)
        assert_allclose(fitted.predict(np.ones((1, 2))), [2.0], rtol=1e-6)

    def test_fewer_rows_than_columns(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((15, 60))
        fitted = mh.ConditionalMean().fit(X, X[:, 0])
        assert np.isfinite(fitted.predict(X)).all()

    @pytest.mark.parametrize("scale", [1e-8, 1e8])
    def test_units(self, scale):
        X, Y = data()
        plain = mh.ConditionalMean().fit(X, Y)
        scaled = mh.ConditionalMean().fit(scale * X, scale * Y)
        assert_allclose(scaled.predict(scale * QUERY) / scale, plain.predict(QUERY), rtol=1e-4, atol=1e-6)
        assert_allclose(scaled.reg_, plain.reg_, rtol=1e-6)

    @pytest.mark.parametrize("representation", [None, mh.Nystrom(30)])
    def test_nearly_singular_gram(self, representation):
        X, _ = data()
        fitted = model(representation, kernel_x=mh.Gaussian(50.0), reg=1e-13).fit(X, X[:, 0])
        assert np.isfinite(fitted.predict(QUERY)).all()
        assert_allclose(fitted.predict(QUERY), QUERY[:, 0], atol=0.1)  # a line, to such a kernel

    def test_two_rows(self):
        fitted = model(kernel_x=mh.Gaussian(1.0)).fit([[0.0], [1.0]], [0.0, 1.0])
        assert 0 < fitted.predict([[0.5]])[0] < 1


class TestRepresentationOfEach:
    def test_features_stand_for_the_input_kernel(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (80, 1))
        y = 2 * X[:, 0] + 0.5 + 0.01 * rng.standard_normal(80)
        model = mh.ConditionalMean(representation=mh.Features(lambda x: np.hstack([np.ones_like(x), x])))
        model.fit(X, y)
        assert_allclose(model.predict(np.array([[0.0], [3.0]])), [0.5, 6.5], atol=0.15)
        assert model.at(X[:2]).kernel == model.kernel_y_

    def test_a_pair_is_for_x_and_for_y(self):
        rng = np.random.default_rng(0)
        X, Y = rng.standard_normal((60, 2)), rng.standard_normal((60, 3))
        arguments = (mh.Gaussian(1.0), mh.Gaussian(1.0), 1e-2)
        mixed = mh.ConditionalMean(*arguments, representation=(mh.Nystrom(60), mh.Exact())).fit(X, Y)
        exact = mh.ConditionalMean(*arguments).fit(X, Y)
        assert mixed.kernel_y_ == mh.Gaussian(1.0)
        assert_allclose(mixed.at(X[:4]).weights, exact.at(X[:4]).weights, atol=1e-8)

    def test_a_kernel_that_a_representation_cannot_take_is_refused_before_any_search(self):
        X = np.arange(40.0).reshape(20, 2)
        with pytest.raises(mh.NoClosedForm, match="Nystrom"):
            mh.ConditionalMean(mh.Linear(), representation=mh.Fourier(10)).fit(X, X)

    def test_jax_arrays_are_taken_as_numpy(self):
        import jax.numpy as jnp

        X = np.random.default_rng(0).standard_normal((30, 2)).astype(np.float32)
        model = mh.ConditionalMean().fit(jnp.asarray(X), jnp.asarray(X[:, 0]))
        assert isinstance(model.predict(jnp.asarray(X)), np.ndarray)
