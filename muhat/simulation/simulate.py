"""Many simulations, from a prior and a simulator: in order, in parallel, and across interruptions."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from muhat._progress import progress_bar
from muhat._validation import as_generator, check_choice, check_count
from muhat.learning.prior_supports import states_support, support_of
from muhat.learning.supports import Support
from muhat.simulation.checkpoint import Checkpoint, Outcome
from muhat.simulation.priors import draw_prior, takes_two
from muhat.simulation.simulated import Failure, Simulated

_PRIOR, _RUN = 0, 1  # first part of the spawn keys: of the draws of θ, of the simulations


class SimulationError(RuntimeError):
    """A simulation failed, and none may, or all did.

    Attributes:
        failures: those known.
    """

    def __init__(self, message: str, failures: tuple[Failure, ...] = ()) -> None:
        super().__init__(message)
        self.failures = failures


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during :func:`simulate`.

    Attributes:
        simulations: what was done until then, or None if nothing was.
    """

    def __init__(self, message: str, simulations: Simulated | None) -> None:
        super().__init__(message)
        self.simulations = simulations


def simulate(
    simulator: Callable[..., Any],
    prior: Any,
    n: int | None = None,
    *,
    workers: int = 1,
    backend: str = "processes",
    checkpoint: str | os.PathLike[str] | None = None,
    on_error: str = "keep",
    vectorized: bool = False,
    batch: int = 100,
    random_state: Any = None,
    support: Any = None,
) -> Simulated:
    """Draw ``n`` parameters from a prior and simulate data at each.

    Every simulation has a seed of its own, so that the result depends on ``random_state`` alone: not on the
    number of workers, nor on interruptions. That holds for simulators that draw all they need from the
    generator they are given; what a simulator draws from elsewhere is its own affair.

    Args:
        simulator: a function of one θ, an array (p,), that returns a number or an array (raveled to (d,)).
            If it takes a second argument, that is a NumPy generator to draw from.
        prior: where θ comes from. A function ``prior(rng)`` of one θ or ``prior(n, rng)`` of n; a frozen
            distribution of scipy.stats; a list of such distributions, one a parameter, or a dict of them
            by name; or samples (m, p), of which the first n rows are taken. It may be any proposal.
        n: how many simulations; None for all rows of samples.
        workers: how many at a time.
        backend: of several workers: ``"processes"`` (fresh interpreters started by joblib, never forks;
            functions of a notebook and lambdas work), or ``"threads"`` (for simulators that release the
            lock, as NumPy's long operations and external programs do).
        checkpoint: a file to write every simulation to as it comes. The same call goes on where that file
            ends, after Ctrl-C, a crash or a kill, and returns the same numbers as an uninterrupted one; a
            file begun with other settings is refused. It is text and runs nothing when read.
        on_error: ``"keep"`` counts a simulation that raises or whose output is not finite among
            ``failures``, with its θ and message, and warns; ``"raise"`` stops at the first.
        vectorized: whether ``simulator`` takes rows (b, p) and returns rows (b, d), or (b,).
        batch: how many rows at a time if so; a seed each batch.
        random_state: seed or generator; with None and a checkpoint, the seed of the file.
        support: where θ can be, if ``prior`` does not say it (samples, a function): ``mh.Support``, or a list
            or dict with a pair ``(lower, upper)`` for each parameter.

    Returns:
        The simulations, in the order of the draws, with what failed and the support of the prior, which
        ``LikelihoodFree().fit`` keeps to.
    """
    if not callable(simulator):
        raise TypeError(f"simulator must be a function of θ, got {type(simulator).__name__}.")
    n = n if n is None else check_count(n, "n")
    workers, batch = check_count(workers, "workers"), check_count(batch, "batch")
    check_choice(backend, "backend", ("processes", "threads"))
    check_choice(on_error, "on_error", ("keep", "raise"))
    store = Checkpoint(checkpoint)
    seed = store.seed if random_state is None and store.seed is not None else _entropy(random_state)
    theta, names = draw_prior(prior, n, np.random.default_rng(SeedSequence(seed, spawn_key=(_PRIOR,))))
    stated = support if support is not None else prior if states_support(prior) else None
    known = None if stated is None else support_of(stated, theta, names)
    store.begin(
        {
            "simulator": getattr(simulator, "__qualname__", type(simulator).__qualname__),
            "n": len(theta),
            "batch": batch if vectorized else 1,
            "seed": seed,
            "theta": hashlib.sha256(np.ascontiguousarray(theta, dtype="<f8").tobytes()).hexdigest(),
        }
    )
    job = _Job(simulator, seed, vectorized, takes_two(simulator))
    size = batch if vectorized else 1
    parts = [np.arange(i, min(i + size, len(theta))) for i in range(0, len(theta), size)]
    left = [part for part in parts if not all(int(i) in store.outcomes for i in part)]
    try:
        width = _check_widths(store.outcomes, theta, None)
        with progress_bar("Simulating", len(theta)) as move:
            for outcomes in _run(job, theta, left, workers, backend):
                store.add(outcomes)
                width = _check_widths(outcomes, theta, width)
                if on_error == "raise":
                    _raise_failure(outcomes, theta)
                failed = sum(isinstance(outcome, str) for outcome in store.outcomes.values())
                move(len(store.outcomes), f"({failed} failed)" if failed else "")
    except KeyboardInterrupt:
        raise _interrupted(store, theta, names, seed, known) from None
    finally:
        store.close()
    if on_error == "raise":
        _raise_failure(store.outcomes, theta)
    result = _collect(store.outcomes, theta, names, seed, known)
    if result.failures:
        warnings.warn(result.summary, stacklevel=2)
    return result


