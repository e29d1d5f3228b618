"""BLAS has one thread inside work that is parallel already, whichever thread comes first or last."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

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
    _threads.find_blas()  # loads SciPy's
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


@pytest.mark.slow
def test_libraries_that_come_later_are_found():
    """SciPy's BLAS comes with the first hold, scikit-learn's OpenMP between the first and the second."""
    code = (
        "import importlib, sys\n"
        "from threadpoolctl import threadpool_info\n"
        "from muhat import _threads\n"
        "def numbers(_=None): return [library['num_threads'] for library in threadpool_info()]\n"
        "assert 'scipy' not in sys.modules\n"
        "for module in ('numpy', 'sklearn.cluster'):\n"
        "    importlib.import_module(module)\n"
        "    with _threads.one_blas_thread():\n"
        "        inside = numbers()\n"
        "    assert set(inside) == {1}, inside\n"
        "    assert list(_threads.in_order(numbers, range(3))) == [inside] * 3\n"
        "    importlib.import_module('scipy.linalg')\n"
        "    assert len(numbers()) == len(inside)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_an_interruption_on_the_way_in_leaves_no_hold(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    before = threads()
    with monkeypatch.context() as patch:
        patch.setattr(_threads, "find_blas", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _threads.one_blas_thread().__enter__()
    assert threads() == before
    with _threads.one_blas_thread():
        assert threads() == [1] * len(before)


def test_a_look_that_was_interrupted_is_taken_again(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(_threads, "_modules", 0)
    with monkeypatch.context() as patch:
        patch.setattr(_threads, "ThreadpoolController", interrupted)
        with pytest.raises(KeyboardInterrupt):
            _threads.find_blas()
    assert _threads._modules == 0


def test_a_library_that_comes_during_a_hold_is_held_by_the_next(monkeypatch):
    class Late:
        filepath, num_threads = "late", 3

        def set_num_threads(self, threads):
            self.num_threads = threads

    late = Late()
    monkeypatch.setattr(_threads, "_found", dict(_threads._found))
    with _threads.one_blas_thread():
        monkeypatch.setattr(_threads, "ThreadpoolController", lambda: SimpleNamespace(lib_controllers=[late]))
        monkeypatch.setattr(_threads, "_modules", 0)
        assert list(_threads.in_order(lambda _: late.num_threads, range(3))) == [1, 1, 1]
        assert late.num_threads == 1
    assert late.num_threads == 3
