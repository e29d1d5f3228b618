"""The parts of likelihood-free inference: supports, moved densities, smoothed priors, scores."""

import numpy as np
import pytest
from scipy import stats

import muhat as mh
from muhat.learning.coordinates import BOX, LINE, POSITIVE, data_coordinates, find_coordinates
from muhat.learning.likelihood_free import choose_method, held_out_scores, make_folds
from muhat.learning.moved import MovedChoice, choose_ridge, fit_moved, fit_ridge, near_weights
from muhat.learning.simulations import (
    Options,
    Simulations,
    of_sum_one,
    reach,
    smoothed_prior,
    weighted_log_kde,
    within,
)
from muhat.learning.smoothed_prior import About, Draws, Effort, Mixture, SmoothedPrior, systematic


def test_supports_are_recognised():
    rng = np.random.default_rng(0)
    Z = np.stack([rng.normal(size=500), rng.gamma(2, 2, 500), rng.uniform(-1, 3, 500)], axis=1)
    support = find_coordinates(Z)
    assert support.kinds == (LINE, POSITIVE, BOX)
    assert support.lower[2] < Z[:, 2].min()
    assert support.upper[2] > Z[:, 2].max()
    np.testing.assert_allclose(support.from_line(support.to_line(Z)), Z, rtol=1e-10)
    assert support.without_boxes().kinds == (LINE, POSITIVE, LINE)
    assert data_coordinates(Z).kinds[2] == LINE


def test_bells_and_boxes_are_told_apart():
    rng = np.random.default_rng(0)
    bells = [find_coordinates(rng.normal(size=(100, 1))).kinds[0] for _ in range(100)]
    boxes = [find_coordinates(rng.random((100, 1))).kinds[0] for _ in range(100)]
    assert bells.count(BOX) <= 5
    assert boxes.count(BOX) >= 90


def test_what_lies_outside_goes_to_the_edge():
    support = find_coordinates(np.random.default_rng(0).gamma(2, 2, (100, 1)))
    assert np.isfinite(support.to_line(np.array([[-3.0]]))).all()


def test_log_stretch_is_the_jacobian():
    support = find_coordinates(np.random.default_rng(0).uniform(-1, 3, (200, 1)))
    t = np.array([[-2.0], [0.3], [4.0]])
    numeric = (support.from_line(t + 1e-6) - support.from_line(t - 1e-6))[:, 0] / 2e-6
    np.testing.assert_allclose(support.log_stretch(t), np.log(numeric), rtol=1e-5)


def test_ridge_residuals_are_those_of_leave_one_out():
    rng = np.random.default_rng(0)
    X, F = rng.normal(size=(25, 2)), rng.normal(size=(25, 1))
    F -= F.mean()
    kernel, reg = mh.Gaussian(1.0), 0.01
    _, left = fit_ridge(X, F, kernel, reg, X)
    K = kernel(X)
    for i in (0, 7):
        rest = np.delete(np.arange(25), i)
        alpha = np.linalg.solve(K[np.ix_(rest, rest)] + 25 * reg * np.eye(24), F[rest])
        np.testing.assert_allclose(left[i], F[i] - K[i, rest] @ alpha, atol=1e-8)


def test_ridge_finds_a_smooth_function():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (400, 1))
    F = np.sin(2 * X) + 0.1 * rng.normal(size=X.shape)
    kernel, reg = choose_ridge(X, F, [mh.Gaussian("scaled").resolve(X)], rng)
    ridge, left = fit_ridge(X, F, kernel, reg, X[:200])
    assert np.sqrt((left**2).mean()) < 0.12
    assert abs(ridge.at(np.array([[0.7]]))[0, 0] - np.sin(1.4)) < 0.08


@pytest.fixture(scope="module")
def bent():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (500, 1))
    spread = 0.1 + 0.2 * np.abs(X)
    return X, X**2 + spread * rng.normal(size=X.shape)


def test_moved_density_is_a_density_near_the_truth(bent):
    density = fit_moved(*bent, np.random.default_rng(0))
    assert density.choice.way == 2  # the spread grows with |x|
    grid = np.linspace(-4, 9, 2000)[:, None]
    for at in (-1.5, 0.0, 1.0):
        p = np.exp(density.logpdf(np.array([[at]]), grid))[:, 0]
        step = grid[1, 0] - grid[0, 0]
        assert p.sum() * step == pytest.approx(1, abs=0.01)
        truth = stats.norm(at**2, 0.1 + 0.2 * abs(at)).pdf(grid[:, 0])
        assert np.abs(p - truth).sum() * step < 0.35


