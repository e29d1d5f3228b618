"""ConditionalDensity as an estimator: readouts, calibration, uncertain inputs, bad input."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import muhat as mh
from muhat.embedding import OutsideBox

GIVEN = {"kernel_x": mh.Gaussian(0.5), "kernel_y": mh.Gaussian(0.3), "reg_x": 0.005, "reg_y": 0.02}


def fork(n=300, seed=0, k=1):
    """Two branches ±x with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 2, (n, 1))
    branch = np.where(rng.random((n, 1)) < 0.5, X, -X)
    return X, branch * np.ones(k) + 0.25 * rng.standard_normal((n, k))


@pytest.fixture(scope="module")
def given():
    return mh.ConditionalDensity(**GIVEN).fit(*fork())


@pytest.fixture(scope="module")
def flat():
    X, Y = fork()
    return mh.ConditionalDensity(**GIVEN).fit(X, Y[:, 0])


@pytest.fixture(scope="module")
def learned():
    X, Y = fork()
    return mh.ConditionalDensity().fit(X, Y[:, 0])


X0 = np.array([[0.3], [1.7]])
GRID = np.linspace(-4, 4, 2001)[:, None]
STEP = GRID[1, 0] - GRID[0, 0]


class TestDensity:
    @pytest.mark.slow
    def test_it_is_a_density(self, given, learned):
        for model in (given, learned):
            p = model.pdf(X0, GRID)
            assert p.shape == (2, 2001)
            assert (p >= 0).all()
            assert_allclose(p.sum(axis=1) * STEP, 1, atol=0.02)
            assert_allclose(model.logpdf(X0, GRID[900:902]), np.log(p[:, 900:902]))

    def test_it_has_the_two_modes_of_the_truth(self, learned):
        p = learned.pdf([[1.7]], GRID)[0]
        assert p[np.abs(GRID[:, 0] - 1.7).argmin()] > 4 * p[1000]
        assert p[np.abs(GRID[:, 0] + 1.7).argmin()] > 4 * p[1000]

    def test_raw_is_the_operator_and_stays_negative(self, given):
        raw = given.raw(X0, GRID)
        assert raw.min() < 0
        expected = given._operator.density(X0, complete=False).raw(GRID)
        assert_allclose(raw, expected)

    def test_score_is_the_mean_log_density_of_pairs(self, given):
        X, Y = fork(20, 1)
        assert given.score(X, Y) == pytest.approx(np.log(np.diagonal(given.pdf(X, Y))).mean())

    @pytest.mark.slow
    def test_residuals_have_the_same_identities(self):
        X, Y = fork()
        model = mh.ConditionalDensity(standardize=True).fit(X, Y[:, 0])
        assert model.standard_ is not None
        p = model.pdf(X0, GRID)
        assert_allclose(p.sum(axis=1) * STEP, 1, atol=0.02)
        X, Y = fork(20, 1)
        assert model.score(X, Y[:, 0]) == pytest.approx(np.log(np.diagonal(model.pdf(X, Y))).mean())
        mean = (p * GRID[:, 0]).sum(axis=1) * STEP
        assert_allclose(model.predict(X0), mean, atol=0.1)


class TestMoments:
    @pytest.mark.parametrize("k", [1, 2])
    def test_closed_form_equals_quadrature_of_the_raw_solution(self, k):
        X, Y = fork(k=k)
        model = mh.ConditionalDensity(**GIVEN).fit(X, Y)
        density = model.density(X0)
        side = np.linspace(-5, 5, 401 if k == 1 else 161)
        mesh = np.stack(np.meshgrid(*[side] * k, indexing="ij"), axis=-1).reshape(-1, k)
        raw = density.raw(mesh)
        raw /= raw.sum(axis=1, keepdims=True)
        mean = raw @ mesh
        assert_allclose(density.mean(), mean, atol=1e-3)
        assert_allclose(model.predict(X0), mean, atol=1e-3)
        second = np.einsum("bi,ij,il->bjl", raw, mesh, mesh)
        assert_allclose(model.cov(X0), second - mean[:, :, None] * mean[:, None], atol=3e-3)
        assert_allclose(model.var(X0), np.diagonal(model.cov(X0), axis1=1, axis2=2))

    @pytest.mark.slow
    def test_the_background_is_in_the_density_and_not_in_the_moments(self):
        X, Y = fork()
        models = [mh.ConditionalDensity(standardize=True, background=b).fit(X, Y) for b in (0.2, 0.0)]
        assert models[0].density(X0).background == 0.2
        assert models[0].pdf(X0, np.linspace(-4, 4, 101)[:, None]).min() > 0
        assert_allclose(models[0].var(X0), models[1].var(X0), rtol=0.05)

    @pytest.mark.slow
    def test_scores_of_the_search_are_in_units_of_y(self, learned):
        X, Y = fork()
        for scale in (1.0, 100.0):
            model = mh.ConditionalDensity(standardize=True).fit(X, scale * Y[:, 0])
            assert model.selection_.score + np.log(scale) == pytest.approx(
                model.score(X, scale * Y[:, 0]) + np.log(scale), abs=0.25
            )

    def test_standard_deviations_come_with_predictions(self, flat):
        mean, sd = flat.predict(X0, return_std=True)
        assert mean.shape == sd.shape == (2,)
        assert_allclose(sd**2, flat.var(X0))


