"""Every Gram and its ridge against the dense matrix in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from gram_cases import AXES, GRAMS, NEW, WEIGHTS, WITH_POINTS, N, X, Z, kernel_of, quadratic
from gram_cases import kronecker as make_kronecker

import muhat as mh
from muhat.gram import (
    BlockedGram,
    DenseGram,
    Factored,
    Gram,
    KroneckerGram,
    LowRankGram,
    as_dense,
    kernel_matmul,
    kernel_quadratic,
)

ELL = 0.8
TOLERANCE = {"rtol": 1e-9, "atol": 1e-10}


@pytest.fixture(params=list(GRAMS))
def gram(request: pytest.FixtureRequest) -> Gram:
    return GRAMS[request.param](ELL, np)


@pytest.fixture(params=WITH_POINTS)
def gram_with_points(request: pytest.FixtureRequest) -> Gram:
    return GRAMS[request.param](ELL, np)


def system(gram: Gram, c: float, weights: np.ndarray | None) -> np.ndarray:
    K = gram.dense()
    root = np.ones(N) if weights is None else np.sqrt(weights)
    return root[:, None] * K * root + c * np.eye(N)


# -- the matrix ------------------------------------------------------------------------------------


def test_each_is_the_matrix_it_should_be() -> None:
    kernel = kernel_of(ELL)
    K = kernel(X)
    expected = {
        "dense": K,
        "blocked": K,
        "nystrom": kernel(X, Z) @ np.linalg.solve(kernel(Z), kernel(Z, X)),
        "features": quadratic(X / ELL) @ quadratic(X / ELL).T,
        "kronecker": np.kron(mh.Gaussian(ELL)(AXES[0]), 1.3 * mh.Laplace(ELL)(AXES[1])),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(GRAMS[name](ELL, np).dense(), value, rtol=1e-8, atol=1e-9, err_msg=name)
    types = {"dense": DenseGram, "blocked": BlockedGram, "kronecker": KroneckerGram}
    for name, make in GRAMS.items():
        assert type(make(ELL, np)) is types.get(name, LowRankGram)


def test_fourier_is_the_average_of_cosines() -> None:
    gram = GRAMS["fourier"](ELL, np)
    frequencies = gram.kernel.frequencies
    assert frequencies.shape == (7, 2)
    cosines = np.cos((X[:, None] - X[None]) @ frequencies.T)
    np.testing.assert_allclose(gram.dense(), 2.0 * cosines.mean(axis=2), rtol=1e-12)
    np.testing.assert_allclose(gram.diag(), 2.0, rtol=1e-13)


def test_shape_and_diagonal(gram: Gram) -> None:
    assert gram.shape == (N, N)
    assert len(gram) == N
    np.testing.assert_allclose(gram.diag(), np.diagonal(gram.dense()), rtol=1e-12)


@pytest.mark.parametrize("columns", [None, 1, 3, 7, 40])
def test_products(gram: Gram, columns: int | None) -> None:
    B = np.random.default_rng(0).normal(size=N if columns is None else (N, columns))
    out = gram @ B
    assert out.shape == B.shape
    np.testing.assert_allclose(out, gram.dense() @ B, **TOLERANCE)


def test_diagonal_of_a_matrix_never_made() -> None:
    gram = mh.Exact().gram(mh.Polynomial(2), X)
    np.testing.assert_allclose(gram.diag(), np.diagonal(mh.Polynomial(2)(X)), rtol=1e-13)


# -- the ridge -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS, np.zeros(N)], ids=["plain", "weighted", "nothing"])
@pytest.mark.parametrize("c", [0.3, 1e-3])
def test_ridge(gram: Gram, c: float, weights: np.ndarray | None) -> None:
    ridge = gram.ridge(c) if weights is None else gram.ridge(c, weights)
    A = system(gram, c, weights)
    rng = np.random.default_rng(0)
    b, B = rng.normal(size=N), rng.normal(size=(N, 5))
    B[:, 2] = 0.0  # a right-hand side of zeros has the solution 0
    tolerance = {"rtol": 1e-6, "atol": 1e-7 / c}
    np.testing.assert_allclose(ridge.solve(b), np.linalg.solve(A, b), **tolerance)
    np.testing.assert_allclose(ridge.solve(B), np.linalg.solve(A, B), **tolerance)
    assert ridge.logdet() == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-8)
    np.testing.assert_allclose(ridge.inverse_diag(), np.diagonal(np.linalg.inv(A)), **tolerance)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_regress_is_weighted_ridge_regression(gram: Gram, weights: np.ndarray | None) -> None:
    ridge, c = gram.ridge(0.3, weights), 0.3
    B = np.random.default_rng(0).normal(size=(N, 4))
    out = ridge.regress(B)
    K, D = gram.dense(), np.diag(np.ones(N) if weights is None else weights)
    # (K + cD⁻¹)⁻¹ = (DK + cI)⁻¹ D, which also holds where D is 0.
    np.testing.assert_allclose(out, np.linalg.solve(D @ K + c * np.eye(N), D @ B), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(ridge.regress(B[:, 0]), out[:, 0], rtol=1e-9, atol=1e-11)
    if weights is not None:
        assert (out[weights == 0] == 0).all()  # points of weight 0 drop out


def test_weights_are_like_repeated_points(gram_with_points: Gram) -> None:
    counts = np.random.default_rng(0).integers(0, 4, size=N)
    again = np.repeat(np.arange(N), counts)
    K, f = gram_with_points.dense(), np.sin(3 * X[:, 0])
    repeated = np.linalg.solve(K[np.ix_(again, again)] + 0.3 * np.eye(len(again)), f[again])
    ridge = gram_with_points.ridge(0.3, counts)
    np.testing.assert_allclose(K @ ridge.regress(f), K[:, again] @ repeated, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_fit_and_evaluate_agree_with_cross_and_regress(
    gram_with_points: Gram, weights: np.ndarray | None
) -> None:
    gram = gram_with_points
    ridge = gram.ridge(0.3, weights)
    F = np.random.default_rng(0).normal(size=(N, 3))
    cross = as_dense(gram.cross(NEW))
    assert cross.shape == (N, 5)
    np.testing.assert_allclose(cross, gram.kernel(X, NEW), rtol=1e-9, atol=1e-12)
    expected = gram.kernel(NEW, X) @ np.asarray(ridge.regress(F))
    np.testing.assert_allclose(gram.evaluate(NEW, ridge.fit(F)), expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(gram.evaluate(NEW, ridge.fit(F[:, 0])), expected[:, 0], rtol=1e-7, atol=1e-8)
    # At the training points themselves it is the smoother K(K + cD⁻¹)⁻¹.
    smooth = gram.dense() @ np.asarray(ridge.regress(F))
    np.testing.assert_allclose(gram.evaluate(X, ridge.fit(F)), smooth, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_solving_a_cross_matrix(gram_with_points: Gram, weights: np.ndarray | None) -> None:
    gram, c = gram_with_points, 0.3
    ridge, cross = gram.ridge(c, weights), gram.cross(NEW)
    A = system(gram, c, weights)
    root = np.ones(N) if weights is None else np.sqrt(weights)
    solved = np.linalg.solve(A, as_dense(cross))
    np.testing.assert_allclose(as_dense(ridge.solve(cross)), solved, rtol=1e-7, atol=1e-8)
    regressed = root[:, None] * np.linalg.solve(A, root[:, None] * as_dense(cross))
    np.testing.assert_allclose(as_dense(ridge.regress(cross)), regressed, rtol=1e-7, atol=1e-8)
    if isinstance(cross, Factored):
        assert isinstance(ridge.regress(cross), Factored)
        assert isinstance(ridge.solve(cross), Factored)


def test_leave_one_out_from_the_inverse_diagonal(gram: Gram) -> None:
    f, c = np.random.default_rng(0).normal(size=N), 0.2
    ridge, K = gram.ridge(c), gram.dense()
    residuals = ridge.solve(f) / ridge.inverse_diag()
    for i in (0, 7, N - 1):
        rest = np.delete(np.arange(N), i)
        coefficients = np.linalg.solve(K[np.ix_(rest, rest)] + c * np.eye(N - 1), f[rest])
        assert residuals[i] == pytest.approx(f[i] - K[i, rest] @ coefficients, rel=1e-6, abs=1e-8)


def test_a_ridge_leaves_the_gram_alone(gram: Gram) -> None:
    before = np.array(gram.dense())
    gram.ridge(0.1).solve(np.ones(N))
    gram.ridge(0.1, WEIGHTS).inverse_diag()
    np.testing.assert_array_equal(gram.dense(), before)


def test_a_matrix_given_by_the_user_is_not_touched() -> None:
    for order in ("C", "F"):
        K = np.array(kernel_of(ELL)(X), order=order)
        before = K.copy()
        for weights in (None, WEIGHTS):
            ridge = DenseGram(K).ridge(0.1, weights)
            A = system(DenseGram(before), 0.1, weights)
            np.testing.assert_allclose(ridge.solve(np.ones(N)), np.linalg.solve(A, np.ones(N)), rtol=1e-9)
            np.testing.assert_array_equal(K, before)


def test_single_precision_stays_single() -> None:
    small = X.astype(np.float32)
    exact = mh.Exact().gram(kernel_of(ELL), small)
    assert exact.dense().dtype == np.float32
    b = np.sin(X[:, 0]).astype(np.float32)
    expected = np.linalg.solve(kernel_of(ELL)(X) + 0.1 * np.eye(N), np.sin(X[:, 0]))
    representations = (mh.Exact(), mh.Exact(memory=0, rank=9), mh.Nystrom(N))
    for representation in representations:
        ridge = representation.gram(kernel_of(ELL), small, 0).ridge(0.1)
        np.testing.assert_allclose(ridge.solve(b), expected, rtol=2e-3, atol=2e-4)


# -- identities between representations ------------------------------------------------------------


@pytest.mark.parametrize("choice", ["kmeans++", "uniform", "leverage", X])
def test_nystrom_with_all_points_is_exact(choice: object) -> None:
    kernel = kernel_of(ELL)
    gram = mh.Nystrom(N if choice is X else 10 * N, choice).gram(kernel, X, 0)
    np.testing.assert_allclose(gram.dense(), kernel(X), rtol=1e-8, atol=1e-9)
    exact, ours = mh.Exact().gram(kernel, X).ridge(0.05), gram.ridge(0.05)
    b = np.random.default_rng(0).normal(size=N)
    np.testing.assert_allclose(ours.solve(b), exact.solve(b), rtol=1e-7, atol=1e-8)
    assert ours.logdet() == pytest.approx(exact.logdet(), rel=1e-9)
    np.testing.assert_allclose(ours.inverse_diag(), exact.inverse_diag(), rtol=1e-8)


@pytest.mark.parametrize("block", [1, N - 1, N, 3 * N + 1, 100 * N])
def test_blocked_is_dense_for_every_block_size(block: int) -> None:
    kernel = kernel_of(ELL)
    blocked, dense = BlockedGram(kernel, X, block, rank=7, tolerance=1e-13), mh.Exact().gram(kernel, X)
    for columns in (1, 6):
        B = np.random.default_rng(0).normal(size=(N, columns))
        np.testing.assert_allclose(blocked @ B, dense @ B, rtol=1e-11, atol=1e-12)
        for weights in (None, WEIGHTS):
            ours, theirs = (g.ridge(0.1, weights).solve(B) for g in (blocked, dense))
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)
    coefficients = np.random.default_rng(0).normal(size=(N, 6))
    np.testing.assert_allclose(
        blocked.evaluate(NEW, coefficients), dense.evaluate(NEW, coefficients), rtol=1e-11, atol=1e-12
    )


def test_exact_chooses_blocks_by_memory() -> None:
    kernel = mh.Gaussian(1.0)
    assert isinstance(mh.Exact(memory=8 * N * N).gram(kernel, X), DenseGram)
    assert isinstance(mh.Exact(memory=8 * N * N - 1).gram(kernel, X), BlockedGram)
    assert isinstance(mh.Exact(memory=4 * N * N).gram(kernel, X.astype(np.float32)), DenseGram)


def test_products_with_an_open_lengthscale_take_it_from_all_rows() -> None:
    # Not block by block.
    for columns in (1, 6):
        B = np.random.default_rng(0).normal(size=(N, columns))
        out = kernel_matmul(mh.Gaussian("median"), X, X, B, block_elements=3 * N)
        np.testing.assert_allclose(out, mh.Gaussian("median")(X) @ B, rtol=1e-11)


def test_products_of_whole_numbers() -> None:
    A, B = np.arange(6).reshape(3, 2), np.array([1, 2, 3])
    out = kernel_matmul(mh.Gaussian(0.9), A, A, B)
    np.testing.assert_allclose(out, mh.Gaussian(0.9)(A.astype(float)) @ B, rtol=1e-13)


@pytest.mark.parametrize("strip", [1, 5 * N, 1 << 23])
def test_quadratic_form_by_strips(monkeypatch: pytest.MonkeyPatch, strip: int) -> None:
    monkeypatch.setattr("muhat.gram.blocked.BLOCK_ELEMENTS", 4 * strip)
    w = np.random.default_rng(0).normal(size=N)
    for kernel in (kernel_of(ELL), mh.Linear(0.3), mh.Gaussian("median")):
        assert kernel_quadratic(kernel, X, w) == pytest.approx(w @ kernel(X) @ w, rel=1e-10)


def test_factored_matrices_multiply_like_matrices() -> None:
    rng = np.random.default_rng(0)
    F = Factored(rng.normal(size=(6, 2)), rng.normal(size=(2, 4)))
    B, C = rng.normal(size=(4, 3)), rng.normal(size=(5, 6))
    assert F.shape == (6, 4)
    assert F.ndim == 2
    np.testing.assert_allclose(F @ B, F.dense() @ B, rtol=1e-12)
    np.testing.assert_allclose(C @ F, C @ F.dense(), rtol=1e-12)
    np.testing.assert_allclose(F.T.dense(), F.dense().T, rtol=1e-13)
    assert as_dense(B) is B


# -- hard data -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "representation",
    [
        mh.Exact(),
        mh.Exact(memory=0, rank=5),
        mh.Nystrom(20),
        mh.Nystrom(15, "uniform"),
        mh.Nystrom(15, "leverage"),
    ],
    ids=["dense", "blocked", "kmeans++", "uniform", "leverage"],
)
def test_duplicated_rows(representation: object) -> None:
    # Five distinct points, eight times each: K has rank 5.
    D = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 8, axis=0)
    kernel, c = mh.Gaussian(1.0), 1e-6
    gram = representation.gram(kernel, D, 0)
    np.testing.assert_allclose(gram.dense(), kernel(D), atol=1e-9)
    f = np.repeat(np.arange(5.0), 8)
    ridge = gram.ridge(c)
    np.testing.assert_allclose(gram.evaluate(D, ridge.fit(f)), f, atol=1e-4)
    values = np.linalg.eigvalsh(kernel(D))[-5:]
    assert ridge.logdet() == pytest.approx(np.log(values + c).sum() + 35 * np.log(c), rel=1e-8)


@pytest.mark.parametrize(
    "representation",
    [mh.Exact(), mh.Exact(memory=0), mh.Nystrom(10), mh.Fourier(10)],
    ids=["dense", "blocked", "nystrom", "fourier"],
)
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(representation: object, scale: float) -> None:
    def answers(points: np.ndarray) -> list[np.ndarray]:
        gram = representation.gram(mh.Gaussian("median"), points, 0)
        ridge = gram.ridge(0.1)
        return [gram.dense(), ridge.solve(np.arange(N) * 1.0), ridge.logdet()]

    for a, b in zip(answers(X), answers(scale * X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_fewer_rows_than_columns() -> None:
    W = np.random.default_rng(0).normal(size=(6, 80))
    kernel = mh.Gaussian("median")
    for representation in (mh.Exact(), mh.Exact(memory=0), mh.Nystrom(6)):
        gram = representation.gram(kernel, W, 0)
        np.testing.assert_allclose(gram.dense(), kernel(W), atol=1e-9)
        A = kernel(W) + 0.1 * np.eye(6)
        np.testing.assert_allclose(
            gram.ridge(0.1).solve(np.ones(6)), np.linalg.solve(A, np.ones(6)), rtol=1e-7
        )


def test_one_point() -> None:
    for representation in (mh.Exact(), mh.Exact(memory=0), mh.Nystrom(5), mh.Fourier(4)):
        gram = representation.gram(mh.Gaussian(1.0), X[:1], 0)
        assert gram.ridge(0.5).solve(np.ones(1))[0] == pytest.approx(1 / 1.5)


def test_kronecker_knows_no_points() -> None:
    for call in (lambda g: g.cross(NEW), lambda g: g.evaluate(NEW, np.ones(N))):
        with pytest.raises(ValueError, match=r"KroneckerGram was made of a matrix.*mh\.Exact\(\)\.gram"):
            call(make_kronecker(ELL, np))
    with pytest.raises(ValueError, match=r"DenseGram was made of a matrix"):
        DenseGram(np.eye(3)).cross(NEW)
    with pytest.raises(ValueError, match=r"LowRankGram was made of features alone.*mh\.Nystrom"):
        LowRankGram(np.eye(3)).evaluate(NEW, np.ones(3))
