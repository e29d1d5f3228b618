"""What importing and using muhat does to the rest of the process: nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import muhat as mh


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_import_and_use_leave_the_jax_configuration_alone() -> None:
    run(
        "import numpy as np, muhat as mh\n"
        "mh.Gaussian(1.0).gram(np.eye(3))\n"
        "import jax, jax.numpy as jnp\n"
        "before = dict(jax.config.values)\n"
        "assert jnp.ones(1).dtype == jnp.float32\n"
        "assert mh.Gaussian(1.0)(jnp.eye(3)).dtype == jnp.float32\n"
        "jax.grad(lambda ell: mh.Matern(1.5, ell)(jnp.eye(3)).sum())(1.0)\n"
        "mh.Nystrom(2).gram(mh.Gaussian(1.0), jnp.eye(3), 0).ridge(0.1).logdet()\n"
        "assert dict(jax.config.values) == before\n"
        "assert jnp.ones(1).dtype == jnp.float32\n"
    )


def test_global_random_state_is_not_used() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    big = np.random.default_rng(0).normal(size=(2500, 1))

    def work() -> list[np.ndarray]:
        out = [mh.Gaussian("median").resolve(big).lengthscale]
        for representation in (
            mh.Nystrom(9),
            mh.Nystrom(9, "uniform"),
            mh.Nystrom(9, "leverage"),
            mh.Fourier(8),
            mh.Exact(memory=0, rank=5),
        ):
            gram = representation.gram(mh.Gaussian(1.0), X, random_state=3)
            out += [gram @ np.ones(60), gram.ridge(0.5).solve(np.ones(60))]
        return out

    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()  # noqa: NPY002
    first = work()
    after = np.random.get_state()  # noqa: NPY002
    assert before[2] == after[2]
    np.testing.assert_array_equal(before[1], after[1])
    np.random.seed(1)  # noqa: NPY002
    for a, b in zip(first, work(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_sources_name_no_global_generator() -> None:
    for path in Path(mh.__file__).parent.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if "np.random." in line:
                allowed = ("default_rng", "Generator", "RandomState", "Philox")
                assert any(f"np.random.{name}" in line for name in allowed), f"{path.name}: {line}"
