"""Message operators: the experiments of [JIT15] that [G15] shows.

``python -m papers.gretton2015 --experiment batch``, ``toy``, ``uci`` or ``gamma`` (about half an hour on one
core for all, most of it the importance sampler alone).

- batch: messages of the logistic factor from EP on 20 data sets, 5000 to learn from and 3000 to test; log KL
  from the exact belief to the predicted one, beside forests and exact Gaussian processes.
- toy: 30 problems with the same weights one after the other; how often the oracle is asked.
- uci: four real problems one after the other; error, posterior, calls and time beside the oracle alone.
- gamma: the compound Gamma factor, one message a problem.

The oracle in toy and uci is importance sampling with 500 000 particles from N(0, 200). The exact belief is by
quadrature.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import muhat as mh
from muhat.datasets.uci_binary import uci_binary
from muhat.messages import (
    Beta,
    Gamma,
    Normal,
    Tuples,
    compound_gamma_quadrature,
    logistic_ep,
    logistic_importance,
    logistic_quadrature,
)
from muhat.report.plots import BLUE, CYCLE, RED, SOFT, new_figure
from papers.output import legend, letter, save_figure, save_table, show

PUBLISHED = {"ours": -8.97, "extra trees": -8.90}
PROBLEMS = ("banknote", "blood_transfusion", "fertility", "ionosphere")
Messages = tuple[Normal, Beta]


# -- batch --------------------------------------------------------------------------------------


def logistic_problem(n: int, w: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows from N(0, I) with labels of logistic regression with weights ``w``."""
    X = rng.standard_normal((n, len(w)))
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-X @ w))).astype(int)


def collect(sets: int, n: int, d: int, rng: np.random.Generator) -> tuple[Messages, Normal]:
    """All messages of the first five iterations of EP, and their exact beliefs."""
    parts: list[tuple[Messages, Normal]] = []
    for _ in range(sets):
        X, y = logistic_problem(n, rng.standard_normal(d), rng)
        logistic_ep(X, y, logistic_quadrature, 5, tol=0.0, block=1, watch=lambda m, b: parts.append((m, b)))
    z = [np.concatenate([getattr(m[0], name) for m, _ in parts]) for name in ("mean", "var")]
    p = [np.concatenate([getattr(m[1], name) for m, _ in parts]) for name in ("a", "b")]
    b = [np.concatenate([getattr(belief, name) for _, belief in parts]) for name in ("mean", "var")]
    return (Normal(*z), Beta(*p)), Normal(*b)


def _columns(messages: Messages) -> np.ndarray:
    z, p = messages
    return np.stack([z.mean, np.log(z.var), p.a - p.b], axis=1)


def _forest(model: Any) -> Callable[..., np.ndarray]:
    def learn(train: Messages, Y: np.ndarray, test: Messages) -> np.ndarray:
        return model.fit(_columns(train), Y).predict(_columns(test))

    return learn


def _process(train: Messages, Y: np.ndarray, test: Messages) -> np.ndarray:
    """Kernel of mean, log variance and label; its parameters from 500 messages, then all of them."""
    scale = Y.std(axis=0)
    scales: Any = [1.0, 1.0, 1.0]
    kernel = ConstantKernel(10.0, (1e-2, 1e6)) * RBF(scales, (1e-2, 1e3)) + WhiteKernel(1e-6, (1e-10, 1.0))
    A = _columns(train)
    with warnings.catch_warnings():  # its noise is at the bound: the answers are exact
        warnings.simplefilter("ignore", ConvergenceWarning)
        small = GaussianProcessRegressor(kernel).fit(A[:500], Y[:500] / scale)
    keep: Any = None
    process = GaussianProcessRegressor(small.kernel_, optimizer=keep).fit(A, Y / scale)
    return process.predict(_columns(test)) * scale


def _operator(**options: Any) -> Callable[..., np.ndarray]:
    def learn(train: Messages, Y: np.ndarray, test: Messages) -> np.ndarray:
        pair = (mh.Fourier(500), mh.Fourier(1000))
        model = mh.MessageOperator(to=None, representation=pair, random_state=0, **options)
        return model.fit(train, Y).predict(test)

    return learn


