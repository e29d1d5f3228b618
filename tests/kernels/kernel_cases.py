"""Every kernel of the library beside its formula, written for two points and nothing else."""

from __future__ import annotations

from math import cos, exp, gamma, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import kv

import muhat as mh


class Case(NamedTuple):
    """A kernel on points of ``d`` columns, and its formula of two points."""

    name: str
    kernel: mh.Kernel
    formula: object
    d: int = 3


def squared(x, y, ell):
    return float((((x - y) / ell) ** 2).sum())


def gaussian(ell):
    return lambda x, y: exp(-squared(x, y, ell) / 2)


def laplace(ell, norm=1):
    if norm == 1:
        return lambda x, y: exp(-float(np.abs((x - y) / ell).sum()))
    return lambda x, y: exp(-sqrt(squared(x, y, ell)))


def matern(nu, ell):
    """The Bessel form, which holds for every ν."""

    def value(x, y):
        r = sqrt(2 * nu * squared(x, y, ell))
        return 1.0 if r == 0 else 2 ** (1 - nu) / gamma(nu) * r**nu * float(kv(nu, r))

    return value


def rational(ell, alpha):
    return lambda x, y: (1 + squared(x, y, ell) / (2 * alpha)) ** -alpha


def inverse_multiquadric(ell, beta):
    return lambda x, y: (1 + squared(x, y, ell)) ** -beta


def polynomial(degree, bias):
    return lambda x, y: (float(x @ y) + bias) ** degree


def delta(rest):
    return lambda x, y: 1.0 if (x == y).all() else rest


ARD = np.array([0.5, 1.3, 2.0])

STATIONARY = [
    Case("gaussian", mh.Gaussian(0.8), gaussian(0.8)),
    Case("gaussian-ard", mh.Gaussian(ARD), gaussian(ARD)),
    Case("laplace-1", mh.Laplace(1.4), laplace(1.4)),
    Case("laplace-1-ard", mh.Laplace(ARD), laplace(ARD)),
    Case("laplace-2", mh.Laplace(1.4, norm=2), laplace(1.4, 2)),
    Case("laplace-2-ard", mh.Laplace(ARD, norm=2), laplace(ARD, 2)),
    Case("matern-1/2", mh.Matern(0.5, 1.1), matern(0.5, 1.1)),
    Case("matern-3/2", mh.Matern(1.5, 1.1), matern(1.5, 1.1)),
    Case("matern-5/2-ard", mh.Matern(2.5, ARD), matern(2.5, ARD)),
    Case("matern-7/2", mh.Matern(3.5, 1.1), matern(3.5, 1.1)),
    Case("rational-quadratic", mh.RationalQuadratic(0.9, alpha=0.7), rational(0.9, 0.7)),
    Case("rational-quadratic-ard", mh.RationalQuadratic(ARD, alpha=2.0), rational(ARD, 2.0)),
    Case("cauchy", mh.Cauchy(1.2), inverse_multiquadric(1.2, 1.0)),
    Case("inverse-multiquadric", mh.InverseMultiquadric(0.9), inverse_multiquadric(0.9, 0.5)),
    Case("inverse-multiquadric-beta", mh.InverseMultiquadric(ARD, beta=1.7), inverse_multiquadric(ARD, 1.7)),
]

OTHERS = [
    Case("linear", mh.Linear(), polynomial(1, 0.0)),
    Case("linear-bias", mh.Linear(0.6), polynomial(1, 0.6)),
    Case("polynomial-2", mh.Polynomial(), polynomial(2, 1.0)),
    Case("polynomial-3", mh.Polynomial(3, bias=0.4), polynomial(3, 0.4)),
    Case("delta", mh.Delta(), delta(0.0)),
    Case("delta-rest", mh.Delta(0.3), delta(0.3)),
    Case("smoothed-gaussian", mh.Gaussian(ARD).smoothed(3, sd=1.5), None),
]

COMPOSED = [
    Case(
        "sum",
        mh.Gaussian(0.8) + mh.Laplace(1.4),
        lambda x, y: gaussian(0.8)(x, y) + laplace(1.4)(x, y),
    ),
    Case(
        "product",
        mh.Gaussian(2.0) * mh.Polynomial(2),
        lambda x, y: gaussian(2.0)(x, y) * polynomial(2, 1.0)(x, y),
    ),
    Case("scaled", 2.5 * mh.Matern(1.5, 1.1), lambda x, y: 2.5 * matern(1.5, 1.1)(x, y)),
    Case("on-one", mh.Gaussian(0.8).on(1), lambda x, y: gaussian(0.8)(x[1:2], y[1:2])),
    Case(
        "on-list",
        mh.Laplace(np.array([0.5, 2.0])).on([2, 0]),
        lambda x, y: laplace(np.array([0.5, 2.0]))(x[[2, 0]], y[[2, 0]]),
    ),
    Case("on-last", mh.Gaussian(0.8).on(-1), lambda x, y: gaussian(0.8)(x[2:], y[2:])),
    Case(
        "nested",
        0.5 * (mh.Gaussian(0.8).on([0, 1]) + 2.0 * mh.Linear(0.1).on(2)) * mh.Delta(0.6).on(2),
        lambda x, y: 0.5 * (gaussian(0.8)(x[:2], y[:2]) + 2 * (x[2] * y[2] + 0.1)) * delta(0.6)(x[2:], y[2:]),
    ),
]

ALL = STATIONARY + OTHERS + COMPOSED


def ids(cases):
    return [case.name for case in cases]


def by_loops(formula, X, Y):
    """``formula`` at every pair, one by one."""
    return np.array([[formula(x, y) for y in Y] for x in X])


def points(n=12, d=3, seed=0):
    """Rows with a duplicate, a shared column and a zero among them."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[1] = X[0]
    X[2, 1:] = X[3, 1:]
    X[4] = 0.0
    return X


def rotation_about_z(angle):
    return np.array([[cos(angle), -np.sin(angle), 0], [np.sin(angle), cos(angle), 0], [0, 0, 1]])
