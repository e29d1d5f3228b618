"""Estimators of scikit-learn's shape."""

from muhat.models.bayesian_embedding import BayesianEmbedding, BayesianWitness, witness_posterior
from muhat.models.cause_effect import CauseEffect
from muhat.models.conditional_density import ConditionalDensity
from muhat.models.conditional_mean import ConditionalMean
from muhat.models.density_ratio import DensityRatio
from muhat.models.distribution_classifier import DistributionClassifier
from muhat.models.distribution_regressor import DistributionRegressor
from muhat.models.filtered import Filtered
from muhat.models.kernel_bayes import KernelBayes
from muhat.models.kernel_bayes_filter import KernelBayesFilter
from muhat.models.likelihood_free import LikelihoodFree
from muhat.models.message_operator import MessageOperator, Sent
from muhat.models.posterior import Posterior
from muhat.models.simulated_posterior import SimulatedPosterior
from muhat.models.task_transformed_gp import TaskTransformedGP

__all__ = [
    "BayesianEmbedding",
    "BayesianWitness",
    "CauseEffect",
    "ConditionalDensity",
    "ConditionalMean",
    "DensityRatio",
    "DistributionClassifier",
    "DistributionRegressor",
    "Filtered",
    "KernelBayes",
    "KernelBayesFilter",
    "LikelihoodFree",
    "MessageOperator",
    "Posterior",
    "Sent",
    "SimulatedPosterior",
    "TaskTransformedGP",
    "witness_posterior",
]