def _medians(train: Messages, Y: np.ndarray, test: Messages) -> np.ndarray:
    """As published online: median lengthscales, noise of variance 1e-4."""
    sample = Tuples(train).select(np.arange(500))
    inner = mh.Gaussian("median").resolve(sample.pool())
    chosen = mh.Fourier(500).fit(inner, sample.pool(), np.random.default_rng(0))
    U = sample.mean_features(chosen)
    outer = mh.Gaussian("median").resolve(U)
    return _operator(kernel=outer, inner=inner, noise=0.01)(train, Y, test)


def batch(out: Path, quick: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, n, learn_from, tested = (3, 100, 500, 300) if quick else (20, 300, 5000, 3000)
    messages, beliefs = collect(sets, n, 20, rng)
    order = rng.permutation(len(beliefs))
    train, test = order[:learn_from], order[learn_from : learn_from + tested]
    tuples = Tuples(messages)
    learn, ask = tuples.select(train).parts, tuples.select(test).parts
    peers: dict[str, Callable[..., np.ndarray]] = {
        "ours": _operator(),
        "ours, Gaussian inner kernel": _operator(inner=mh.Gaussian("scaled")),
        "ours, median lengthscales, noise .01": _medians,
        "Gaussian process on parameters": _process,
        "extra trees": _forest(ExtraTreesRegressor(100, random_state=0)),
        "random forest": _forest(RandomForestRegressor(100, random_state=0)),
    }
    # What is learned of the belief: how it differs from the incoming message, or itself, as published.
    targets = {
        "relative": (beliefs.relative_to(messages[0]), lambda Y: Normal.moved(messages[0].select(test), Y)),
        "absolute": (
            np.stack([beliefs.mean, np.log(beliefs.var)], axis=1),
            lambda Y: Normal(Y[:, 0], np.exp(Y[:, 1])),
        ),
    }
    rows, drawn = [], {}
    for name, learned in peers.items():
        row: dict[str, Any] = {"method": name}
        for kind, (Y, belief) in targets.items():
            start = process_time()
            log_kl = np.log(beliefs.select(test).kl(belief(learned(learn, Y[train], ask))) + 1e-300)
            row |= {kind: float(log_kl.mean()), f"{kind} sd": float(log_kl.std())}
            row |= {f"{kind} worst 1%": float(np.quantile(log_kl, 0.99)), f"{kind} s": process_time() - start}
            drawn[name, kind] = log_kl
        row["published"] = PUBLISHED.get(name, float("nan"))
        rows.append(row)
    # The importance sampler's own error, and what is learned from its answers alone.
    count = 30 if quick else 300
    sampler = logistic_importance(20_000 if quick else 500_000, errors=True, random_state=seed)
    start = process_time()
    answers, errors = sampler(tuples.select(train[:count]).parts)
    seconds = process_time() - start
    error = np.log(beliefs.select(train[:count]).kl(answers))
    rows.append(_row("importance sampler itself", error, seconds))
    if not quick:
        model = mh.MessageOperator(to=0, representation=(mh.Fourier(500), mh.Fourier(1000)), random_state=0)
        start = process_time()
        model.fit(tuples.select(train[:count]).parts, answers, errors)
        error = np.log(beliefs.select(test).kl(model.predict(ask)))
        rows.append(_row(f"ours, from {count} answers of the sampler", error, process_time() - start))
    columns = ("method", "relative", "relative sd", "absolute", "absolute sd", "published")
    show("log KL of beliefs", [{key: row[key] for key in columns} for row in rows])
    save_table(rows, out / "messages_batch.csv")
    _draw_batch(drawn, out / "messages_batch.png")


def _row(name: str, log_kl: np.ndarray, seconds: float) -> dict[str, Any]:
    nan = float("nan")
    return {
        "method": name,
        "relative": float(log_kl.mean()),
        "relative sd": float(log_kl.std()),
        "relative worst 1%": float(np.quantile(log_kl, 0.99)),
        "relative s": seconds,
        **{f"absolute{end}": nan for end in ("", " sd", " worst 1%", " s")},
        "published": nan,
    }


def _draw_batch(drawn: dict[tuple[str, str], np.ndarray], path: Path) -> None:
    figure, (axes,) = new_figure(1, 2, sharey=True, sharex=True)
    kinds = (("relative", "relative to the incoming message"), ("absolute", "mean and log variance"))
    for ax, name, (kind, title) in zip(axes, "ab", kinds, strict=True):
        for i, method in enumerate(("ours", "Gaussian process on parameters", "extra trees")):
            ax.hist(drawn[method, kind], bins=60, histtype="step", color=CYCLE[i], label=method)
        ax.axvline(PUBLISHED["ours"], color=SOFT, linestyle=":", label="published mean")
        ax.set_xlabel("log KL")
        letter(ax, name, title)
    legend(axes[0])
    save_figure(figure, path)


# -- online -------------------------------------------------------------------------------------


def _gap(found: Any, exact: Any) -> tuple[float, float]:
    """Largest error of a posterior mean, in standard deviations, and of a log standard deviation."""
    var, other = np.diagonal(exact.cov), np.diagonal(found.cov)
    means = np.abs(found.mean - exact.mean) / np.sqrt(var)
    return float(means.max()), float(np.abs(0.5 * np.log(other / var)).max())


class Watched:
    """An operator that keeps, for every message, how unsure it was and whether it asked."""

    def __init__(self, operator: mh.MessageOperator) -> None:
        self.operator, self.std, self.asked, self.starts = operator, [], [], []

    def __call__(self, messages: Any) -> Any:
        sent = self.operator.send(messages)
        self.std.append(sent.std)
        self.asked.append(sent.asked)
        return sent.belief

    def begin(self) -> None:
        """A new problem."""
        self.starts.append(sum(map(len, self.std)))


def toy(out: Path, quick: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems, particles = (3, 20_000) if quick else (30, 500_000)
    w = rng.standard_normal(20)
    X_test, y_test = logistic_problem(10_000, w, rng)
    operator = mh.MessageOperator(
        logistic_importance(particles, errors=True, random_state=seed), random_state=seed
    )
    watched = Watched(operator)
    rows = []
    for i in range(problems):
        X, y = logistic_problem(300, w, rng)
        watched.begin()
        calls, spent = (getattr(operator, name, 0) for name in ("oracle_calls_", "oracle_seconds_"))
        start = perf_counter()
        found = logistic_ep(X, y, watched, 10, tol=0.0)
        seconds = perf_counter() - start
        exact = logistic_ep(X, y, logistic_quadrature, 10, tol=0.0)
        mean, sd = _gap(found, exact)
        rows.append(
            {
                "problem": i + 1,
                "error": float(np.mean(found.predict(X_test) != y_test)),
                "error, exact": float(np.mean(exact.predict(X_test) != y_test)),
                "mean off, sds": mean,
                "log sd off": sd,
                "calls": operator.oracle_calls_ - calls,
                "messages": 3000,
                "oracle s": operator.oracle_seconds_ - spent,
                "all s": seconds,
            }
        )
    show("30 problems", rows[:3] + rows[-1:])
    save_table(rows, out / "messages_toy.csv")
    _draw_trace(watched, operator, out / "messages_toy.png")


def uci(out: Path, quick: bool, seed: int) -> None:
    particles = 20_000 if quick else 500_000
    operator = mh.MessageOperator(
        logistic_importance(particles, errors=True, random_state=seed),
        warm_up=500,
        max_std=float(np.sqrt(np.exp(-9) - 1e-4)),  # a log variance of −9, noise of 1e-4 included
        random_state=seed,
    )
    watched, alone = Watched(operator), logistic_importance(particles, random_state=seed + 1)
    rows = []
    for name in PROBLEMS[: 2 if quick else 4]:
        X, y, train = uci_binary(name)
        watched.begin()
        calls, spent = (getattr(operator, key, 0) for key in ("oracle_calls_", "oracle_seconds_"))
        start = perf_counter()
        found = logistic_ep(X[train], y[train], watched, 10, tol=0.0)
        seconds = perf_counter() - start
        start = perf_counter()
        sampled = logistic_ep(X[train], y[train], alone, 10, tol=0.0)
        sampled_seconds = perf_counter() - start
        exact = logistic_ep(X[train], y[train], logistic_quadrature, 10, tol=0.0)
        wrong = [float(np.mean(m.predict(X[~train]) != y[~train])) for m in (found, sampled, exact)]
        gaps = _gap(found, exact), _gap(sampled, exact)
        rows.append(
            {
                "problem": name,
                "error": wrong[0],
                "error, oracle alone": wrong[1],
                "error, exact": wrong[2],
                "mean off, sds": gaps[0][0],
                "mean off, oracle alone": gaps[1][0],
                "log sd off": gaps[0][1],
                "log sd off, oracle alone": gaps[1][1],
                "messages": 10 * int(train.sum()),
                "calls": operator.oracle_calls_ - calls,
                "oracle s": operator.oracle_seconds_ - spent,
                "all s": seconds,
                "oracle alone s": sampled_seconds,
                "failures": len(operator.log_),
            }
        )
        save_table(rows, out / "messages_uci.csv")
    columns = ("problem", "error", "error, oracle alone", "calls", "messages", "all s", "oracle alone s")
    show("Four problems", [{key: row[key] for key in columns} for row in rows])
    _draw_trace(watched, operator, out / "messages_uci.png", PROBLEMS)


def _draw_trace(
    watched: Watched, operator: mh.MessageOperator, path: Path, names: tuple[str, ...] = ()
) -> None:
    std, asked = np.concatenate(watched.std), np.concatenate(watched.asked)
    figure, axes = new_figure(2, 1, height=4.5, sharex=True)
    axes = axes[:, 0]
    warm = np.isinf(std)
    axes[0].plot(np.flatnonzero(~warm), 2 * np.log(std[~warm]), ",", color=BLUE)
    axes[0].axhline(2 * np.log(operator.max_std), color=RED, linewidth=0.8, label="asks above")
    axes[0].set_ylabel("log predictive variance")
    axes[1].plot(np.cumsum(asked), color=BLUE)
    axes[1].set(xlabel="message", ylabel="calls of the oracle")
    for i, start in enumerate(watched.starts):
        for ax in axes:
            ax.axvline(start, color=SOFT, linewidth=0.4)
        if i < len(names):
            axes[0].text(start, 1.02, names[i], transform=axes[0].get_xaxis_transform(), fontsize=8)
    legend(axes[0])
    save_figure(figure, path)


# -- compound Gamma -----------------------------------------------------------------------------


def gamma(out: Path, quick: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems = 300 if quick else 2000
    exact = compound_gamma_quadrature()
    operator = mh.MessageOperator(exact, warm_up=100, random_state=seed)
    rows, kl, asked = [], np.empty(problems), np.empty(problems, dtype=bool)
    means = np.empty((problems, 2))
    for i in range(problems):
        n = int(rng.integers(10, 101))
        tau = rng.gamma(1.0) / rng.gamma(1.0)
        x = rng.normal(0, tau**-0.5, n)
        # The likelihood of a precision is a Gamma message.
        message = Gamma(n / 2 + 1, 0.5 * (x**2).sum())
        sent, truth = operator.send((message,)), exact((message,))
        kl[i], asked[i] = truth.kl(sent.belief)[0], sent.asked[0]
        means[i] = [b.shape[0] / b.rate[0] for b in (sent.belief, truth)]
    for last in np.array_split(np.arange(problems), 10):
        own = kl[last][~asked[last]]
        rows.append(
            {
                "problems": int(last[-1]) + 1,
                "calls": int(asked[last].sum()),
                "log KL of own answers": float(np.log(own).mean()) if len(own) else float("nan"),
                "worst KL": float(own.max()) if len(own) else float("nan"),
            }
        )
    show("Compound Gamma", rows)
    save_table(rows, out / "messages_gamma.csv")
    _draw_gamma(means, asked, out / "messages_gamma.png")


def _draw_gamma(means: np.ndarray, asked: np.ndarray, path: Path) -> None:
    figure, (axes,) = new_figure(1, 2)
    axes[0].loglog(*means[~asked].T[::-1], ".", color=BLUE, markersize=3)
    axes[0].set(xlabel="exact", ylabel="operator's own")
    letter(axes[0], "a", "mean of the belief about the precision")
    axes[1].plot(np.cumsum(asked), color=BLUE)
    axes[1].set(xlabel="problem", ylabel="calls of the oracle")
    letter(axes[1], "b")
    save_figure(figure, path)
