"""The Bayesian embedding: brute force, shrinkage, calibration, differences, saving, bad input."""

import numpy as np
import pytest
from sklearn.base import clone

import muhat as mh
from muhat.embedding.bayesian import posterior, posterior_cov, posterior_mean
from muhat.embedding.shrinkage import shrinkage_weights
from muhat.gram import DenseGram
from muhat.models.bayesian_embedding import WitnessPosterior, witness_posterior

AT = np.linspace(-2, 2, 9)[:, None]


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((30, 1))


def brute(model, X, at, S):
    """Mean and covariance of μ(at) by conditioning the joint Gaussian of (μ(at), μ̂(z)), in plain algebra."""
    Z, sd = model.points_, X.std()
    ell = model.kernel_.lengthscale
    k = lambda a, b: np.exp(-((a - b.T) ** 2) / (2 * ell**2))  # noqa: E731
    r = lambda a, b: np.sqrt(np.pi) * ell / sd * np.exp(-((a - b.T) ** 2) / (4 * ell**2))  # noqa: E731
    gain = r(at, Z) @ np.linalg.inv(r(Z, Z) + S / len(X))
    return gain @ k(Z, X).mean(axis=1), r(at, at) - gain @ r(Z, at)


@pytest.mark.parametrize("points", [None, 7])
@pytest.mark.parametrize("noise", [0.3, "variance", None])
def test_the_posterior_is_that_of_brute_force(X, points, noise):
    model = mh.BayesianEmbedding(mh.Gaussian(0.5), noise=noise, points=points).fit(X)
    m = points or 30
    assert model.points_.shape == (m, 1)
    K = mh.Gaussian(0.5)(X, model.points_)
    S = {0.3: 0.3 * np.eye(m), "variance": K.var(axis=0, ddof=1).mean() * np.eye(m)}.get(
        noise, np.cov(K.T) + 1e-4 * K.var(axis=0, ddof=1).mean() * np.eye(m)
    )
    mean, cov = brute(model, X, AT, S)
    np.testing.assert_allclose(model.mean(AT), mean, atol=2e-7)
    np.testing.assert_allclose(model.cov(AT), cov, atol=2e-6)
    np.testing.assert_allclose(model.std(AT), np.sqrt(np.diag(model.cov(AT))), atol=1e-6)


def test_with_r_equal_to_k_the_mean_is_spectral_shrinkage(X):
    """F16, Section 4.2: λ = τ²/n² on the operator scale, for (K + nλI) = (K + (τ²/n)I)."""
    kernel, tau2, n = mh.Gaussian(0.5), 0.3, 30
    K = kernel(X)
    post = posterior(K, K.mean(axis=0), tau2 / n)
    beta = shrinkage_weights(DenseGram(kernel(X)), tau2 / n**2)
    np.testing.assert_allclose(posterior_mean(kernel(AT, X), post), kernel(AT, X) @ beta, rtol=1e-8)
    assert (np.diag(posterior_cov(kernel(AT), kernel(AT, X), post)) < 1).all()


@pytest.mark.parametrize("ell", [0.2, 1.0])
def test_intervals_hold_what_they_promise(ell):
    """μ of a normal is known: the 90% interval covers it about so often (and F16's does not)."""
    kernel, n = mh.Gaussian(ell), 200
    truth = kernel.gaussian_embedding(AT, 0.0, 1.0)
    covered = {None: [], "variance": []}
    for seed in range(60):
        sample = np.random.default_rng(seed).standard_normal((n, 1))
        for noise, hits in covered.items():
            low, high = mh.BayesianEmbedding(kernel, noise=noise).fit(sample).interval(AT, 0.9)
            hits.append(((low <= truth) & (truth <= high)).mean())
    assert np.mean(covered[None]) == pytest.approx(0.9, abs=0.05)
    assert np.mean(covered["variance"]) < 0.75


