"""Tests on samples that are read from disk: the MMD of 10⁶ points a side, HSIC of 10⁶ pairs."""

from __future__ import annotations

from benchmarks.measure import PRELUDE, Figure, fresh

_DATA = (
    PRELUDE
    + """
import tempfile, pathlib
import numpy as np, muhat as mh
n, d = 1_000_000, 10
folder = pathlib.Path(tempfile.mkdtemp())
for name in ("x", "y"):
    rows = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", shape=(n, d))
    rng = np.random.default_rng(ord(name))
    for i in range(0, n, 100_000):
        rows[i : i + 100_000] = rng.standard_normal((100_000, d))
del rows
x, y = folder / "x.npy", folder / "y.npy"
mh.TEST(np.zeros((40, 1)) + np.arange(40)[:, None], np.arange(40.0), permutations=19)  # all is imported
before, start, used = peak(), time.perf_counter(), time.process_time()
found = mh.TEST(x, y, random_state=0)
out = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used, "bytes": peak() - before}
out["pvalue"] = found.pvalue
for file in (x, y):
    file.unlink()
folder.rmdir()
print(json.dumps(out))
"""
)


def _figure(test: str, name: str, target: float) -> Figure:
    out = fresh(_DATA.replace("TEST", test))
    note = (
        f"{out['cpu']:.0f} s on the cores together, {out['bytes'] / 1e9:.2f} GB beside the imports, "
        f"p = {out['pvalue']:.2g} where there is nothing to find"
    )
    return Figure(name, out["seconds"], target, "s", note)


def mmd() -> Figure:
    """Two samples of 10⁶ points in 10 dimensions, 10 kernels with 512 features, 999 permutations."""
    return _figure("two_sample_test", "two-sample test, 10⁶ rows a side from disk", 60.0)


def hsic() -> Figure:
    """10⁶ pairs in 10 + 10 dimensions, 4 kernels a side, 999 permutations."""
    return _figure("independence_test", "independence test, 10⁶ pairs from disk", 120.0)


def run() -> list[Figure]:
    return [mmd(), hsic()]


if __name__ == "__main__":
    for figure in run():
        print(f"{figure.name}: {figure.value:.1f} s (target {figure.target:g} s); {figure.note}")
