"""Bad input to Grams, ridges and representations is refused with the argument and the remedy."""

from __future__ import annotations

import numpy as np
import pytest
from gram_cases import GRAMS, N, X

import muhat as mh
from muhat.gram import DenseGram, LowRankGram, as_representation

KERNEL = mh.Gaussian(1.0)


@pytest.fixture(params=list(GRAMS))
def gram(request: pytest.FixtureRequest):
    return GRAMS[request.param](0.8, np)


@pytest.mark.parametrize("c", [0, 0.0, -1.0, np.nan, np.inf])
def test_ridge_must_be_positive(gram, c: float) -> None:
    with pytest.raises(ValueError, match=r"c must be positive and finite, got .*raise the regulariser"):
        gram.ridge(c)


@pytest.mark.parametrize("c", ["1", None, True, np.ones(N), [0.1]])
def test_ridge_must_be_a_number(gram, c: object) -> None:
    with pytest.raises(TypeError, match=r"(?s)c must be a number, got "):
        gram.ridge(c)


@pytest.mark.parametrize("shape", [(N - 1,), (N + 1,), (N, 1), (1, N), ()])
def test_weights_of_a_wrong_shape(gram, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"weights must have shape \({N},\), one for each point, got "):
        gram.ridge(0.1, np.ones(shape))


@pytest.mark.parametrize("value", [-1e-9, -1.0, np.nan, np.inf])
def test_weights_must_not_be_negative(gram, value: float) -> None:
    weights = np.ones(N)
    weights[3] = value
    with pytest.raises(ValueError, match=r"weights must not be negative.*clip them at 0"):
        gram.ridge(0.1, weights)


def test_weights_may_be_a_list_or_counts() -> None:
    gram = GRAMS["dense"](0.8, np)
    expected = gram.ridge(0.1, np.arange(N) * 1.0).solve(np.ones(N))
    for weights in (list(range(N)), np.arange(N)):
        np.testing.assert_allclose(gram.ridge(0.1, weights).solve(np.ones(N)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: mh.Nystrom(0), ValueError, r"p must be at least 1, got 0"),
        (lambda: mh.Nystrom(-3), ValueError, r"p must be at least 1, got -3"),
        (lambda: mh.Nystrom(2.5), TypeError, r"p must be a whole number, got 2\.5"),
        (lambda: mh.Nystrom(True), TypeError, r"p must be a whole number, got True"),
        (lambda: mh.Nystrom("all"), TypeError, r"p must be a whole number, got 'all'"),
        (lambda: mh.Fourier(0), ValueError, r"p must be at least 2, got 0"),
        (lambda: mh.Fourier(1), ValueError, r"p must be at least 2, got 1"),
        (lambda: mh.Fourier(None), TypeError, r"p must be a whole number, got None"),
        (
            lambda: mh.Nystrom(5, "random"),
            ValueError,
            r"landmarks must be one of 'kmeans\+\+', 'uniform', 'leverage', got 'random'",
        ),
        (lambda: mh.Exact(block=0), ValueError, r"block must be at least 1"),
        (lambda: mh.Exact(rank=0), ValueError, r"rank must be at least 1"),
        (lambda: mh.Exact(max_iterations=0), ValueError, r"max_iterations must be at least 1"),
        (lambda: mh.Exact(tolerance=0.0), ValueError, r"tolerance must be positive"),
        (lambda: mh.Exact(memory=-1), ValueError, r"memory must be a number of bytes, got -1"),
        (lambda: mh.Exact(memory=float("nan")), ValueError, r"memory must be a number of bytes, got nan"),
        (
            lambda: as_representation("nystrom"),
            TypeError,
            r"representation must be a representation or None, got 'nystrom'.*mh\.Nystrom\(500\)",
        ),
        (lambda: as_representation(mh.Nystrom, "how"), TypeError, r"how must be a representation"),
    ],
    ids=range(17),
)
def test_representations(make: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("landmarks", "error", "message"),
    [
        (np.ones((3, 5)), ValueError, r"landmarks has 5 columns but X has 2"),
        (np.ones(3), ValueError, r"landmarks must be 2-dimensional.*\(3,\)"),
        (np.ones((0, 2)), ValueError, r"landmarks has 0 samples"),
        (np.array([[np.nan, 1.0]]), ValueError, r"landmarks contains NaN"),
        ([["a", "b"]], TypeError, r"landmarks must hold numbers"),
    ],
    ids=range(5),
)
def test_landmarks_given_by_the_user(landmarks: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        mh.Nystrom(3, landmarks).gram(KERNEL, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 0],
        lambda x: x.sum(),
        lambda x: np.ones((3, 2)),
        lambda x: x.tolist(),
        lambda x: x[None],
        lambda x: None,
    ],
    ids=["1-D", "number", "other rows", "list", "3-D", "nothing"],
)
def test_feature_maps_of_a_wrong_shape(function: object) -> None:
    with pytest.raises(
        ValueError, match=r"feature map must give one row of features a point: for \d+ points"
    ):
        mh.Features(function).gram(KERNEL, X)


@pytest.mark.parametrize("K", [np.ones((2, 3)), np.ones(4), np.ones((2, 2, 2))], ids=range(3))
def test_a_gram_matrix_is_square(K: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"K must be a square matrix, got shape"):
        DenseGram(K)


def test_features_are_a_matrix() -> None:
    with pytest.raises(ValueError, match=r"Phi must be a matrix of features, \(n, p\), got shape \(4,\)"):
        LowRankGram(np.ones(4))


def test_a_dense_gram_of_nothing() -> None:
    with pytest.raises(ValueError, match=r"DenseGram needs the matrix K, or a kernel and points"):
        DenseGram(None)


def test_random_state() -> None:
    with pytest.raises(
        ValueError, match=r"random_state must be None, a whole number or a NumPy Generator, got 'x'"
    ):
        mh.Nystrom(3).gram(KERNEL, X, "x")
    first = mh.Nystrom(3).gram(KERNEL, X, np.random.RandomState(0)).dense()
    np.testing.assert_array_equal(first, mh.Nystrom(3).gram(KERNEL, X, np.random.RandomState(0)).dense())
