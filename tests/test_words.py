"""Numbers in sentences."""

import pytest

from muhat._words import percent
from muhat.testing.missing import MissingCells


@pytest.mark.parametrize(
    ("share", "whole", "fine"),
    [
        (0, "0%", "0%"),
        (1.0, "100%", "100%"),
        (0.9996, "99.96%", "99.96%"),
        (0.996, "99.6%", "99.6%"),
        (0.994, "99%", "99%"),
        (0.99999, ">99.99%", ">99.99%"),
        (0.453, "45%", "45%"),
        (0.0132, "1%", "1.3%"),
        (0.0012, "0.1%", "0.12%"),
        (0.00001, "<0.01%", "<0.01%"),
    ],
)
def test_percentages(share, whole, fine):
    assert (percent(share), percent(share, fine=True)) == (whole, fine)


def test_a_column_that_is_all_missing():
    said = MissingCells("compare", {"force": (1.0, 0.0012)}).sentence
    assert said.startswith("Missing cells: force 100% → 0.12%;")