def test_intervals_and_draws_agree_with_mean_and_covariance(X):
    model = mh.BayesianEmbedding(mh.Gaussian(0.5)).fit(X)
    draws = model.sample(AT, 20_000, random_state=1)
    assert draws.shape == (20_000, 9)
    sd = model.std(AT)
    np.testing.assert_allclose(draws.mean(axis=0), model.mean(AT), atol=5 * sd.max() / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(draws.T), model.cov(AT), atol=0.05 * sd.max() ** 2)
    low, high = model.interval(AT, 0.8)
    inside = ((low <= draws) & (draws <= high)).mean(axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=0.02)
    np.testing.assert_array_equal(model.sample(AT, 2), model.sample(AT, 2))


def test_far_from_the_data_the_prior_stands(X):
    model = mh.BayesianEmbedding(mh.Gaussian(0.5)).fit(X)
    far = np.array([[50.0]])
    assert model.mean(far) == pytest.approx(0, abs=1e-12)
    assert model.std(far) ** 2 == pytest.approx(np.sqrt(np.pi) * 0.5 / X.std())


def test_units_do_not_matter(X):
    small = mh.BayesianEmbedding(mh.Gaussian(0.5)).fit(X)
    large = mh.BayesianEmbedding(mh.Gaussian(500.0)).fit(1000 * X)
    np.testing.assert_allclose(large.mean(1000 * AT), small.mean(AT), rtol=1e-6)
    np.testing.assert_allclose(large.std(1000 * AT), small.std(AT), rtol=1e-5)


def test_a_difference_has_the_difference_of_means_and_the_sum_of_covariances(X):
    Y = np.random.default_rng(1).laplace(size=(40, 1))
    p, q = (mh.BayesianEmbedding(mh.Gaussian(0.5)).fit(sample) for sample in (X, Y))
    witness = p - q
    np.testing.assert_allclose(witness.mean(AT), p.mean(AT) - q.mean(AT))
    np.testing.assert_allclose(witness.cov(AT), p.cov(AT) + q.cov(AT))
    np.testing.assert_allclose(witness.std(AT) ** 2, p.std(AT) ** 2 + q.std(AT) ** 2)
    low, high = witness.interval(AT, 0.5)
    np.testing.assert_allclose((high - low) / 2, 0.6744898 * witness.std(AT), rtol=1e-6)
    assert witness.sample(AT, 3).shape == (3, 9)
    with pytest.raises(ValueError, match="same kernel can be subtracted"):
        p - mh.BayesianEmbedding(mh.Gaussian(0.6)).fit(Y)
    with pytest.raises(TypeError):
        p - 1


def test_the_witness_integrates_over_the_kernel(X):
    Y = np.random.default_rng(1).standard_normal((40, 1)) + 1.5
    one = witness_posterior(X, Y, [mh.Gaussian(0.5)], AT)
    both = np.concatenate([X, Y]).std()
    for sample, sign in ((X, 1), (Y, -1)):
        # The prior's units are those of both samples together: undo those of each.
        alone = mh.BayesianEmbedding(mh.Gaussian(0.5)).fit(sample)
        alone.prior_ = alone.prior_ * float(sample.std() / both)
        alone._prepare()
        one.mean = one.mean - sign * alone.mean(AT)
    np.testing.assert_allclose(one.mean, 0, atol=1e-6)
    kernels = [mh.Gaussian(ell) for ell in np.linspace(0.3, 1.0, 400)]
    mixed = witness_posterior(X, Y, kernels, AT)
    assert mixed.draws.shape == (400, 9)
    np.testing.assert_allclose(mixed.draws.mean(axis=0), mixed.mean, atol=5 * mixed.std.max() / 20)
    np.testing.assert_allclose(mixed.draws.std(axis=0), mixed.std, rtol=0.2)
    low, high = mixed.interval(0.8)
    assert ((low <= mixed.mean) & (mixed.mean <= high)).all()
    assert (low[:3] > 0).any()  # X is more frequent on the left
    assert (high[-3:] < 0).any()
    # τ² of the draws, as F16 has it.
    wide = witness_posterior(X, Y, [(mh.Gaussian(0.5), 100.0)], AT, noise="sampled")
    assert (np.abs(wide.mean) < np.abs(witness_posterior(X, Y, [mh.Gaussian(0.5)], AT).mean).max()).all()


def test_the_mixture_has_the_variance_of_both_stages():
    means, variances = np.array([[0.0], [2.0]]), np.array([[1.0], [3.0]])
    mixed = WitnessPosterior(means, variances, means)
    assert mixed.mean[0] == 1.0
    assert mixed.std[0] ** 2 == pytest.approx(2 + 1)


