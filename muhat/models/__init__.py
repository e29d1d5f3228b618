"""Estimators of scikit-learn's shape."""

from muhat.models.conditional_mean import ConditionalMean

__all__ = ["ConditionalMean"]
