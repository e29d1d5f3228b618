"""Gretton (2015), Learning with probabilities as inputs, using kernels: the experiments of the talk."""
