"""KBR(b) in features without touching the pairs: a third-order moment made once.

The evidence operator is linear in the prior: with ``s = (Ĉ_ZZ + ηI)⁻¹ m``, ``γᵢ = φ(zᵢ)ᵀs`` and
``Ĉ_XX = Σᵢ (γᵢ/n) ψ(xᵢ)ψ(xᵢ)ᵀ`` is the contraction of ``(1/n) Σᵢ ψ⊗ψ⊗φ`` with s. Only rules that do not
truncate γ have this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muhat._array import Array
from muhat.operators.bayes.kbr_b import squared_solve

# Bytes that the moments may take.
MEMORY = 1e9
# Entries of one block of products of features.
BLOCK_ELEMENTS = 1 << 23


@dataclass(frozen=True)
class ThirdOrder:
    """Moments of features Ψ (n, p) of x and Φ (n, q) of z.

    Attributes:
        evidence: ``(1/n) Σ ψ⊗ψ⊗φ``, (p², q).
        joint: ``(1/n) Σ φ⊗ψ⊗φ``, (q p, q).
        mass: ``(1/n) Σ ψ⊗φ``, (p, q).
    """

    evidence: Array
    joint: Array
    mass: Array

    @classmethod
    def of(cls, Psi: Array, Phi: Array) -> ThirdOrder:
        (n, p), q = Psi.shape, Phi.shape[1]
        evidence, joint = np.zeros((p * p, q)), np.zeros((q * p, q))
        rows = max(1, BLOCK_ELEMENTS // (max(p, q) * p))
        for i in range(0, n, rows):
            a, c = Psi[i : i + rows], Phi[i : i + rows]
            evidence += (a[:, :, None] * a[:, None, :]).reshape(len(a), -1).T @ c
            joint += (c[:, :, None] * a[:, None, :]).reshape(len(a), -1).T @ c
        return cls(evidence / n, joint / n, Psi.T @ Phi / n)

    @staticmethod
    def pays(n: int, p: int, q: int) -> bool:
        """Whether a contraction is cheaper than a sum over the pairs, and fits in memory."""
        # A contraction reads the moments once, at the speed of memory; a sum runs at that of BLAS.
        return n > 20 * max(p, q) and 8.0 * (p * p * q + q * q * p) <= MEMORY

    def posterior(self, s: Array, psi: Array, reg: float) -> tuple[Array, Array, float]:
        """Coefficients of the posterior (q,), b (p,) with ``wᵢ = (γᵢ/n) ψ(xᵢ)ᵀb``, and the sum of the w."""
        p, q = self.mass.shape
        C = (self.evidence @ s).reshape(p, p)
        b = squared_solve(C, psi, reg)[:, 0]
        return (self.joint @ s).reshape(q, p) @ b, b, float(b @ self.mass @ s)
