"""Tests of difference, dependence and conditional dependence; causal graphs."""

from muhat.testing.adapters import for_causal_learn, for_pgmpy
from muhat.testing.conditional import ConditionalResult, conditional_independence_test
from muhat.testing.discover import discover
from muhat.testing.graph import CausalGraph
from muhat.testing.independence import IndependenceResult, independence_test
from muhat.testing.restricted import Restriction
from muhat.testing.result import ColumnEffect, TestResult
from muhat.testing.two_sample import TwoSampleResult, two_sample_test

__all__ = [
    "CausalGraph",
    "ColumnEffect",
    "ConditionalResult",
    "IndependenceResult",
    "Restriction",
    "TestResult",
    "TwoSampleResult",
    "conditional_independence_test",
    "discover",
    "for_causal_learn",
    "for_pgmpy",
    "independence_test",
    "two_sample_test",
]
