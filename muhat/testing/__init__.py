"""Tests of difference, dependence and conditional dependence; causal graphs."""
