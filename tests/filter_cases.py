"""A small system to track, and the kernel Bayes filter and smoother written densely from the papers."""

from __future__ import annotations

import numpy as np
from bayes_cases import dense_importance, dense_kbr_a, dense_kbr_b, dense_ratio

import muhat as mh

KERNEL_X, KERNEL_Z = mh.Gaussian(0.7), mh.Gaussian(0.6)
REGS = {"reg": 5e-3, "reg_prior": 2e-3, "reg_transition": 1e-3}
# Everything given: nothing is searched for.
GIVEN = {"kernel_x": KERNEL_X, "kernel_z": KERNEL_Z, **REGS}
PLAIN = {**GIVEN, "normalize": False, "target": "zero"}  # as in the papers


def rotation(T, seed=0, omega=0.5):
    """Noisy rotation [X22, 5.2]: observations (T, 2) and states (T, 2)."""
    rng = np.random.default_rng([T, seed])
    z, out = np.array([1.0, 0.0]), []
    for _ in range(T):
        angle = np.arctan2(z[1], z[0]) + omega
        z = np.array([np.cos(angle), np.sin(angle)]) + 0.2 * rng.standard_normal(2)
        out.append(z)
    Z = np.array(out)
    return Z + 0.2 * rng.standard_normal((T, 2)), Z


X, Z = rotation(40)
TEST, TRUTH = rotation(12, seed=1)


class DenseFilter:
    """[X22, Alg. 2] and its way back with n×n matrices, regularisers on the operator scale."""

    def __init__(self, X, Z, lengths=None, rule="importance", target=0.0, normalize=False, **regs):
        self.X, self.Z, self.rule, self.target, self.normalize = X, Z, rule, target, normalize
        self.regs = {**REGS, **regs}
        self.Gx, self.Gz = KERNEL_X(X), KERNEL_Z(Z)
        ends = np.cumsum(lengths or [len(X)])
        self.after = np.setdiff1d(np.arange(len(X)), np.r_[0, ends])
        self.before = self.after - 1

    def predict(self, w):
        b, out = self.before, np.zeros(len(w))
        A = self.Gz[np.ix_(b, b)] + len(b) * self.regs["reg_transition"] * np.eye(len(b))
        out[self.after] = np.linalg.solve(A, self.Gz[b] @ w)
        return out

    def bayes(self, Gx, Gz, cross, alpha, seen, reg):
        """Weights of the posterior on the pairs, or on the prior's points (rules ON_PRIOR)."""
        n, eta = len(Gx), self.regs["reg_prior"]
        r = dense_ratio(Gz, cross @ alpha, eta, self.target)
        if self.rule == "importance":
            r = np.maximum(r, 0.0)
            D = r / r.sum() if self.normalize else r / n
            return dense_importance(Gx, D, seen[:, None], reg)[0]
        if self.rule == "kbr_b":
            return dense_kbr_b(Gx, r / n, seen[:, None], reg)[0]
        return dense_kbr_a(Gx, Gz, cross, alpha, r / n, seen[:, None], eta, reg)[0]

    def settle(self, w):
        return w / w.sum() if self.normalize else w

    def condition(self, w, x):
        seen = KERNEL_X(self.X, x[None])[:, 0]
        return self.settle(self.bayes(self.Gx, self.Gz, self.Gz, w, seen, self.regs["reg"]))

    def filter(self, test, w=None):
        w = np.full(len(self.X), 1 / len(self.X)) if w is None else w
        out = []
        for t, x in enumerate(test):
            w = self.condition(self.predict(w) if t else w, x)
            out.append(w)
        return np.array(out)

    def smooth(self, test, reg):
        filtered = self.filter(test)
        out, b, a = [filtered[-1]], self.before, self.after
        Gb, Ga = self.Gz[np.ix_(b, b)], self.Gz[np.ix_(a, a)]
        for w in filtered[-2::-1]:
            added = out[-1] - self.settle(self.predict(w))
            part = self.bayes(Ga, Gb, self.Gz[b], w, self.Gz[a] @ added, reg)
            if self.rule == "kbr_a":
                change = part
            else:
                change = np.zeros(len(w))
                change[b] = part
            out.append(self.settle(w + change))
        return np.array(out[::-1])
