"""The task-transformed Gaussian process as an estimator."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import muhat as mh
from muhat.engine import sample_rows
from muhat.models import task_transformed_gp

GIVEN = {
    "kernel_x": 1.5 * mh.Gaussian(0.8),
    "kernel_y": 2.0 * mh.Gaussian(0.6),
    "noise": 0.2,
    "optimize": False,
}
QUERY = np.linspace(-2.5, 2.5, 30)


def make(seed=0, n=60, m=80):
    """``f(x) = sin 2x`` seen through ``X = 2 sin Y + noise``."""
    rng = np.random.default_rng(seed)
    y, y_task = rng.uniform(-3, 3, n), rng.uniform(-3, 3, m)
    x = 2 * np.sin(y) + 0.2 * rng.normal(size=n)
    z = np.sin(2 * (2 * np.sin(y_task) + 0.2 * rng.normal(size=m))) + 0.1 * rng.normal(size=m)
    return x, y, y_task, z


class TestTask:
    @pytest.mark.parametrize("inference", ["full", "map"])
    def test_posterior_is_that_of_theorem_5_3(self, inference):
        x, y, y_task, z = make()
        model = mh.TaskTransformedGP(**GIVEN, inference=inference).fit(x, y, y_task, z)
        kx, ky, s2 = GIVEN["kernel_x"], GIVEN["kernel_y"], GIVEN["noise"] ** 2
        X, Y, T, Q = (a[:, None] for a in (x, y, y_task, QUERY))
        A = np.linalg.solve(ky(Y) + s2 * np.eye(len(Y)), ky(Y, T))
        Sigma = s2 * np.eye(len(T)) + (ky(T) - ky(T, Y) @ A if inference == "full" else 0)
        S = A.T @ kx(X) @ A + Sigma
        C = kx(Q, X) @ A
        mean, cov = model.predict(QUERY, return_cov=True)
        assert_allclose(mean, C @ np.linalg.solve(S, z), atol=1e-8)
        assert_allclose(cov, kx(Q) - C @ np.linalg.solve(S, C.T), atol=1e-8)
        assert_allclose(model.predict(QUERY, return_std=True)[1] ** 2, np.diagonal(cov), atol=1e-8)
        assert np.linalg.eigvalsh(cov)[0] > -1e-9
        # g at new y: a Gaussian process itself, whose covariance with z is that of the model
        new = np.array([[0.3], [1.7]])
        B = np.linalg.solve(ky(Y) + s2 * np.eye(len(Y)), ky(Y, new))
        cross = B.T @ kx(X) @ A + (ky(new, T) - ky(new, Y) @ A if inference == "full" else 0)
        prior = B.T @ kx(X) @ B + (ky(new) - ky(new, Y) @ B if inference == "full" else 0)
        mean, cov = model.predict_task(new, return_cov=True)
        assert_allclose(mean, cross @ np.linalg.solve(S, z), atol=1e-8)
        assert_allclose(cov, prior - cross @ np.linalg.solve(S, cross.T), atol=1e-8)
        assert_allclose(model.predict_task(new, return_std=True)[1] ** 2, np.diagonal(cov), atol=1e-8)

    @pytest.mark.parametrize("inference", ["full", "map"])
    @pytest.mark.parametrize("m", [30, 80])
    def test_landmarks_at_every_point_are_exact(self, inference, m):
        """TTBLR on features that span the kernels is TTBKR [HR19, Thm. 5.3]."""
        x, y, y_task, z = make(m=m)
        exact, features = (
            mh.TaskTransformedGP(**GIVEN, inference=inference, representation=r).fit(x, y, y_task, z)
            for r in (None, mh.Nystrom(60))
        )
        inside = np.linspace(-1.9, 1.9, 20)
        for ask in ("predict", "predict_task"):
            mean, std = getattr(exact, ask)(inside, return_std=True)
            found, spread = getattr(features, ask)(inside, return_std=True)
            assert_allclose(found, mean, atol=1e-5)
            assert_allclose(spread, std, atol=1e-4)
        assert_allclose(features.log_marginal_likelihood_, exact.log_marginal_likelihood_, rtol=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("representation", [None, mh.Fourier(60), mh.Nystrom(20)])
    def test_likelihoods_in_numpy_and_in_jax_are_one(self, representation):
        model = mh.TaskTransformedGP(**GIVEN, representation=representation).fit(*make())
        value, slope = model.log_marginal_likelihood(model.theta_, gradient=True)
        assert_allclose(value, model.log_marginal_likelihood_, rtol=1e-7)
        assert len(slope) == len(model.labels_) - 1  # the noise was given

    @pytest.mark.slow
    def test_recovers_f_and_says_how_well(self):
        model = mh.TaskTransformedGP().fit(*make(n=100, m=150))
        inside = np.linspace(-2, 2, 50)
        mean, std = model.predict(inside, return_std=True)
        error = mean - np.sin(2 * inside)
        assert np.sqrt(np.mean(error**2)) < 0.2
        assert np.mean(np.abs(error) < 2 * std) > 0.8
        # Beyond the x that were seen it knows nothing, and goes back to the mean of z.
        far, spread = model.predict([[50.0]], return_std=True)
        assert far[0] == pytest.approx(model.offset_)
        assert spread[0] == pytest.approx(np.sqrt(model.kernel_x_.diag(np.zeros((1, 1)))[0]))
        assert model.log_marginal_likelihood_ == pytest.approx(model.learned_.log_likelihood, abs=1e-4)

    def test_draws_have_the_posterior_mean_and_covariance(self):
        model = mh.TaskTransformedGP(**GIVEN).fit(*make())
        points = np.array([-1.0, 0.2, 1.1])
        mean, cov = model.predict(points, return_cov=True)
        draws = model.sample(points, 40_000, random_state=0)
        scale = np.sqrt(np.diagonal(cov))
        assert_allclose(draws.mean(axis=0), mean, atol=0.03 * scale.max())
        assert_allclose(np.cov(draws.T), cov, atol=0.03 * scale.max() ** 2)
        assert_allclose(model.sample(points, 3, 1), model.sample(points, 3, 1))

    @pytest.mark.slow
    def test_units_of_z_do_not_matter_where_all_is_learned(self):
        x, y, y_task, z = make()
        one, other = (mh.TaskTransformedGP(starts=1).fit(x, y, y_task, v) for v in (z, 100 * z + 7))
        assert_allclose(other.predict(QUERY), 100 * one.predict(QUERY) + 7, rtol=1e-2, atol=1.0)

    @pytest.mark.slow
    def test_takes_data_frames_with_categories(self):
        pl = pytest.importorskip("polars")
        x, y, y_task, z = make()
        kind, kind_task = (np.where(a > 0, "up", "down") for a in (y, y_task))
        model = mh.TaskTransformedGP(starts=1).fit(
            pl.DataFrame({"x": x}),
            pl.DataFrame({"y": y, "kind": kind}),
            pl.DataFrame({"y": y_task, "kind": kind_task}),
            pl.Series("z", z),
        )
        assert model.predict(pl.DataFrame({"x": QUERY})).shape == QUERY.shape
        mean = model.predict_task(pl.DataFrame({"y": [0.5, 0.5], "kind": ["up", "down"]}))
        assert mean[0] != mean[1]

    @pytest.mark.slow
    def test_given_kernels_are_where_the_search_starts_and_the_noise_stays(self):
        model = mh.TaskTransformedGP(mh.Matern(nu=2.5, lengthscale=1.0), noise=0.15, starts=1).fit(*make())
        assert model.noise_ == pytest.approx(0.15)
        assert isinstance(model.kernel_x_.kernel, mh.Matern)
        assert model.kernel_x_.kernel.lengthscale != 1.0

    @pytest.mark.slow
    @pytest.mark.parametrize("representation", [None, mh.Nystrom(20), (mh.Nystrom(10), mh.Exact())])
    def test_is_saved_and_cloned(self, tmp_path, representation):
        model = mh.TaskTransformedGP(starts=1, representation=representation).fit(*make())
        mh.save(model, tmp_path / "model.muhat")
        again = mh.load(tmp_path / "model.muhat")
        for got, expected in zip(
            again.predict(QUERY, return_std=True), model.predict(QUERY, return_std=True), strict=True
        ):
            assert_allclose(got, expected, atol=1e-10)
        assert again.log_marginal_likelihood() == model.log_marginal_likelihood()
        assert clone(model).get_params().keys() == model.get_params().keys()


class TestCombinations:
    def test_the_identity_is_a_plain_gaussian_process(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-3, 3, (50, 2))
        z = np.sin(X[:, 0]) + 0.1 * rng.normal(size=50)
        Q = rng.uniform(-3, 3, (20, 2))
        theirs = GaussianProcessRegressor(ConstantKernel(2.0) * RBF([0.7, 1.1]), alpha=0.3**2, optimizer=None)
        mean, cov = theirs.fit(X, z).predict(Q, return_cov=True)
        given = {"kernel_x": 2.0 * mh.Gaussian([0.7, 1.1]), "optimize": False}
        models = [
            mh.TaskTransformedGP(**given, noise=0.3).fit_direct(X, z),
            mh.TaskTransformedGP(**given, noise=0.3).fit_transformed(X, np.eye(50), z),
            mh.TaskTransformedGP(**given).fit_transformed(X, np.eye(50), z, 0.09 * np.eye(50)),
            mh.TaskTransformedGP(**given).fit_transformed(X, None, z, np.full(50, 0.09)),
        ]
        for model in models:
            found, spread = model.predict(Q, return_cov=True)
            assert_allclose(found, mean, atol=1e-6)
            assert_allclose(spread, cov, atol=1e-6)
            assert_allclose(model.log_marginal_likelihood_, theirs.log_marginal_likelihood_value_, atol=1e-6)

    @pytest.mark.slow
    def test_learns_what_scikit_learn_learns(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-3, 3, (60, 1))
        z = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
        kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
        theirs = GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0).fit(X, z)
        ours = mh.TaskTransformedGP(center=False).fit_direct(X, z)
        assert_allclose(ours.log_marginal_likelihood_, theirs.log_marginal_likelihood_value_, atol=1e-3)
        assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-2)

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [5, 10])
    def test_block_averages_give_back_what_was_averaged(self, size):
        """Observe averages over blocks of a trajectory, predict the trajectory."""
        rng = np.random.default_rng(0)
        t = np.linspace(0, 10, 200)
        f = 3 + np.sin(t) + 0.3 * np.cos(3 * t)
        A = np.kron(np.eye(200 // size), np.full(size, 1 / size))
        z = A @ f + 0.02 * rng.normal(size=len(A))
        model = mh.TaskTransformedGP().fit_transformed(t, A, z)
        mean, std = model.predict(t, return_std=True)
        assert np.sqrt(np.mean((mean - f) ** 2)) < 0.05
        assert np.mean(np.abs(mean - f) < 2 * std) > 0.8
        # Better than to take every average for the value at the middle of its block.
        naive = mh.TaskTransformedGP().fit_direct(A @ t, z).predict(t)
        assert np.mean((mean - f) ** 2) < np.mean((naive - f) ** 2)
        assert_allclose(A @ mean, z, atol=0.08)

    def test_sums_are_centred_as_sums(self):
        """A constant f of 5 gives sums of 5 times the number of their terms, not 5."""
        t = np.linspace(0, 1, 30)
        A = np.kron(np.eye(6), np.ones(5))
        model = mh.TaskTransformedGP().fit_transformed(t, A, np.full(6, 25.0))
        assert_allclose(model.predict(t), 5.0, atol=1e-6)

    def test_more_combinations_than_points(self):
        rng = np.random.default_rng(0)
        x, A = rng.uniform(-2, 2, 15), rng.normal(size=(40, 15))
        z = A @ np.sin(x) + 0.1 * rng.normal(size=40)
        kernel, s2 = 1.0 * mh.Gaussian(1.0), 0.1**2
        K = kernel(x[:, None])
        S = A @ K @ A.T + s2 * np.eye(40)
        model = mh.TaskTransformedGP(kernel, noise=0.1, optimize=False).fit_transformed(x, A, z)
        assert_allclose(model.predict(x), K @ A.T @ np.linalg.solve(S, z), atol=1e-8)
        dense = -0.5 * (z @ np.linalg.solve(S, z) + np.linalg.slogdet(2 * np.pi * S)[1])
        assert_allclose(model.log_marginal_likelihood_, dense, rtol=1e-9)

    def test_features_make_it_bayesian_linear_regression(self):
        """BLR, whose mean is ridge regression [HR19, Fig. 1], on features of one's own."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 3))
        z = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=40)
        representation = mh.Features(lambda X: X)
        kernel = 4.0 * mh.Gaussian(1.0)  # its amplitude is the prior variance of the weights
        given = {"noise": 0.1, "optimize": False, "representation": representation}
        model = mh.TaskTransformedGP(kernel, **given).fit_direct(X, z)
        precision = X.T @ X / 0.01 + np.eye(3) / 4.0
        mean, cov = model.predict(np.eye(3), return_cov=True)
        assert_allclose(mean, np.linalg.solve(precision, X.T @ z / 0.01), atol=1e-9)
        assert_allclose(cov, np.linalg.inv(precision), atol=1e-9)
        assert_allclose(
            mh.TaskTransformedGP(4.0 * mh.Linear(), noise=0.1, optimize=False)
            .fit_direct(X, z)
            .predict(np.eye(3)),
            mean,
            atol=1e-8,
        )


