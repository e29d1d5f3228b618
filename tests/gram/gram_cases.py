"""Every representation of a Gram matrix, made the same way for NumPy and for JAX."""

from __future__ import annotations

import numpy as np

import muhat as mh
from muhat.gram import KroneckerGram

N = 24
X = np.random.default_rng(0).normal(size=(N, 2))
Z = X[::3] + 0.1
NEW = np.random.default_rng(1).normal(size=(5, 2))
AXES = np.linspace(-1, 1, 4)[:, None], np.random.default_rng(2).normal(size=(6, 1))


def kernel_of(ell):
    return 1.5 * mh.Gaussian(ell) + 0.5 * mh.Matern(1.5, 2 * ell)


def quadratic(points):
    """A feature map for either namespace."""
    from muhat._array import namespace

    xp = namespace(points)
    return xp.concatenate([points, points**2, points[:, :1] * points[:, 1:], points[:, :1] ** 0], axis=1)


def kronecker(ell, xp):
    factors = [mh.Gaussian(ell), 1.3 * mh.Laplace(ell)]
    return KroneckerGram([k(xp.asarray(axis)) for k, axis in zip(factors, AXES, strict=True)])


# From a lengthscale and a namespace to a Gram of N points.
GRAMS = {
    "dense": lambda ell, xp: mh.Exact().gram(kernel_of(ell), xp.asarray(X)),
    "blocked": lambda ell, xp: mh.Exact(memory=0, block=5 * N, rank=9, tolerance=1e-13).gram(
        kernel_of(ell), xp.asarray(X)
    ),
    "nystrom": lambda ell, xp: mh.Nystrom(8, landmarks=Z).gram(kernel_of(ell), xp.asarray(X)),
    "fourier": lambda ell, xp: mh.Fourier(14).gram(2.0 * mh.Gaussian(ell), xp.asarray(X), 3),
    "features": lambda ell, xp: mh.Features(lambda x: quadratic(x / ell)).gram(mh.Linear(), xp.asarray(X)),
    "kronecker": kronecker,
}
WITH_POINTS = [name for name in GRAMS if name != "kronecker"]

WEIGHTS = np.random.default_rng(4).gamma(1.0, size=N)
WEIGHTS[[0, 5, 6, 17]] = 0.0
