"""What the task-transformed Gaussian process refuses, and how it says so."""

import numpy as np
import pytest

import muhat as mh

RNG = np.random.default_rng(0)
Y = RNG.uniform(0, 1, (30, 1))
X = np.sin(4 * Y) + 0.1 * RNG.normal(size=(30, 1))
Y_TASK = RNG.uniform(0, 1, (20, 1))
Z = RNG.normal(size=20)
QUICK = {"optimize": False, "noise": 0.1}


def bad(A, value=np.nan):
    A = A.copy()
    A[3] = value
    return A


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[:1], Y[:1], Y_TASK, Z), r"X has 1 sample .* at least 2"),
        ((X, Y, Y_TASK[:1], Z[:1]), r"Y_task has 1 sample .* at least 2"),
        ((X, Y[:-1], Y_TASK, Z), "X has 30 rows but Y has 29"),
        ((X, Y, Y_TASK, Z[:-1]), "Y_task has 20 rows but z_task has 19"),
        ((bad(X), Y, Y_TASK, Z), "X contains NaN"),
        ((X, bad(Y), Y_TASK, Z), "Y contains NaN"),
        ((X, Y, bad(Y_TASK, np.inf), Z), "Y_task contains inf"),
        ((X, Y, Y_TASK, bad(Z)), "z_task contains NaN"),
        ((X, Y, np.hstack([Y_TASK, Y_TASK]), Z), "Y_task has 2 columns but Y has 1"),
        ((X, Y, Y_TASK, np.column_stack([Z, Z])), r"z_task must be a vector.*\(20, 2\)"),
    ],
)
def test_task(arguments, message):
    with pytest.raises(ValueError, match=message):
        mh.TaskTransformedGP(**QUICK).fit(*arguments)


M = np.kron(np.eye(6), np.full(5, 0.2))


@pytest.mark.parametrize(
    ("M", "Sigma", "message"),
    [
        (M.T, None, r"M must have shape \(6, 30\).*transposed: pass M.T"),
        (M[:, :-1], None, r"M must have shape \(6, 30\).*got \(6, 29\)"),
        (bad(M), None, "M contains NaN"),
        (M, np.eye(5), r"Sigma must be variances \(6,\) or a covariance \(6, 6\), got shape \(5, 5\)"),
        (M, np.eye(6) - 0.5, "Sigma must be positive semi-definite, but its least eigenvalue is -2"),
        (M, np.triu(np.ones((6, 6))), "Sigma must be symmetric"),
        (M, np.array([1.0, 1, 1, 1, 1, 0]), "Sigma must be positive"),
        (M, bad(np.eye(6)), "Sigma contains NaN"),
        (None, None, "X has 30 rows but z has 6"),
    ],
)
def test_transformed(M, Sigma, message):
    with pytest.raises(ValueError, match=message):
        mh.TaskTransformedGP(optimize=False).fit_transformed(X, M, Z[:6], Sigma)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"inference": "bayes"}, ValueError, "inference must be one of 'full', 'map', got 'bayes'"),
        ({"noise": -1.0}, ValueError, "noise must be positive"),
        ({"noise": "small"}, TypeError, "noise must be a number"),
        ({"starts": 0}, ValueError, "starts must be at least 1"),
        ({"optimize": "yes"}, ValueError, "optimize must be one of"),
        ({"optimize": "inducing"}, ValueError, "needs inducing points"),
        ({"kernel_x": 3.0}, TypeError, "kernel_x must be a kernel"),
        ({"kernel_y": "median"}, TypeError, "kernel_y must be a kernel"),
        ({"representation": mh.Neural()}, TypeError, "mh.Nystrom"),
        ({"representation": 100}, TypeError, "representation must be"),
        ({"inducing": 5}, ValueError, "inducing points take the place of the pairs"),
    ],
)
def test_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        mh.TaskTransformedGP(**{**QUICK, **arguments}).fit(X, Y, Y_TASK, Z)


def test_both_noises():
    with pytest.raises(ValueError, match="noise and Sigma both"):
        mh.TaskTransformedGP(**QUICK).fit_transformed(X, M, Z[:6], np.eye(6))


def test_inducing():
    with pytest.raises(ValueError, match="inducing must be at least 2, got 1"):
        mh.TaskTransformedGP(**QUICK, inducing=1).fit_direct(X, X[:, 0])
    with pytest.raises(ValueError, match="inducing has 2 columns but X has 1"):
        mh.TaskTransformedGP(**QUICK, inducing=np.zeros((4, 2))).fit_direct(X, X[:, 0])
    with pytest.raises(ValueError, match="fit_direct"):
        mh.TaskTransformedGP(**QUICK, inducing=5).fit_transformed(X, M, Z[:6])


def test_predictions():
    model = mh.TaskTransformedGP(**QUICK).fit(X, Y, Y_TASK, Z)
    with pytest.raises(ValueError, match="X has 2 features, but TaskTransformedGP is expecting 1"):
        model.predict(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="return_std or for return_cov"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="theta must have 5 entries"):
        model.log_marginal_likelihood(np.zeros(3))
    with pytest.raises(ValueError, match="n must be at least 1"):
        model.sample(X, 0)
    given = mh.TaskTransformedGP(**QUICK).fit_transformed(X, M, Z[:6])
    with pytest.raises(ValueError, match="predict_task needs pairs"):
        given.predict_task(Y)


def test_too_many_rows_are_refused_with_a_way_out():
    many = np.zeros(30_000)
    with pytest.raises(ValueError, match=r'30000 rows.*inference="map"'):
        mh.TaskTransformedGP(**QUICK).fit(X, Y, np.linspace(0, 1, 30_000), many)


@pytest.mark.slow
@pytest.mark.parametrize("optimize", [True, False])
def test_a_task_far_from_the_pairs_warns_and_leaves_f_uncertain(optimize):
    with pytest.warns(UserWarning, match="No y of the task comes near"):
        model = mh.TaskTransformedGP(optimize=optimize).fit(X, Y, Y_TASK + 100, Z)
    mean, std = model.predict(X, return_std=True)
    prior = np.sqrt(model.kernel_x_.diag(X))
    assert (std > 0.9 * prior).all()
    assert np.abs(mean - Z.mean() * optimize).max() < 0.2 * prior.max()


def test_a_constant_task_is_no_failure():
    model = mh.TaskTransformedGP(starts=1).fit(X, Y, Y_TASK, np.full(20, 3.0))
    assert model.predict(X) == pytest.approx(3.0)
