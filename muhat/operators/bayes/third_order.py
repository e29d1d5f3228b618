"""KBR(b) in features without touching the pairs: a third-order moment made once.

The evidence operator is linear in the prior: with ``s = (Ĉ_ZZ + ηI)⁻¹ m``, ``γᵢ = φ(zᵢ)ᵀs`` and
``Ĉ_XX = Σᵢ (γᵢ/n) ψ(xᵢ)ψ(xᵢ)ᵀ`` is the contraction of ``(1/n) Σᵢ ψ⊗ψ⊗φ`` with s. Only rules that do not
truncate γ have this.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg.blas import dspmv  # type: ignore[attr-defined]

from muhat import _threads
from muhat._array import Array
from muhat.operators.bayes.kbr_b import squared_solve

# Bytes that the moments may take.
MEMORY = 1e9
# Entries of a block of features that products are made of.
BLOCK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class ThirdOrder:
    """Moments of features Ψ (n, p) of x and Φ (n, q) of z; of symmetric pairs one half is held.

    They lie by columns: a contraction takes as long as reading them, and BLAS reads long columns faster.

    Attributes:
        evidence: ``(1/n) Σ ψ⊗ψ⊗φ``, (p(p + 1)/2, q).
        joint: ``(1/n) Σ φ⊗φ⊗ψ``, (q(q + 1)/2, p).
        mass: ``(1/n) Σ ψ⊗φ``, (p, q).
    """

    evidence: Array
    joint: Array
    mass: Array

    @classmethod
    def of(cls, Psi: Array, Phi: Array) -> ThirdOrder:
        n = len(Psi)
        return cls(_thirds(Psi, Phi) / n, _thirds(Phi, Psi) / n, Psi.T @ Phi / n)

    @staticmethod
    def pays(n: int, p: int, q: int) -> bool:
        """Whether a contraction is cheaper than a sum over the pairs, and fits in memory."""
        # A contraction reads the moments once, at the speed of memory; a sum runs at that of BLAS.
        return n > 20 * max(p, q) and 4.0 * (p * p * q + q * q * p) <= MEMORY

    def posterior(self, s: Array, psi: Array, reg: float) -> tuple[Array, Array, float]:
        """Coefficients of the posterior (q,), b (p,) with ``wᵢ = (γᵢ/n) ψ(xᵢ)ᵀb``, and the sum of the w."""
        # A contraction reads much and computes little, which BLAS does best on all of its threads; in
        # products of p×p they cost more than they bring.
        half = self.evidence @ s
        with _threads.one_blas_thread():
            b = squared_solve(_unfold(half), psi, reg)[:, 0]
        m: Array = dspmv(len(s), 1.0, self.joint @ b, s, lower=1)
        return m, b, float(b @ self.mass @ s)


def _thirds(A: Array, B: Array) -> Array:
    """``Σᵢ aᵢ⊗aᵢ⊗bᵢ`` with one half of the symmetric pair, (p(p + 1)/2, q), by columns."""
    (n, p), q = A.shape, B.shape[1]
    out = np.zeros((p * (p + 1) // 2, q), order="F")
    firsts = np.concatenate([[0], np.cumsum(np.arange(p, 0, -1))])
    for rows in _threads.row_blocks(n, p + q, BLOCK_ELEMENTS):
        a, b = np.ascontiguousarray(A[rows].T), B[rows]

        def work(part: slice, a: Array = a, b: Array = b) -> None:
            for j in range(part.start, part.stop):
                out[firsts[j] : firsts[j + 1]] += (a[j] * a[j:]) @ b

        _threads.run_blocks(work, [slice(j, j + 1) for j in range(p)])
    return out


def _unfold(half: Array) -> Array:
    """The symmetric matrix (p, p) of whose upper rows ``half`` is."""
    return half.take(_places((int(np.sqrt(8 * len(half) + 1)) - 1) // 2))


@cache
def _places(p: int) -> Array:
    """Where each entry of a symmetric (p, p) lies in its upper rows."""
    out = np.empty((p, p), dtype=np.intp)
    upper = np.triu_indices(p)
    out[upper] = out.T[upper] = np.arange(len(upper[0]))
    return out
