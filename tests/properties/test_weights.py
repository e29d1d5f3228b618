"""A row that is there k times counts as one row of weight k, wherever weights can be given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from numpy.testing import assert_allclose

import muhat as mh

KERNEL = mh.Gaussian(1.3)
GIVEN: Any = {"kernel_x": KERNEL, "kernel_z": KERNEL, "reg": 1e-2, "reg_prior": 1e-2}


def pairs(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, outputs, points to ask about, and how often each row is there."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return (
        X,
        np.sin(X) + 0.3 * rng.standard_normal((n, d)),
        rng.standard_normal((3, d)),
        rng.integers(1, 4, n),
    )


def embedded(points: np.ndarray, counts: np.ndarray) -> mh.Embedding:
    return mh.embed(points, KERNEL, counts / counts.sum())


def both(ask: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """An answer to a distribution: of weighted points, and of repeated ones."""

    def asked(X: np.ndarray, Y: np.ndarray, query: np.ndarray, counts: np.ndarray) -> tuple[Any, Any]:
        again = np.repeat(X, counts, axis=0)
        return ask(X, Y, query, embedded(X, counts)), ask(X, Y, query, mh.embed(again, KERNEL))

    return asked


def score(X: np.ndarray, Y: np.ndarray, query: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    model = mh.ConditionalMean(KERNEL, KERNEL, 1e-2).fit(X, Y)
    again = [np.repeat(A, counts, axis=0) for A in (X, Y)]
    return model.score(X, Y, sample_weight=counts), model.score(*again)


# Not here: ulsif and rulsif have one centre at each point of the numerator, so that a repeated point has two;
# DistributionRegressor and DistributionClassifier are as sure as a bag has points, by 1/Σw², and two equal
# points are two; networks see rows in batches.
WEIGHTED: dict[str, Callable[..., tuple[Any, Any]]] = {
    "values": both(lambda X, Y, q, mu: mu(q)),
    "mean": both(lambda X, Y, q, mu: mu.mean()),
    "cov": both(lambda X, Y, q, mu: mu.cov()),
    "norm": both(lambda X, Y, q, mu: mu.norm()),
    "quantile": both(lambda X, Y, q, mu: mu.quantile([0.1, 0.5, 0.9])),
    "histogram": both(lambda X, Y, q, mu: mu.histogram(bins=5)[0]),
    "expect": both(lambda X, Y, q, mu: mu.expect(lambda x: np.sin(x[:, 0]))),
    "herd": both(lambda X, Y, q, mu: mu.herd(3)),
    "density": both(lambda X, Y, q, mu: mu.density([np.linspace(-3, 3, 9)] * len(q[0]), 0.1, KERNEL).pdf(q)),
    "mmd": both(lambda X, Y, q, mu: mh.mmd(mu, mh.embed(Y, KERNEL))),
    "ConditionalMean.push": both(lambda X, Y, q, mu: _model(X, Y).push(mu).mean()),
    "ConditionalMean.chain": both(lambda X, Y, q, mu: _model(X, Y).chain(mu).mean()),
    "ConditionalMean.score": score,
    "ConditionalDensity.at": both(
        lambda X, Y, q, mu: mh.ConditionalDensity(KERNEL, KERNEL, 1e-2, 1e-2).fit(X, Y).at(mu).pdf(q)
    ),
    "DensityRatio": both(lambda X, Y, q, mu: mh.DensityRatio(kernel=KERNEL, reg=1e-2).fit(mu, Y).predict(q)),
    **{
        f"KernelBayes {rule}": both(
            lambda X, Y, q, mu, rule=rule: mh.KernelBayes(rule, **GIVEN).fit(Y, X).posterior(q, mu).mean()
        )
        for rule in ("importance", "kbr_a", "kbr_b", "deconditional")
    },
    "KernelBayesFilter": both(
        lambda X, Y, q, mu: (
            mh.KernelBayesFilter(**GIVEN, reg_transition=1e-2).fit(X, Y).filter(q, initial=mu).mean()
        )
    ),
}


def _model(X: np.ndarray, Y: np.ndarray) -> mh.ConditionalMean:
    return mh.ConditionalMean(KERNEL, KERNEL, 1e-2).fit(X, Y)


@pytest.mark.filterwarnings("ignore::UserWarning")  # advice, which so few rows earn
@pytest.mark.parametrize("case", WEIGHTED)
def test_weights_count_rows(case: str) -> None:
    def body(seed: int, n: int, d: int) -> None:
        weighted, repeated = WEIGHTED[case](*pairs(seed, n, d))
        largest = float(np.abs(repeated).max())
        assert_allclose(weighted, repeated, rtol=0, atol=1e-7 * largest)

    examples(4)(given(st.integers(0, 9999), st.sampled_from([9, 24]), st.integers(1, 2))(body))()


# λ is on the operator scale, an average over rows: all rows twice say what they said.
TWICE: dict[str, Callable[..., Any]] = {
    "ConditionalMean": lambda X, Y, q: _model(X, Y).predict(q),
    "ConditionalDensity": lambda X, Y, q: (
        mh.ConditionalDensity(KERNEL, KERNEL, 1e-2, 1e-2, [np.linspace(-3, 3, 9)] * len(q[0]))
        .fit(X, Y)
        .pdf(q, q)
    ),
    "DensityRatio": lambda X, Y, q: mh.DensityRatio(kernel=KERNEL, reg=1e-2).fit(X, Y).predict(q),
    **{
        f"KernelBayes {rule}": lambda X, Y, q, rule=rule: (
            mh.KernelBayes(rule, **GIVEN).fit(X, Y).posterior(q, Y[:5]).mean()
        )
        for rule in ("importance", "kbr_a", "kbr_b", "deconditional")
    },
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", TWICE)
def test_all_rows_twice_say_no_more(case: str) -> None:
    def body(seed: int, n: int, d: int) -> None:
        X, Y, query, _ = pairs(seed, n, d)
        once, twice = (TWICE[case](*(np.concatenate([A] * k) for A in (X, Y)), query) for k in (1, 2))
        assert_allclose(twice, once, rtol=0, atol=1e-6 * float(np.abs(once).max()))

    examples(4)(given(st.integers(0, 9999), st.sampled_from([9, 24]), st.integers(1, 2))(body))()
