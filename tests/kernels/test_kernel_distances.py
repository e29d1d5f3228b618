"""Pairwise distances: exact for close points, far origins and many columns; threads and forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import muhat as mh
from muhat import _threads
from muhat.kernels.distance import DIRECT_COLUMNS, city_distances, squared_distances

EVERYTHING = slice(None)


def exact_squares(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """In extended precision, differences first."""
    X, Y = X.astype(np.longdouble), Y.astype(np.longdouble)
    return ((X[:, None] - Y[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("d", [3, DIRECT_COLUMNS, DIRECT_COLUMNS + 1, 200])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_near_duplicates_and_far_origins(d: int, offset: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, d)) + offset
    Y = np.concatenate([X[:10] + step * rng.normal(size=(10, d)) for step in (0.0, 1e-7, 1e-4, 1e-2)])
    exact = exact_squares(X, Y)
    assert (exact == 0).sum() >= 10
    s = squared_distances(X, Y, np)(EVERYTHING)
    np.testing.assert_allclose(s, exact.astype(float), rtol=1e-9)
    assert (s[exact == 0] == 0).all()


@pytest.mark.parametrize("d", [3, 200])
def test_lengthscale_does_not_spoil_a_far_origin(d: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, d)) + 1e8
    kernel = mh.Gaussian(0.7 * d**0.5)
    exact = np.exp(-exact_squares(X, X) / (2 * kernel.lengthscale**2)).astype(float)
    np.testing.assert_allclose(kernel(X), exact, rtol=1e-7)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(kernel)(jnp.asarray(X)), exact, rtol=1e-7)


def test_two_clusters_far_apart() -> None:
    # Centring helps neither cluster: the pairs inside each are summed directly.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 50))
    X[20:] += 1e6
    np.testing.assert_allclose(squared_distances(X, X, np)(EVERYTHING), exact_squares(X, X).astype(float))


@pytest.mark.parametrize("d", [3, 50])
def test_units_divide_columns(d: int) -> None:
    rng = np.random.default_rng(0)
    X, Y, unit = rng.normal(size=(8, d)), rng.normal(size=(5, d)), rng.uniform(0.5, 2, size=d)
    difference = (X[:, None] - Y[None]) / unit
    s = squared_distances(X, Y, np, unit)(EVERYTHING)
    np.testing.assert_allclose(s, (difference**2).sum(axis=2), rtol=1e-11)
    t = city_distances(X, Y, np, unit)(EVERYTHING)
    np.testing.assert_allclose(t, np.abs(difference).sum(axis=2), rtol=1e-12)


@pytest.mark.parametrize("d", [3, 50])
def test_distances_are_never_negative_in_single_precision(d: int) -> None:
    X = (np.random.default_rng(0).normal(size=(50, d)) + 100).astype(np.float32)
    s = squared_distances(X, X, np)(EVERYTHING)
    assert s.dtype == np.float32
    assert (s >= 0).all()
    assert (np.diagonal(s) == 0).all()
    np.testing.assert_allclose(s, exact_squares(X, X).astype(float), rtol=3e-3, atol=1e-6)


@pytest.mark.slow
def test_many_duplicates_take_little_memory() -> None:
    X = np.tile(np.random.default_rng(0).normal(size=(1, 200)), (600, 1))
    tracemalloc.start()
    K = mh.Gaussian(1.0)(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(K, 1.0)
    assert peak < 10 * K.nbytes  # all pairs at once would be 200 times the matrix


@pytest.mark.parametrize("d", [2, 50])
@pytest.mark.parametrize(
    "kernel", [mh.Gaussian(2.0), mh.Laplace(3.0) + mh.Linear(), mh.Matern(1.5, 2.0).on([1])], ids=range(3)
)
def test_threads_give_what_one_block_gives(
    monkeypatch: pytest.MonkeyPatch, kernel: mh.Kernel, d: int
) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(700, d)), rng.normal(size=(300, d))
    seen = []
    run_blocks = _threads.run_blocks
    monkeypatch.setattr(_threads, "run_blocks", lambda w, b: (seen.append(len(b)), run_blocks(w, b)))
    monkeypatch.setattr(_threads, "BLOCK_ELEMENTS", 1000)
    many = kernel(X, Y)
    monkeypatch.setattr(_threads, "BLOCK_ELEMENTS", 1 << 30)
    one = kernel(X, Y)
    assert seen[0] > 20
    assert seen[1] == 1
    np.testing.assert_allclose(many, one, rtol=1e-12, atol=1e-13)


def test_blocks_cover_the_rows_once() -> None:
    for n, m, elements in ((10, 3, 7), (1, 1, 1), (5, 100, 10), (100, 1, 1000), (0, 5, 10)):
        rows = [i for block in _threads.row_blocks(n, m, elements) for i in range(block.start, block.stop)]
        assert rows == list(range(n))


def test_an_error_in_a_thread_is_raised() -> None:
    def work(rows: slice) -> None:
        raise ArithmeticError("in a thread")

    with pytest.raises(ArithmeticError, match="in a thread"):
        _threads.run_blocks(work, _threads.row_blocks(10, 1, 1))


@pytest.mark.skipif(_threads._pool()[1] < 2, reason="one core")
@pytest.mark.parametrize("mine", [True, False], ids=["the caller", "another"])
def test_the_error_of_any_thread_is_raised_and_none_is_left_behind(mine: bool) -> None:
    cores, caller, done = _threads._pool()[1], threading.current_thread(), []
    all_here = threading.Barrier(cores)

    def work(rows: slice) -> None:
        all_here.wait(10)  # a block each
        if (threading.current_thread() is caller) == mine:
            raise ArithmeticError("in one of them")
        time.sleep(0.1)
        done.append(rows)

    with pytest.raises(ArithmeticError, match="in one of them"):
        _threads.run_blocks(work, _threads.row_blocks(cores, 1, 1))
    assert len(done) == (cores - 1 if mine else 1)


def test_callers_in_threads_get_right_answers_and_leave_blas_as_it_was() -> None:
    X = np.random.default_rng(0).normal(size=(600, 2))
    expected = mh.Gaussian(1.0)(X)
    before = [pool["num_threads"] for pool in threadpool_info()]
    wrong = []

    def caller() -> None:
        for _ in range(10):
            if not np.array_equal(mh.Gaussian(1.0)(X), expected):
                wrong.append(True)

    threads = [threading.Thread(target=caller) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not wrong
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_blas_is_held_until_the_last_holder_leaves() -> None:
    def blas() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(3, user_api="blas"):
        before = blas()
        first, second = _threads.one_blas_thread(), _threads.one_blas_thread()
        first.__enter__()
        assert blas() == {1}
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas() == {1}
        second.__exit__(None, None, None)
        assert blas() == before == {3}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_works_in_a_forked_child() -> None:
    # In its own process: this one has JAX, which does not like to be forked.
    code = """
import multiprocessing, warnings
import numpy as np, muhat as mh
warnings.simplefilter("ignore", DeprecationWarning)
X = np.random.default_rng(0).normal(size=(800, 2))
expected = mh.Gaussian(1.0)(X)  # starts the threads of the parent

def child(queue):
    queue.put(bool(np.array_equal(mh.Gaussian(1.0)(X), expected)))

context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
assert queue.get(timeout=30)
process.join(timeout=30)
assert process.exitcode == 0
assert np.array_equal(mh.Gaussian(1.0)(X), expected)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