class TestQuantiles:
    def test_cdf_inverts_quantiles(self, flat):
        levels = np.array([0.05, 0.3, 0.5, 0.9])
        found = flat.quantile(X0, levels)
        assert found.shape == (2, 4)
        for i in range(2):
            assert_allclose(flat.density(X0).cdf(found[i])[i], levels, atol=1e-9)

    def test_quantiles_are_those_of_the_density(self, flat):
        p = flat.pdf(X0, GRID)
        q = flat.quantile(X0, 0.25)
        below = np.array([p[i][GRID[:, 0] <= q[i]].sum() * STEP for i in range(2)])
        assert_allclose(below, 0.25, atol=0.01)

    def test_interval_is_between_quantiles(self, flat):
        assert_allclose(flat.interval(X0, 0.8), flat.quantile(X0, [0.1, 0.9]))

    def test_draws_follow_the_density(self, flat):
        draws = flat.sample(X0, 20_000, random_state=0)
        assert draws.shape == (2, 20_000)
        for i, q in enumerate(flat.quantile(X0, [0.1, 0.5, 0.9])):
            assert_allclose((draws[i][:, None] <= q).mean(axis=0), [0.1, 0.5, 0.9], atol=0.015)
        assert_allclose(flat.sample(X0, 3, random_state=1), flat.sample(X0, 3, random_state=1))

    def test_several_outputs(self):
        X, Y = fork(k=2)
        model = mh.ConditionalDensity(**GIVEN).fit(X, Y)
        assert model.quantile(X0, [0.1, 0.5, 0.9]).shape == (2, 3, 2)
        assert model.interval(X0).shape == (2, 2, 2)
        draws = model.sample(X0, 5000, random_state=0)
        assert draws.shape == (2, 5000, 2)
        for j in range(2):
            q = model.quantile(X0, 0.3)[:, j]
            assert_allclose((draws[..., j] <= q[:, None]).mean(axis=1), 0.3, atol=0.03)
        # Both outputs take the same branch: they move together at x = 1.7.
        assert np.corrcoef(draws[1].T)[0, 1] > 0.9


class TestCalibration:
    @pytest.mark.statistics
    @pytest.mark.parametrize("kind", ["heteroscedastic", "bimodal", "skewed"])
    def test_conformal_intervals_cover_on_200_sets(self, kind):
        hits = []
        for seed in range(200):
            rng = np.random.default_rng(seed)
            X = rng.uniform(0, 2, (160, 1))
            if kind == "bimodal":
                y = np.where(rng.random(160) < 0.5, X[:, 0], -X[:, 0]) + 0.2 * rng.standard_normal(160)
            elif kind == "skewed":
                y = X[:, 0] + rng.exponential(1.0, 160)
            else:
                y = np.sin(3 * X[:, 0]) + (0.05 + 0.5 * X[:, 0]) * rng.standard_normal(160)
            train, new = slice(0, 118), slice(118, 160)  # 59 rows calibrate: exactly 0.9
            model = mh.ConditionalDensity(**{**GIVEN, "reg_x": 0.05}, calibration=0.5, random_state=seed)
            model.fit(X[train], y[train])
            low, high = model.interval(X[new], 0.9).T
            hits.append(np.mean((low <= y[new]) & (y[new] <= high)))
        assert abs(np.mean(hits) - 0.9) < 0.02

    def test_calibration_widens_what_is_too_narrow(self):
        X, Y = fork(400)
        narrow = {**GIVEN, "kernel_x": mh.Gaussian(0.01), "reg_x": 1e-6}  # chases every row
        plain = mh.ConditionalDensity(**narrow).fit(X, Y[:, 0])
        fair = mh.ConditionalDensity(**narrow, calibration=0.3).fit(X, Y[:, 0])
        x, y = fork(1000, 7)
        cover = [
            np.mean((m.interval(x)[:, 0] <= y[:, 0]) & (y[:, 0] <= m.interval(x)[:, 1]))
            for m in (plain, fair)
        ]
        assert cover[0] < 0.85 < cover[1]

    def test_too_few_rows_for_the_level_give_the_whole_line(self):
        X, Y = fork(20)
        model = mh.ConditionalDensity(**GIVEN, calibration=0.25).fit(X, Y[:, 0])
        assert np.isinf(model.interval(X0, 0.95)).all()
        assert np.isfinite(model.interval(X0, 0.5)).all()


