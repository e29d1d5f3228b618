"""The ground floor: import time, blocked MMD, the exact conditional mean, Nyström at scale."""

from __future__ import annotations

from benchmarks.measure import PRELUDE, Figure, alternate, fresh

_CONDITIONAL = (
    PRELUDE
    + """
import numpy as np, scipy.linalg
import muhat as mh
from benchmarks.measure import alternate, seconds
rng = np.random.default_rng(0)
n, d, q, ell, reg = 5000, 10, 1000, 3.0, 1e-3
X, x = rng.standard_normal((n, d)), rng.standard_normal((q, d))
Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((n, 1))

def gaussian(A, B):
    K = A @ B.T
    K *= 2.0
    K -= (A**2).sum(1)[:, None]
    K -= (B**2).sum(1)
    np.minimum(K, 0.0, out=K)
    K *= 0.5 / ell**2
    return np.exp(K, out=K)

def bare():
    K = gaussian(X, X)
    K[np.diag_indices(n)] += n * reg
    factor = scipy.linalg.cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
    return scipy.linalg.cho_solve(factor, gaussian(x, X).T, overwrite_b=True, check_finite=False).T

def ours():
    model = mh.ConditionalMean(mh.Gaussian(ell), mh.Gaussian(1.0), reg, center=False).fit(X, Y)
    return model.at(x).weights
"""
)


def import_time(rounds: int = 5) -> Figure:
    """Importing muhat against importing scikit-learn and scipy.linalg."""
    ours, theirs = alternate(
        lambda: fresh("import muhat, json; print(json.dumps({}))"),
        lambda: fresh("import sklearn, scipy.linalg, json; print(json.dumps({}))"),
        rounds,
    )
    note = f"{ours:.2f} s against {theirs:.2f} s, whole processes"
    return Figure("import muhat / import sklearn, scipy.linalg", ours / theirs, 1.5, "×", note)


def blocked_mmd() -> Figure:
    """Memory of the exact MMD between two samples of 50 000 points in 10 dimensions."""
    out = fresh(
        PRELUDE
        + """
import numpy as np, muhat as mh
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((50_000, 10)), rng.standard_normal((50_000, 10)) + 0.05
mh.mmd(X[:100], Y[:100], mh.Gaussian(4.0))  # everything is imported
before, start = peak(), time.perf_counter()
value = mh.mmd(X, Y, mh.Gaussian(4.0))
print(json.dumps({"memory": peak() - before, "value": float(value), "seconds": time.perf_counter() - start}))
"""
    )
    note = f"MMD {out['value']:.5f} in {out['seconds']:.0f} s"
    return Figure("MMD, 2 × 50 000 points, d = 10: memory", out["memory"] / 1e9, 1.0, "GB", note)


def conditional_mean(rounds: int = 3) -> list[Figure]:
    """The exact conditional mean at n = 5 000, d = 10, with 1 000 queries, against bare NumPy/SciPy.

    Cold: the first call of a fresh process, ours and bare in processes of their own, best of
    ``rounds``. Warm: both in turn in one process.
    """
    cold = {}
    for name in ("ours", "bare"):
        code = _CONDITIONAL + f"\nprint(json.dumps({{'cold': seconds({name})}}))"
        cold[name] = []
        for _ in range(rounds):
            cold[name].append(fresh(code)["cold"])
    warm = fresh(
        _CONDITIONAL
        + f"""
a, b = ours(), bare()
error = float(abs(a - b).max())
first, second = alternate(ours, bare, {rounds})
print(json.dumps({{"ours": first, "bare": second, "error": error}}))
"""
    )
    name = "conditional mean, n = 5 000, d = 10, 1 000 queries / bare NumPy"
    return [
        Figure(
            f"{name}, cold",
            min(cold["ours"]) / min(cold["bare"]),
            1.2,
            "×",
            f"{min(cold['ours']):.2f} s against {min(cold['bare']):.2f} s",
        ),
        Figure(
            f"{name}, warm",
            warm["ours"] / warm["bare"],
            1.2,
            "×",
            f"{warm['ours']:.2f} s against {warm['bare']:.2f} s; weights differ by {warm['error']:.0e}",
        ),
    ]


def nystrom() -> list[Figure]:
    """Nyström with 1 000 landmarks at n = 200 000: memory, and time over the arithmetic it needs."""
    out = fresh(
        PRELUDE
        + """
import numpy as np, scipy.linalg, muhat as mh
rng = np.random.default_rng(0)
n, p, d = 200_000, 1000, 10
X = rng.standard_normal((n, d))
Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((n, 1))
start = time.perf_counter()
model = mh.ConditionalMean(mh.Gaussian(3.0), mh.Linear(), 1e-6, representation=mh.Nystrom(p)).fit(X, Y)
ours = time.perf_counter() - start
error = float(np.mean((model.predict(X[:5000]) - np.sin(X[:5000, :1])) ** 2) ** 0.5)
memory = peak()
del model
# The same arithmetic, bare: kernel, triangular solve, products.
Z = X[:p]
start = time.perf_counter()
K = mh.Gaussian(3.0)(X, Z)
L = np.linalg.cholesky(mh.Gaussian(3.0)(Z) + 1e-10 * np.eye(p))
K = scipy.linalg.solve_triangular(L, K.T, lower=True, overwrite_b=True, check_finite=False).T
A = K.T @ K + 1.0 * np.eye(p)
scipy.linalg.cho_solve(scipy.linalg.cho_factor(A), K.T @ Y)
bare = time.perf_counter() - start
print(json.dumps({"memory": memory, "seconds": ours, "bare": bare, "error": error}))
"""
    )
    note = f"{out['seconds']:.0f} s; error of the regression {out['error']:.3f} (noise 0.1)"
    return [
        Figure("Nyström, n = 200 000, p = 1 000: peak memory", out["memory"] / 1e9, 4.0, "GB", note),
        Figure(
            "Nyström, n = 200 000, p = 1 000 / the same arithmetic, bare",
            out["seconds"] / out["bare"],
            3.0,
            "×",
            f"{out['seconds']:.1f} s against {out['bare']:.1f} s",
        ),
    ]


def run() -> list[Figure]:
    """All figures of the ground floor."""
    return [import_time(), blocked_mmd(), *conditional_mean(), *nystrom()]


__all__ = ["run"]
