"""The posterior of a task-transformed Gaussian process at one set of parameters, and what is read from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muhat._array import Array
from muhat.gram import Gram, LowRankGram
from muhat.models.bayesian_embedding import _draw
from muhat.operators.deconditional import (
    Deconditional,
    FunctionSpace,
    Transformation,
    WeightSpace,
    cheapest_form,
    function_space,
    input_space,
    sums_of,
    weight_space,
)


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


def combined(gram: Gram, M: np.ndarray | None, z: np.ndarray, noise: np.ndarray) -> Deconditional:
    """The posterior where M is given; ``noise`` is Σ, or its diagonal."""
    p = gram.Phi.shape[1] if isinstance(gram, LowRankGram) else None
    form = cheapest_form(gram.shape[0], len(z), p, noise.ndim == 2)
    if form == "weight":
        features = gram.factor()
        return weight_space(features, sums_of(features.Phi if M is None else M @ features.Phi, z, noise))
    if form == "function" or M is None:
        return function_space(gram.dense(), M, noise, z)
    scale = 1 / np.sqrt(noise)  # in units of the noise
    found = input_space(gram.dense(), [(M * scale[:, None], z * scale)], 1.0)
    return replace(found, log_likelihood=found.log_likelihood + np.log(scale).sum())


def mixed(states: list[State], rows: np.ndarray, kind: str, of: Any) -> tuple[np.ndarray, Any]:
    """``of(state, rows, kind)`` over equally likely states: mean, and variances or covariance in all.

    These are the mean of those of the states and, by the law of total variance, that of their means.
    """
    parts = [of(state, rows, kind) for state in states]
    if len(parts) == 1:
        return parts[0]
    means = np.stack([mean for mean, _ in parts])
    mean = means.mean(axis=0)
    if kind == "mean":
        return mean, None
    apart = means - mean
    between = apart.T @ apart if kind == "cov" else (apart**2).sum(axis=0)
    return mean, (sum(spread for _, spread in parts) + between) / len(parts)


def drawn(states: list[State], x: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` functions at ``x``, (n, q), each from the posterior of one of equally likely states."""
    if len(states) == 1:
        return _draw(*of_f(states[0], x, "cov"), n, rng)
    which = rng.integers(len(states), size=n)
    out = np.empty((n, len(x)))
    for i in np.unique(which):
        out[which == i] = _draw(*of_f(states[i], x, "cov"), int((which == i).sum()), rng)
    return out


__all__ = ["State", "combined", "drawn", "mixed", "of_f", "of_g"]
