"""The experiments of [S20]."""
