"""Benchmarks: ratios within one run, never absolute times. ``python -m benchmarks`` runs them all."""
