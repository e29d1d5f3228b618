"""Estimators of scikit-learn's shape."""

from muhat.models.bayesian_embedding import BayesianEmbedding, BayesianWitness, witness_posterior
from muhat.models.conditional_mean import ConditionalMean

__all__ = ["BayesianEmbedding", "BayesianWitness", "ConditionalMean", "witness_posterior"]
