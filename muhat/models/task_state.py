"""The posterior of a task-transformed Gaussian process at one set of parameters, and what is read from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muhat._array import Array
from muhat.engine import Rows, digest, reduce_rows
from muhat.gram import Gram, LowRankGram, as_dense
from muhat.models.bayesian_embedding import _draw
from muhat.operators.deconditional import (
    Deconditional,
    FunctionSpace,
    Transformation,
    WeightSpace,
    cheapest_form,
    function_space,
    input_space,
    split_triangle,
    sums_of,
    triangle,
    weight_space,
)

# Rows that are predicted at a time.
BLOCK_ROWS = 4096


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


def of_task(gram: Gram, task: Transformation, Y: Any, z: np.ndarray) -> State:
    """The posterior from pairs in memory and ``z`` (m,) seen at ``Y`` (m, k), in its cheapest form."""
    n, m, full, variance = gram.shape[0], len(z), task.full, task.variance
    p = gram.Phi.shape[1] if isinstance(gram, LowRankGram) else None
    form = cheapest_form(n, m, p, full)
    if p is not None and (task.low_rank or not full) and form != "input":
        return _in_weights(gram, task, Y, z)
    if form == "function":
        Sigma = task.beside(Y) + variance * np.eye(m) if full else np.full(m, variance)
        return State(gram, function_space(gram.dense(), task.matrix(Y), Sigma, z), task, None)
    return State(gram, input_space(gram.dense(), task.blocks(Y, z), variance), task, None)


def _in_weights(gram: Gram, task: Transformation, Y: Any, z: np.ndarray) -> State:
    features = gram.factor()
    W = task.coefficients(features.Phi)
    return State(gram, weight_space(features, task.sums(W, Y, z)), task, W)


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


def answer(
    states: list[State], A: np.ndarray, of: Any, return_std: bool, return_cov: bool, offset: float
) -> Any:
    """Means of ``of`` at the rows of ``A`` about ``offset``, and what else is asked for, in blocks."""
    if return_std and return_cov:
        raise ValueError("Ask for return_std or for return_cov, not for both: the latter holds the former.")
    kind = "cov" if return_cov else "var" if return_std else "mean"
    size = max(len(A), 1) if return_cov else BLOCK_ROWS
    parts = [mixed(states, A[i : i + size], kind, of) for i in range(0, len(A), size)]
    mean = np.concatenate([p[0] for p in parts]) + offset
    if kind == "mean":
        return mean
    if kind == "var":
        return mean, np.sqrt(np.maximum(np.concatenate([p[1] for p in parts]), 0.0))
    cov = parts[0][1]
    return mean, (cov + cov.T) / 2


def triangle_of_rows(state: State, X: Rows, z: Rows, offset: float, saved: Any) -> tuple[Array, int]:
    """The triangle of [M z] over all rows, whose posterior is that of all, and their number: one pass."""
    task: Any = state.task
    label = "rows " + digest(
        task.gram.kernel, np.asarray(task.gram.points), np.asarray([task.variance, offset])
    )

    def rows(A: Array, values: Array) -> Array:
        M = as_dense(task.matrix(np.asarray(A, dtype=np.float64)))
        return np.column_stack([M, values[:, 0] - offset])

    return _triangle(rows, X, z, ("X", "z"), len(task.gram), saved, label)


def triangle_of_pairs(state: State, X: Rows, Y: Rows, offset: float, saved: Any) -> tuple[Array, int]:
    """The triangle of the features [Ψ Φ] of y and x over all pairs, and their number: one pass.

    Its products ΨᵀΨ and ΨᵀΦ are those of all pairs, so that it stands for them.
    """
    task: Any = state.task
    of_x: Any = state.gram.kernel
    of_y: Any = task.gram.kernel

    def rows(A: Array, B: Array) -> Array:
        return np.column_stack([of_y.features(B), of_x.features(A)])

    gram: Any = state.gram
    label, width = "pairs " + digest(of_x, of_y), gram.Phi.shape[1] + task.gram.Phi.shape[1]
    return _triangle(rows, X, Y, ("X", "Y"), width, saved, label)


def _triangle(
    rows: Any, X: Rows, Y: Rows, names: tuple[str, str], width: int, saved: Any, label: str
) -> tuple[Array, int]:
    def work(start: int, A: Array, B: Array) -> tuple[Array, Array]:
        return triangle(rows(A, B)), np.array(len(A))

    def combine(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, Array]:
        return triangle(np.concatenate([a[0], b[0]])), a[1] + b[1]

    found, count = reduce_rows(work, combine, X, Y, names=names, width=width, checkpoint=saved, label=label)
    return found, int(count)


def of_pairs(gram: Gram, task: Transformation, found: tuple[Array, int], Y: Any, z: Array) -> State:
    """The posterior from the triangle of pairs that were not kept, in weight space."""
    stack, _ = found
    q = task.gram.Phi.shape[1]  # type: ignore[attr-defined]
    stack = stack[:q] if len(stack) >= stack.shape[1] else stack  # below it nothing is of y
    task = Transformation.of(LowRankGram(stack[:, :q], task.gram.kernel), task.variance, task.full)
    return _in_weights(LowRankGram(stack[:, q:], gram.kernel), task, Y, z)


def summed(gram: Gram, task: Transformation, found: tuple[Array, int], variance: float) -> State:
    """The posterior from the triangle of rows that were not kept."""
    R, q, rest = split_triangle(*found, variance)
    posterior = function_space(gram.dense(), R, np.asarray(variance), q)
    return State(gram, replace(posterior, log_likelihood=posterior.log_likelihood + rest), task, None)


__all__ = [
    "State",
    "answer",
    "combined",
    "drawn",
    "mixed",
    "of_f",
    "of_g",
    "of_pairs",
    "of_task",
    "summed",
    "triangle_of_pairs",
    "triangle_of_rows",
]
