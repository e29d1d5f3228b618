"""How the time of each method grows with the rows: n = 10³ … 10⁶, read in blocks from disk, or exact.

``python -m benchmarks.scaling``; ``--large`` goes on to 10⁷, ``--out`` is the folder of ``scaling.csv`` and
``scaling.png``. Kernels and regularisers are given: what grows is what is left. The exponent is that of the
last two decades (of all sizes of the exact fit): below, time is overhead. Exits 1 where it exceeds its limit.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import muhat as mh
from benchmarks.measure import PRELUDE, Figure, fresh

D, P, BAG, REPEAT = 10, 200, 100, 1.0
DECADES, LARGE = (10**3, 10**4, 10**5, 10**6), 10**7
FEATURES, EXACT = 1.1, 3.1  # limits of the exponents
_BLOCK = 100_000
_WIDE, _NARROW = mh.Gaussian(3.0), mh.Gaussian(1.0)


@dataclass(frozen=True)
class Rows:
    """Two samples (n, 10), and a number a row of the first; maps of files, unless ``loaded``."""

    x: np.ndarray
    other: np.ndarray
    y: np.ndarray

    @classmethod
    def open(cls, folder: str, n: int, loaded: bool = False) -> Rows:
        maps = (np.load(f"{folder}/{name}.npy", mmap_mode="r")[:n] for name in ("x", "other", "y"))
        return cls(*(np.array(a) if loaded else a for a in maps))

    @property
    def few(self) -> np.ndarray:
        return np.array(self.x[:100])


def write_rows(folder: str, n: int) -> None:
    """The files, made in blocks."""
    rng = np.random.default_rng(0)
    shapes = {"x": (n, D), "other": (n, D), "y": (n,)}
    x, other, y = (np.lib.format.open_memmap(f"{folder}/{k}.npy", "w+", float, s) for k, s in shapes.items())
    for i in range(0, n, _BLOCK):
        m = min(_BLOCK, n - i)
        x[i : i + m] = rng.standard_normal((m, D))
        other[i : i + m] = 0.9 * rng.standard_normal((m, D)) + 0.1
        y[i : i + m] = np.sin(x[i : i + m, 0]) + 0.3 * rng.standard_normal(m)


def embed(rows: Rows) -> float:
    return float(mh.embed(rows.x, _WIDE, representation=mh.Nystrom(P)).norm())


def conditional_mean(rows: Rows) -> Any:
    pair = mh.Nystrom(P), mh.Nystrom(10)
    return mh.ConditionalMean(_WIDE, _NARROW, 1e-5, pair, center=False).fit(rows.x, rows.y).predict(rows.few)


def two_sample(rows: Rows) -> float:
    found = mh.two_sample_test(
        rows.x, rows.other, _WIDE, representation=mh.Fourier(P), permutations=499, random_state=0
    )
    return found.pvalue


def density_ratio(rows: Rows) -> Any:
    model = mh.DensityRatio(kernel=_WIDE, reg=1e-3, representation=mh.Nystrom(P))
    return model.fit(rows.other, rows.x).predict(rows.few)


def conditional_density(rows: Rows) -> Any:
    given = {"size": 128, "representation": mh.Nystrom(P)}
    model = mh.ConditionalDensity(_WIDE, mh.Gaussian(0.15), 1e-3, 0.01, **given).fit(rows.x, rows.y)
    return model.pdf(rows.few[:10], np.linspace(-1, 1, 20))


def bayes(rows: Rows) -> Any:
    prior = np.random.default_rng(0).normal(0.3, 0.5, (500, 1))
    model = mh.KernelBayes("importance", _WIDE, _NARROW, 1e-3, 1e-2, representation=mh.Nystrom(P))
    return model.fit(rows.x, rows.y).posterior(rows.few[:10], prior).mean()


def bags(rows: Rows) -> Any:
    """The logarithm of the spread of bags of 100 rows; everything learned."""
    count = len(rows.x) // BAG
    spread = np.exp(np.random.default_rng(1).uniform(-0.7, 0.7, count))
    made = (s * np.array(rows.x[BAG * i : BAG * (i + 1)]) for i, s in enumerate(spread))
    return mh.DistributionRegressor(random_state=0).fit(made, np.log(spread)).predict([rows.few])


def exact(rows: Rows) -> Any:
    return (
        mh.ConditionalMean(_WIDE, _NARROW, 1e-4, mh.Exact(), center=False)
        .fit(rows.x, rows.y)
        .predict(rows.few)
    )


@dataclass(frozen=True)
class Job:
    """A method, the sizes it is timed at, and the limit of its exponent."""

    title: str
    run: Callable[[Rows], Any]
    sizes: tuple[int, ...] = DECADES
    limit: float = FEATURES


JOBS = {
    "embed": Job("embedding", embed),
    "mean": Job("conditional mean", conditional_mean),
    "mmd": Job("two-sample test", two_sample),
    "ratio": Job("density ratio", density_ratio),
    "density": Job("conditional density", conditional_density),
    "bayes": Job("Bayes' rule", bayes),
    "bags": Job("regression on bags of 100 rows", bags, DECADES[1:]),
    "exact": Job("conditional mean, exact", exact, (1000, 2000, 4000, 8000), EXACT),
}

_CODE = (
    PRELUDE
    + """
