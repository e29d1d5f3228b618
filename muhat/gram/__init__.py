"""Gram operators and their ridges, and the representations that make them."""

from muhat.gram.base import Factored, FeatureMap, Gram, Ridge, as_dense
from muhat.gram.blocked import BlockedGram, kernel_matmul, kernel_quadratic
from muhat.gram.dense import DenseGram
from muhat.gram.features import FeatureKernel
from muhat.gram.iterative import Convergence
from muhat.gram.kronecker import KroneckerGram
from muhat.gram.lowrank import LowRankGram
from muhat.gram.networks import Convolutional, Perceptron
from muhat.gram.neural import Neural, NeuralKernel, Training
from muhat.gram.representation import (
    Exact,
    Features,
    Fourier,
    Nystrom,
    Representation,
    as_representation,
    default_representation,
    streamed_representation,
)

__all__ = [
    "BlockedGram",
    "Convergence",
    "Convolutional",
    "DenseGram",
    "Exact",
    "Factored",
    "FeatureKernel",
    "FeatureMap",
    "Features",
    "Fourier",
    "Gram",
    "KroneckerGram",
    "LowRankGram",
    "Neural",
    "NeuralKernel",
    "Nystrom",
    "Perceptron",
    "Representation",
    "Ridge",
    "Training",
    "as_dense",
    "as_representation",
    "default_representation",
    "kernel_matmul",
    "kernel_quadratic",
    "streamed_representation",
]
