"""Intervals in words."""

from muhat.report.cells import ends, where


def test_an_interval_of_one_value_is_that_value():
    assert where(0.0, 2.5, 0.9) == "lies within 0 to 2.50 with probability 0.9"
    assert where(0.0, 0.0, 0.9, 0.86) == "is 0 with probability 0.86"
    assert where(0.0, 0.0, 0.9, 0.9999) == "is almost surely 0"
    assert where(3.0, 3.0, 0.9) == "is 3.00 with probability 0.9 or more"
    assert ends(1.0, 2.0) == "1.00 to 2.00"
    assert ends(1.0, 1.0) == "1.00"
