"""Regression on bags beside boosting on features of bags, and the rate for bag sizes, in small."""

import pytest

from papers.gretton2015.bags import TASKS, compare
from papers.gretton2015.rate import SIZES, error


@pytest.mark.statistics
@pytest.mark.parametrize("task", TASKS)
def test_errors_are_below_those_of_boosting(task):
    found = compare(task, 300, 100, 0)
    peers = {name: value for name, value in found.items() if name.startswith("boosting")}
    assert len(peers) == 4
    assert found["muhat"] < min(peers.values()), peers
    assert 0.85 <= found["coverage"] <= 0.95
    assert found["width, small bags"] > 1.2 * found["width"]


def test_bags_of_more_points_come_to_infinite_ones():
    sizes = [of(16) for of in SIZES.values()]
    assert sizes == [4, 16, 710, None]
    few, enough, infinite = (sum(error(16, size, seed) for seed in range(2)) for size in (4, 710, None))
    assert few > 4 * infinite
    assert enough < 2 * infinite + 0.01
