"""The modules and names of muhat. Type checkers and editors read this file, and ``__init__.py`` does."""

from muhat import cli as cli
from muhat import datasets as datasets
from muhat import embedding as embedding
from muhat import engine as engine
from muhat import gram as gram
from muhat import io as io
from muhat import kernels as kernels
from muhat import learning as learning
from muhat import messages as messages
from muhat import models as models
from muhat import operators as operators
from muhat import report as report
from muhat import simulation as simulation
from muhat import testing as testing
from muhat._bags import Bags, GaussianBags
from muhat._linalg import SingularSystem
from muhat._version import __version__
from muhat.embedding import Density, Embedding, embed, mmd
from muhat.engine import open_rows
from muhat.gram import Exact, Features, Fourier, Neural, Nystrom
from muhat.io import load, save
from muhat.kernels import (
    Cauchy,
    Delta,
    Gaussian,
    InverseMultiquadric,
    Kernel,
    Laplace,
    Linear,
    Matern,
    NoClosedForm,
    OnDistributions,
    Polynomial,
    RationalQuadratic,
    Rotation,
    Student,
)
from muhat.learning import learn_kernel, sample_kernel
from muhat.models import (
    BayesianEmbedding,
    CauseEffect,
    ConditionalDensity,
    ConditionalMean,
    DensityRatio,
    DistributionClassifier,
    DistributionRegressor,
    KernelBayes,
    KernelBayesFilter,
    LikelihoodFree,
    MessageOperator,
    TaskTransformedGP,
    witness_posterior,
)
from muhat.simulation import Support, simulate
from muhat.testing import conditional_independence_test, discover, independence_test, two_sample_test

__all__ = [
    "Bags",
    "BayesianEmbedding",
    "Cauchy",
    "CauseEffect",
    "ConditionalDensity",
    "ConditionalMean",
    "Delta",
    "Density",
    "DensityRatio",
    "DistributionClassifier",
    "DistributionRegressor",
    "Embedding",
    "Exact",
    "Features",
    "Fourier",
    "Gaussian",
    "GaussianBags",
    "InverseMultiquadric",
    "Kernel",
    "KernelBayes",
    "KernelBayesFilter",
    "Laplace",
    "LikelihoodFree",
    "Linear",
    "Matern",
    "MessageOperator",
    "Neural",
    "NoClosedForm",
    "Nystrom",
    "OnDistributions",
    "Polynomial",
    "RationalQuadratic",
    "Rotation",
    "SingularSystem",
    "Student",
    "Support",
    "TaskTransformedGP",
    "__version__",
    "conditional_independence_test",
    "discover",
    "embed",
    "independence_test",
    "learn_kernel",
    "load",
    "mmd",
    "open_rows",
    "sample_kernel",
    "save",
    "simulate",
    "two_sample_test",
    "witness_posterior",
]
