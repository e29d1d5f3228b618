"""Kernels made of kernels: sum, product, scaling, restriction, and how they are copied and shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from kernel_cases import points

import muhat as mh

X, Y = points(), points(7, seed=1)
G, L, P = mh.Gaussian(0.8), mh.Laplace(1.4), mh.Polynomial(2)


def test_sum_product_and_scaling_act_on_values() -> None:
    np.testing.assert_allclose((G + L + P)(X, Y), G(X, Y) + L(X, Y) + P(X, Y), rtol=1e-14)
    np.testing.assert_allclose((G * L * P)(X, Y), G(X, Y) * L(X, Y) * P(X, Y), rtol=1e-14)
    np.testing.assert_allclose((G + L * P)(X, Y), G(X, Y) + L(X, Y) * P(X, Y), rtol=1e-14)
    np.testing.assert_allclose(((G + L) * P)(X, Y), (G(X, Y) + L(X, Y)) * P(X, Y), rtol=1e-14)
    for scaled in (3 * G, G * 3.0, np.float64(3) * G, G * np.float32(3), np.array(3.0) * G):
        assert isinstance(scaled, mh.Kernel)
        np.testing.assert_allclose(scaled(X, Y), 3 * G(X, Y), rtol=1e-14)


def test_amplitude_follows_the_algebra() -> None:
    assert (2 * G + 3 * L).amplitude == 5
    assert (2 * G * (3 * L)).amplitude == 6
    assert (2 * G.on(0)).amplitude == 2
    assert (2 * mh.Delta(0.2)).amplitude == 2
    with pytest.raises(mh.NoClosedForm, match=r"kernel\.diag"):
        _ = (G + P).amplitude


@pytest.mark.parametrize(
    ("columns", "taken"),
    [(1, [1]), (-1, [2]), ([2, 0], [2, 0]), ((0,), [0]), (np.array([1, 2]), [1, 2]), (range(2), [0, 1])],
)
def test_on_takes_indices(columns: object, taken: list[int]) -> None:
    kernel = mh.Gaussian(0.8).on(columns)
    np.testing.assert_array_equal(kernel(X, Y), G(X[:, taken], Y[:, taken]))
    np.testing.assert_array_equal(kernel.diag(X), np.ones(len(X)))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    ("columns", "taken"), [("b", [1]), (["c", "a"], [2, 0]), (0, [0]), (["b", -1], [1, 2])]
)
def test_on_takes_names_of_a_frame(frame: type, columns: object, taken: list[int]) -> None:
    table = frame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    other = frame({"a": Y[:, 0], "b": Y[:, 1], "c": Y[:, 2]})
    kernel = 2.0 * G.on(columns)
    np.testing.assert_array_equal(kernel.gram(table), 2 * G(X[:, taken]))
    np.testing.assert_array_equal(kernel.gram(table, other), 2 * G(X[:, taken], Y[:, taken]))


def test_on_of_on_looks_inside_the_chosen_columns() -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = (mh.Gaussian("median").on("c") + L.on("a")).on(["c", "a"])
    by_index = (mh.Gaussian("median").on(0) + L.on(1)).on([2, 0])
    expected = mh.Gaussian("median")(X[:, [2]]) + L(X[:, [0]])
    np.testing.assert_allclose(by_index(X), expected, rtol=1e-14)
    np.testing.assert_allclose(by_name.gram(table), expected, rtol=1e-14)


def test_resolve_reaches_every_part() -> None:
    kernel = (2 * mh.Gaussian() + mh.Laplace().on([0, 2])) * mh.Matern(1.5).on(1)
    resolved = kernel.resolve(X)
    assert not any(isinstance(leaf, str) for leaf in resolved.leaves())
    expected = 2 * mh.Gaussian()(X) + mh.Laplace()(X[:, [0, 2]])
    np.testing.assert_allclose(resolved(X), expected * mh.Matern(1.5)(X[:, [1]]), rtol=1e-14)
    # Once resolved, the lengthscales stay, whatever the data.
    np.testing.assert_allclose(resolved(Y), resolved.resolve(100 * Y)(Y), rtol=0)
    assert resolved.resolve(Y) is resolved


def test_kernels_with_equal_parts_are_equal() -> None:
    def make(ell: float) -> mh.Kernel:
        return 2.0 * (mh.Gaussian([ell, 1.0]).on([0, 1]) + mh.Matern(1.5, ell)) * mh.Delta(0.1).on(2)

    assert make(0.5) == make(0.5)
    assert hash(make(0.5)) == hash(make(0.5))
    assert make(0.5) != make(0.6)
    assert mh.Laplace(1.0, norm=1) != mh.Laplace(1.0, norm=2)
    assert mh.Gaussian(1.0) != mh.Laplace(1.0)
    assert mh.Gaussian(1.0).on(0) != mh.Gaussian(1.0).on(1)
    assert mh.Gaussian("median") == mh.Gaussian()
    assert mh.Gaussian(1.0) != 1.0


def test_replace_changes_a_copy() -> None:
    kernel = mh.Matern(1.5, 2.0)
    changed = kernel.replace(lengthscale=3.0)
    assert (changed.nu, changed.lengthscale, kernel.lengthscale) == (1.5, 3.0, 2.0)
    with pytest.raises(ValueError, match=r"Matern has no \['alpha'\].*lengthscale"):
        kernel.replace(alpha=1.0)


def test_repr_is_code() -> None:
    assert repr(mh.Gaussian(0.5)) == "Gaussian(lengthscale=0.5)"
    assert repr(2.0 * (mh.Gaussian() + mh.Linear())) == (
        "2 * (Gaussian(lengthscale='median') + Linear(bias=0))"
    )
    assert repr((mh.Delta() + mh.Linear()) * mh.Matern(1.5, 1.0).on([0, 2])) == (
        "(Delta(rest=0) + Linear(bias=0)) * Matern(lengthscale=1, nu=1.5).on([0, 2])"
    )


@pytest.mark.parametrize(
    "bad", [lambda: G + 1, lambda: G * "2", lambda: G * [1.0, 2.0], lambda: 1.0 + G], ids=range(4)
)
def test_only_kernels_and_numbers_combine(bad: object) -> None:
    with pytest.raises(TypeError):
        bad()
