"""Plots and the HTML report."""

from muhat.report.html import Report

__all__ = ["Report"]
