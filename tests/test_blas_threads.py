"""BLAS has one thread inside work that is parallel already, whichever thread comes first or last."""

from __future__ import annotations

import threading
import time

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from muhat import _threads


def threads():
    return [library.num_threads for library in ThreadpoolController().lib_controllers]


def workers(_):
    time.sleep(0.02)  # so that they overlap
    return threads()


@pytest.fixture(autouse=True)
def three():
    """Three threads each, which is what must be there again."""
    with threadpool_limits(3):
        before = threads()
        yield
        assert threads() == before


@pytest.mark.parametrize("first", ["nobody", "main", "another"])
def test_every_worker_has_one(first):
    if first == "main":
        with _threads.one_blas_thread():
            pass
    elif first == "another":
        other = threading.Thread(target=_threads.alone, args=(threads,))
        other.start()
        other.join()
    ones = [1] * len(threads())
    for _ in range(2):
        assert list(_threads.in_order(workers, range(5))) == [ones] * 5
        assert _threads.run_blocks(workers, [slice(i, i + 1) for i in range(5)]) == [ones] * 5


def test_the_last_to_leave_need_not_be_the_first_to_come():
    began, leave = threading.Event(), threading.Event()

    def hold():
        with _threads.one_blas_thread():
            began.set()
            leave.wait(5)

    first = threading.Thread(target=hold)
    first.start()
    began.wait(5)
    with _threads.one_blas_thread():
        leave.set()
        first.join()
        assert threads() == [1] * len(threads())


def test_a_hold_inside_a_hold():
    with _threads.one_blas_thread():
        with _threads.one_blas_thread():
            pass
        assert threads() == [1] * len(threads())