class TestUncertainInput:
    def test_it_is_the_mixture_of_its_points(self, given):
        samples = np.array([[0.2], [0.9], [1.8]])
        mixture = given.at(samples)
        assert_allclose(mixture.pdf(GRID), given.pdf(samples, GRID).mean(axis=0))
        assert_allclose(mixture.mean(), given.predict(samples).mean(axis=0))
        means, variances = given.predict(samples), given.var(samples)
        assert_allclose(mixture.var(), variances.mean(axis=0) + means.var(axis=0))
        assert_allclose(mixture.cdf(mixture.quantile([0.1, 0.6])[:, 0]), [0.1, 0.6], atol=1e-6)
        assert mixture.interval(0.5).shape == (1, 2)
        assert mixture.sample(11, 0).shape == (11, 1)

    def test_embeddings_give_their_weights(self, given):
        samples = np.array([[0.2], [0.9], [1.8]])
        mu = mh.embed(samples, given.kernel_x_, weights=[0.5, 0.3, 0.2])
        assert_allclose(given.at(mu).pdf(GRID), [0.5, 0.3, 0.2] @ given.pdf(samples, GRID))
        assert_allclose(given.at(mu).raw(GRID), [0.5, 0.3, 0.2] @ given.density(samples).raw(GRID))

    @pytest.mark.slow
    def test_with_residuals_too(self):
        X, Y = fork()
        model = mh.ConditionalDensity(standardize=True).fit(X, Y)
        samples = np.array([[0.2], [1.8]])
        # Where outputs were seen at some x, asking at another does not warn.
        assert_allclose(model.at(samples).pdf(GRID), model.pdf(samples, GRID).mean(axis=0))
        with pytest.warns(OutsideBox):
            model.pdf(samples, [[1e3]])

    def test_a_batch_is_refused(self, given):
        with pytest.raises(ValueError, match="batch of embeddings: take one"):
            given.at(mh.embed(np.zeros((2, 1)), given.kernel_x_, weights=np.ones((2, 2))))


