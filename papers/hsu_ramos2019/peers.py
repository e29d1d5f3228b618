"""What likelihood-free inference is compared with: each learns from simulations and returns draws.

A method takes the problem, simulations ``theta`` (n, p) and ``x`` (n, d), the observations (q, d) and a seed,
and returns draws of each posterior, (q, DRAWS, p), with the seconds of the processor that a fit and one
posterior take. Those that need another package import it when called.
"""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from importlib import import_module
from time import process_time
from typing import Any

import numpy as np

from muhat.datasets import Simulator
from muhat.datasets.simulators import LOG_MEANS, RATE, SHAPE

DRAWS = 1000
Found = tuple[np.ndarray, float]


def ours(
    task: Simulator, theta: np.ndarray, x: np.ndarray, observed: np.ndarray, seed: int, **settings: Any
) -> Found:
    """``mh.LikelihoodFree()`` with nothing given, or with one method."""
    import muhat as mh

    start = process_time()
    model = mh.LikelihoodFree(random_state=seed, **settings).fit(theta, x)
    first = np.asarray(model.sample(observed[:1], DRAWS)).reshape(1, DRAWS, -1)
    seconds = process_time() - start
    rest = [np.asarray(model.sample(row[None], DRAWS)).reshape(1, DRAWS, -1) for row in observed[1:]]
    return np.concatenate([first, *rest]), seconds


def rejection(
    task: Simulator, theta: np.ndarray, x: np.ndarray, observed: np.ndarray, seed: int, share: float = 0.05
) -> Found:
    """The nearest 5% of the simulations, each output in units of its standard deviation."""
    rng = np.random.default_rng(seed)
    start = process_time()
    spread, keep = x.std(axis=0), max(1, round(share * len(x)))
    out = []
    for row in observed:
        near = np.argsort((((x - row) / spread) ** 2).sum(axis=1), kind="stable")[:keep]
        out.append(theta[near[np.arange(DRAWS) % keep][rng.permutation(DRAWS)]])
    return np.stack(out), (process_time() - start) / len(observed)


def sbi_npe(task: Simulator, theta: np.ndarray, x: np.ndarray, observed: np.ndarray, seed: int) -> Found:
    """Neural posterior estimation of sbi with its defaults."""
    torch, inference = import_module("torch"), import_module("sbi.inference")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    logging.getLogger().setLevel(logging.ERROR)

    def tensor(a: np.ndarray) -> Any:
        return torch.as_tensor(np.asarray(a), dtype=torch.float32)

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        here = os.getcwd()
        os.chdir(folder)  # it writes its logs where it is
        try:
            start = process_time()
            trainer = inference.NPE(prior=_torch_prior(task, torch), show_progress_bars=False)
            trainer.append_simulations(tensor(theta), tensor(x)).train()
            posterior = trainer.build_posterior()
            draws, ends = [], []
            for row in observed:
                draws.append(posterior.sample((DRAWS,), x=tensor(row), show_progress_bars=False).numpy())
                ends.append(process_time())
        finally:
            os.chdir(here)
    return np.stack(draws).astype(np.float64), ends[0] - start


def _torch_prior(task: Simulator, torch: Any) -> Any:
    d, p = torch.distributions, len(task.parameters)
    ones = torch.ones(p)
    marginals = {
        "exponential_gamma": lambda: d.Gamma(SHAPE * ones, RATE * ones),
        "two_moons": lambda: d.Uniform(-ones, ones),
        "gaussian_mixture": lambda: d.Uniform(-10 * ones, 10 * ones),
        "gaussian_linear": lambda: d.Normal(0 * ones, 0.1**0.5 * ones),
        "lotka_volterra": lambda: d.LogNormal(torch.as_tensor(LOG_MEANS, dtype=torch.float32), 0.5 * ones),
    }[task.name]()
    return d.Independent(marginals, 1)


def pyabc_smc(task: Simulator, theta: np.ndarray, x: np.ndarray, observed: np.ndarray, seed: int) -> Found:
    """Sequential Monte Carlo of pyabc with as many simulations for each observation, a tenth a population."""
    package = import_module("pyabc")
    for name in ("ABC", "ABC.Sampler", "ABC.History", "ABC.Distance", "ABC.Population", "ABC.Adaptation"):
        logging.getLogger(name).setLevel(logging.ERROR)
    rng = np.random.default_rng(seed)
    np.random.seed(seed)  # noqa: NPY002 - it draws from the global state
    names = [f"t{j}" for j in range(theta.shape[1])]

    def model(parameters: Any) -> dict[str, np.ndarray]:
        return {"x": task.simulate(np.array([parameters[name] for name in names]), rng)}

    out, start = [], process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in observed:
            smc = package.ABCSMC(
                model,
                _pyabc_prior(task, package, names),
                package.AdaptivePNormDistance(p=2),
                population_size=max(20, len(theta) // 10),
                sampler=package.sampler.SingleCoreSampler(),
            )
            smc.new("sqlite://", {"x": row})
            history = smc.run(max_total_nr_simulations=len(theta))
            frame, weights = history.get_distribution()
            at = rng.choice(len(frame), DRAWS, p=np.asarray(weights) / np.sum(weights))
            out.append(frame[names].to_numpy()[at])
    return np.stack(out), (process_time() - start) / len(observed)


def _pyabc_prior(task: Simulator, package: Any, names: list[str]) -> Any:
    law = {
        "exponential_gamma": lambda j: ("gamma", SHAPE, 0.0, 1 / RATE),
        "two_moons": lambda j: ("uniform", -1.0, 2.0),
        "gaussian_mixture": lambda j: ("uniform", -10.0, 20.0),
        "gaussian_linear": lambda j: ("norm", 0.0, 0.1**0.5),
        "lotka_volterra": lambda j: ("lognorm", 0.5, 0.0, float(np.exp(LOG_MEANS[j]))),
    }[task.name]
    return package.Distribution(**{name: package.RV(*law(j)) for j, name in enumerate(names)})


METHODS = {"ours": ours, "rejection": rejection, "sbi NPE": sbi_npe, "pyabc SMC": pyabc_smc}
