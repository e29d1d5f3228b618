"""The jobs of every area: each is done by us and by the peers on the same data in one run."""

from __future__ import annotations

from benchmarks.peers import distributions, regression, testing
from benchmarks.peers.contestant import Workload

WORKLOADS: dict[str, Workload] = {**testing.WORKLOADS, **regression.WORKLOADS, **distributions.WORKLOADS}