class TestChoices:
    def test_paper_settings(self):
        X, Y = fork()
        model = mh.ConditionalDensity("median", "median", "schedule", "schedule").fit(X, Y)
        assert model.reg_x_ == pytest.approx(300**-0.45)
        assert model.selection_ is None
        assert model.background_ == 0.0
        assert model.kernel_y_.lengthscale == pytest.approx(mh.Gaussian("median").resolve(Y).lengthscale)

    def test_what_is_given_stays_and_the_rest_is_learned(self):
        X, Y = fork()
        model = mh.ConditionalDensity(kernel_y=mh.Laplace(0.2), reg_x=0.01).fit(X, Y)
        assert model.kernel_y_ == mh.Laplace(0.2)
        assert model.reg_x_ == 0.01
        assert model.standard_ is None
        assert model.selection_.score > -1.2

    def test_a_scheduled_regulariser_among_learned_kernels(self):
        X, Y = fork()
        model = mh.ConditionalDensity(reg_y="schedule").fit(X, Y)
        assert model.reg_y_ == pytest.approx(300**-0.45 * float(model.kernel_y_.integral(1)), rel=0.05)
        assert model.score(*fork(500, 5)) > -1.3

    def test_own_features(self):
        X, Y = fork()
        features = mh.Features(lambda x: np.hstack([np.ones_like(x), x, x**2, np.sin(3 * x)]))
        model = mh.ConditionalDensity(representation=features).fit(X, Y)
        assert_allclose(model.pdf(X0, GRID).sum(axis=1) * STEP, 1, atol=0.02)
        assert model.score(*fork(500, 5)) > -1.4
        with pytest.raises(TypeError, match="is not for densities"):
            mh.ConditionalDensity(representation=mh.Neural()).fit(X, Y)

    def test_learning_beats_the_settings_of_the_paper(self, learned):
        X, Y = fork(500, 5)
        paper = mh.ConditionalDensity("median", "median", "schedule", "schedule", background=0.01)
        assert learned.score(X, Y) > paper.fit(*fork()).score(X, Y) + 0.2

    @pytest.mark.slow
    def test_a_seed_gives_the_same_answer(self, learned):
        X, Y = fork()
        again = mh.ConditionalDensity().fit(X, Y[:, 0])
        assert_allclose(again.pdf(X0, GRID), learned.pdf(X0, GRID), rtol=1e-12)

    @pytest.mark.slow
    @pytest.mark.parametrize("reference", ["grid", "sobol", "random"])
    def test_references_agree(self, given, reference):
        X, Y = fork()
        size = {"grid": 300, "sobol": 1024, "random": 4000}[reference]
        model = mh.ConditionalDensity(**GIVEN, reference=reference, size=size).fit(X, Y)
        tolerance = {"grid": 0.01, "sobol": 0.02, "random": 0.25}[reference]
        gap = np.abs(model.pdf(X0, GRID) - given.pdf(X0, GRID)).sum(axis=1) * STEP
        assert (gap < tolerance).all()

    def test_own_points_with_their_mass(self, given):
        X, Y = fork()
        axis = np.linspace(-6, 6, 400)
        for reference, mass in (([axis], None), (axis[:, None], 12.0)):
            model = mh.ConditionalDensity(**GIVEN, reference=reference, mass=mass).fit(X, Y)
            gap = np.abs(model.pdf(X0, GRID) - given.pdf(X0, GRID)).sum(axis=1) * STEP
            assert (gap < 0.02).all()

    @pytest.mark.parametrize(
        ("representation", "tolerance"), [(mh.Nystrom(40), 0.02), (mh.Fourier(1000), 0.05)], ids=str
    )
    def test_features_are_close_to_exact(self, given, representation, tolerance):
        X, Y = fork()
        model = mh.ConditionalDensity(**GIVEN, representation=representation).fit(X, Y)
        assert np.abs(model.pdf(X0, GRID) - given.pdf(X0, GRID)).sum(axis=1).max() * STEP < tolerance

    def test_equal_inputs_are_grouped(self):
        X, Y = fork()
        model = mh.ConditionalDensity(**GIVEN).fit(np.round(X, 1), Y)
        assert len(model.gram_) == 21
        spread = np.round(X, 1) + 1e-9 * np.arange(300)[:, None]
        assert_allclose(
            model.pdf(X0, GRID), mh.ConditionalDensity(**GIVEN).fit(spread, Y).pdf(X0, GRID), atol=1e-5
        )


class TestTables:
    def test_frames_with_categories(self):
        X, Y = fork()
        frame = pd.DataFrame({"x": X[:, 0], "side": np.where(Y[:, 0] > 0, "up", "down")})
        model = mh.ConditionalDensity(reg_x=0.005, reg_y=0.02, kernel_y=mh.Gaussian(0.3)).fit(frame, Y[:, 0])
        new = pd.DataFrame({"x": [1.5, 1.5], "side": ["up", "down"]})
        up, down = model.predict(new)
        assert up > 1 > -1 > down

    def test_save_and_load(self, tmp_path, learned):
        mh.save(learned, tmp_path / "model.muhat")
        back = mh.load(tmp_path / "model.muhat")
        assert_allclose(back.pdf(X0, GRID), learned.pdf(X0, GRID), rtol=1e-9)
        X, Y = fork()
        fair = mh.ConditionalDensity(standardize=True, calibration=0.3).fit(X, Y[:, 0])
        mh.save(fair, tmp_path / "fair.muhat")
        assert_allclose(mh.load(tmp_path / "fair.muhat").interval(X0), fair.interval(X0), rtol=1e-9)

    def test_clones(self):
        model = mh.ConditionalDensity(mh.Gaussian(1.0), calibration=0.2, box=(0, 1))
        assert clone(model).get_params() == model.get_params()


