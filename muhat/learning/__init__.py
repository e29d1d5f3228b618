"""Choosing what is free: lengthscales and regularisers."""

from muhat.learning.leave_one_out import LeaveOneOut, choose_conditional, leave_one_out_path

__all__ = ["LeaveOneOut", "choose_conditional", "leave_one_out_path"]