class TestSparse:
    @pytest.mark.slow
    def test_five_points_reach_the_marginal_likelihood_of_all(self):
        """[HR19, Fig. 4]: a function that is the mean of a Gaussian process through five points."""
        rng = np.random.default_rng(0)
        at, values = np.array([[-4.0], [-3], [-1], [0], [2]]), np.array([-2.0, 0, 1, 2, -1])
        kernel = mh.Gaussian(1.0)
        weights = np.linalg.solve(kernel(at), values)
        x = rng.uniform(-5, 5, 100)
        z = kernel(x[:, None], at) @ weights + 0.25 * rng.normal(size=100)
        full = mh.TaskTransformedGP().fit_direct(x, z)
        sparse = mh.TaskTransformedGP(inducing=5).fit_direct(x, z)
        assert sparse.inducing_.shape == (5, 1)
        assert sparse.log_marginal_likelihood_ > full.log_marginal_likelihood_
        grid = np.linspace(-5, 5, 100)
        truth = kernel(grid[:, None], at) @ weights
        assert np.sqrt(np.mean((sparse.predict(grid) - truth) ** 2)) < 0.2
        # x and y are the same here, and so are f and its conditional mean.
        assert_allclose(sparse.predict(grid), sparse.predict_task(grid), atol=0.15)

    def test_fixed_points_are_pairs(self):
        x, _, _, z = make(n=80)
        points = np.linspace(-2, 2, 7)[:, None]
        given = {"kernel_x": 1.0 * mh.Gaussian(0.7), "noise": 0.3, "optimize": False}
        model = mh.TaskTransformedGP(**given, inducing=points).fit_direct(x, z)
        pairs = mh.TaskTransformedGP(**given, kernel_y=len(z) ** 2 * given["kernel_x"], inference="map")
        pairs.fit(points, points, x, z)
        assert_allclose(model.predict(QUERY), pairs.predict(QUERY), atol=1e-10)
        assert_allclose(model.log_marginal_likelihood_, pairs.log_marginal_likelihood_)
        assert_allclose(
            mh.TaskTransformedGP(**given, inducing=points).fit(None, None, x, z).predict(QUERY),
            model.predict(QUERY),
        )

    @pytest.mark.slow
    def test_many_rows_are_looked_at_in_part_and_used_in_full(self, monkeypatch):
        some = partial(sample_rows, size=1000)
        monkeypatch.setattr(task_transformed_gp, "sample_rows", some)
        rng = np.random.default_rng(0)
        x = rng.uniform(-3, 3, 2000)
        z = np.sin(2 * x) + 0.3 * rng.normal(size=2000)
        model = mh.TaskTransformedGP(inducing=12, starts=1).fit_direct(x, z)
        grid = np.linspace(-2.8, 2.8, 60)
        mean, std = model.predict(grid, return_std=True)
        # .03 to .12, by which of several close maxima rounding leads to.
        assert np.sqrt(np.mean((mean - np.sin(2 * grid)) ** 2)) < 0.15
        assert model.triangle_[1] == 2000
        curve = model.predict_task(grid, return_std=True)[1]
        assert curve.mean() < 0.05
        assert std.mean() > curve.mean()
        assert model.noise_ == pytest.approx(0.3, rel=0.05)

    @pytest.mark.slow
    def test_points_alone_are_learned(self):
        x, _, _, z = make(n=80)
        given = {"kernel_x": 1.0 * mh.Gaussian(0.7), "noise": 0.3, "inducing": np.linspace(-1, 1, 5)}
        fixed = mh.TaskTransformedGP(**given, optimize=False).fit_direct(x, z)
        model = mh.TaskTransformedGP(**given, optimize="inducing").fit_direct(x, z)
        assert model.log_marginal_likelihood_ > fixed.log_marginal_likelihood_ + 1
        assert_allclose(model.theta_, fixed.theta_)
        assert not np.allclose(model.inducing_, fixed.inducing_)

    @pytest.mark.slow
    def test_is_saved(self, tmp_path):
        x, _, _, z = make(n=80)
        model = mh.TaskTransformedGP(inducing=6, starts=1).fit_direct(x, z)
        mh.save(model, tmp_path / "sparse.muhat")
        assert_allclose(mh.load(tmp_path / "sparse.muhat").predict(QUERY), model.predict(QUERY), atol=1e-10)
