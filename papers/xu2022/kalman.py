"""A linear system with Gaussian noise, where the best filter is known: Kalman's."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from rich.progress import track

import muhat as mh
from muhat.operators.kalman import LinearSystem
from muhat.report.plots import BLUE, MARKERS, RED, SOFT, new_figure
from papers.output import Row, legend, letter, save_figure, save_table, show

LENGTHS = (100, 200, 400, 800, 1600)
STEPS, RUNS = 300, 10
# Beyond this length the filter works in landmarks: the same answer, and a step of 1 ms, not 50 (T = 800).
EXACT, LANDMARKS = 400, 300


class System(NamedTuple):
    """``z' = A z + N(0, Q)``, ``x = H z + N(0, R)``."""

    A: np.ndarray
    Q: np.ndarray
    H: np.ndarray
    R: np.ndarray


def _turn(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


# One dimension; and a plane that turns and shrinks, of which one coordinate is seen: the other has to be
# inferred from the past. Both have states of variance about 1.
SYSTEMS = {
    "line": System(np.array([[0.9]]), np.array([[0.19]]), np.eye(1), np.array([[0.5]])),
    "plane, half seen": System(
        0.95 * _turn(0.5), 0.0975 * np.eye(2), np.array([[1.0, 0.0]]), np.array([[0.25]])
    ),
}
COLOURS = dict(zip(SYSTEMS, (RED, BLUE), strict=True))


def draw(system: System, T: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Observations (T, d) and states (T, k), from the stationary distribution on."""
    k, d = len(system.A), len(system.H)
    Z, z = np.empty((T, k)), rng.standard_normal(k)
    for t in range(T):
        Z[t] = z
        z = system.A @ z + rng.multivariate_normal(np.zeros(k), system.Q)
    return Z @ system.H.T + rng.multivariate_normal(np.zeros(d), system.R, T), Z


def kalman(system: System, X: np.ndarray) -> np.ndarray:
    """Means of the Kalman filter that knows the system, (T, k)."""
    A, Q, H, R = system
    k, d = len(A), len(H)
    return LinearSystem(A, np.zeros(k), Q, H, np.zeros(d), R, np.zeros(k), np.eye(k)).filter(X)[0]


def one(case: tuple[str, int, int]) -> Row:
    """One run: (system, training length, seed); runs of all lengths share their test sequence."""
    name, T, seed = case
    system = SYSTEMS[name]
    tests, truth = draw(system, STEPS, np.random.default_rng([seed, 0]))
    X, Z = draw(system, T, np.random.default_rng([seed, 1]))
    start = perf_counter()
    representation = mh.Nystrom(LANDMARKS) if T > EXACT else None
    model = mh.KernelBayesFilter(representation=representation, method="kernel").fit(X, Z)
    seconds = perf_counter() - start
    means, best = np.asarray(model.filter(tests).mean()), kalman(system, tests)
    alone = np.asarray(
        mh.ConditionalMean(representation=representation).fit(X, Z).predict(tests)
    )  # the present observation alone
    return {
        "system": name,
        "T": T,
        "seed": seed,
        "filter": _error(means, truth),
        "Kalman": _error(best, truth),
        "no past": _error(alone, truth),
        "from Kalman": _error(means, best),
        "fit_seconds": seconds,
    }


def _error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Mean of ‖ẑ − z‖² over the steps."""
    return float(((estimate - truth) ** 2).sum(axis=1).mean())


def summary(rows: list[Row]) -> list[Row]:
    """Means over the runs; the excess over Kalman's in percent, with the standard error of the pairs."""
    out = []
    for system, T in dict.fromkeys((r["system"], r["T"]) for r in rows):
        mine = [r for r in rows if (r["system"], r["T"]) == (system, T)]
        values = {k: np.array([r[k] for r in mine]) for k in ("filter", "Kalman", "no past", "from Kalman")}
        excess = 100 * (values["filter"] - values["Kalman"]) / values["Kalman"].mean()
        out.append(
            {
                "system": system,
                "T": T,
                "runs": len(mine),
                **{k: float(v.mean()) for k, v in values.items()},
                "excess %": float(excess.mean()),
                "se of that": float(excess.std() / np.sqrt(len(mine))),
            }
        )
    return out


def run(out: Path, quick: bool = False, seed: int = 0) -> None:
    runs, lengths = (1, (100,)) if quick else (RUNS, LENGTHS)
    cases = [(name, T, seed + i) for T in lengths for i in range(runs) for name in SYSTEMS]
    rows: list[Row] = []
    for case in track(cases, "Kalman"):
        rows.append(one(case))
        save_table(rows, out / "kalman_runs.csv")
    table = summary(rows)
    save_table(table, out / "kalman.csv")
    show("Linear-Gaussian systems: mean ‖ẑ − z‖²", table)
    plot(rows, table, out / "kalman.png")


def plot(rows: list[Row], table: list[Row], path: Path) -> None:
    figure, axes = new_figure(1, 2)
    left, right = axes[0]
    letter(left, "a", "error over that of the Kalman filter")
    letter(right, "b", "distance from the Kalman filter's mean")
    for (system, colour), marker in zip(COLOURS.items(), MARKERS, strict=False):
        mine = [r for r in table if r["system"] == system]
        at = [r["T"] for r in mine]
        spread = [
            np.std([r["from Kalman"] for r in rows if (r["system"], r["T"]) == (system, T)]) for T in at
        ]
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2}
        left.errorbar(
            at,
            [1 + r["excess %"] / 100 for r in mine],
            [r["se of that"] / 100 for r in mine],
            label=system,
            **style,
        )
        left.plot(
            at, [r["no past"] / r["Kalman"] for r in mine], **{**style, "linestyle": ":", "linewidth": 1}
        )
        right.errorbar(
            at,
            [r["from Kalman"] for r in mine],
            np.array(spread) / np.sqrt(mine[0]["runs"]),
            label=system,
            **style,
        )
    left.axhline(1, color=SOFT, linewidth=1)
    left.plot([], [], ":", color=SOFT, label="the observation alone")
    left.set(xscale="log", xlabel="training steps", ylabel="ratio of errors")
    right.set(xscale="log", yscale="log", xlabel="training steps", ylabel="mean ‖ẑ − ẑ of Kalman‖²")
    for ax in (left, right):
        ax.set_xticks(LENGTHS, [str(T) for T in LENGTHS])
        ax.minorticks_off()
        legend(ax)
    save_figure(figure, path)
