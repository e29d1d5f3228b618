"""Bad input is refused before any work, with the argument, the value seen and the remedy."""

from __future__ import annotations

import datetime
import re

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import muhat as mh
from muhat._validation import as_rows

X = np.random.default_rng(0).normal(size=(6, 2))
FAMILIES = [mh.Gaussian, mh.Laplace, lambda ell: mh.Matern(1.5, ell), mh.RationalQuadratic, mh.Cauchy]
FAMILIES.append(mh.InverseMultiquadric)


def spoiled(value: object, dtype: object = float) -> np.ndarray:
    A = X.astype(dtype)
    A[3, 1] = value
    return A


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (spoiled(np.nan), ValueError, r"{} contains NaN \(first at row 3, column 1; 1 entr.*Drop or impute"),
        (spoiled(np.inf), ValueError, r"{} contains inf \(first at row 3, column 1.*Drop or impute"),
        (spoiled(-np.inf), ValueError, r"{} contains inf"),
        (spoiled(np.nan, np.float32), ValueError, r"{} contains NaN"),
        (jnp.asarray(spoiled(np.nan)), ValueError, r"{} contains NaN"),
        (X[:0], ValueError, r"{} has 0 samples \(shape \(0, 2\)\).*pass more rows"),
        (X[:, :0], ValueError, r"0 feature.*{} has no columns"),
        (X[:, 0], ValueError, r"{} must be 2-dimensional.*\(6,\).*{}\.reshape\(-1, 1\)"),
        (jnp.asarray(X[:, 0]), ValueError, r"{} must be 2-dimensional.*{}\.reshape\(-1, 1\)"),
        (X[None], ValueError, r"{} must be 2-dimensional.*\(1, 6, 2\).*reshape\(n, d\)"),
        (np.float64(3.0), ValueError, r"{} must be 2-dimensional.*\(\)"),
        (np.array([["a", "b"], ["c", "d"]]), TypeError, r"{} must hold numbers.*<U1.*'a'.*data frame"),
        (np.array([["a", 1.0], ["c", 2.0]], dtype=object), ValueError, r"{} must hold numbers.*Encode"),
        (np.array([[{}, 1.0]], dtype=object), TypeError, r"{} must hold numbers.*Encode"),
        (scipy.sparse.csr_array(X), TypeError, r"{} is a sparse matrix.*{}\.toarray\(\)"),
        (scipy.sparse.coo_matrix(X), TypeError, r"{} is a sparse matrix.*{}\.toarray\(\)"),
        (X + 1j, ValueError, r"Complex data not supported: {} has dtype complex128.*real"),
        (jnp.asarray(X) + 1j, ValueError, r"Complex data not supported: {} has dtype complex"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), TypeError, r"{} must hold numbers.*datetime64"),
        (np.array([[datetime.date(2020, 1, 1)]]), TypeError, r"{} must hold numbers, but holds dates.*month"),
    ],
    ids=range(20),
)
@pytest.mark.parametrize("argument", ["X", "Y"])
def test_points(data: object, error: type, message: str, argument: str) -> None:
    pair = (data, X) if argument == "X" else (X, data)
    with pytest.raises(error, match="(?s)" + message.replace("{}", argument)):
        mh.Gaussian(1.0).gram(*pair)


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (np.array([["1970-01-02T12"]], dtype="datetime64[h]"), 1.5),
        (np.array([[36]], dtype="timedelta64[h]"), 1.5),
    ],
)
def test_code_for_dates_runs(dates: np.ndarray, expected: float) -> None:
    with pytest.raises(TypeError, match=r"holds d.*days") as caught:
        as_rows(dates, "X")
    assert eval(str(caught.value).split("For example: ")[1], {"X": dates, "np": np}) == expected


@pytest.mark.parametrize(
    "data",
    [
        spoiled(np.nan),
        X[:, 0],
        X[None],
        scipy.sparse.csr_array(X),
        np.array([["2020"]], dtype="datetime64[Y]"),
    ],
    ids=["nan", "vector", "cube", "sparse", "dates"],
)
def test_no_code_of_what_is_no_name(data: object) -> None:
    for name in ("Bag 'a'", "X of sequence 0", "X['a']"):
        with pytest.raises((TypeError, ValueError), match="^" + re.escape(name)) as caught:
            as_rows(data, name)
        message = str(caught.value)
        assert message.count(name) == 1
        assert "np." not in message
        assert ".reshape" not in message


def test_huge_values_are_finite() -> None:
    # Their sum overflows, they do not.
    A = np.full((3, 1), 1.5e308)
    np.testing.assert_array_equal(mh.Delta().gram(A), 1.0)


def test_columns_must_match() -> None:
    for call in (mh.Gaussian(1.0).gram, mh.Gaussian(1.0)):
        with pytest.raises(ValueError, match=r"Y has 1 columns but X has 2.*same columns"):
            call(X, X[:, :1])


