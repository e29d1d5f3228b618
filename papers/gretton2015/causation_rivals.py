"""``python -m papers.gretton2015.causation_rivals``: three rules of others, that learn from no pairs.

Looks 17 to 20 of ``causation.md``: does any rule reach 81% on the first 82 Tübingen pairs as they are now?
Each score is positive where it speaks for x → y:

- ``code length, as published``: the shorter description, by one function and by functions at repeated values
  [MV17] (:mod:`muhat.learning.code_length` has a form of it that minds no sign);
- ``location and scale``: the standardized rest depends less on the cause, by nearest neighbours (Strobl and
  Lasko, Journal of Computational Science 72, 2023);
- ``quantiles``: conditional quantiles save more of the quantile loss [TCV20], here from kernel weights;
- ``two of three`` of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma, ndtri
from scipy.stats import rankdata

from muhat.datasets.causation import SIMULATED_DIGESTS, CausalPairs, simulated_pairs, tuebingen_pairs
from muhat.learning.causation import MOST
from muhat.learning.code_length import REPEATED, SPAN, choose_bits, coefficient_bits, rest_bits, unit
from papers.command import run_script
from papers.gretton2015.causation import FIRST, accuracy, auc
from papers.output import Row, save_table, show

NEIGHBOURS = 10
NODES, WEIGHTS = np.polynomial.legendre.leggauss(7)  # of the levels of quantiles
LEVELS = (NODES + 1) / 2


# --- Code length [MV17] ---


def functions(x: np.ndarray, resolution: float) -> np.ndarray:
    """x, x², x³, eˣ, 1/x and 1/x², (6, n)."""
    away = np.where(x == 0, resolution, x)
    return np.stack([x, x**2, x**3, np.exp(x), 1 / away, 1 / away**2])


def fits(y: np.ndarray, F: np.ndarray, resolution: float) -> tuple[np.ndarray, np.ndarray]:
    """Of lines in each function, (6,) bits of rest and coefficients, and (6, n) values."""
    F = F - F.mean(axis=1, keepdims=True)
    slopes = F @ y / np.maximum((F**2).sum(axis=1), 1e-300)
    values = y.mean() + slopes[:, None] * F
    squares = ((y - values) ** 2).sum(axis=1)
    coefficients = coefficient_bits(slopes) + coefficient_bits(y.mean())
    return coefficients + rest_bits(squares, len(y), resolution), values


def bits_given(x: np.ndarray, y: np.ndarray, resolution: float) -> float:
    """Of y given x: one function, and where it saves bits one for the sorted y at a repeated value of x."""
    n = len(y)
    all_bits, values = fits(y, functions(x, resolution), resolution)
    best = int(all_bits.argmin())
    left = (y - values[best]) ** 2
    _, where = np.unique(np.round(x * 1e5), return_inverse=True)
    total, parts = np.full(6, all_bits[best]), np.zeros(6, int)
    for key in np.flatnonzero(np.bincount(where) >= REPEATED):
        mine = where == key
        own = np.sort(y[mine])
        local, _ = fits(own, functions(np.linspace(-SPAN, SPAN, len(own)), resolution), resolution)
        before = rest_bits(left[mine].sum(), len(own), resolution)
        for f in range(6):
            cut = choose_bits(n - 1, parts[f] + 1) - choose_bits(n - 1, parts[f])
            cut += np.log2(parts[f] + 2) - np.log2(parts[f] + 1)
            if local[f] + cut < before:
                total[f] += local[f] + cut - before
                parts[f] += 1
    return float(total.min())


def published_code(x: np.ndarray, y: np.ndarray) -> float:
    """Bits that x → y saves; each variable alone costs its resolution, as in a uniform law."""
    a, b = unit(x), unit(y)
    finest = [min(0.01, float(np.diff(np.unique(v)).min())) for v in (a, b)]
    forward = bits_given(a, b, finest[1]) - len(a) * np.log2(finest[0])
    backward = bits_given(b, a, finest[0]) - len(a) * np.log2(finest[1])
    return float(backward - forward)


# --- Location and scale ---


def spline(x: np.ndarray, y: np.ndarray, floor: float = -np.inf) -> np.ndarray:
    """Left-out values of a linear spline with the number of knots of the least left-out error."""
    n, least, out = len(x), np.inf, np.full(len(x), y.mean())
    for knots in (
        0,
        1,
        *np.unique(np.linspace(2, max(2, min(200, np.sqrt(n / 10))), 10).round().astype(int)),
    ):
        inner = np.linspace(0, 1, knots)[1:-1] if knots > 1 else np.empty(0)
        B = [np.ones((n, 1)), *([x[:, None]] if knots else []), np.maximum(x[:, None] - inner, 0)]
        Q, R = np.linalg.qr(np.concatenate(B, axis=1))
        Q = Q[:, np.abs(np.diag(R)) > 1e-10]
        rest = (y - Q @ (Q.T @ y)) / np.maximum(1 - (Q**2).sum(axis=1), 1e-8)
        error = float(np.mean(rest**2))
        if error < least:
            least, out = error, np.maximum(y - rest, floor)
    return out


def neighbour_counts(a: np.ndarray, b: np.ndarray) -> float:
    """Mutual information of standardized a and b but for a constant, by nearest neighbours."""
    both = np.stack([a, b], axis=1)
    radius = cKDTree(both).query(both, NEIGHBOURS + 1)[0][:, -1]
    total = 0.0
    for v in (a, b):
        ordered = np.sort(v)
        within = np.searchsorted(ordered, v + radius, "right") - np.searchsorted(ordered, v - radius, "left")
        total += float(digamma(within).mean())
    return -total


def location_and_scale(x: np.ndarray, y: np.ndarray) -> float:
    dependence = []
    for u, v in ((x, y), (y, x)):
        u, v = unit(u), v / v.std()
        rest = v - spline(u, v)
        size = np.abs(rest) / max(float(np.abs(rest).std()), 1e-12)
        rest = rest / spline(u, size, 0.05)
        dependence.append(neighbour_counts((u - u.mean()) / u.std(), rest / rest.std()))
    return float(dependence[1] - dependence[0])


# --- Quantiles [TCV20] ---


def quantile_loss(v: np.ndarray, q: np.ndarray, level: float) -> float:
    return float(np.mean((level - (v < q)) * (v - q)))


def conditional_quantiles(a: np.ndarray, b: np.ndarray, lengthscale: float) -> np.ndarray:
    """Of b at each a, (levels, n), from Gaussian weights without the point itself."""
    order = np.argsort(b)
    W = np.exp(-((a[:, None] - a[order]) ** 2) / (2 * lengthscale**2))
    W[order, np.arange(len(a))] = 0.0
    C = np.cumsum(W, axis=1)
    at = np.stack([(level * C[:, -1:] > C).sum(axis=1) for level in LEVELS])
    return b[order][np.minimum(at, len(b) - 1)]


def quantiles(x: np.ndarray, y: np.ndarray, seed: int = 0) -> float:
    """Relative quantile loss saved, of normal scores of at most 2000 points; ties are broken at random."""
    order = np.random.default_rng(seed).permutation(len(x))[:MOST]
    n = len(order)
    a, b = (ndtri(rankdata(v[order], method="ordinal") / (n + 1)) for v in (x, y))
    alone = np.array([[quantile_loss(v, np.quantile(v, p), p) for p in LEVELS] for v in (a, b)]) @ WEIGHTS
    given = []
    for u, v in ((b, a), (a, b)):  # of a given b, of b given a
        tried = [
            np.array(
                [quantile_loss(v, q, p) for q, p in zip(conditional_quantiles(u, v, h), LEVELS, strict=True)]
            )
            @ WEIGHTS
            for h in (0.05, 0.1, 0.2, 0.4, 0.8)
        ]
        given.append(min(tried))
    return float(((alone[1] + given[0]) - (alone[0] + given[1])) / alone.sum())


RULES = {
    "code length, as published": published_code,
    "location and scale": location_and_scale,
    "quantiles": quantiles,
}


def decide(data: CausalPairs) -> dict[str, np.ndarray]:
    """Scores of every rule, (count,) each, and how two of three vote."""
    out = {name: np.array([rule(p[:, 0], p[:, 1]) for p in data.pairs]) for name, rule in RULES.items()}
    return {**out, "two of three": np.sign(list(out.values())).sum(axis=0)}


def run(out: Path) -> list[Row]:
    """Print and save the accuracies, weighted on the Tübingen pairs."""
    real = tuebingen_pairs()
    scores = decide(real)
    simulated = {group: simulated_pairs(group) for group in SIMULATED_DIGESTS}
    others = {group: decide(data) for group, data in simulated.items()}
    rows: list[Row] = []
    for name, values in scores.items():
        rows.append(
            {
                "rule": name,
                "first 82": accuracy(values, real, real.numbers <= FIRST),
                "all": accuracy(values, real),
                **{f"{g} (AUC)": auc(others[g][name], data.labels) for g, data in simulated.items()},
            }
        )
    show("Rules that learn from no pairs", rows)
    save_table(rows, out / "causation_rivals.csv")
    return rows


if __name__ == "__main__":
    run_script("gretton2015.causation_rivals", __doc__, run)
