"""`import muhat` loads little, and yet every name is there: to use, to complete, to check the types of."""

from __future__ import annotations

import ast
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import muhat as mh

HEAVY = {"scipy", "sklearn", "jax", "equinox", "optax", "blackjax", "matplotlib", "polars", "pandas", "dask"}


def loaded(code: str) -> set[str]:
    """The modules that ``code`` loads in a new process."""
    code = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_loads_fewer_modules_than_numpy() -> None:
    modules = loaded("import muhat")
    assert not modules & (HEAVY | {"numpy"})
    assert [name for name in modules if name.startswith("muhat")] == ["muhat"]
    assert len(modules) < len(loaded("import numpy")) / 2


def test_kernels_and_grams_do_without_the_heavy_modules() -> None:
    names = [
        "Gaussian",
        "Nystrom",
        "embed",
        "two_sample_test",
        "learn_kernel",
        "simulate",
        "open_rows",
        "Bags",
    ]
    assert not HEAVY & loaded("import muhat as mh\n" + "\n".join(f"mh.{name}" for name in names))


def test_numbers_need_only_scipy() -> None:
    modules = loaded(
        "import numpy as np, muhat as mh\n"
        "mh.Nystrom(2).gram(mh.Gaussian(1.0), np.eye(3), 0).ridge(0.1).solve(np.ones(3))"
    )
    assert modules & HEAVY == {"scipy"}
    assert "scipy.stats" not in modules


def test_a_pickle_brings_only_what_it_needs() -> None:
    modules = loaded(f"import pickle\npickle.loads({pickle.dumps(mh.Gaussian(2.0))!r})")
    assert "muhat.kernels" in modules
    assert not modules & HEAVY


def test_names_for_use_for_completion_and_for_type_checkers_are_the_same() -> None:
    stub = ast.parse(Path(mh.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    modules = [alias.name for line in imports if line.module == "muhat" for alias in line.names]
    names = [alias.name for line in imports if line.module != "muhat" for alias in line.names]
    (static,) = [ast.literal_eval(line.value) for line in stub.body if isinstance(line, ast.Assign)]
    assert mh.__all__ == static == sorted(names)
    assert dir(mh) == sorted(modules + names)
    assert modules == [module.name for module in pkgutil.iter_modules(mh.__path__) if module.name[0] != "_"]
    for line in imports:
        for alias in line.names:
            value = getattr(mh, alias.name)
            home = sys.modules[f"muhat.{alias.name}" if line.module == "muhat" else str(line.module)]
            assert value is (home if line.module == "muhat" else getattr(home, alias.name))


def test_star_brings_all_names() -> None:
    space: dict[str, object] = {}
    exec("from muhat import *", space)
    assert sorted(space.keys() - {"__builtins__"}) == mh.__all__


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'muhat' has no attribute 'Gausian'") as error:
        mh.Gausian  # noqa: B018
    assert (error.value.name, error.value.obj) == ("Gausian", mh)  # for "Did you mean: 'Gaussian'?"
    with pytest.raises(ImportError, match="cannot import name 'Gausian'"):
        exec("from muhat import Gausian")


@pytest.mark.slow
def test_threads_may_use_names_for_the_first_time_at_once() -> None:
    loaded(
        "import threading, muhat as mh\n"
        "names = ['KernelBayes', 'load', 'embed', 'models', 'discover', 'Gaussian', 'KernelBayes']\n"
        "start, found = threading.Barrier(len(names)), []\n"
        "def use(name):\n"
        "    start.wait()\n"
        "    found.append((name, getattr(mh, name)))\n"
        "threads = [threading.Thread(target=use, args=(name,)) for name in names]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert len(found) == len(names), found\n"
        "assert all(value is getattr(mh, name) for name, value in found)"
    )
