"""Timing and memory in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure beside the target it must meet."""

    name: str
    value: float
    target: float
    unit: str
    note: str

    @property
    def holds(self) -> bool:
        return self.value <= self.target


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(ours: Callable[[], object], bare: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Best time of each over ``rounds``, taken in turn so that a busy machine slows both alike."""
    pairs = [(seconds(ours), seconds(bare)) for _ in range(rounds)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def fresh(code: str, **environment: str) -> dict[str, float]:
    """Run ``code`` in a new process; it prints one JSON object as its last line."""
    command = [sys.executable, "-c", code]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"A benchmark failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# Put before code for `fresh`: peak() is the most memory the process has held so far, in bytes.
PRELUDE = """
import json, resource, sys, time
def peak():
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size
"""