@pytest.mark.parametrize("call", [lambda x: mh.Gaussian(1.0)(x), lambda x: mh.Gaussian(1.0)(X, x)])
@pytest.mark.parametrize("data", [X[0], X[None]], ids=["1-D", "3-D"])
def test_rank_in_a_plain_call(call: object, data: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"two arrays of rows.*got shapes.*reshape\(1, -1\)"):
        call(data)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [0, 0.0, -1.0, np.nan, np.inf, [1.0, 0.0], [1.0, -2.0], [], [1.0, np.nan]])
def test_lengthscale_must_be_positive(family: object, value: object) -> None:
    with pytest.raises(ValueError, match=r'lengthscale must be positive and finite, got .*"median"'):
        family(value)


@pytest.mark.parametrize("value", [True, None, 1 + 2j, [True, True], np.array(["a"]), {}])
def test_lengthscale_must_be_a_number(value: object) -> None:
    with pytest.raises(TypeError, match=r'lengthscale must be a number, got .*"median"'):
        mh.Gaussian(value)


def test_lengthscale_by_an_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"lengthscale must be one of 'median', 'scaled', got 'mean'"):
        mh.Laplace("mean")


def test_lengthscale_of_a_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"number or a vector, got shape \(2, 2\).*every column"):
        mh.Gaussian(np.eye(2) + 1)
    for call in (mh.Gaussian([1.0, 2.0, 3.0]).gram, mh.Laplace([1.0, 2.0, 3.0]).gram):
        with pytest.raises(ValueError, match=r"lengthscale has 3 entries but the points have 2 columns"):
            call(X)


@pytest.mark.parametrize("nu", [0, 1, 2.0, 0.7, -0.5, np.nan, np.inf, "1.5", None, True, [1.5]])
def test_nu_must_be_a_half_integer(nu: object) -> None:
    with pytest.raises(ValueError, match=r"nu must be a half-integer, got .*use 0\.5, 1\.5 or 2\.5"):
        mh.Matern(nu)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: mh.RationalQuadratic(1.0, alpha=v), "alpha"),
        (lambda v: mh.InverseMultiquadric(1.0, beta=v), "beta"),
        (lambda v: v * mh.Gaussian(1.0), "scale"),
        (lambda v: mh.Gaussian(1.0) * v, "scale"),
    ],
)
def test_other_parameters_must_be_positive(make: object, name: str) -> None:
    for value in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=rf"{name} must be positive and finite, got "):
            make(value)
    with pytest.raises(TypeError, match=rf"{name} must be a number, got True"):
        make(True)


@pytest.mark.parametrize("make", [mh.Linear, lambda b: mh.Polynomial(2, b)])
def test_bias_must_not_be_negative(make: object) -> None:
    with pytest.raises(ValueError, match=r"bias must be .*got -1\.0.*at least 0"):
        make(-1.0)
    with pytest.raises(TypeError, match=r"bias must be a number, got 'one'"):
        make("one")


@pytest.mark.parametrize(
    ("degree", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_degree_must_be_a_count(degree: object, error: type) -> None:
    with pytest.raises(error, match=rf"degree must be .*got {degree}"):
        mh.Polynomial(degree)


@pytest.mark.parametrize("rest", [-0.1, 1.0, 2, np.nan, "a", None, True, [0.1]])
def test_rest_of_delta_must_be_a_share(rest: object) -> None:
    with pytest.raises(ValueError, match=r"rest must be a number in \[0, 1\), got "):
        mh.Delta(rest)


def test_norm_of_laplace() -> None:
    with pytest.raises(ValueError, match=r"norm must be one of 1, 2, got 3"):
        mh.Laplace(1.0, norm=3)


@pytest.mark.parametrize(
    ("columns", "message"),
    [(2, r"index 2, but the points have 2 columns"), (-3, r"index -3"), ([0, 5], r"index 5")],
)
def test_columns_out_of_range(columns: object, message: str) -> None:
    for call in (
        mh.Gaussian(1.0).on(columns).gram,
        mh.Gaussian(1.0).on(columns),
        mh.Gaussian(1.0).on(columns).diag,
    ):
        with pytest.raises(ValueError, match=message):
            call(X)


@pytest.mark.parametrize("columns", [[], [0, 0], ["a", "a"]])
def test_columns_empty_or_twice(columns: object) -> None:
    with pytest.raises(ValueError, match=r"columns must name at least one column and none twice, got "):
        mh.Gaussian(1.0).on(columns)


def test_columns_twice_by_different_names() -> None:
    with pytest.raises(ValueError, match=r"none twice"):
        mh.Gaussian(1.0).on([0, -2]).gram(X)


@pytest.mark.parametrize("columns", [0.5, [0.0, 1.0], True, [True, False], None, [None], slice(2)])
def test_columns_must_be_indices_or_names(columns: object) -> None:
    with pytest.raises(TypeError, match=r"columns must be indices or names, got "):
        mh.Gaussian(1.0).on(columns)


def test_columns_by_an_unknown_name() -> None:
    import pandas as pd

    with pytest.raises(ValueError, match=r"columns names 'c', but the columns are \['a', 'b'\]"):
        mh.Gaussian(1.0).on("c").gram(pd.DataFrame(X, columns=["a", "b"]))
    with pytest.raises(ValueError, match=r"columns names 'a', but the data has no column names.*frame"):
        mh.Gaussian(1.0).on("a").gram(X)