@pytest.mark.slow
def test_kernels_are_learned_or_by_the_median(X):
    learned = mh.BayesianEmbedding(noise=1.0).fit(X)
    assert learned.kernel_ != mh.BayesianEmbedding("median").fit(X).kernel_
    np.testing.assert_allclose(learned.learned_["lengthscale"], learned.kernel_.lengthscale)
    again = clone(learned).fit(X)
    assert again.kernel_ == learned.kernel_


def test_frames_with_categories_pass(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=60), "c": rng.choice(["x", "y"], 60, p=[0.8, 0.2])})
    model = mh.BayesianEmbedding("median").fit(table)
    at = pd.DataFrame({"a": [0.0, 0.0], "c": ["x", "y"]})
    mean = model.mean(at)
    assert mean[0] > mean[1]
    np.testing.assert_allclose(mean, model.kernel_.gram(table, at).mean(axis=0), atol=0.1)
    mh.save(model, tmp_path / "model")
    np.testing.assert_allclose(mh.load(tmp_path / "model").cov(at), model.cov(at), rtol=1e-9)
    assert witness_posterior(table, table[:30], [model.kernel_], at).mean.shape == (2,)


@pytest.mark.parametrize(
    "kernel", [mh.RationalQuadratic(0.7), mh.Matern(1.5, 1.0), mh.Gaussian(1.0) + mh.Laplace(1.0)]
)
def test_any_kernel_has_a_posterior(kernel, tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 2))
    model = mh.BayesianEmbedding(kernel).fit(X)
    np.testing.assert_allclose(model.mean(X), kernel(X).mean(axis=0), atol=0.15)
    assert (model.std(X) > 0).all()
    mh.save(model, tmp_path / "model")
    np.testing.assert_allclose(mh.load(tmp_path / "model").mean(X[:3]), model.mean(X[:3]), rtol=1e-6)


def test_many_rows_use_some_points():
    X = np.random.default_rng(0).standard_normal((3000, 1))
    model = mh.BayesianEmbedding(mh.Gaussian(0.5)).fit(X)
    assert model.points_.shape == (1000, 1)
    np.testing.assert_allclose(model.mean(AT), mh.Gaussian(0.5)(AT, X).mean(axis=1), atol=0.02)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"noise": 0.0}, ValueError, "noise must be positive"),
        ({"noise": "clt"}, ValueError, "noise must be one of 'variance'"),
        ({"kernel": "mean"}, ValueError, "kernel must be one of 'median'"),
        ({"kernel": 3}, TypeError, "kernel must be a kernel"),
        ({"points": 0}, ValueError, "points must be at least 1"),
        ({"points": np.zeros((3, 2))}, ValueError, "points has 2 columns"),
    ],
)
def test_bad_arguments_of_the_embedding_are_refused(X, options, error, match):
    with pytest.raises(error, match=match):
        mh.BayesianEmbedding(**{"kernel": mh.Gaussian(1.0), **options}).fit(X)


def test_bad_samples_and_points_are_refused(X):
    with pytest.raises(ValueError, match="at least 2"):
        mh.BayesianEmbedding(mh.Gaussian(1.0)).fit(X[:1])
    with pytest.raises(ValueError, match="does not vary"):
        mh.BayesianEmbedding(mh.Gaussian(1.0)).fit(np.ones((10, 1)))
    model = mh.BayesianEmbedding(mh.Gaussian(1.0)).fit(X)
    with pytest.raises(ValueError, match="2 features"):
        model.mean(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="level must be between 0 and 1, got 95"):
        model.interval(AT, 95)
    with pytest.raises(ValueError, match="n must be at least 1"):
        model.sample(AT, 0)
    with pytest.raises(ValueError, match="kernels is empty"):
        witness_posterior(X, X, [], AT)
    with pytest.raises(ValueError, match="needs pairs"):
        witness_posterior(X, X, [mh.Gaussian(1.0)], AT, noise="sampled")
    with pytest.raises(ValueError, match="y has 2 columns"):
        witness_posterior(X, np.zeros((3, 2)), [mh.Gaussian(1.0)], AT)
