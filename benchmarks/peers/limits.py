"""What the timings must show: each limit is a ratio within one run, or a bound on memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.measure import Figure
from benchmarks.peers import testing
from benchmarks.peers.timing import Timing

_GB = 1e9
BOOSTING = ("boosting on mean features", "boosting on mean and covariance")


def _by_name(timings: Sequence[Timing], workload: str) -> dict[int, dict[str, Timing]]:
    found: dict[int, dict[str, Timing]] = {}
    for t in timings:
        if t.workload == workload and not t.reason:
            found.setdefault(t.n, {})[t.name] = t
    return found


def _ratio(
    job: str, n: int, ours: float | None, theirs: float | None, target: float, peer: str
) -> list[Figure]:
    if not ours or not theirs:
        return []
    note = f"{ours:.3g} s against {theirs:.3g} s"
    return [Figure(f"{job}, n = {n} / {peer}", ours / theirs, target, "×", note)]


def _against(
    timings: Sequence[Timing],
    workload: str,
    job: str,
    peer: str,
    target: float,
    *,
    sizes: Iterable[int] = (),
    cold_against_warm: bool = False,
    first_only: bool = False,
) -> list[Figure]:
    """Ours over the peer's, warm over warm and first call over first call (or over the peer's warm one).

    Of a peer that is not repeated our warm calls are held against its first. ``first_only``: of first calls
    alone, for what is done once.
    """
    figures = []
    for n, by in _by_name(timings, workload).items():
        if "ours" not in by or peer not in by or (sizes and n not in sizes):
            continue
        ours, theirs = by["ours"], by[peer]
        if not first_only:
            figures += _ratio(f"{job}, warm", n, ours.warm, theirs.warm or theirs.cold, target, peer)
        first = theirs.warm if cold_against_warm else theirs.cold
        figures += _ratio(f"{job}, cold", n, ours.cold, first, target, peer)
    return figures


def _memory(timings: Sequence[Timing], workload: str, job: str) -> list[Figure]:
    return [
        Figure(f"{job}, n = {n}: memory", by["ours"].memory / _GB, 2.0, "GB", f"{by['ours'].cold:.3g} s")
        for n, by in _by_name(timings, workload).items()
        if "ours" in by and by["ours"].memory and by["ours"].cold
    ]


def _edges(timings: Sequence[Timing]) -> list[Figure]:
    """No more edges missed than by causal-learn's KCI, and the reference of the linear test."""
    figures = []
    for n, by in _by_name(timings, "discover").items():
        if not {"ours", "causal-learn KCI"} <= by.keys():
            continue
        missed = {name: int(t.answer) for name, t in by.items() if t.answer is not None}
        extra = {name: round(t.answer % 1 * 100) for name, t in by.items() if t.answer is not None}
        note = "; ".join(f"{name} {missed[name]} missing, {extra[name]} extra" for name in missed)
        target = missed["causal-learn KCI"]
        figures.append(Figure(f"PC, six variables, n = {n}: edges missed", missed["ours"], target, "", note))
    return figures


def _answers(
    timings: Sequence[Timing], workload: str, job: str, most: float | None, *peers: str
) -> list[Figure]:
    """Our error against what is asked of it, and against that of each peer, which it must not exceed."""
    figures = []
    for n, by in _by_name(timings, workload).items():
        ours = by["ours"].answer if "ours" in by else None
        if ours is None:
            continue
        if most is not None:
            figures.append(Figure(f"{job}, n = {n}: {by['ours'].measure}", ours, most, "", ""))
        for name in peers:
            theirs = by[name].answer if name in by else None
            if theirs:
                note = f"{ours:.3g} against {theirs:.3g}"
                title = f"{job}, n = {n}: {by['ours'].measure} / {name}"
                figures.append(Figure(title, ours / theirs, 1.0, "×", note))
    return figures


def limits(timings: Sequence[Timing]) -> list[Figure]:
    """Every limit that the timings can speak to."""
    learn = _by_name(timings, "learn").get(2000, {}).get("ours")
    return [
        *_against(timings, "mmd", "exact MMD test", "bare arithmetic", 1.5),
        *_memory(timings, "mmd-blocks", "exact MMD test by blocks"),
        *_against(timings, "hsic", "HSIC by permutation", "compiled loop", 1.5, sizes=(5000,)),
        *_against(timings, "hsic-gamma", "HSIC, gamma", "lingam", 1.0),
        *_against(timings, "aggregate", "aggregated test", "MMDAgg", 1.0, cold_against_warm=True),
        *_memory(timings, "aggregate", "aggregated test"),
        *_against(timings, "near-linear", "near-linear test", "goodpoints CTT", 1.5),
        *_against(timings, "kci", "KCI", "causal-learn", 1.0),
        *_against(timings, "discover", "PC, six variables", "causal-learn KCI", 1.0),
        *_edges(timings),
        *_against(timings, "donut", "donut density", "mixture density network", 1.0, first_only=True),
        *_answers(timings, "donut", "donut density", 0.2),
        *_against(timings, "posterior", "simulator's posterior", "sbi NPE", 0.1, first_only=True),
        *_answers(timings, "posterior", "simulator's posterior", 0.15, "rejection"),
        *_answers(timings, "bags", "regression on bags", None, *BOOSTING),
        *(
            [Figure("learn_kernel, n = 2000, d = 5, cold", learn.cold, 10.0, "s", "")]
            if learn and learn.cold
            else []
        ),
    ]


def power_near_linear(repetitions: int, n: int = 5000, shift: float = 0.02) -> Figure:
    """Power of features against compression on the same samples.

    The figure is CTT's rate less ours in standard errors of the difference: at most 2 is within chance.
    """
    pairs = [testing.shifted(n, shift, seed) for seed in range(repetitions)]
    ours = np.mean([testing.features_test(x, y, seed) <= 0.05 for seed, (x, y) in enumerate(pairs)])
    theirs = np.mean([testing.compress_then_test(x, y, seed) <= 0.05 for seed, (x, y) in enumerate(pairs)])
    error = np.sqrt(max(ours * (1 - ours) + theirs * (1 - theirs), 1.0 / repetitions) / repetitions)
    note = f"rejects {ours:.2f} against {theirs:.2f} of {repetitions}"
    return Figure(f"near-linear test, n = {n}: power behind CTT", (theirs - ours) / error, 2.0, "s.e.", note)


def level_kci(repetitions: int, n: int = 200) -> Figure:
    """Rejections at .05 of true nulls by KCI, ours and causal-learn's, on the same samples.

    The figure is how far ours is above the larger of .05 and causal-learn's rate, in standard errors.
    """
    samples = [testing.chain(n, seed) for seed in range(repetitions)]
    ours = np.mean([testing.kci_ours(*s) <= 0.05 for s in samples])
    theirs = np.mean([testing.kci_causal_learn(*s) <= 0.05 for s in samples])
    error = np.sqrt(0.05 * 0.95 / repetitions)
    note = f"rejects {ours:.3f} against {theirs:.3f} of {repetitions}"
    value = (ours - max(theirs, 0.05)) / error
    return Figure(f"KCI, n = {n}: level above causal-learn's", value, 2.0, "s.e.", note)
