"""The kernel Bayes filter against the arithmetic that it cannot do without."""

from __future__ import annotations

from benchmarks.measure import PRELUDE, Figure, fresh

_EXACT = """
import numpy as np, scipy.linalg as sl
import muhat as mh
from muhat.datasets import orbit
from benchmarks.measure import alternate
n, steps = 600, 200
data = orbit(n + steps, random_state=0)
X, Z, x = data.X[:n], data.Z[:n], data.X[n:]
kx, kz, reg, eta, forward = mh.Gaussian(1.0), mh.Gaussian(0.5), 1e-2, 1e-3, 1e-5

def ours():
    model = mh.KernelBayesFilter("importance", kx, kz, reg, eta, forward).fit(X, Z)
    return model.filter(x).weights

def bare():
    # The paper's algorithm with one Cholesky solve a step on the points that count.
    K, G, cross = kx(X), kz(Z), kx(X, x)
    ratio = sl.cho_factor(G + n * eta * np.eye(n))
    ahead = sl.cho_factor(G[:-1, :-1] + (n - 1) * forward * np.eye(n - 1))
    w, out = np.full(n, 1 / n), []
    base = G.mean(axis=1)
    for t in range(steps):
        if t:
            w = np.append(0.0, sl.cho_solve(ahead, G[:-1] @ w))
        D = np.maximum(1 + n * sl.cho_solve(ratio, G @ w - base), 0.0)
        a = np.flatnonzero(D)
        s = np.sqrt(D[a] / D.sum())
        A = s[:, None] * K[np.ix_(a, a)] * s
        A[np.diag_indices(len(a))] += reg
        w = np.zeros(n)
        w[a] = s * sl.cho_solve(sl.cho_factor(A), s * cross[a, t])
        w /= w.sum()
        out.append(w)
    return np.array(out)

error = float(abs(ours() - bare()).max())
first, second = alternate(ours, bare, 5)
print(json.dumps({"ours": first, "bare": second, "error": error}))
"""

_FEATURES = """
import numpy as np
import muhat as mh
from muhat.datasets import orbit
from benchmarks.measure import alternate
n, p, steps = 20_000, 300, 20
data = orbit(n + steps, random_state=0)
model = mh.KernelBayesFilter(
    "importance", mh.Gaussian(0.35), mh.Gaussian(0.35), 1e-2, 1e-3, 1e-5, representation=mh.Nystrom(p)
).fit(data.X[:n], data.Z[:n])
x = data.X[n:]
Psi = model._machine.pairs.gram_x.Phi
D = np.random.default_rng(0).random(n)

def ours():
    return model.filter(x)

def bare():
    for _ in range(steps):
        Psi.T @ (D[:, None] * Psi)

ours(), bare()
first, second = alternate(ours, bare, 5)
print(json.dumps({"ours": first / steps, "bare": second / steps, "features": Psi.shape[1]}))
"""


def exact() -> Figure:
    """Fit and 200 steps at n = 600, everything given, against the same algorithm in bare SciPy."""
    out = fresh(PRELUDE + _EXACT)
    note = f"{out['ours']:.2f} s against {out['bare']:.2f} s; weights differ by {out['error']:.0e}"
    return Figure("exact filter, n = 600, 200 steps / bare solves", out["ours"] / out["bare"], 1.5, "×", note)


def features() -> Figure:
    """A step with 300 landmarks at n = 20 000 against its one weighted product of features."""
    out = fresh(PRELUDE + _FEATURES)
    note = f"{1e3 * out['ours']:.0f} ms against {1e3 * out['bare']:.0f} ms; {out['features']} features"
    name = "filter step, n = 20 000, p = 300 / ΨᵀDΨ"
    return Figure(name, out["ours"] / out["bare"], 1.5, "×", note)


def run() -> list[Figure]:
    return [exact(), features()]
