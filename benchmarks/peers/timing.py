"""Times and memory of a workload's contestants, each in fresh processes.

Cold and memory: the first call in a process of its own, after the imports and the data. Warm: all
contestants in turn in one process, best of the rounds, so that a busy machine slows them alike; what is
short gets more of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks.measure import PRELUDE, fresh
from benchmarks.peers.workloads import WORKLOADS

_LOAD = (
    PRELUDE
    + """
from benchmarks.measure import seconds
from benchmarks.peers.packages import NotInstalled
from benchmarks.peers.workloads import WORKLOADS
contestants = WORKLOADS[{workload!r}].contestants({n})
"""
)
_NAMES = _LOAD + "\nprint(json.dumps({{name: c.once for name, c in contestants.items()}}))"
_COLD = (
    _LOAD
    + """
c, answer = contestants[{name!r}], []
try:
    c.prepare()
    if c.share < 1:
        c.run()
    time_taken = seconds(lambda: answer.append(c.run())) / c.share
    memory = peak()
    found = dict(cold=time_taken, memory=memory, answer=c.score(*answer), extrapolated=c.share < 1)
    print("\\n" + json.dumps(found))  # on a line of its own: some peers leave theirs open
except NotInstalled as reason:
    print(json.dumps(dict(reason=str(reason))))
except Exception as error:
    print(json.dumps(dict(reason=f"failed: {{type(error).__name__}}: {{error}}")))
"""
)
_WARM = (
    _LOAD
    + """
best = dict.fromkeys({names!r}, float("inf"))
for name in best:
    contestants[name].prepare()
    contestants[name].run()
rounds, start = 0, time.perf_counter()
while rounds < {rounds} or time.perf_counter() - start < {short}:
    rounds += 1
    for name in best:
        best[name] = min(best[name], seconds(contestants[name].run))
print("\\n" + json.dumps(best))
"""
)
_SHORT = 5.0  # seconds: first calls below this are taken several times, and rounds go on for as long


@dataclass(frozen=True)
class Timing:
    """What one contestant did in one workload on a day.

    ``measure`` says what its answer is, ``reason`` why there is none.
    """

    workload: str
    n: int
    name: str
    cold: float | None = None
    warm: float | None = None
    memory: float | None = None
    answer: float | None = None
    measure: str = ""
    extrapolated: bool = False
    reason: str = ""
    date: str = ""


def _first_call(workload: str, n: int, name: str, rounds: int) -> dict[str, Any]:
    """The first call in a new process; the best of several such processes where it is short."""
    code, best = _COLD.format(workload=workload, n=n, name=name), {}
    for _ in range(rounds):
        found: dict[str, Any] = fresh(code)
        if "reason" in found:
            return found
        if not best or found["cold"] < best["cold"]:
            best = found
        if best["cold"] > _SHORT or best["extrapolated"]:
            break
    return best


def contest(workload: str, n: int, rounds: int) -> list[Timing]:
    """Time every contestant of ``workload`` at size ``n``."""
    rounds = min(rounds, WORKLOADS[workload].rounds)
    once = fresh(_NAMES.format(workload=workload, n=n))
    cold = {name: _first_call(workload, n, name, rounds) for name in once}
    again = [name for name in once if not once[name] and "reason" not in cold[name]]
    warm = (
        fresh(_WARM.format(workload=workload, n=n, names=again, rounds=rounds, short=_SHORT)) if again else {}
    )
    also = {"measure": WORKLOADS[workload].answer, "date": datetime.now(UTC).date().isoformat()}
    return [Timing(workload, n, name, warm=warm.get(name), **also, **cold[name]) for name in once]