def test_pairs_are_the_diagonal(bent):
    density = fit_moved(*bent, np.random.default_rng(0))
    x, y = bent[0][:4], bent[1][:4]
    np.testing.assert_allclose(density.logpdf_of_pairs(x, y), np.diagonal(density.logpdf(x, y)))


def test_one_tiny_predicted_spread_is_no_unit_for_all():
    """The spread of some rows is a thousandth of that of others: whitened residuals stay moderate."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.exponential(size=(600, 1)), axis=0)
    Y = X + rng.exponential(size=X.shape) * np.where(X < 0.02, 1e-5, 1.0)
    chosen = fit_moved(X, Y, np.random.default_rng(0)).choice
    spread = (mh.Gaussian(0.02), 1e-9)
    density = fit_moved(
        X, Y, np.random.default_rng(0), MovedChoice(2, chosen.location, spread, np.inf, 0.2, 0.0, ())
    )
    assert np.abs(density.residuals).max() < 20  # one of √600 would leave nothing for the others


def test_points_stay_within_reach():
    rng = np.random.default_rng(0)
    L = np.log(rng.exponential(size=(2000, 1)))
    limits = reach(L)
    new = np.log(rng.exponential(size=200_000))
    assert ((new < limits[0]) | (new > limits[1])).mean() < 1 / 2000
    assert limits[1, 0] < L.max() + 1
    T, W = np.array([[0.0], [500.0], *6 * [[1.0]]]), np.full(8, 1 / 8)
    kept, left = within(T, W, limits)
    np.testing.assert_allclose(left, [1 / 7, 0, *6 * [1 / 7]])
    kept, left = within(T + 100, W, limits)  # nothing is left: taken to the end
    np.testing.assert_allclose(kept, limits[1, 0])
    np.testing.assert_array_equal(left, W)


def test_weights_of_sum_one():
    W = np.array([[0.5, 0.4, -0.3], [1.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    found = of_sum_one(W)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[0], W[0] / 0.6)
    np.testing.assert_allclose(found[2], [0.4, 0.3, 0.3])  # about the mean as they were


def test_full_smoothing_is_one_gaussian(bent):
    X, Y = bent
    chosen = fit_moved(X, Y, np.random.default_rng(0)).choice
    plain = MovedChoice(1, chosen.location, chosen.scale, np.inf, 1.0, 0.0, ())
    density = fit_moved(X, Y, np.random.default_rng(0), plain)
    mean, scale = density.location.at(X[:1])
    exact = stats.norm(mean + scale * density.centre, scale * density.lower[0, 0])
    y = mean + 0.5 * scale
    assert density.logpdf(X[:1], y)[0, 0] == pytest.approx(exact.logpdf(y).item(), abs=0.02)


def test_near_weights():
    D = np.array([[0.0, 1.0, 1e9]])
    W = near_weights(D, 1.0)
    np.testing.assert_allclose(W, [[1 / (1 + np.exp(-0.5)), np.exp(-0.5) / (1 + np.exp(-0.5)), 0.0]])


def test_smoothed_prior_posterior_is_bayes_rule():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(1000, 1))
    prior = SmoothedPrior.of(theta, np.full(1000, 1e-3), find_coordinates(theta).ends, rng)
    x = np.linspace(-4, 4, 2001)[:, None]
    assert prior.density(x).sum() * 0.004 == pytest.approx(1, abs=1e-3)

    def log_likelihood(T):  # narrow: hardly a draw of the prior is near
        return stats.norm(1.5, 0.002).logpdf(T[:, 0])

    effort = Effort()
    T, W = prior.posterior(log_likelihood, prior.draw(effort.points, rng), effort, rng)
    assert 1 / (W**2).sum() > 100
    assert W @ T[:, 0] == pytest.approx(1.5, abs=5e-4)
    assert np.sqrt(W @ (T[:, 0] - W @ T[:, 0]) ** 2) == pytest.approx(0.002, rel=0.15)


def test_evidence_is_found_where_hardly_a_draw_is():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(1000, 1))
    prior = SmoothedPrior.of(theta, np.full(1000, 1e-3), find_coordinates(theta).ends, rng)
    start, effort = prior.draw(300, rng), Effort(300, 300, 20.0, 5, 1000)

    def log_likelihood(T):
        return stats.norm(1.5, 3e-3).logpdf(T[:, 0])

    draws = Draws.of_prior(prior, start, log_likelihood(start))
    found = prior.log_evidence(log_likelihood, draws, effort, rng)
    assert found == pytest.approx(np.log(prior.density(np.array([[1.5]])))[0], abs=0.3)


# A likelihood on four columns, narrow, and narrower still across a ridge.
RIDGE = stats.multivariate_normal([0.5, -0.3, 0.2, 0.1], 0.05**2 * (0.1 * np.eye(4) + 0.9 * np.ones((4, 4))))


@pytest.fixture(scope="module")
def four_columns():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(1000, 4))
    return SmoothedPrior.of(theta, np.full(1000, 1e-3), find_coordinates(theta).ends, rng)


@pytest.mark.parametrize("freedom", [np.inf, 30])
def test_a_narrow_posterior_of_four_columns_is_found(four_columns, freedom):
    # With the tails of Student's t, a low power of the likelihood is a spike on a hill as wide as the prior.
    likelihood = RIDGE if np.isinf(freedom) else stats.multivariate_t(RIDGE.mean, RIDGE.cov, df=freedom)
    rng = np.random.default_rng(1)
    T, W = four_columns.posterior(likelihood.logpdf, four_columns.draw(1500, rng), Effort(), rng)
    assert 1 / (W**2).sum() > 300
    mean, cov = W @ T, (T - W @ T).T @ (W[:, None] * (T - W @ T))
    sd = np.sqrt(np.diagonal(RIDGE.cov))
    np.testing.assert_allclose((mean - RIDGE.mean) / sd, 0, atol=0.2)
    np.testing.assert_allclose(cov / np.outer(sd, sd), RIDGE.cov / np.outer(sd, sd), atol=0.25)


def test_draws_about_the_truth_keep_the_evidence_from_being_too_small(four_columns):
    rng = np.random.default_rng(0)
    start, effort = four_columns.draw(100, rng), Effort(100, 100, 10.0, 0, 250)  # no rounds
    plain = Draws.of_prior(four_columns, start, RIDGE.logpdf(start))
    about = About(np.asarray(RIDGE.mean), four_columns.sd)
    T = about.draw(400, rng)
    joined = plain.join(T, RIDGE.logpdf(T), four_columns.density(T), about.density)
    exact = np.log(four_columns.density(RIDGE.mean[None]))[0]
    assert four_columns.log_evidence(RIDGE.logpdf, plain, effort, rng) < exact - 10
    assert four_columns.log_evidence(RIDGE.logpdf, joined, effort, rng) == pytest.approx(exact, abs=0.7)


def test_proposals_are_densities_of_their_draws():
    rng = np.random.default_rng(0)
    T, W = rng.normal(size=(60, 2)) @ np.array([[1.0, 0.9], [0.0, 0.2]]), np.full(60, 1 / 60)
    for proposal in (Mixture.about(T, W, 60, rng), About(np.array([0.2, -1.0]), np.array([1.0, 3.0]))):
        draws = proposal.draw(20_000, rng)
        # The mean of a density over that which was drawn from is one.
        other = stats.multivariate_normal(draws.mean(axis=0), 0.3 * np.cov(draws.T))
        assert (other.pdf(draws) / proposal.density(draws)).mean() == pytest.approx(1, abs=0.05)


def test_draws_of_all_rounds_count_as_of_one_mixture(four_columns):
    rng = np.random.default_rng(0)
    a, b = four_columns.draw(30, rng), RIDGE.rvs(20, random_state=rng)
    draws = Draws.of_prior(four_columns, a, np.zeros(30))
    draws = draws.join(b, np.zeros(20), four_columns.density(b), RIDGE.pdf)
    both = np.concatenate([a, b])
    prior = four_columns.density(both)
    np.testing.assert_allclose(draws.base, np.log(prior / (0.6 * prior + 0.4 * RIDGE.pdf(both))))


def test_the_smoothing_of_a_prior_is_chosen():
    rng = np.random.default_rng(0)
    even = np.full(500, 1 / 500)
    box = rng.random((500, 2))
    uniform = SmoothedPrior.of(box, even, find_coordinates(box).ends, rng)
    assert np.isinf(uniform.width).all()
    np.testing.assert_allclose(uniform.density(box), 1 / np.prod(np.ptp(uniform.ends, axis=0)))
    assert uniform.density(np.array([[0.5, 1.5]])) == 0
    bell = rng.normal(size=(500, 2))
    one = SmoothedPrior.of(bell, even, find_coordinates(bell).ends, rng)
    np.testing.assert_allclose(one.width, bell.std(axis=0))
    two = np.concatenate([rng.normal(-3, 0.3, (250, 1)), rng.normal(3, 0.3, (250, 1))])
    narrow = SmoothedPrior.of(two, even, find_coordinates(two).ends, rng)
    assert narrow.width < 0.5
    assert narrow.density(np.zeros((1, 1))) < 0.01


def test_smoothed_prior_in_a_box_stays_there():
    rng = np.random.default_rng(0)
    theta = rng.random((400, 2))
    support = find_coordinates(theta)
    prior = SmoothedPrior.of(theta, np.full(400, 1 / 400), support.ends, rng)
    draws = prior.draw(5000, rng)
    assert (draws >= support.lower).all()
    assert (draws <= support.upper).all()
    # Mirrored, not lost: at the edge the density is as high as inside.
    along = np.linspace(0.01, 0.99, 99)
    edge, middle = (prior.density(np.stack([np.full(99, at), along], axis=1)).mean() for at in (0.01, 0.5))
    assert edge == pytest.approx(middle, rel=0.3)


def test_a_discrete_prior_keeps_its_points():
    rng = np.random.default_rng(0)
    theta = rng.integers(0, 5, (200, 1)).astype(float)
    prior = SmoothedPrior.of(theta, np.full(200, 1 / 200), find_coordinates(theta).ends, rng)
    T, W = prior.posterior(lambda T: -0.5 * (T[:, 0] - 2) ** 2, prior.draw(10, rng), Effort(), rng)
    np.testing.assert_array_equal(T, theta)
    w = np.exp(-0.5 * (theta[:, 0] - 2) ** 2)
    np.testing.assert_allclose(W, w / w.sum())


def test_systematic_draws_are_even():
    index = systematic(np.array([0.5, 0.25, 0.25]), 8, np.random.default_rng(0))
    assert np.bincount(index).tolist() == [4, 2, 2]


def test_weighted_log_kde_is_a_density():
    rng = np.random.default_rng(0)
    L, w = rng.normal(size=(50, 1)), np.full(50, 0.02)
    grid = np.linspace(-6, 6, 1201)
    p = np.exp([weighted_log_kde(np.array([t]), L, w) for t in grid])
    assert p.sum() * 0.01 == pytest.approx(1, abs=1e-3)


class Exact:
    """The true posterior of θ ~ N(0, 1), x = θ + N(0, 0.5²), with its variance multiplied."""

    def __init__(self, factor):
        self.factor = factor

    def log_density(self, y, T):
        return stats.norm(0.8 * y[:, 0], np.sqrt(0.2 * self.factor)).logpdf(T[:, 0])


def test_the_score_is_proper_and_estimates_the_information():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2000, 1))
    sims = Simulations.of(theta, theta + 0.5 * rng.normal(size=theta.shape))
    folds = [(np.arange(1000), np.arange(1000, 2000))]
    prior = smoothed_prior(sims, None, rng)
    scores = {
        factor: held_out_scores(lambda s, f=factor: Exact(f), sims, folds, prior).mean()
        for factor in (0.3, 1.0, 3.0)
    }
    assert scores[1.0] > max(scores[0.3], scores[3.0]) + 0.05
    # Mutual information of θ and x: ½ log(1 + 1/0.25).
    assert scores[1.0] == pytest.approx(0.5 * np.log(5), abs=0.1)


def test_folds_do_not_meet():
    for n in (12, 100, 1500):
        for train, test in make_folds(n, np.random.default_rng(0)):
            assert not set(train) & set(test)
            assert len(test) >= 1


def test_a_later_method_must_win_by_more_than_chance():
    rng = np.random.default_rng(0)
    theta = rng.uniform(-1, 1, (200, 1))
    sims = Simulations.of(theta, np.abs(theta) + 0.02 * rng.normal(size=theta.shape))
    options = Options(mh.Gaussian(1.0), mh.Gaussian(1.0), True, True)
    # The same method twice: no difference, so the first stays.
    found, _ = choose_method(("rejection", "rejection"), sims, options, rng)
    assert found.scores[0] == found.scores[1]
    found, _ = choose_method(("rejection", "surrogate"), sims, options, rng)
    assert found.best == "surrogate"
    assert found.scores[1] - found.scores[0] > found.errors[0]
