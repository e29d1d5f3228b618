"""Learning a kernel by its marginal pseudolikelihood [F16, Section 4]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muhat._validation import as_generator, check_count
from muhat.kernels.base import Kernel
from muhat.learning.problem import Problem, make_problem

# Lengthscales tried first, in units of the median heuristic; other parameters start as given.
MULTIPLES = np.geomspace(1 / 50, 2, 8)
# How far lengthscales may go from the median heuristic, and other parameters from their start.
LEAST, MOST, REACH = 1e-3, 10.0, 1e3

# The loss where the likelihood is not finite.
WRONG = 1e10
# Of the quasi-Newton method, in units of the log likelihood of one row.
STOP = {"ftol": 1e-8, "gtol": 1e-4, "maxiter": 100}


@dataclass(frozen=True)
class LearnedKernel:
    """A kernel learned from a sample.

    Attributes:
        kernel: the learned kernel.
        noise: τ², the variance of ``k(x, z)`` about ``μ(z)`` in the model.
        log_likelihood: the log pseudolikelihood at the maximum.
        points: the points z, (m, d).
        starts: one row a start that was followed to its maximum: the multiple of the median lengthscale
            where it began, log likelihood there, log likelihood at its end.
        path: the multiples tried and their log likelihood, (s, 2).
        parameters: name → learned value.
    """

    kernel: Kernel
    noise: float
    log_likelihood: float
    points: np.ndarray = field(repr=False)
    starts: np.ndarray = field(repr=False)
    path: np.ndarray = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)


def learn_kernel(
    X: Any,
    kernel: Kernel | None = None,
    *,
    points: Any = None,
    noise: float | None = None,
    ard: bool = False,
    starts: int = 3,
    random_state: Any = 0,
) -> LearnedKernel:
    """The kernel under which the sample ``X`` has the largest marginal pseudolikelihood [F16].

    Unsupervised: no labels, no second sample. The lengthscales that it finds are about the distance
    between neighbouring points z, where the data has no scale of its own, and the scale of clusters,
    where it has: the median heuristic looks at the distance between any two points. As a function of
    the lengthscale the pseudolikelihood has several maxima; the best of several is taken.

    Units do not matter (ν is Lebesgue measure in units of the columns' standard deviations), and neither
    does the order of the rows.

    Args:
        X: (n, d): an array or a data frame. Text columns are categories; their kernel is kept.
        kernel: any kernel with parameters, all of which are learned; lengthscales start from the median
            heuristic and from the given values. None for the default kernel (a Gaussian on columns of
            unit variance times a Delta on each category), with one multiple of its lengthscales.
        points: how many rows, drawn at random, are held out as the points z, or the points themselves,
            (m, d). By default ``1.5 D √n``, at most 128. More points see smaller scales.
        noise: τ² of eq. (15). None to learn it, by the amplitude of the kernel at noise 1: with τ² free
            in eq. (15) there is no maximum (see :func:`muhat.learning.pseudolikelihood`).
        ard: one lengthscale a column.
        starts: how many of the best starting points are followed.
        random_state: seed of the choice of the points.
    """
    starts = check_count(starts, "starts")
    rng = as_generator(random_state)
    problem = make_problem(X, kernel, points, noise, ard, rng)
    return maximise(problem, starts, rng)


def maximise(problem: Problem, starts: int, rng: np.random.Generator) -> LearnedKernel:
    """The best of the maxima reached from the ``starts`` best starting points."""
    from scipy.optimize import minimize

    n = len(problem.X)
    both = problem.value_and_grad()
    bounds = _bounds(problem)

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = both(v)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return WRONG, np.zeros_like(v)  # a line search steps back from here
        return -float(value) / n, -gradient / n

    candidates = starting_points(problem, rng)
    values = np.array([loss(v)[0] for _, v in candidates])
    if not (values < WRONG).any():
        raise ValueError(
            "The pseudolikelihood is not finite at any lengthscale tried: rows may coincide with too few "
            "distinct points. Pass other points, or a kernel with fixed lengthscale to the model."
        )
    followed = []
    for i in _peaks(values)[:starts]:
        found = minimize(loss, candidates[i][1], jac=True, method="L-BFGS-B", bounds=bounds, options=STOP)
        followed.append((candidates[i][0], -n * values[i], -n * float(found.fun), found.x))
    best = max(followed, key=lambda row: row[2])[3]
    path = np.array([(m, -n * v) for (m, _), v in zip(candidates, values, strict=True)])
    table = np.array([row[:3] for row in followed])
    return _result(problem, best, float(table[:, 2].max()), table, path)


def _result(
    problem: Problem, v: np.ndarray, value: float, starts: np.ndarray, path: np.ndarray
) -> LearnedKernel:
    q = problem.ties.shape[1]
    kernel = problem.kernel(v[:q])
    noise = float(np.exp(v[q])) if problem.noise is None else problem.noise
    parts = problem.parameters.split(np.exp(problem.parameters.vector(kernel)))
    parameters = dict(zip(problem.parameters.names, parts, strict=True))
    return LearnedKernel(kernel, noise, value, problem.Z, starts, path, parameters)


def _lengths(problem: Problem) -> np.ndarray:
    """For each free number, whether it moves lengthscales, (q,)."""
    return (problem.parameters.is_lengthscale() @ problem.ties) > 0


def _bounds(problem: Problem) -> list[tuple[float, float]]:
    out = [
        (np.log(LEAST), np.log(MOST)) if length else (-np.log(REACH), np.log(REACH))
        for length in _lengths(problem)
    ]
    return out if problem.noise is not None else [*out, (np.log(1e-12), np.log(1e12))]


def _candidates(problem: Problem, rng: np.random.Generator) -> list[tuple[float, np.ndarray]]:
    """Starting points: the multiples of the median, and the kernel as given."""
    lengths = _lengths(problem)
    several = sum(name.endswith("lengthscale") for name in problem.parameters.names) > 1
    out = []
    for multiple in MULTIPLES:
        u = np.where(lengths, np.log(multiple), 0.0)
        if several:  # equal terms of a sum would stay equal
            u = u + lengths * rng.normal(scale=0.7, size=len(u))
        out.append((float(multiple), u))
    if problem.given is not None:
        # Where lengthscales were asked for by name, this is the multiple 1.
        out.append((float("nan"), problem.given - problem.base))
    return out


def starting_points(problem: Problem, rng: np.random.Generator) -> list[tuple[float, np.ndarray]]:
    """Multiples of the median lengthscale (NaN: the kernel as given), and v there, with its usual noise."""
    low, high = np.array(_bounds(problem)).T
    out = []
    for multiple, u in _candidates(problem, rng):
        v = u if problem.noise is not None else np.append(u, np.log(problem.usual_noise(u)))
        out.append((multiple, np.clip(v, low, high)))
    return out


def _peaks(values: np.ndarray) -> list[int]:
    """Which starting points to follow, best first: those that are no worse than their neighbours."""
    padded = np.pad(values, 1, constant_values=np.inf)
    peak = (values <= padded[:-2]) & (values <= padded[2:]) & (values < WRONG)
    return [int(i) for i in np.argsort(values, kind="stable") if peak[i]]


__all__ = ["LearnedKernel", "learn_kernel", "maximise", "starting_points"]
