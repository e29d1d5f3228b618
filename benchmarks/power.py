"""``python -m benchmarks.power``: power of the two-sample tests beside MMDAgg, MMD-FUSE and goodpoints.

A scenario is a pure function ``draw(strength, n, rng) -> (x, y)``; strength 0 is the null where the family
has one. Every method sees the same data: repetition r draws from ``np.random.default_rng(first + r)``.
The default test was chosen on seeds below 1 000; the tables start above them. ``--set shapes`` takes turned
shapes and copulas, and writes ``benchmarks/results/two_sample.csv`` unless ``--quick``.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes

from benchmarks import shapes
from benchmarks.peers import two_samples
from benchmarks.peers.packages import NotInstalled, peer

LEVEL = 0.05
Draw = Callable[[float, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Scenario:
    """A family of pairs of samples, at the strength where the peers' power is neither 0 nor 1."""

    name: str
    draw: Draw
    strength: float
    n: int

    def sample(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        return self.draw(self.strength, self.n, np.random.default_rng(seed))


def grid(
    ratio: float, n: int, rng: np.random.Generator, *, stratified: bool
) -> tuple[np.ndarray, np.ndarray]:
    """3 × 3 Gaussians 10 apart: unit covariances against eigenvalues (ratio, 1) rotated by 45°.

    [F16, §5, Fig. 2]. ``stratified``: n/9 rows a component as in the paper, else labels are drawn. Rows
    come in random order, for tests that pair x_i with y_i.
    """
    centres = 10.0 * np.stack(np.meshgrid(np.arange(3), np.arange(3)), axis=-1).reshape(9, 2)
    root = np.array([[1.0, -1.0], [1.0, 1.0]]) * np.sqrt([ratio / 2.0, 0.5])

    def labels() -> np.ndarray:
        return rng.permutation(np.arange(n) % 9) if stratified else rng.integers(9, size=n)

    x = centres[labels()] + rng.standard_normal((n, 2))
    y = centres[labels()] + rng.standard_normal((n, 2)) @ root.T
    return x, y


def mean(shift: float, n: int, rng: np.random.Generator, *, d: int) -> tuple[np.ndarray, np.ndarray]:
    """N(0, I) against the same with its first coordinate moved by ``shift``."""
    x, y = rng.standard_normal((2, n, d))
    y[:, 0] += shift
    return x, y


def scale(growth: float, n: int, rng: np.random.Generator, *, d: int) -> tuple[np.ndarray, np.ndarray]:
    """N(0, I) against N(0, (1 + growth)² I)."""
    x, y = rng.standard_normal((2, n, d))
    return x, (1.0 + growth) * y


def tail(dof: float, n: int, rng: np.random.Generator, *, d: int) -> tuple[np.ndarray, np.ndarray]:
    """N(0, I) against independent Student t's with ``dof`` > 2 degrees of freedom, scaled to variance 1."""
    x = rng.standard_normal((n, d))
    return x, np.sqrt((dof - 2.0) / dof) * rng.standard_t(dof, size=(n, d))


def correlation(rho: float, n: int, rng: np.random.Generator, *, d: int) -> tuple[np.ndarray, np.ndarray]:
    """N(0, I) against unit variances with correlation ``rho`` between all pairs of coordinates."""
    x, y = rng.standard_normal((2, n, d))
    return x, np.sqrt(1.0 - rho) * y + np.sqrt(rho) * rng.standard_normal((n, 1))


def _standardised(table: np.ndarray) -> np.ndarray:
    return (table - table.mean(axis=0)) / table.std(axis=0)


def _mixed(
    first: np.ndarray, second: np.ndarray, share: float, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """n rows of ``first`` against n of which a share comes from ``second``; no row is used twice."""
    rows = rng.permutation(first)
    others = rng.permutation(second)[: rng.binomial(n, share)]
    return rows[:n], rng.permutation(np.concatenate([others, rows[n : 2 * n - len(others)]]))


def cancer(share: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Benign tumours against benign ones with a share of malignant ones; 30 standardised columns."""
    table, benign = map(np.asarray, load_breast_cancer(return_X_y=True))
    table = _standardised(table)
    return _mixed(table[benign == 1], table[benign == 0], share, n, rng)


def diabetes(share: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Patients whose disease progresses slowly against the same with a share of fast ones; 10 columns."""
    table, progress = map(np.asarray, load_diabetes(return_X_y=True))
    table, slow = _standardised(table), progress <= np.median(progress)
    return _mixed(table[slow], table[~slow], share, n, rng)


def ozone(share: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Clear days of Los Angeles against the same with a share of hazy ones; the 8 weather columns.

    Reads ``la_ozone_330.csv.gz`` from the folder named by the environment variable MUHAT_DATA.
    """
    table = np.loadtxt(ozone_file(), delimiter=",", skiprows=1)
    clear, weather = table[:, 8] > np.median(table[:, 8]), _standardised(np.delete(table, 8, axis=1)[:, :8])
    return _mixed(weather[clear], weather[~clear], share, n, rng)


def ozone_file() -> Path:
    return Path(os.environ.get("MUHAT_DATA", "")) / "la_ozone_330.csv.gz"


SCENARIOS = (
    Scenario("null, d = 2", partial(mean, d=2), 0.0, 250),
    Scenario("null, d = 20", partial(mean, d=20), 0.0, 250),
    Scenario("mean, d = 2", partial(mean, d=2), 0.27, 250),
    Scenario("mean, d = 20", partial(mean, d=20), 0.33, 250),
    Scenario("scale, d = 2", partial(scale, d=2), 0.2, 250),
    Scenario("scale, d = 20", partial(scale, d=20), 0.05, 250),
    Scenario("tail, d = 2", partial(tail, d=2), 4.0, 250),
    Scenario("tail, d = 20", partial(tail, d=20), 6.0, 250),
    Scenario("correlation, d = 2", partial(correlation, d=2), 0.48, 250),
    Scenario("correlation, d = 20", partial(correlation, d=20), 0.09, 250),
    Scenario("breast cancer", cancer, 0.22, 100),
    Scenario("diabetes", diabetes, 0.4, 100),
    Scenario("ozone", ozone, 0.5, 60),
    Scenario("grid, ε = 2, i.i.d.", partial(grid, stratified=False), 2.0, 900),
    Scenario("grid, ε = 2, stratified", partial(grid, stratified=True), 2.0, 900),
    Scenario("grid, ε = 4, i.i.d.", partial(grid, stratified=False), 4.0, 900),
    Scenario("grid, ε = 4, stratified", partial(grid, stratified=True), 4.0, 900),
)

SHAPES = (
    *(
        Scenario(name, partial(shapes.turned, shape=name), shapes.DEGREES[name], 100)
        for name in shapes.SHAPES
    ),
    Scenario("copula: normal", shapes.normal_copula, 0.45, 100),
    Scenario("copula: Clayton", shapes.clayton, 2.0, 100),
    Scenario("copula: Clayton, skewed margins", shapes.skewed_clayton, 2.0, 100),
    Scenario("rare clump, d = 5", partial(shapes.rare, d=5), 0.08, 100),
    Scenario("one margin, d = 5", partial(shapes.margin, d=5), 0.9, 100),
    Scenario("mean, d = 10", partial(mean, d=10), 0.5, 100),
    Scenario("null, d = 3", partial(mean, d=3), 0.0, 100),
)
SETS = {"families": SCENARIOS, "shapes": SHAPES}


# Methods: (x, y, seed) -> rejected or not, at LEVEL. Peers run with their own defaults.
Method = Callable[[np.ndarray, np.ndarray, int], bool]


def ours(x: np.ndarray, y: np.ndarray, seed: int, kernel: str = "aggregate") -> bool:
    import muhat as mh

    return mh.two_sample_test(x, y, kernel=kernel, random_state=seed).pvalue <= LEVEL


def mmdagg(x: np.ndarray, y: np.ndarray, seed: int) -> bool:
    """Schrab et al. (2023): 10 Laplace and 10 Gaussian kernels, wild bootstrap when the sizes agree."""
    return bool(peer("mmdagg.jax").mmdagg(np.float32(x), np.float32(y), LEVEL, seed=seed))


def mmdfuse(x: np.ndarray, y: np.ndarray, seed: int) -> bool:
    """Biggs et al. (2023): 10 Laplace and 10 Gaussian kernels, permutations."""
    key = peer("jax").random.PRNGKey(seed)
    return bool(peer("mmdfuse").mmdfuse(np.float32(x), np.float32(y), key, LEVEL))


def actt(x: np.ndarray, y: np.ndarray, seed: int) -> bool:
    """Domingo-Enrich et al. (2023): compression, and 10 Gaussian kernels around the median distance."""
    bandwidths = 2.0 ** np.arange(-6, 4) * _median_distance(x, y)
    weights = np.full(len(bandwidths), 1.0 / len(bandwidths))
    with redirect_stdout(io.StringIO()):  # it prints every step of its bisection
        result = peer("goodpoints.ctt").actt(
            x, y, g=4, lam=bandwidths, weights=weights, null_seed=seed, statistic_seed=seed, alpha=LEVEL
        )
    return bool(result.rejects)


def _median_distance(x: np.ndarray, y: np.ndarray, rows: int = 500) -> float:
    z = np.concatenate([x[:rows], y[:rows]])
    squares = (z**2).sum(1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * z @ z.T, 0.0))
    return float(np.median(distances[np.triu_indices(len(z), 1)]))


def from_paper(x: np.ndarray, y: np.ndarray, seed: int, name: str) -> bool:
    return getattr(two_samples, name)(x, y, seed) <= LEVEL


METHODS: dict[str, Method] = {
    "ours": ours,
    "ours, median": partial(ours, kernel="median"),
    "ours, learn": partial(ours, kernel="learn"),
    "MMDAgg": mmdagg,
    "MMD-FUSE": mmdfuse,
    "ACTT": actt,
    "energy, from its paper": partial(from_paper, name="energy"),
    "MMDAgg, from its paper": partial(from_paper, name="mmd_agg"),
    "MMD-FUSE, from its paper": partial(from_paper, name="mmd_fuse"),
}


@dataclass(frozen=True)
class Rate:
    """How often one method rejected in one scenario."""

    scenario: Scenario
    method: str
    rejected: int
    repetitions: int

    @property
    def value(self) -> float:
        return self.rejected / self.repetitions

    @property
    def error(self) -> float:
        return float(np.sqrt(self.value * (1.0 - self.value) / self.repetitions))


def measure(
    scenario: Scenario,
    methods: Sequence[str],
    seeds: range,
    console: Console,
    known: Mapping[str, Method] = METHODS,
) -> list[Rate]:
    """Rejection rates of ``methods`` on the same samples; a method that is not installed is left out."""
    rejected = dict.fromkeys(methods, 0)
    for seed in track(seeds, scenario.name, console=console, transient=True):
        x, y = scenario.sample(seed)
        for name in list(rejected):
            try:
                rejected[name] += known[name](x, y, seed)
            except NotInstalled as reason:
                del rejected[name]
                console.print(f"{name} left out: {reason}")
    return [Rate(scenario, name, count, len(seeds)) for name, count in rejected.items()]


def shortfalls(rates: Sequence[Rate]) -> list[str]:
    """Scenarios where the default falls behind the better of MMDAgg and MMD-FUSE by more than chance.

    The limit is two standard errors of the difference; the same data make it a cautious one.
    """
    found = []
    for scenario in dict.fromkeys(r.scenario for r in rates):
        by = {r.method: r for r in rates if r.scenario is scenario}
        peers = [r for name, r in by.items() if name.startswith(("MMDAgg", "MMD-FUSE"))]
        if "ours" not in by or not peers:
            continue
        best = max(peers, key=lambda r: r.value)
        if by["ours"].value < best.value - 2.0 * np.hypot(by["ours"].error, best.error):
            found.append(f"{scenario.name}: {by['ours'].value:.2f}, {best.method} {best.value:.2f}")
    return found


def write(rates: Sequence[Rate], path: Path) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["scenario", "strength", "n", "method", "repetitions", "rate", "se"])
        for r in rates:
            s = r.scenario
            row = [s.name, s.strength, s.n, r.method, r.repetitions, f"{r.value:.3f}", f"{r.error:.3f}"]
            table.writerow(row)


def show(rates: Sequence[Rate], console: Console) -> None:
    methods = list(dict.fromkeys(r.method for r in rates))
    table = Table("scenario", "n", *methods, title=f"rejection rate at {LEVEL} (standard error)")
    for scenario in dict.fromkeys(r.scenario for r in rates):
        by = {r.method: f"{r.value:.2f} ({r.error:.2f})" for r in rates if r.scenario is scenario}
        table.add_row(scenario.name, str(scenario.n), *(by.get(m, "–") for m in methods))
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.power", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 repetitions, without the grids")
    parser.add_argument("--repetitions", type=int, default=None, help="100 unless --quick")
    parser.add_argument("--first-seed", type=int, default=5000)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--scenarios", nargs="+", help="those whose name starts with one of these")
    parser.add_argument("--set", choices=list(SETS), default="families")
    parser.add_argument("--csv", type=Path, help="where the rates go")
    options = parser.parse_args(arguments)
    console = Console()
    repetitions = options.repetitions or (20 if options.quick else 100)
    seeds = range(options.first_seed, options.first_seed + repetitions)
    chosen = [
        s
        for s in SETS[options.set]
        if (options.scenarios is None or s.name.startswith(tuple(options.scenarios)))
        and not (options.quick and s.n > 500)
    ]
    if not ozone_file().is_file() and any(s.draw is ozone for s in chosen):
        chosen = [s for s in chosen if s.draw is not ozone]
        console.print("ozone left out: set MUHAT_DATA to the folder with la_ozone_330.csv.gz")
    rates: list[Rate] = []
    file = Path("build/power.csv")
    if options.set == "shapes" and not options.quick:
        file = Path("benchmarks/results/two_sample.csv")
    file = options.csv or file
    file.parent.mkdir(parents=True, exist_ok=True)
    for scenario in chosen:
        rates += measure(scenario, options.methods, seeds, console)
        write(rates, file)  # a long run that is interrupted keeps what it has
    show(rates, console)
    behind = shortfalls(rates)
    for line in behind:
        console.print(f"[red]behind the better peer[/] {line}")
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
