"""A finite world, a smooth one, and the Bayes' rules written densely, straight from the papers."""

from __future__ import annotations

import numpy as np

import muhat as mh
from muhat.operators.bayes import Pairs, Prior

# How often each (z, x) was seen, z down and x across, and how often each z among the prior's samples.
COUNTS = np.array([[6, 2, 1, 0], [1, 5, 3, 2], [2, 0, 1, 7]])
PRIOR_COUNTS = np.array([1, 5, 2])


def finite_pairs(counts=COUNTS):
    """The table as rows: x (n, 1) and z (n, 1), in no particular order."""
    z, x = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    order = np.random.default_rng(0).permutation(len(z))
    return x[order, None].astype(float), z[order, None].astype(float)


def bayes_table(counts=COUNTS, prior=PRIOR_COUNTS):
    """P(z | x), x down and z across, from p(x | z) of the table and the prior."""
    likelihood = counts / counts.sum(axis=1, keepdims=True)
    joint = (prior / prior.sum())[:, None] * likelihood
    return (joint / joint.sum(axis=0)).T


def masses(weights, z, states=3):
    """Total weight (batch, states) on each value of z (m, 1)."""
    return np.stack([weights[:, z[:, 0] == s].sum(axis=1) for s in range(states)], axis=1)


rng = np.random.default_rng(3)
Z = rng.standard_normal((18, 2))
X = Z[:, :1] + 0.3 * rng.standard_normal((18, 1))
POINTS = 0.6 * rng.standard_normal((11, 2)) + 0.4
ALPHA = rng.dirichlet(np.ones(11))
QUERY = np.linspace(-1, 1, 4)[:, None]
KERNEL_X, KERNEL_Z = 1.2 * mh.Gaussian(0.8), mh.Gaussian(1.1)
ETA = 0.02


def smooth_pairs(target=0.0, eta=ETA, representation=None, kernel_x=KERNEL_X, kernel_z=KERNEL_Z):
    make = representation or mh.Exact()
    return Pairs(make.gram(kernel_x, X, 0), make.gram(kernel_z, Z, 0), eta, target)


def smooth_prior(pairs, weights=ALPHA):
    return Prior.of(pairs.gram_z, POINTS, weights)


def dense_ratio(G, values, eta, target=0.0):
    n = len(G)
    return target + n * np.linalg.solve(G + n * eta * np.eye(n), values - target * G.mean(axis=1))


def dense_importance(Gx, r, g, lam):
    """[X22, Alg. 1, step 3] as printed: D = diag(r̂)."""
    s = np.sqrt(np.maximum(r, 0.0))
    A = s[:, None] * Gx * s + lam * np.eye(len(Gx))
    return (s[:, None] * np.linalg.solve(A, s[:, None] * g)).T


def dense_kbr_b(Gx, D, g, delta):
    """[FSG13, Thm. 5]: Λ G ((Λ G)² + δI)⁻¹ Λ g."""
    LG = D[:, None] * Gx
    return (LG @ np.linalg.solve(LG @ LG + delta * np.eye(len(Gx)), D[:, None] * g)).T


def dense_kbr_a(Gx, Gz, cross, alpha, D, g, eta, delta):
    """[SFG13]: the joint by the chain rule, the evidence of KBR(b)."""
    n, LG = len(Gx), D[:, None] * Gx
    A = np.linalg.solve(Gz + n * eta * np.eye(n), cross)
    b = Gx @ np.linalg.solve(LG @ LG + delta * np.eye(n), D[:, None] * g)
    return (alpha[:, None] * (A.T @ b)).T


def dense_deconditional(Gx, Gz, cross, g, lam, eps, alpha=None):
    """[HR19, Thm. 4.3]: (AᵀKA + mεI)⁻¹ Aᵀ k(x), its 1/m made α."""
    n, m = len(Gx), cross.shape[1]
    alpha = np.full(m, 1 / m) if alpha is None else alpha
    A = np.linalg.solve(Gz + n * lam * np.eye(n), cross)
    return np.linalg.solve(A.T @ Gx @ A + eps * np.diag(1 / alpha), A.T @ g).T