class _Job:
    """What one worker does: simulate some rows with their own seed, and catch what goes wrong."""

    def __init__(
        self, simulator: Callable[..., Any], seed: list[int], vectorized: bool, seeded: bool
    ) -> None:
        self.simulator, self.seed, self.vectorized, self.seeded = simulator, seed, vectorized, seeded

    def __call__(self, theta: np.ndarray, index: np.ndarray) -> dict[int, Outcome]:
        i = [int(j) for j in index]
        sequence = SeedSequence(self.seed, spawn_key=(_RUN, i[0]))
        argument = theta.copy() if self.vectorized else theta[0].copy()  # the simulator may write into it
        try:
            more = (np.random.default_rng(sequence),) if self.seeded else ()
            x = np.asarray(self.simulator(argument, *more), dtype=np.float64)
        except Exception as error:
            return dict.fromkeys(i, f"{type(error).__name__}: {error}")
        if self.vectorized and (x.ndim == 0 or len(x) != len(i)):
            raise ValueError(
                f"simulator returned shape {x.shape} for {len(i)} rows of θ: return one row for each, or "
                "leave vectorized out."
            )
        return {j: _finite(row) for j, row in zip(i, x.reshape(len(i), -1), strict=True)}


def _finite(row: np.ndarray) -> Outcome:
    bad = int((~np.isfinite(row)).sum())
    if not bad:
        return row
    return f"the output has {bad} of {row.size} numbers that are NaN or infinite"


def _run(
    job: _Job, theta: np.ndarray, parts: list[np.ndarray], workers: int, backend: str
) -> Iterator[dict[int, Outcome]]:
    """Outcomes of the parts as they come."""
    if workers == 1 or len(parts) <= 1:
        yield from (job(theta[part], part) for part in parts)
        return
    from joblib import Parallel, delayed

    name = {"processes": "loky", "threads": "threading"}[backend]
    parallel: Any = Parallel(n_jobs=workers, backend=name, return_as="generator_unordered")
    try:
        yield from parallel(delayed(job)(theta[part], part) for part in parts)
    except BrokenExecutor as error:
        raise SimulationError(
            "A worker process died in the middle of a simulation, which no Python error explains: memory ran "
            "out, or the simulator crashed. With checkpoint=path the same call goes on where it ended; try "
            "fewer workers."
        ) from error


def _entropy(random_state: Any) -> list[int]:
    """What seeds everything, as whole numbers of 32 bits."""
    if (
        isinstance(random_state, (int, np.integer))
        and not isinstance(random_state, bool)
        and random_state >= 0
    ):
        return [int(random_state)]
    return [int(k) for k in as_generator(random_state).integers(2**32, size=4)]


def _check_widths(outcomes: dict[int, Outcome], theta: np.ndarray, width: int | None) -> int | None:
    for i, x in outcomes.items():
        if isinstance(x, str):
            continue
        if width is not None and x.size != width:
            raise ValueError(
                f"simulator returned {x.size} numbers at θ = {theta[i].tolist()} and {width} elsewhere: "
                "return as many each time (of a series of varying length, summary statistics)."
            )
        width = x.size
    return width


def _raise_failure(outcomes: dict[int, Outcome], theta: np.ndarray) -> None:
    failures = _failures(outcomes, theta)
    if failures:
        first = failures[0]
        raise SimulationError(
            f"Simulation {first.index} failed at θ = {first.theta.tolist()}: {first.message}. Mend the "
            'simulator or the prior, or pass on_error="keep" to go on and count failures.',
            failures,
        )


def _failures(outcomes: dict[int, Outcome], theta: np.ndarray) -> tuple[Failure, ...]:
    return tuple(Failure(i, theta[i], x) for i, x in sorted(outcomes.items()) if isinstance(x, str))


def _collect(
    outcomes: dict[int, Outcome],
    theta: np.ndarray,
    names: list[str],
    seed: list[int],
    support: Support | None,
) -> Simulated:
    failures = _failures(outcomes, theta)
    done = sorted(i for i, x in outcomes.items() if not isinstance(x, str))
    if not done:
        raise SimulationError(
            f"All {len(failures)} simulations failed, the first at θ = {failures[0].theta.tolist()}: "
            f"{failures[0].message}. Try simulator at that θ by hand.",
            failures,
        )
    return Simulated(
        theta[done],
        np.stack([outcomes[i] for i in done]),
        failures,
        np.array(done),
        len(theta),
        names,
        seed,
        support,
    )


def _interrupted(
    store: Checkpoint, theta: np.ndarray, names: list[str], seed: list[int], support: Support | None
) -> SimulationInterrupted:
    some = any(not isinstance(x, str) for x in store.outcomes.values())
    partial = _collect(store.outcomes, theta, names, seed, support) if some else None
    if store.path is not None:
        advice = f"they are in {str(store.path)!r}, and the same call goes on from there"
    else:
        advice = "they are in the attribute simulations of this error; give checkpoint=path to go on later"
    return SimulationInterrupted(
        f"Interrupted after {len(store.outcomes)} of {len(theta)} simulations: {advice}.", partial
    )
