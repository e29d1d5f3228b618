"""What the operator is compared with: each learns from pairs and returns a density of y given x.

``pdf(x, y)`` of each has shape (len(x), len(y)). Those that need another package import it when called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np

Density = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _units(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return A.mean(axis=0), A.std(axis=0)


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances, (len(a), len(b))."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.maximum(squares, 0.0)


def conditional_kde(X: np.ndarray, Y: np.ndarray, seed: int) -> Density:
    """Ratio of Gaussian kernel density estimates; a bandwidth a column by the leave-one-out log density.

    Bandwidths are improved one after the other, twice round.
    """
    A, k = np.hstack([Y, X]), Y.shape[1]
    gaps = [(a[:, None] - a) ** 2 for a in A.T]
    steps = np.geomspace(0.04, 1.2, 14)[:, None] * A.std(axis=0)

    def kernel(j: int, i: int) -> np.ndarray:
        return np.exp(-gaps[j] / (2 * steps[i, j] ** 2)) / (np.sqrt(2 * np.pi) * steps[i, j])

    chosen = np.full(A.shape[1], 6)
    kernels = [kernel(j, 6) for j in range(A.shape[1])]

    def score() -> float:
        W = np.prod(kernels[k:], axis=0)
        np.fill_diagonal(W, 0.0)
        values = (W * np.prod(kernels[:k], axis=0)).sum(axis=1) / np.maximum(W.sum(axis=1), 1e-300)
        return float(np.log(np.maximum(values, 1e-300)).mean())

    for _ in range(2):
        for j in range(A.shape[1]):
            scores = {}
            for i in range(max(0, chosen[j] - 2), min(len(steps), chosen[j] + 3)):
                kernels[j] = kernel(j, i)
                scores[i] = score()
            chosen[j] = max(scores, key=scores.__getitem__)
            kernels[j] = kernel(j, chosen[j])
    h = steps[chosen, np.arange(A.shape[1])]

    def pdf(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        squares = _squares(x / h[k:], X / h[k:])
        W = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / 2)
        L = np.exp(-_squares(y / h[:k], Y / h[:k]) / 2) / (np.sqrt(2 * np.pi) * h[:k]).prod()
        return (W / W.sum(axis=1, keepdims=True)) @ L.T

    return pdf


def lscde(X: np.ndarray, Y: np.ndarray, seed: int, centres: int = 200) -> Density:
    """Least-squares conditional density estimation (Sugiyama et al., 2010); five shuffled folds.

    Its one width is in the same unit for every output.
    """
    (mx, sx), (my, sy) = _units(X), _units(Y)
    sy = np.full_like(sy, sy.mean())
    A, B = (X - mx) / sx, (Y - my) / sy
    k, rng = Y.shape[1], np.random.default_rng(seed)
    at = rng.choice(len(A), min(centres, len(A)), replace=False)
    U, V = A[at], B[at]
    fold = rng.permutation(np.arange(len(A)) % 5)
    dx, dy, dv = _squares(A, U), _squares(B, V), _squares(V, V)
    best = (np.inf, 0.0, np.zeros(0))
    for s in np.geomspace(0.06, 1.0, 10):
        P = np.exp(-dx / (2 * s * s))
        F = P * np.exp(-dy / (2 * s * s))
        overlap = (np.sqrt(np.pi) * s) ** k * np.exp(-dv / (4 * s * s))
        H = [overlap * (P[fold == i].T @ P[fold == i]) for i in range(5)]
        h = [F[fold == i].sum(axis=0) for i in range(5)]
        for reg in np.geomspace(1e-4, 1, 7):
            loss = 0.0
            for i in range(5):
                m = (fold != i).sum()
                a = _solve((sum(H) - H[i]) / m, reg, (sum(h) - h[i]) / m)
                loss += 0.5 * a @ H[i] @ a - h[i] @ a
            if loss < best[0]:
                best = (loss, s, _solve(sum(H) / len(A), reg, sum(h) / len(A)))
    _, s, a = best

    def pdf(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        W = a * np.exp(-_squares((x - mx) / sx, U) / (2 * s * s))
        mass = W.sum(axis=1, keepdims=True) * (np.sqrt(2 * np.pi) * s) ** k
        F = np.exp(-_squares((y - my) / sy, V) / (2 * s * s))
        return W @ F.T / np.maximum(mass, 1e-300) / sy.prod()

    return pdf


def _solve(H: Any, reg: float, h: Any) -> np.ndarray:
    return np.maximum(np.linalg.solve(H + reg * np.eye(len(h)), h), 0.0)


class GaussianProcess:
    """Exact Gaussian processes, one an output, with learned Gaussian ARD lengthscales, scale and noise.

    Args:
        rows: hyperparameters are learned on so many rows at most; all rows are conditioned on.
        restarts: starts of the search beside the first.
        ard: one lengthscale an input.
    """

    def __init__(self, rows: int = 1500, restarts: int = 1, ard: bool = True) -> None:
        self.rows, self.restarts, self.ard = rows, restarts, ard

    def fit(self, X: np.ndarray, Y: np.ndarray, seed: int) -> GaussianProcess:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        self.units_x, self.units_y = _units(X), _units(Y)
        A, B = (X - self.units_x[0]) / self.units_x[1], (Y - self.units_y[0]) / self.units_y[1]
        some = np.random.default_rng(seed).permutation(len(A))[: self.rows]
        lengths: Any = np.ones(A.shape[1] if self.ard else 1)
        start = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(lengths, (1e-3, 1e4)) + WhiteKernel(0.1, (1e-8, 10.0))
        self.models = []
        for b in B.T:
            found = GaussianProcessRegressor(
                start, alpha=1e-10, n_restarts_optimizer=self.restarts, random_state=seed
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # bounds that do not matter
                found.fit(A[some], b[some])
            if len(some) < len(A):
                found = GaussianProcessRegressor(found.kernel_, alpha=1e-10, optimizer=cast(Any, None)).fit(
                    A, b
                )
            self.models.append(found)
        return self

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of a new y, (q, k) each, blocks of rows at a time."""
        x = (x - self.units_x[0]) / self.units_x[1]
        parts = []
        for i in range(0, len(x), 1000):
            each = [model.predict(x[i : i + 1000], return_std=True) for model in self.models]
            parts.append(np.stack(each, axis=-1))
        mean, sd = np.concatenate(parts, axis=1)
        return self.units_y[0] + self.units_y[1] * mean, self.units_y[1] * sd

    def pdf(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return normal_pdf(*self.moments(x), y)


def normal_pdf(mean: np.ndarray, sd: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Independent normal densities with moments (q, k) at y (m, k), (q, m)."""
    z = (y - mean[:, None]) / sd[:, None]
    return np.exp(-0.5 * z**2).prod(axis=-1) / (np.sqrt(2 * np.pi) * sd).prod(axis=1)[:, None]


def gaussian_process(X: np.ndarray, Y: np.ndarray, seed: int) -> Density:
    """The process as the density of a peer; as in the paper, one an output and independent."""
    return GaussianProcess(rows=500, restarts=0).fit(X, Y, seed).pdf


def statsmodels_kde(X: np.ndarray, Y: np.ndarray, seed: int) -> Density:
    """Conditional kernel density of statsmodels with bandwidths by maximum likelihood: minutes."""
    package = import_module("statsmodels.nonparametric.kernel_density")
    model = package.KDEMultivariateConditional(Y, X, "c" * Y.shape[1], "c" * X.shape[1], "cv_ml")

    def pdf(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.stack([model.pdf(y, np.broadcast_to(a, (len(y), len(a)))) for a in x])

    return pdf


def ngboost_normal(X: np.ndarray, Y: np.ndarray, seed: int, estimators: int = 500) -> Density:
    """Natural gradient boosting of a normal, with full covariance when there are several outputs."""
    from scipy.stats import multivariate_normal

    package, laws = import_module("ngboost"), import_module("ngboost.distns")
    k = Y.shape[1]
    order = np.random.default_rng(seed).permutation(len(X))
    cut = len(X) // 10
    model = package.NGBRegressor(
        Dist=laws.Normal if k == 1 else laws.MultivariateNormal(k),
        n_estimators=estimators,
        verbose=False,
        random_state=seed,
    )
    y = Y[:, 0] if k == 1 else Y
    held, kept = order[:cut], order[cut:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[kept], y[kept], X_val=X[held], Y_val=y[held], early_stopping_rounds=50)

    def pdf(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = model.pred_dist(x)
        if k == 1:
            return normal_pdf(found.params["loc"][:, None], found.params["scale"][:, None], y)
        return np.stack(
            [
                multivariate_normal(found.loc[i], found.cov[i], allow_singular=True).pdf(y)
                for i in range(len(x))
            ]
        )

    return pdf


def spline_flow(X: np.ndarray, Y: np.ndarray, seed: int, epochs: int = 80) -> Density:
    """Conditional neural spline flow of zuko: Adam, best of the epochs on a held-out tenth."""
    torch, zuko = import_module("torch"), import_module("zuko")

    torch.manual_seed(seed)
    (mx, sx), (my, sy) = _units(X), _units(Y)
    A, B = (torch.tensor(a, dtype=torch.float32) for a in ((X - mx) / sx, (Y - my) / sy))
    order = torch.randperm(len(A))
    cut = len(A) // 10
    held, kept = order[:cut], order[cut:]
    flow = zuko.flows.NSF(Y.shape[1], X.shape[1], transforms=3, hidden_features=[64, 64])
    adam = torch.optim.Adam(flow.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, epochs)
    best, least = flow.state_dict(), np.inf
    for _ in range(epochs):
        for rows in kept[torch.randperm(len(kept))].split(256):
            loss = -flow(A[rows]).log_prob(B[rows]).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        schedule.step()
        with torch.no_grad():
            value = float(-flow(A[held]).log_prob(B[held]).mean())
        if value < least:
            best, least = {name: p.clone() for name, p in flow.state_dict().items()}, value
    flow.load_state_dict(best)

    def pdf(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        y = torch.tensor((y - my) / sy, dtype=torch.float32)
        with torch.no_grad():
            rows = [flow(torch.tensor(a, dtype=torch.float32)).log_prob(y).exp() for a in (x - mx) / sx]
        return torch.stack(rows).numpy().astype(float) / sy.prod()

    return pdf
