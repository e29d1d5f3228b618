"""Choosing what is free: lengthscales and regularisers."""

from muhat.learning.learn_kernel import LearnedKernel, learn_kernel
from muhat.learning.leave_one_out import LeaveOneOut, choose_conditional, leave_one_out_path
from muhat.learning.sample_kernel import SampledKernel, sample_kernel

__all__ = [
    "LearnedKernel",
    "LeaveOneOut",
    "SampledKernel",
    "choose_conditional",
    "learn_kernel",
    "leave_one_out_path",
    "sample_kernel",
]
