"""Density ratios, one file an estimator; each has ``basis``, the features its ratio is made of."""

from muhat.operators.ratio import kulsif, rulsif
from muhat.operators.ratio.covered import Cover, covered
from muhat.operators.ratio.least_squares import LeastSquares, spectrum

__all__ = ["Cover", "LeastSquares", "covered", "kulsif", "rulsif", "spectrum"]
