"""What a run leaves behind: ``peers.csv``, ``peers.md``, ``peers.png``, and the README's section on speed."""

from __future__ import annotations

import csv
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from benchmarks.peers.timing import Timing
from benchmarks.peers.workloads import WORKLOADS

HEADERS = ("job", "n", "by", "warm, s", "cold, s", "memory, GB", "answer")
LIMIT_HEADERS = ("limit", "measured", "target", "", "in this run")
NOTE = (
    "Warm: the best of several calls, all contestants in turn in one process. Cold: the first call in a "
    "process of its own, after imports; the only one of peers that are too slow to repeat. Memory: the most "
    "that this process held, imports with it. e: extrapolated from fewer permutations. Answers: for CTT 0 if "
    "it rejects, else 1; edges: those missing, and a hundredth for each extra one; RMSE, L1 and W1 are "
    "errors against a known truth (W1 in posterior standard deviations)."
)
# The README's rows: workload and peer.
README_ROWS = (
    ("mmd", "bare arithmetic"),
    ("mmd", "dcor energy"),
    ("hsic", "compiled loop"),
    ("hsic-gamma", "lingam"),
    ("near-linear", "goodpoints CTT"),
    ("kci", "causal-learn"),
    ("discover", "causal-learn KCI"),
    ("ridge", "scikit-learn KernelRidge"),
    ("ridge-landmarks", "scikit-learn Nystroem, Ridge"),
    ("gaussian-process", "scikit-learn, one start"),
    ("donut", "mixture density network"),
    ("donut", "spline flow (zuko)"),
    ("ratio", "densratio uLSIF"),
    ("posterior", "sbi NPE"),
    ("bags", "boosting on mean and covariance"),
)
BEGIN, END = "<!-- speed: python -m benchmarks.peers --readme README.md -->\n", "<!-- speed ends -->\n"
NUMBERS = ("cold", "warm", "memory", "answer")
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")


@dataclass(frozen=True)
class Pair:
    """Ours and a peer at the largest size that both did; first calls where the peer was not repeated."""

    ours: Timing
    peer: Timing

    @property
    def warm(self) -> bool:
        return self.ours.warm is not None and self.peer.warm is not None

    @property
    def seconds(self) -> tuple[float, float]:
        first, second = self.ours, self.peer
        a, b = (first.warm, second.warm) if self.warm else (first.cold, second.cold)
        return float(a or 0.0), float(b or 0.0)

    @property
    def ratio(self) -> float:
        """How many times as long the peer takes."""
        ours, peer = self.seconds
        return peer / ours


def pairs(timings: Iterable[Timing]) -> list[Pair]:
    """Every peer beside ours (not our other ways), in the order of the workloads."""
    done = [t for t in timings if t.cold and not t.reason]
    ours = {(t.workload, t.n): t for t in done if t.name == "ours"}
    found: dict[tuple[str, str], Pair] = {}
    for t in sorted(done, key=lambda t: t.n):
        if not t.name.startswith("ours") and (t.workload, t.n) in ours:
            found[t.workload, t.name] = Pair(ours[t.workload, t.n], t)
    order = list(WORKLOADS)
    return sorted(found.values(), key=lambda p: order.index(p.ours.workload))


