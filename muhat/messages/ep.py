"""Expectation propagation for logistic regression, with any operator for its factors [JIT15, Sec. 5]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from muhat._linalg import Cholesky
from muhat._validation import as_rows, check_count, check_positive, check_same_rows, check_share
from muhat.messages.factors import Oracle
from muhat.messages.families import Beta, Normal


@dataclass(frozen=True)
class LogisticPosterior:
    """N(mean, cov) of the weights of logistic regression.

    Attributes:
        mean: (d,).
        cov: (d, d).
        iterations: that were made.
        converged: whether the last changed no mean or standard deviation by more than ``tol``, though some
            row had an answer: it is not the end if all were left out or the oracle failed for all.
        improper: messages left out because a cavity or the posterior would be improper, over all iterations.
        changes: largest change of each iteration, in standard deviations.
    """

    mean: np.ndarray
    cov: np.ndarray
    iterations: int = 0
    converged: bool = False
    improper: int = 0
    changes: list[float] = field(default_factory=list)

    def scores(self, X: Any) -> Normal:
        """The posterior of z = xᵀw at each row."""
        X = as_rows(X, "X")
        return Normal(X @ self.mean, np.einsum("ij,jk,ik->i", X, self.cov, X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(y = 1) at each row, (n,): σ(z) with its variance by MacKay's approximation."""
        z = self.scores(X)
        return expit(z.mean / np.sqrt(1 + np.pi * z.var / 8))

    def predict(self, X: Any) -> np.ndarray:
        """The likelier label, (n,)."""
        return (self.scores(X).mean > 0).astype(int)


def logistic_ep(
    X: Any,
    y: Any,
    operator: Oracle,
    iterations: int = 10,
    prior_var: float = 1.0,
    damping: float = 0.0,
    tol: float = 1e-4,
    block: int | None = None,
    watch: Callable[[tuple[Normal, Beta], Normal], None] | None = None,
) -> LogisticPosterior:
    """Posterior of w in ``P(y = 1 | x) = σ(xᵀw)``, w ~ N(0, prior_var·I), by EP [MI01].

    Messages go out from all rows at once, or from ``block`` rows at a time: the cavity of z = xᵀw, N(m, v),
    and the label as Beta(2, 1) or Beta(1, 2). A row whose cavity is improper sends nothing and keeps its
    site for that iteration, and so do rows whose sites would make the posterior improper; they are counted.
    An iteration in which no row had an answer is not taken for convergence.

    Args:
        X: (n, d).
        y: labels 0 and 1, (n,).
        operator: (messages from z, from p) → beliefs about z: an oracle or an ``mh.MessageOperator``.
        iterations: at most.
        prior_var: of each weight.
        damping: share of the old site that is kept, in [0, 1).
        tol: largest change, in standard deviations, at which it stops; 0 to make all iterations.
        block: rows that send at once; None for all, 1 for one after the other.
        watch: called with all messages that are sent and the beliefs that come back.
    """
    X = as_rows(X, "X")
    label = np.asarray(y)
    check_same_rows(label, X, "y", "X")
    if label.ndim != 1 or not np.isin(label, (0, 1)).all():
        raise ValueError(f"y must be a vector of labels 0 and 1, got {np.unique(label)[:5].tolist()}.")
    check_count(iterations, "iterations")
    if block is not None:
        check_count(block, "block")
    check_positive(prior_var, "prior_var", "give a variance", scalar=True)
    if damping:
        check_share(damping, "damping", "give a number in [0, 1)")
    n, d = X.shape
    tau, nu = np.zeros(n), np.zeros(n)
    labels = Beta(np.where(label == 1, 2.0, 1.0), np.where(label == 1, 1.0, 2.0))
    mean, cov = np.zeros(d), prior_var * np.eye(d)
    improper, changes, converged = 0, [], False
    for _ in range(iterations):
        old_mean, old_sd = mean, np.sqrt(np.diagonal(cov))
        answered = 0
        for start in range(0, n, block or n):
            rows = np.arange(start, min(start + (block or n), n))
            var_z = np.einsum("ij,jk,ik->i", X[rows], cov, X[rows])
            precision = 1 / var_z - tau[rows]
            # A row that the others leave without information is divided by zero, or worse.
            proper = precision > 1e-10 / var_z
            improper += int((~proper).sum())
            rows, precision = rows[proper], precision[proper]
            if not len(rows):
                continue
            cavity = Normal((X[rows] @ mean / var_z[proper] - nu[rows]) / precision, 1 / precision)
            messages = (cavity, labels.select(rows))
            belief, good = _answers(operator, messages)
            if watch is not None:
                watch(messages, belief)
            new_tau = 1 / belief.var - precision
            new_nu = belief.mean / belief.var - cavity.mean * precision
            step_tau, step_nu = tau.copy(), nu.copy()
            step_tau[rows] = damping * tau[rows] + (1 - damping) * new_tau
            step_nu[rows] = damping * nu[rows] + (1 - damping) * new_nu
            found = _posterior(X, step_tau, step_nu, prior_var)
            if found is None:  # sites that take precision away may stay only while the posterior bears them
                worse = step_tau < np.minimum(tau, 0)
                improper += int(worse.sum())
                step_tau, step_nu = np.where(worse, tau, step_tau), np.where(worse, nu, step_nu)
                found = _posterior(X, step_tau, step_nu, prior_var)
            if found is not None:
                tau, nu, (mean, cov) = step_tau, step_nu, found
                answered += good
        sd = np.sqrt(np.diagonal(cov))
        changes.append(float(max(np.abs(mean - old_mean).max(), np.abs(sd - old_sd).max()) / sd.min()))
        converged = changes[-1] <= tol and answered > 0
        if converged:
            break
    return LogisticPosterior(mean, cov, len(changes), converged, improper, changes)


def _answers(operator: Any, messages: tuple[Normal, Beta]) -> tuple[Normal, int]:
    """The beliefs, and for how many of them the oracle did not fail, where it is known."""
    if not hasattr(operator, "send"):
        return operator(messages), len(messages[0])
    sent = operator.send(messages)
    return sent.belief, int((~sent.failed).sum())


def _posterior(
    X: np.ndarray, tau: np.ndarray, nu: np.ndarray, prior_var: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Prior times sites, of precision I/prior_var + Xᵀ diag(τ) X; None where it is not positive definite."""
    identity = np.eye(X.shape[1])
    try:
        factor = Cholesky(np.linalg.cholesky((X.T * tau) @ X + identity / prior_var), 0.0)
    except np.linalg.LinAlgError:
        return None
    return factor.solve(X.T @ nu), factor.solve(identity)


__all__ = ["LogisticPosterior", "logistic_ep"]
