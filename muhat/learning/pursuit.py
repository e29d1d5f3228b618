"""One direction of the inputs and a smooth function along it: the first term of projection pursuit.

``f(x) ≈ g(wᵀx)`` is what a few hundred rows can tell of ten columns where they act through one sum. For a
given direction g is a ridge regression on a line; the direction moves by Gauss–Newton steps on the residuals,
damped until the error falls [FS81]. Steps do not find a function that oscillates: directions where they may
start are looked for by how little y differs between neighbours along them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat.learning.feature_ridge import FeatureRidge, Fit, GaussianFeatures

KNOTS = 15
LENGTHSCALE = 0.5  # of g, in units of the spread along the direction
STEPS = 8
DAMPING = 1e-2, 10.0, 5.0  # at first; times this where the error rises; by this where it falls
TRIES = 3  # of the damping, before a step is given up
SCANNED, PRODUCTS = (300, 1500), 300_000  # directions that are tried, by how many products are allowed
NEAR = 60  # directions near the best of them
CLOSER = (0.5, 0.25, 0.12, 0.06)  # how far these are from it, in turn
ENOUGH = 1e-4  # share by which a step must lower the error


@dataclass(frozen=True)
class Line:
    """A direction and a function along it.

    Attributes:
        direction: (d,); what is projected has mean ``centre`` and unit spread.
        centre: of the projections.
        features: of numbers on the line.
        fit: the regression on them.
    """

    direction: np.ndarray
    centre: float
    features: GaussianFeatures
    fit: Fit

    def project(self, X: np.ndarray) -> np.ndarray:
        return (X @ self.direction - self.centre)[:, None]

    def at(self, X: np.ndarray) -> np.ndarray:
        u = self.project(X)
        return self.fit(np.hstack([self.features(u), u]))[:, 0]

    def slope(self, X: np.ndarray) -> np.ndarray:
        """g′ at each row of ``X``, (n,)."""
        curved, straight = self.fit.coefficients[:-1, 0], self.fit.coefficients[-1, 0]
        return self.features.gradient(self.project(X), curved)[:, 0] + straight


def line_along(X: np.ndarray, y: np.ndarray, direction: np.ndarray, undersmooth: float = 1.0) -> Line | None:
    """The function along a direction with the least leave-one-out error; None where X does not vary there."""
    projected = X @ direction
    sd = float(projected.std())
    if not sd > 1e-9 * float(np.linalg.norm(direction)):
        return None
    direction, centre = direction / sd, float(projected.mean()) / sd
    u = (projected / sd - centre)[:, None]
    knots = np.unique(np.quantile(u, np.linspace(0.01, 0.99, KNOTS)))
    features = GaussianFeatures(knots[:, None], LENGTHSCALE)
    fit = FeatureRidge(np.hstack([features(u), u])).fit(y[:, None], undersmooth)
    return Line(direction, centre, features, fit)


def scan(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of random directions the one along which neighbours differ least in y, (d,)."""
    directions = rng.standard_normal((int(np.clip(PRODUCTS // len(X), *SCANNED)), X.shape[1]))
    roughness = _differences(X, y, directions)
    for distance in CLOSER:
        best = int(np.argmin(roughness))
        unit = float(np.linalg.norm(directions[best])) / np.sqrt(X.shape[1])
        near = directions[best] + distance * unit * rng.standard_normal((NEAR, X.shape[1]))
        directions = np.concatenate([directions[[best]], near])
        roughness = np.append(roughness[best], _differences(X, y, near))
    return directions[int(np.argmin(roughness))]


def _differences(X: np.ndarray, y: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Mean squared differences of y between neighbours along each direction (m, d), (m,)."""
    order = np.argsort(X @ directions.T, axis=0)
    return np.mean(np.diff(y[order], axis=0) ** 2, axis=0)


def pursue(X: np.ndarray, y: np.ndarray, starts: list[np.ndarray]) -> np.ndarray | None:
    """The best direction that Gauss–Newton steps reach from ``starts``; None if X does not vary.

    Args:
        X: inputs in comparable units, (n, d).
        y: outputs, (n,).
        starts: directions, each (d,).
    """
    least, best = np.inf, None
    for start in starts:
        line = line_along(X, y, start)
        if line is None:
            continue
        loss = float(np.mean((y - line.at(X)) ** 2))
        damping, worse, better = DAMPING
        for _ in range(STEPS):
            found = None
            slopes = X * line.slope(X)[:, None]
            H, g = slopes.T @ slopes / len(X), slopes.T @ (y - line.at(X)) / len(X)
            unit = float(np.trace(H)) / len(H)
            if not unit > 0:
                break
            for _ in range(TRIES):
                moved = line.direction + np.linalg.solve(H + damping * unit * np.eye(len(H)), g)
                other = line_along(X, y, moved)
                error = np.inf if other is None else float(np.mean((y - other.at(X)) ** 2))
                if error < loss * (1 - ENOUGH):
                    found, loss = other, error
                    break
                damping *= worse
            if found is None:
                break
            line, damping = found, max(damping / better, 1e-4)
        if loss < least:
            least, best = loss, line.direction
    return best


__all__ = ["Line", "line_along", "pursue", "scan"]
