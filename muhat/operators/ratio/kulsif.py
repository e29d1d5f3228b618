"""KuLSIF: the ratio in the RKHS, ``r = t + (Ĉ + ηI)⁻¹ (m_num − t m_den)`` [KSS12; X22, §2].

In features of the kernel (``k = φᵀφ``) the norm of θ is that of the RKHS; landmarks at all points of both
samples make it exact.
"""

from __future__ import annotations

import numpy as np

from muhat._array import Array
from muhat.gram.features import FeatureKernel
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel

NAME = "kulsif"


def basis(kernel: Kernel, numerator: Array, denominator: Array, rng: np.random.Generator) -> FeatureKernel:
    """The kernel itself in features, exact on both samples up to rounding."""
    if isinstance(kernel, FeatureKernel):
        return kernel
    return NystromKernel.fit(kernel, np.concatenate([denominator, numerator]))