def machine() -> str:
    """Cores, processor, memory and system."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        known = re.search(r"model name\s*:\s*(.+)", info)
    except OSError:
        known = None
    processor = known[1].strip() if known else platform.processor() or platform.machine()
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return f"{os.cpu_count()} cores ({processor}), {size / 2**30:.0f} GB, {platform.system()}"


def versions() -> str:
    """Of Python, of what muhat stands on, and of the peers."""
    named = re.findall(r"^([A-Za-z0-9_.-]+)==", _REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    parts = [f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "jax", "scikit-learn", *named, "mmdagg", "mmdfuse"):
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"no {name}")
    return ", ".join(parts)


def digits(value: float, count: int = 3) -> str:
    """So many significant digits, without powers of ten."""
    rounded = float(f"{value:.{count}g}")
    return f"{rounded:.0f}" if rounded >= 10 ** (count - 1) else f"{rounded:g}"


def row(t: Timing) -> list[str]:
    """A line of the table."""
    mark = "e" if t.extrapolated else ""
    times = ["–" if value is None else f"{digits(value)}{mark}" for value in (t.warm, t.cold)]
    memory = "–" if t.memory is None else f"{t.memory / 1e9:.2f}"
    answer = t.reason or ("–" if t.answer is None else f"{t.answer:.3g} {t.measure}".strip())
    return [WORKLOADS[t.workload].job, f"{t.n}", t.name, *times, memory, answer]


def limit_row(f: Figure) -> list[str]:
    measured, target = f"{f.value:.2f} {f.unit}".strip(), f"≤ {f.target:g} {f.unit}".strip()
    return [f.name, measured, target, "holds" if f.holds else "MISSED", f.note]


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def read(path: Path) -> list[Timing]:
    """The timings that a run has written."""
    kinds: dict[str, Any] = {"n": int, "extrapolated": lambda text: text == "True"}
    kinds |= {name: lambda text: float(text) if text else None for name in NUMBERS}
    with path.open(newline="", encoding="utf-8") as file:
        return [Timing(**{k: kinds.get(k, str)(v) for k, v in line.items()}) for line in csv.DictReader(file)]


def write(folder: Path, timings: Sequence[Timing], figures: Sequence[Figure]) -> None:
    """The table as CSV and, with the limits, as Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "peers.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [f.name for f in fields(Timing)], lineterminator="\n")
        table.writeheader()
        table.writerows({k: _short(k, v) for k, v in asdict(t).items()} for t in timings)
    days = [t.date for t in timings] or [""]
    parts = [
        "# Speed beside the peers",
        f"{' to '.join(dict.fromkeys((min(days), max(days))))}. {machine()}.",
        versions() + ".",
        "Made by `make bench-peers` (`python -m benchmarks.peers`).",
        markdown(HEADERS, map(row, timings)),
        NOTE,
        markdown(LIMIT_HEADERS, map(limit_row, figures)),
        "![How many times as long each peer takes](peers.png)",
    ]
    (folder / "peers.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _short(name: str, value: Any) -> object:
    return f"{value:.4g}" if name in NUMBERS and value is not None else value


def picture(folder: Path, timings: Iterable[Timing]) -> None:
    """How many times as long each peer takes as ours, one bar a peer under its job, on a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    from muhat.report.plots import BLUE, FAINT, FILL, INK, RED, SOFT, new_figure

    shown = pairs(timings)
    if not shown:
        return
    lines: list[Pair | str] = []
    for p in shown:
        title = f"{WORKLOADS[p.ours.workload].job}, n = {p.ours.n}"
        lines += [p] if title in lines else [title, p]
    figure, ((ax,),) = new_figure(height=1.1 + 0.185 * len(lines))
    ratios = [p.ratio for p in shown]
    ax.set_xscale("log")
    for y, line in zip(range(len(lines))[::-1], lines, strict=True):
        if isinstance(line, str):
            ax.axhline(y + 0.5, color=FAINT, linewidth=0.6)
            continue
        colour = FILL if line.peer.extrapolated else BLUE if line.ratio >= 1 else RED
        ax.barh(y, line.ratio - 1, left=1.0, height=0.66, color=colour)
        ax.annotate(
            f"{digits(line.ratio, 2)}×" + ("" if line.warm else ", first call"),
            (max(line.ratio, 1.0), y),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=SOFT,
        )
    ax.set_yticks(range(len(lines))[::-1], [t if isinstance(t, str) else t.peer.name for t in lines])
    for label, line in zip(ax.get_yticklabels(), lines, strict=True):
        label.set(fontsize=7.5, fontweight="bold" if isinstance(line, str) else "normal")
    ax.tick_params(axis="y", length=0)
    ax.axvline(1.0, color=INK, linewidth=0.9)
    ax.set(xlim=(min(0.5, *ratios) / 2, max(2.0, *ratios) * 40), ylim=(-0.7, len(lines) - 0.4))
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    ax.set_xlabel("time of the peer / ours (grey: extrapolated)")
    figure.savefig(folder / "peers.png", dpi=130, facecolor="white", metadata={"Software": None})


def speed_table(timings: Iterable[Timing]) -> str:
    """The README's table: ours and the peer at the largest size that both did."""
    by = {(p.ours.workload, p.peer.name): p for p in pairs(timings)}
    lines = []
    for key in README_ROWS:
        if key not in by:
            continue
        pair = by[key]
        ours, theirs = (f"{digits(s)} s" for s in pair.seconds)
        mark = ("" if pair.warm else ", first call") + (", extrapolated" if pair.peer.extrapolated else "")
        answers = [f"{t.answer:.3g}" for t in (pair.ours, pair.peer) if t.answer is not None]
        shown = f"{' / '.join(answers)} {pair.ours.measure}".strip() if len(answers) == 2 else "–"
        job = f"{WORKLOADS[pair.ours.workload].job}, n = {pair.ours.n}"
        lines.append([job, ours, f"{pair.peer.name}: {theirs}{mark}", f"{digits(pair.ratio, 2)}×", shown])
    return markdown(("job", "ours", "peer", "ratio", "answers, ours / peer"), lines)


def readme(path: Path, folder: Path) -> None:
    """Put the table of ``folder`` between the marks in the README."""
    text = path.read_text(encoding="utf-8")
    start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
    about = (folder / "peers.md").read_text(encoding="utf-8").split("\n\n")[1]
    path.write_text(
        f"{text[:start]}\n{about}\n\n{speed_table(read(folder / 'peers.csv'))}\n\n{text[stop:]}",
        encoding="utf-8",
    )
