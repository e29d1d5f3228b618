"""The marginal likelihoods of task-transformed Gaussian processes: their forms, gradients and maxima."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import muhat as mh
from muhat.learning import task_transformed
from muhat.learning.parameters import Parameters
from muhat.learning.task_transformed import TaskProblem, feature_kernel, maximise_task

RNG = np.random.default_rng(1)
N, TASKS = 25, 40
Y = RNG.uniform(-3, 3, (N, 1))
X = np.column_stack([np.sin(Y[:, 0]) * 2, Y[:, 0] ** 2 / 4]) + 0.1 * RNG.normal(size=(N, 2))
Y_TASK = RNG.uniform(-3, 3, (TASKS, 1))
Z = np.cos(2 * Y_TASK[:, 0]) + 0.2 * RNG.normal(size=TASKS)
KX, KY, NOISE = 1.5 * mh.Gaussian([0.9, 0.7]), 2.0 * mh.Matern(lengthscale=0.8, nu=2.5), 0.3
M = np.repeat(np.eye(N // 5), 5, axis=1) / 5


def problem(full=True, m=TASKS, **changes):
    x, y = Parameters.of(KX), Parameters.of(KY)
    base = np.concatenate([x.vector(), y.vector(), [np.log(NOISE)]])
    data = {"X": X, "Y": Y, "Y_task": Y_TASK[:m], "z": Z[:m]}
    given = {"x": x, "y": y, "base": base, "free": np.ones(len(base), bool), "full": full, "data": data}
    return TaskProblem(**{**given, **changes})


def combined(M, z, Sigma=None, representation=None):
    x = Parameters.of(KX)
    base = np.append(x.vector(), np.log(NOISE))
    data = {"X": X, "M": M, "z": z, "Sigma": Sigma}
    free = np.ones(len(base), bool)
    return TaskProblem(x, None, base, free, False, data, (representation, representation))


def sparse(move=True, **changes):
    x, y = Parameters.of(1.5 * mh.Gaussian(0.9)), Parameters.of(2.0 * mh.Gaussian(0.9))
    y = changes.pop("y", y)
    base = np.concatenate([x.vector(), [] if y is None else y.vector(), [np.log(NOISE)]])
    points, units = np.linspace(-2.5, 2.5, 6)[:, None], Y_TASK.std(axis=0)
    given = {"representation": (None, None), "points": points, "units": units, "move": move} | changes
    free = np.ones(len(base), bool)
    return TaskProblem(x, y, base, free, False, {"Y_task": Y_TASK, "z": Z}, **given)


def dense(full, kx, ky, X, Y, m=TASKS):
    """``log N(z; 0, AᵀKA + Σ)``, as it is written in [HR19, Thm. 5.3]."""
    s2 = NOISE**2
    cross = ky(Y, Y_TASK[:m])
    A = np.linalg.solve(ky(Y) + s2 * np.eye(len(Y)), cross)
    Sigma = s2 * np.eye(m) + (ky(Y_TASK[:m]) - cross.T @ A if full else 0)
    return multivariate_normal(np.zeros(m), A.T @ kx(X) @ A + Sigma).logpdf(Z[:m])


def value(problem):
    return problem.value_and_grad()(np.zeros(problem.count))[0]


FEATURES = {"fourier": mh.Fourier(40), "nystrom": mh.Nystrom(12)}


def with_features(kind, full):
    r = FEATURES[kind]
    p = problem(full, representation=(r, r), seed=3)
    if kind == "nystrom":
        p.data.update(landmarks_x=X[:12], landmarks_y=Y[:12])
    return p


CASES = {
    "full": lambda: problem(True),
    "map, m > n": lambda: problem(False),
    "map, m < n": lambda: problem(False, 15),
    "fourier, full": lambda: with_features("fourier", True),
    "nystrom, full": lambda: with_features("nystrom", True),
    "nystrom, map": lambda: with_features("nystrom", False),
    "given M": lambda: combined(M, Z[: len(M)]),
    "given M, m > n": lambda: combined(np.vstack([np.eye(N), M]), Z[: N + len(M)]),
    "identity": lambda: combined(None, Z[:N]),
    "sparse": sparse,
    "sparse, tied": lambda: sparse(y=None),
}


class TestLikelihood:
    @pytest.mark.slow
    @pytest.mark.parametrize("full", [True, False])
    @pytest.mark.parametrize("m", [15, TASKS])
    def test_is_that_of_the_dense_gaussian(self, full, m):
        assert_allclose(value(problem(full, m)), dense(full, KX, KY, X, Y, m), rtol=1e-9)

    @pytest.mark.slow
    @pytest.mark.parametrize("full", [True, False])
    @pytest.mark.parametrize("kind", ["fourier", "nystrom"])
    def test_of_features_is_that_of_their_kernel(self, kind, full):
        r, marks = FEATURES[kind], kind == "nystrom"
        kx = feature_kernel(r, KX, X, 3, X[:12] if marks else None)
        ky = feature_kernel(r, KY, Y, 4, Y[:12] if marks else None)
        assert_allclose(value(with_features(kind, full)), dense(full, kx, ky, X, Y), rtol=1e-7)

    @pytest.mark.slow
    def test_with_a_given_matrix(self):
        z, s2 = Z[: len(M)], NOISE**2
        exact = multivariate_normal(np.zeros(len(M)), M @ KX(X) @ M.T + s2 * np.eye(len(M))).logpdf(z)
        assert_allclose(value(combined(M, z)), exact, rtol=1e-10)
        Sigma = 0.1 * np.eye(len(M)) + 0.05
        exact = multivariate_normal(np.zeros(len(M)), M @ KX(X) @ M.T + Sigma).logpdf(z)
        assert_allclose(value(combined(M, z, Sigma)), exact, rtol=1e-10)
        kernel = feature_kernel(mh.Fourier(40), KX, X, 0)
        exact = multivariate_normal(np.zeros(len(M)), M @ kernel(X) @ M.T + Sigma).logpdf(z)
        assert_allclose(value(combined(M, z, Sigma, mh.Fourier(40))), exact, rtol=1e-8)

    @pytest.mark.slow
    def test_of_inducing_points_is_that_of_these_as_pairs(self):
        p = sparse()
        kx, ky, _ = p.kernels(p.base)
        assert_allclose(value(p), dense(False, kx, ky, p.points, p.points), rtol=1e-9)

    @pytest.mark.slow
    def test_tied_kernels_are_multiples(self):
        p = sparse(y=None)
        kx, ky, _ = p.kernels(p.base)
        assert_allclose(ky(Y), 1e4 * kx(Y))
        assert_allclose(value(p), dense(False, kx, ky, p.points, p.points), rtol=1e-7)

    @pytest.mark.slow
    @pytest.mark.parametrize("kinds", [("fourier", None), (None, "fourier")])
    def test_features_of_one_kernel_alone(self, kinds):
        rx, ry = (None if kind is None else FEATURES[kind] for kind in kinds)
        kx, ky = feature_kernel(rx, KX, X, 3), feature_kernel(ry, KY, Y, 4)
        p = problem(True, representation=(rx, ry), seed=3)
        assert_allclose(value(p), dense(True, kx, ky, X, Y), rtol=1e-7)

    @pytest.mark.slow
    @pytest.mark.parametrize("case", ["map, m > n", "sparse", "nystrom, full"])
    def test_blocks_of_observations_change_nothing(self, case, monkeypatch):
        one, gradient = CASES[case]().value_and_grad()(np.zeros(CASES[case]().count))
        monkeypatch.setattr(task_transformed, "BLOCK_ROWS", 9)
        monkeypatch.setattr(task_transformed, "_COMPILED", {})
        p = CASES[case]()
        assert p.arguments()["z"].shape == (5, 9)
        blocked, slope = p.value_and_grad()(np.zeros(p.count))
        assert_allclose(blocked, one, rtol=1e-11)
        assert_allclose(slope, gradient, rtol=1e-7, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_gradient_is_that_of_finite_differences(case):
    p = CASES[case]()
    both = p.value_and_grad()
    v = 0.1 * np.random.default_rng(0).normal(size=p.count)
    gradient, h = both(v)[1], 1e-5
    steps = h * np.eye(p.count)
    numeric = np.array([(both(v + e)[0] - both(v - e)[0]) / (2 * h) for e in steps])
    assert_allclose(gradient, numeric, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("representation", [(None, None), (None, FEATURES["fourier"])])
def test_gradient_by_hand_is_that_of_jax(representation):
    import jax

    p = problem(True, representation=representation)
    v = 0.1 * np.random.default_rng(0).normal(size=p.count)
    value, gradient = p.value_and_grad()(v)
    with jax.enable_x64(True):
        theirs, slope = jax.jit(jax.value_and_grad(p.log_likelihood))(v, p.base, p.arguments())
    assert_allclose(value, theirs, rtol=1e-10)
    assert_allclose(gradient, slope, rtol=1e-6, atol=1e-8)


class TestSearch:
    @pytest.mark.slow
    def test_one_compilation_serves_all_starts_and_other_data(self, monkeypatch):
        monkeypatch.setattr(task_transformed, "_COMPILED", {})
        maximise_task(problem(True), 2, 3)
        maximise_task(problem(True, base=problem().base + 0.1), 2, 3)
        (compiled,) = task_transformed._COMPILED.values()
        assert [f._cache_size() for f in compiled] == [1, 1]  # the matrices, and their derivatives

    def test_maximum_is_above_every_start_and_flat(self):
        p = problem(True)
        found = maximise_task(p, 2)
        assert (found.starts[:, 1] >= found.starts[:, 0]).all()
        prior, slope = p.log_prior(found.theta - p.base)
        assert found.log_likelihood + prior == pytest.approx(found.starts[:, 1].max())
        assert found.log_likelihood > value(p)
        low, high = np.array(p.bounds()).T
        inside = (found.theta - p.base > low + 1e-6) & (found.theta - p.base < high - 1e-6)
        slope = slope + problem(True, base=found.theta).value_and_grad()(np.zeros(p.count))[1]
        assert np.abs(slope[inside]).max() < 0.1

    def test_prior_is_on_amplitudes_where_there_are_two(self):
        p = problem(True)
        v = np.arange(1.0, p.count + 1)
        of = np.array([name.endswith("scale") and "length" not in name for name in p.labels])
        prior, slope = p.log_prior(v)
        assert prior == pytest.approx(-0.5 * np.sum(v[of] ** 2))
        assert_allclose(slope, np.where(of, -v, 0))
        assert of.sum() == 2
        for other in (combined(M, Z[: len(M)]), sparse(), sparse(y=None)):
            assert other.log_prior(np.ones(other.count))[0] == 0

    @pytest.mark.slow
    def test_what_is_not_free_stays(self):
        free = np.ones(len(problem().base), bool)
        free[-1] = False
        p = problem(True, free=free)
        found = maximise_task(p, 1, 20)
        assert np.exp(found.theta[-1]) == pytest.approx(NOISE)
        assert not np.allclose(found.theta[:-1], p.base[:-1])

    def test_inducing_points_stay_near_the_data(self):
        found = maximise_task(sparse(), 1, 50)
        room = 0.11 * np.ptp(Y_TASK)
        assert found.points.min() > Y_TASK.min() - room
        assert found.points.max() < Y_TASK.max() + room
        assert found.log_likelihood > value(sparse())

    def test_says_when_nothing_is_finite(self):
        p = problem(True)
        p.data["z"] = np.full(TASKS, 1e300)
        with pytest.raises(ValueError, match="not finite at any starting point"):
            maximise_task(p, 1)
