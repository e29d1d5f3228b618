"""The experiments of [X22]."""
