"""The posterior of a task-transformed Gaussian process at one set of parameters, and what is read from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from muhat._array import Array
from muhat.gram import Gram
from muhat.operators.deconditional import Deconditional, FunctionSpace, Transformation, WeightSpace


@dataclass(frozen=True)
class State:
    """The posterior at one set of parameters.

    Attributes:
        gram: of the points of f.
        posterior: of f.
        task: what the pairs say of z at any y; None where M is given.
        W: coefficients of the features of y, in weight space.
    """

    gram: Gram
    posterior: Deconditional
    task: Transformation | None
    W: Array | None


def of_f(state: State, x: np.ndarray, kind: str) -> tuple[np.ndarray, Any]:
    """Mean and, by ``kind``, variances or covariance of f at ``x``."""
    cross = state.gram.cross(x)
    mean = state.posterior.mean(cross)
    if kind == "mean":
        return mean, None
    kernel = state.gram.kernel
    return mean, state.posterior.cov(cross, kernel.diag(x) if kind == "var" else kernel(x))


def of_g(state: State, y: np.ndarray, kind: str, Y_task: Any, full: bool) -> tuple[np.ndarray, Any]:
    """The same of g at ``y``."""
    posterior, task = state.posterior, state.task
    assert task is not None
    if isinstance(posterior, WeightSpace):
        T = task.gram.evaluate(y, state.W).T
        return posterior.mean_of(T), None if kind == "mean" else posterior.cov_of(T, kind == "cov")
    assert isinstance(posterior, FunctionSpace)
    M = task.matrix(y)
    values = (M @ state.gram.dense()).T
    C = posterior.seen(values)
    if full:
        C = C + task.beside(Y_task, y)
    mean = posterior.mean_of(C)
    if kind == "mean":
        return mean, None
    prior = M @ values
    if full:
        prior = prior + task.beside(y)
    return mean, posterior.cov_of(C, prior if kind == "cov" else np.diagonal(prior))


__all__ = ["State", "of_f", "of_g"]
