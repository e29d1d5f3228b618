"""Bayes' rule on embeddings, one file a rule; each has ``posterior_weights(pairs, prior, cross, reg)``."""

from types import ModuleType

from muhat.operators.bayes import deconditional, importance, kbr_a, kbr_b
from muhat.operators.bayes.pairs import NoOverlap, Pairs, Prior

RULES: dict[str, ModuleType] = {rule.NAME: rule for rule in (importance, kbr_a, kbr_b, deconditional)}

__all__ = ["RULES", "NoOverlap", "Pairs", "Prior", "deconditional", "importance", "kbr_a", "kbr_b"]
