"""Rules of probability as operators on embeddings."""

from muhat.operators.conditional import Groups, conditional_ridge, group_rows

__all__ = ["Groups", "conditional_ridge", "group_rows"]
