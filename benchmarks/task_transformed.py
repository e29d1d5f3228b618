"""The likelihood of task-transformed Gaussian processes against the arithmetic it cannot do without."""

from __future__ import annotations

from benchmarks.measure import PRELUDE, Figure, fresh

_GRADIENT = """
import numpy as np, scipy.linalg as sl
import muhat as mh
from benchmarks.measure import alternate
rng = np.random.default_rng(0)
n, m, s2 = 1000, 2000, 0.09
Y, T = rng.uniform(-6, 6, (n, 1)), rng.uniform(-6, 6, (m, 1))
X = 3 * np.sin(Y) + 0.25 * rng.normal(size=(n, 1))
z = np.cos(3 * np.sin(T[:, 0])) + 0.25 * rng.normal(size=m)
kx, ky = 1.0 * mh.Gaussian(1.0), 1.0 * mh.Gaussian(0.5)
model = mh.TaskTransformedGP(kx, ky, 0.3, optimize=False).fit(X, Y, T, z)
problem = model._problem()
both, v = problem.value_and_grad(), np.zeros(problem.count)
K, L, C, P = kx(X), ky(Y), ky(Y, T), ky(T)

def value():
    # Cholesky of L + s2 (n), A by it (n, m), K A, A'(K A - C), Cholesky of S (m).
    A = sl.cho_solve(sl.cho_factor(L + s2 * np.eye(n), lower=True), C)
    S = A.T @ (K @ A - C) + P
    S[np.diag_indices(m)] += s2
    return A, sl.cho_factor(S, lower=True)

def gradient():
    # And what the gradient needs: the inverse of S, A S', A S' A', and two products of (n, n) and (n, m).
    A, (root, _) = value()
    inverse, _ = sl.lapack.dpotri(root, lower=True)
    D = A @ inverse
    E = D @ A.T
    return E, K @ D

def ours():
    return both(v)

ours(), value(), gradient()
first, second = alternate(ours, value, 5)
third, fourth = alternate(ours, gradient, 5)
print(json.dumps({"ours": first, "value": second, "ours_again": third, "gradient": fourth}))
"""

_MILLION = """
import numpy as np
import muhat as mh
rng = np.random.default_rng(0)
m = 1_000_000
X = rng.uniform(-5, 5, (m, 1))
z = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] + 0.25 * rng.normal(size=m)
start = time.perf_counter()
model = mh.TaskTransformedGP(inducing=30).fit_direct(X, z)
seconds = time.perf_counter() - start
grid = np.linspace(-5, 5, 500)
error = float(np.sqrt(np.mean((model.predict(grid) - np.sin(2 * grid) - 0.3 * grid) ** 2)))
print(json.dumps({"seconds": seconds, "peak": peak(), "error": error, "noise": model.noise_}))
"""


def gradient() -> Figure:
    """Value and gradient at n = 1000, m = 2000 against the factors and products of the value."""
    out = fresh(PRELUDE + _GRADIENT)
    against = out["ours_again"] / out["gradient"]
    note = (
        f"{out['ours']:.2f} s against {out['value']:.2f} s; {against:.2f}× those of value and gradient, "
        f"{out['gradient']:.2f} s"
    )
    name = "marginal likelihood with gradient, n = 1000, m = 2000 / bare value"
    return Figure(name, out["ours"] / out["value"], 4.0, "×", note)


def million() -> list[Figure]:
    """A sparse fit of a million rows with 30 inducing points, learned with the kernel and the noise."""
    out = fresh(PRELUDE + _MILLION)
    note = f"error {out['error']:.3f}, noise {out['noise']:.3f} (true 0.25)"
    return [
        Figure("sparse fit, m = 10⁶, 30 points: time", out["seconds"] / 60, 10.0, "min", note),
        Figure("sparse fit, m = 10⁶, 30 points: memory", out["peak"] / 1e9, 4.0, "GB", note),
    ]


def run() -> list[Figure]:
    return [gradient(), *million()]
