"""Kernels k(x, x'): families, algebra, and the facts a kernel knows about itself."""

from muhat.kernels.base import Kernel, NoClosedForm
from muhat.kernels.default import default_kernel
from muhat.kernels.delta import Delta
from muhat.kernels.dot import Linear, Polynomial
from muhat.kernels.on_distributions import OnDistributions
from muhat.kernels.rotation import Rotation
from muhat.kernels.stationary import (
    Cauchy,
    Gaussian,
    InverseMultiquadric,
    Laplace,
    Matern,
    RationalQuadratic,
)
from muhat.kernels.student import Student

__all__ = [
    "Cauchy",
    "Delta",
    "Gaussian",
    "InverseMultiquadric",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern",
    "NoClosedForm",
    "OnDistributions",
    "Polynomial",
    "RationalQuadratic",
    "Rotation",
    "Student",
    "default_kernel",
]
