"""Density ratios, one file an estimator; each has ``basis``, the features its ratio is made of."""

from muhat.operators.ratio import kulsif, rulsif
from muhat.operators.ratio.covered import covered
from muhat.operators.ratio.least_squares import LeastSquares

__all__ = ["LeastSquares", "covered", "kulsif", "rulsif"]
