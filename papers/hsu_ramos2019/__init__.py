"""The experiments of [HR19]."""
