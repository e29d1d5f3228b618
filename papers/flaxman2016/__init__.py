"""Flaxman, Sejdinovic, Cunningham and Filippi, *Bayesian Learning of Kernel Embeddings* (2016) [F16]."""
