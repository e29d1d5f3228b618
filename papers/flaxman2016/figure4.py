"""Figure 4: causal graphs of ozone and weather in Los Angeles, by the PC algorithm."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import muhat as mh
from muhat._tables import Encoder
from muhat.datasets import ozone
from muhat.kernels.default import default_kernel
from muhat.testing.discover import prewhitened
from muhat.testing.graph import CausalGraph
from muhat.testing.kci import Smoother
from papers.flaxman2016.learning import learn_lengthscale
from papers.output import Row, save_figure, save_table, show

NAMES = {
    "ozone": "ozone",
    "vh": "height 500 mb",
    "wind": "wind",
    "humidity": "humidity",
    "temp": "temperature",
    "ibh": "inversion height",
    "dpg": "pressure gradient",
    "ibt": "inversion temp.",
    "vis": "visibility",
}
CAUSE, EFFECT = "temperature", "ozone"
# Given this, the learned kernels find temperature and ozone independent.
SEPARATOR = "inversion temp."
LEVELS = (0.01, 0.05, 0.1)
DRAWN = 0.05
# Drawn, and repeated on halves of the rows.
METHODS = {
    "learned": "HSIC, learned kernels",
    "median": "HSIC, median heuristic",
    "kci": "KCI, our default",
}
# In the table only: the noise of Figure 2.
FIXED = {"learned_1": "HSIC, learned, τ² = 1"}


def learned_test(noise: float | None = None) -> Callable[[Any, Any, Any], float]:
    """HSIC of residuals with the lengthscale of each learned [F16, §5], for ``mh.discover``.

    What ``test="residual", kernel="learn"`` does, but for Gaussian kernels that are compiled once for all
    residuals of one length; residuals and kernels are kept, since each is asked for many times.
    """

    def column(data: bytes, n: int) -> np.ndarray:
        return np.frombuffer(data).reshape(n, -1)

    @lru_cache(64)
    def smoother(z: bytes, n: int) -> Smoother:
        return Smoother(default_kernel(column(z, n)), column(z, n))

    @lru_cache(5000)
    def residual(x: bytes, z: bytes, n: int) -> tuple[np.ndarray, mh.Kernel]:
        left = column(x, n)
        left = (left - left.mean()) / left.std()
        if z:
            left = smoother(z, n).residuals(left)
        return left, learn_lengthscale(left, noise=noise).kernel

    def pvalue(x: np.ndarray, y: np.ndarray, z: np.ndarray | None) -> float:
        given = b"" if z is None else z.tobytes()
        (left, kernel_x), (right, kernel_y) = (residual(a.tobytes(), given, len(a)) for a in (x, y))
        return mh.independence_test(left, right, kernel_x, kernel_y, "gamma", random_state=0).pvalue

    return pvalue


def arguments(method: str) -> dict[str, Any]:
    """Of ``mh.discover``."""
    if method.startswith("learned"):
        return {"test": learned_test(1.0 if method in FIXED else None)}
    return {"test": "kci"} if method == "kci" else {"test": "residual", "kernel": "median"}


def edge(graph: CausalGraph, a: str, b: str) -> str:
    """How ``a`` and ``b`` are joined."""
    if (a, b) in graph.directed:
        return "→"
    if (b, a) in graph.directed:
        return "←"
    return "—" if {(a, b), (b, a)} & set(graph.undirected) else "none"


def largest_pvalue(graph: CausalGraph, a: str, b: str) -> float:
    """The p-value that spoke most against the edge, over what was given."""
    return float(graph.pvalues[a, b])


def one_edge(table: pl.DataFrame, seed: int) -> list[Row]:
    """P-values of temperature and ozone given nothing, one variable or all, by the kernels of the residuals.

    The lengthscales are in units of the residuals' standard deviations, temperature first.
    """
    encoder, Z = prewhitened(Encoder(table.columns), table.to_numpy(), "doy")
    names = encoder.names or []
    x, y = (Z[:, [names.index(name)]] for name in (CAUSE, EFFECT))
    others = [name for name in names if name not in (CAUSE, EFFECT)]
    rows: list[Row] = []
    for label, given in {"nothing": [], SEPARATOR: [SEPARATOR], "all others": others}.items():
        if not set(given) <= set(names):
            continue
        pair = x, y
        if given:
            z = Z[:, [names.index(name) for name in given]]
            pair = mh.conditional_independence_test(x, y, z, method="residual", random_state=seed).residuals
        learned: list[Any] = [learn_lengthscale(a).kernel for a in pair]
        ell = [float(k.lengthscale) / float(a.std()) for k, a in zip(learned, pair, strict=True)]
        rows.append(
            {
                "given": label,
                "p learned": mh.independence_test(*pair, learned[0], learned[1], "gamma").pvalue,
                "p median": mh.independence_test(*pair, "median", "median", "gamma").pvalue,
                "p aggregate": mh.independence_test(*pair, random_state=seed).pvalue,
                "ℓ T": ell[0],
                "ℓ O₃": ell[1],
            }
        )
    return rows


def run(out: Path, quick: bool, seed: int) -> None:
    """Make figure 4 in the folder ``out``."""
    table = ozone().rename(NAMES).cast(pl.Float64)
    if quick:
        table = table.select("ozone", "temperature", "humidity", SEPARATOR, "doy")
    levels, resamples = ((DRAWN,), 2) if quick else (LEVELS, 20)
    graphs: dict[str, CausalGraph] = {}
    rows: list[Row] = []
    for method, name in (METHODS if quick else METHODS | FIXED).items():
        how = arguments(method)
        for alpha in levels:
            shown = alpha == DRAWN and method in METHODS
            often = resamples if shown else 0
            graph = mh.discover(table, alpha, prewhiten="doy", bootstrap=often, random_state=seed, **how)
            if shown:
                graphs[method] = graph
            rows.append(_row(graph, name, alpha))
    save_table(rows, out / "figure4_temperature_ozone.csv")
    save_table(_edges(graphs), out / "figure4_edges.csv")
    edges = one_edge(table, seed)
    save_table(edges, out / "figure4_one_edge.csv")
    for method, graph in graphs.items():
        figure = graph.plot()
        figure.suptitle(f"{METHODS[method]}, level {DRAWN:g}", fontsize=10)
        save_figure(figure, out / f"figure4_{method}.png")
        print(METHODS[method], graph, "", sep="\n")
    show("Temperature (T) and ozone (O₃); how often halves of the rows have the edge and the arrows", rows)
    show("Are temperature and ozone independent? HSIC of residuals", edges)


def _row(graph: CausalGraph, name: str, alpha: float) -> Row:
    often = None if graph.frequencies is None else graph.frequencies[CAUSE, EFFECT]
    back = None if graph.frequencies is None else graph.frequencies[EFFECT, CAUSE]
    return {
        "method": name,
        "level": alpha,
        "edges": len(graph.directed) + len(graph.undirected),
        "T, O₃": edge(graph, CAUSE, EFFECT),
        "largest p": largest_pvalue(graph, CAUSE, EFFECT),
        "in halves": None if often is None else often.adjacent,
        "→": None if often is None else often.directed,
        "←": None if back is None else back.directed,
    }


def _edges(graphs: dict[str, CausalGraph]) -> list[Row]:
    """Every pair that some method joins."""
    names = next(iter(graphs.values())).names
    rows = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            found = {method: edge(graph, str(a), str(b)) for method, graph in graphs.items()}
            if set(found.values()) != {"none"}:
                rows.append({"a": a, "b": b, **found})
    return rows