class TestBadInput:
    def test_outputs_outside_the_box(self, given):
        with pytest.warns(OutsideBox, match="1 of 2 values lie outside the box"):
            assert_allclose(given.pdf(X0, [[0.0], [1e3]])[:, 1], 0)
        with pytest.warns(OutsideBox):
            assert given.logpdf(X0[:1], [[1e3]])[0, 0] == -np.inf
        X, Y = fork()
        grows = mh.ConditionalDensity(**GIVEN, grow=True, background=0.05).fit(X, Y)
        far = grows.pdf(X0, [[0.0], [1e3]])
        assert (far[:, 1] > 0).all()
        assert np.isfinite(grows.score([[1.0]], [[1e3]]))

    def test_inputs_far_from_the_data(self, given, learned):
        for model in (given, learned):
            density = model.density(np.array([[1.0], [50.0]]))
            assert density.familiarity[0] > 0.9
            assert density.familiarity[1] < 0.01
            spread = np.sqrt(density.var()[1, 0])
            assert 0.8 < spread / fork()[1].std() < 1.3  # wide: what is known of y at all

    @pytest.mark.parametrize(
        ("arguments", "error", "match"),
        [
            ({"kernel_y": mh.Linear()}, ValueError, "is not a density"),
            ({"kernel_y": mh.Gaussian(0.001), "size": 50}, ValueError, "too coarse for kernel_y.*size="),
            ({"kernel_y": "silverman"}, ValueError, "kernel_y must be"),
            ({"kernel_x": 3}, TypeError, 'kernel_x must be a kernel, "median" or "learn", got 3'),
            ({"reg_x": -1.0}, ValueError, "reg_x must be"),
            ({"reg_y": "cor34"}, ValueError, "reg_y must be"),
            ({"reference": "lattice"}, ValueError, "reference must be"),
            ({"box": (1, 0)}, ValueError, "lower < upper"),
            ({"box": 3}, ValueError, "two corners"),
            ({"box": (-0.5, 0.5)}, ValueError, "outputs lie outside the box: give a wider one, or grow=True"),
            ({"calibration": 1.5}, ValueError, "calibration must be a number between 0 and 1"),
            ({"calibration": 0.99}, ValueError, "rows to learn from: give less"),
            ({"background": 2}, ValueError, "background must be"),
            ({"mass": 3.0}, ValueError, "mass is that of your own reference points"),
            ({"memory": 1e-6}, MemoryError, "needs about .* GB for 300 distinct inputs.*memory=1e-06"),
        ],
    )
    def test_arguments(self, arguments, error, match):
        X, Y = fork()
        with pytest.raises(error, match=match):
            mh.ConditionalDensity(**{**GIVEN, **arguments}).fit(X, Y)

    def test_memory_is_refused_before_it_is_taken(self):
        X = np.arange(60_000.0)[:, None]
        with pytest.raises(MemoryError, match="29 GB for 60,000 distinct inputs"):
            mh.ConditionalDensity(**GIVEN, representation=mh.Exact()).fit(X, X)

    def test_outputs_without_a_density(self):
        X, _ = fork(20)
        with pytest.raises(ValueError, match="Column 0 of Y is constant, so it has no density"):
            mh.ConditionalDensity().fit(X, np.ones(20))
        with pytest.raises(ValueError, match="Y has categories, which have no density"):
            mh.ConditionalDensity().fit(X, pd.DataFrame({"y": ["a", "b"] * 10}))

    def test_shapes(self, given):
        with pytest.raises(ValueError, match="Y"):
            mh.ConditionalDensity().fit(*[fork(20)[0], fork(19)[1]])
        with pytest.raises(ValueError, match="y has 2 columns"):
            given.pdf(X0, np.zeros((3, 2)))
        with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
            given.interval(X0, 90)
        with pytest.raises(ValueError, match="NaN"):
            given.pdf(X0, [[np.nan]])

    def test_noiseless_functions(self):
        X = np.linspace(0, 1, 50)[:, None]
        model = mh.ConditionalDensity().fit(X, X[:, 0] ** 2)
        assert_allclose(model.predict(X[10:40:10]), X[10:40:10, 0] ** 2, atol=0.05)