from benchmarks.scaling import measure
print(json.dumps(measure({name!r}, {folder!r}, {sizes!r}, peak)))
"""
)


def measure(
    name: str, folder: str, sizes: Sequence[int], peak: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds and the peak of memory at each size: best of three where they are short."""
    job = JOBS[name]
    seconds, memory = [], []
    job.run(Rows.open(folder, sizes[0], name == "exact"))  # what is imported and compiled
    for n in sizes:
        rows, runs = Rows.open(folder, n, name == "exact"), []
        while not runs or (len(runs) < 3 and sum(runs) < 3 * REPEAT):
            start = time.perf_counter()
            job.run(rows)
            runs.append(time.perf_counter() - start)
        seconds.append(min(runs))
        memory.append(peak())
    return {"seconds": seconds, "memory": memory}


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log time over log n, by least squares, over the last two decades."""
    n, t = np.array(sizes, dtype=float), np.array(seconds)
    top = n >= n.max() / 100
    return float(np.polyfit(np.log(n[top]), np.log(t[top]), 1)[0])


Row = dict[str, Any]


def run(only: Sequence[str] = tuple(JOBS), large: bool = False, most: int | None = None) -> list[Row]:
    """Rows of the table, job by job; sizes up to ``most``."""
    table: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        write_rows(folder, min(LARGE if large else DECADES[-1], most or LARGE))
        for name in only:
            job = JOBS[name]
            sizes = [n for n in (*job.sizes, LARGE) if n <= (most or LARGE)]
            sizes = [n for n in sizes if n in job.sizes or (large and job.limit == FEATURES)]
            out: Any = fresh(_CODE.format(name=name, folder=folder, sizes=sizes))
            slope = exponent(sizes, out["seconds"])
            day = datetime.now(UTC).date().isoformat()
            for n, s, m in zip(sizes, out["seconds"], out["memory"], strict=True):
                row = {"job": job.title, "n": n, "seconds": f"{s:.4g}", "memory": f"{m:.4g}"}
                table.append(row | {"exponent": f"{slope:.3f}", "limit": job.limit, "date": day})
            shown = ", ".join(f"{n:g}: {s:.2g} s" for n, s in zip(sizes, out["seconds"], strict=True))
            print(f"{job.title}: exponent {slope:.2f} (≤ {job.limit:g}); {shown}", flush=True)
    return table


def figures(table: Sequence[Row]) -> list[Figure]:
    """The exponents beside their limits."""
    last = {row["job"]: row for row in table}
    return [
        Figure(f"growth of {name}", float(row["exponent"]), float(row["limit"]), "exponent", "")
        for name, row in last.items()
    ]


def write(table: Sequence[Row], path: Path) -> None:
    """The table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def picture(table: Sequence[Row], path: Path) -> None:
    """Seconds over rows, both logarithmic, a line a method."""
    from muhat.report.plots import CYCLE, FAINT, INK, MARKERS, SOFT, STYLES, new_figure

    figure, ((ax,),) = new_figure(height=4.2)
    for i, name in enumerate(dict.fromkeys(row["job"] for row in table)):
        mine = [row for row in table if row["job"] == name]
        ax.plot(
            [row["n"] for row in mine],
            [float(row["seconds"]) for row in mine],
            color=(*CYCLE, INK, SOFT)[i % 8],
            linestyle=STYLES[i % len(STYLES)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=4.5,
            linewidth=1.4,
            label=f"{name}: $n^{{{float(mine[0]['exponent']):.2f}}}$",
        )
    ax.set(xscale="log", yscale="log", xlabel="rows n", ylabel="seconds")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_minor_formatter(lambda value, _: "")
    ax.grid(color=FAINT, linewidth=0.6)
    ax.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": None})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description=(__doc__ or "").split(";")[0]
    )
    parser.add_argument("--large", action="store_true", help="up to ten million rows")
    parser.add_argument("--most", type=int, help="no sizes above this")
    parser.add_argument("--only", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument(
        "--out", type=Path, default=Path("build"), help="folder of scaling.csv and scaling.png"
    )
    options = parser.parse_args(arguments)
    table = run(options.only, options.large, options.most)
    options.out.mkdir(parents=True, exist_ok=True)
    write(table, options.out / "scaling.csv")
    picture(table, options.out / "scaling.png")
    missed = [f for f in figures(table) if not f.holds]
    for f in missed:
        print(f"MISSED: {f.name}: {f.value:.2f} (≤ {f.target:g})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
