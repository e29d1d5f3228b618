"""The embedding: weights on points, and what can be read off it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from muhat._array import Array, is_jax, namespace
from muhat._tables import Encoder, encode
from muhat._validation import (
    as_generator,
    as_rows,
    as_values,
    as_weights,
    check_choice,
    check_count,
    check_levels,
    check_positive,
    check_same_columns,
)
from muhat.embedding.density import box_for, choose_kernel, effective_size
from muhat.embedding.herding import herd_ascent, herd_candidates
from muhat.embedding.marginals import Marginals
from muhat.embedding.quantile import weighted_quantile
from muhat.embedding.reconstruction import Density, reconstruct
from muhat.embedding.reference import as_reference
from muhat.embedding.shrinkage import choose_shrinkage, shrinkage_weights
from muhat.embedding.simplex import project_simplex
from muhat.engine import as_source, sample_indices
from muhat.gram import (
    Factored,
    FeatureKernel,
    as_dense,
    as_representation,
    kernel_matmul,
    kernel_quadratic,
)
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel
from muhat.kernels.default import resolve_kernel


class Embedding:
    """``μ = Σᵢ wᵢ k(zᵢ, ·)``: a distribution, or a batch of them, as weights on points.

    Weights may be negative and need not sum to one: rules of probability are linear, and give what
    they give. :meth:`normalize` and :meth:`simplex` bring them back when a readout needs it.

    In a low-rank representation the kernel has features φ, and ``coefficients`` ``Σᵢ wᵢ φ(zᵢ)`` do the
    work of all evaluations and inner products at a cost that does not depend on the points.

    Attributes:
        kernel: k.
        points: z, (n, d), shared by the batch.
        weights: (n,), or (batch, n).
        marginals: distributions of the columns that :meth:`quantile` reads, or a function that makes them;
            None for those of the weights.
    """

    marginals: Callable[[], Marginals] | Marginals | None = None

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        weights: Array | Factored,
        coefficients: Array | None = None,
        encoder: Encoder | None = None,
        marginals: Callable[[], Marginals] | Marginals | None = None,
    ) -> None:
        self.kernel, self.points, self.encoder = kernel, points, encoder
        self._weights, self._coefficients = weights, coefficients
        if marginals is not None:
            self.marginals = marginals

    def _saved(self) -> dict[str, Any]:
        """Copies and files hold the marginals, not the function that makes them."""
        if callable(self.marginals):
            self.marginals = self.marginals()
        return self.__dict__

    __getstate__ = _saved

    @property
    def weights(self) -> Array:
        return as_dense(self._weights)

    @property
    def coefficients(self) -> Array:
        """``Σᵢ wᵢ φ(zᵢ)``, (p,) or (batch, p); only in low-rank representations."""
        if self._coefficients is None:
            if not isinstance(self.kernel, FeatureKernel):
                raise ValueError(
                    f"{self.kernel!r} has no finite features: embed with representation=mh.Nystrom(p)."
                )
            self._coefficients = self._weights @ self.kernel.features(self.points)
        return self._coefficients

    @property
    def is_batch(self) -> bool:
        """Whether this is several embeddings on shared points."""
        return self._weights.ndim == 2

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("A single embedding has no length; a batch has the number of its rows.")
        return self._weights.shape[0]

    def __getitem__(self, index: Any) -> Embedding:
        """One embedding of a batch, or a smaller batch."""
        if not self.is_batch:
            raise TypeError("A single embedding has no rows; only a batch can be indexed.")
        theta = None if self._coefficients is None else self._coefficients[index]
        out = self._with(self.weights[index], theta)
        out.marginals = self._part(index)
        return out

    def _part(self, index: Any) -> Callable[[], Marginals] | Marginals | None:
        """The marginals of some of the batch."""
        found = self.marginals
        return (lambda: found()[index]) if callable(found) else found and found[index]

    def __repr__(self) -> str:
        what = f"batch of {len(self)}, " if self.is_batch else ""
        n, d = self.points.shape
        return f"Embedding({what}{n} points in {d} dimension{'s' if d > 1 else ''}, {self.kernel!r})"

    def _with(self, weights: Array | Factored, coefficients: Array | None = None) -> Embedding:
        return Embedding(self.kernel, self.points, weights, coefficients, self.encoder)

    def _rows(self, x: Any, name: str) -> Array:
        x = self.encoder.transform(x, name) if self.encoder is not None else as_rows(x, name)
        check_same_columns(x, self.points.shape[1], name, "the embedding")
        return x

    # -- evaluation and geometry ---------------------------------------------------------------

    def __call__(self, x: Any) -> Array:
        """``μ(x) = Σᵢ wᵢ k(zᵢ, x)`` at every row of ``x``: (n,), or (batch, n)."""
        x = self._rows(x, "x")
        if isinstance(self.kernel, FeatureKernel):
            return self.coefficients @ self.kernel.features(x).T
        return kernel_matmul(self.kernel, x, self.points, self.weights.T).T

    def inner(self, other: Embedding) -> Array:
        """``⟨μ, ν⟩``: a number, or (batch,), (batch, batch') for batches."""
        self._check_same_space(other)
        if isinstance(self.kernel, FeatureKernel):
            return self.coefficients @ other.coefficients.T
        if other is self and not self.is_batch:
            return kernel_quadratic(self.kernel, self.points, self.weights)
        return self.weights @ kernel_matmul(self.kernel, self.points, other.points, other.weights.T)

    def norm(self) -> Array:
        """``‖μ‖``: a number, or (batch,)."""
        xp = namespace(self._weights if not isinstance(self._weights, Factored) else self._weights.left)
        return xp.sqrt(xp.maximum(self._squared_norm(), 0.0))

    def _squared_norm(self) -> Array:
        if not self.is_batch:
            return self.inner(self)
        if isinstance(self.kernel, FeatureKernel):
            return (self.coefficients**2).sum(axis=1)
        W = self.weights
        return (W * kernel_matmul(self.kernel, self.points, self.points, W.T).T).sum(axis=1)

    def distance(self, other: Embedding) -> Array:
        """``‖μ − ν‖``, the maximum mean discrepancy: a number, (batch,) or (batch, batch')."""
        self._check_same_space(other)
        a, b, cross = self._squared_norm(), other._squared_norm(), self.inner(other)
        xp = namespace(cross)
        if self.is_batch and other.is_batch:
            a = a[:, None]
        return xp.sqrt(xp.maximum(a + b - 2 * cross, 0.0))

    def _check_same_space(self, other: Any) -> None:
        if not isinstance(other, Embedding):
            raise TypeError(f"expected an Embedding, got {type(other).__name__}: use mh.embed(X, kernel).")
        if self.kernel != other.kernel:
            raise ValueError(
                f"The embeddings live in different spaces, {self.kernel!r} and {other.kernel!r}: make "
                "both with the same kernel (and, in low-rank representations, the same features)."
            )
        check_same_columns(other.points, self.points.shape[1], "the other embedding", "this one")
        if not (self.encoder or Encoder()).agrees(other.encoder or Encoder()):
            raise ValueError(
                "The embeddings come from tables with different categories, so their codes differ: embed "
                "both tables as one, with weights (2, n), or give the tables themselves to mh.mmd."
            )

    def __add__(self, other: Embedding) -> Embedding:
        return self._combine(other, 1.0)

    def __sub__(self, other: Embedding) -> Embedding:
        """``μ − ν``: called on points, the witness function of the difference."""
        return self._combine(other, -1.0)

    def _combine(self, other: Embedding, sign: float) -> Embedding:
        self._check_same_space(other)
        theta = None
        if isinstance(self.kernel, FeatureKernel):
            theta = self.coefficients + sign * other.coefficients
        if other.points is self.points:
            return self._with(self.weights + sign * other.weights, theta)
        xp = namespace(self.points, other.points, self.weights, other.weights)
        points = xp.concatenate([self.points, other.points])
        mine, theirs = self.weights, sign * other.weights
        batch = np.broadcast_shapes(mine.shape[:-1], theirs.shape[:-1])
        parts = [xp.broadcast_to(w, (*batch, w.shape[-1])) for w in (mine, theirs)]
        return Embedding(self.kernel, points, xp.concatenate(parts, axis=-1), theta, self.encoder)

    def __mul__(self, factor: Any) -> Embedding:
        if not (np.isscalar(factor) or (is_jax(factor) and factor.ndim == 0)):
            return NotImplemented
        theta = None if self._coefficients is None else factor * self._coefficients
        return self._with(factor * self.weights, theta)

    __rmul__ = __mul__
    __array_ufunc__ = None  # so that NumPy's numbers times a batch come here

    def __neg__(self) -> Embedding:
        return -1.0 * self

    # -- weights -------------------------------------------------------------------------------

    def normalize(self) -> Embedding:
        """The same with weights divided by their sum."""
        total = self.weights.sum(axis=-1, keepdims=True)
        least = float(np.abs(np.asarray(total)).min())
        if least < 1e-12:
            raise ValueError(
                f"The weights sum to {least:.3g}, so they cannot be "
                "normalised: a difference of distributions has no mass; elsewhere lower the regulariser."
            )
        theta = None if self._coefficients is None else self._coefficients / total
        return self._with(self.weights / total, theta)

    def simplex(self) -> Embedding:
        """The same with weights projected onto the probability simplex."""
        return self._with(project_simplex(self.weights))

    def effective_size(self) -> Array:
        """``(Σ|w|)²/Σw²``: how many equal weights say as much; a number or (batch,)."""
        W = self.weights
        xp = namespace(W)
        return xp.abs(W).sum(axis=-1) ** 2 / (W**2).sum(axis=-1)

    # -- readouts ------------------------------------------------------------------------------

    def expect(self, f: Callable[[Array], Array] | Array) -> Array:
        """``E f = Σᵢ wᵢ f(zᵢ)`` with the weights as they are.

        Args:
            f: a function of rows, (n, d) → (n,) or (n, k), or the array of its values at the points.

        Returns:
            A number or (k,); with a leading (batch,) for a batch.
        """
        return self._weights @ as_values(f(self.points) if callable(f) else f, len(self.points), "points")

    def mean(self) -> Array:
        """``Σᵢ wᵢ zᵢ``, (d,) or (batch, d)."""
        self._check_numeric("mean")
        return self.expect(self.points)

    def cov(self) -> Array:
        """``E zzᵀ − (E z)(E z)ᵀ`` with the weights as they are, (d, d) or (batch, d, d)."""
        self._check_numeric("cov")
        xp = namespace(self.points, self.weights)
        # About the centre c of the points: the same, without the cancellation. With t = Σw and
        # a = Σ w (z − c): Σ w (z−c)(z−c)ᵀ − aaᵀ + (1 − t)(acᵀ + caᵀ + t ccᵀ).
        W, c = self.weights, self.points.mean(axis=0)
        Z = self.points - c
        t, a = W.sum(axis=-1)[..., None, None], (W @ Z)[..., :, None]
        # Weights that sum to one but for rounding do so: else a far c would multiply the rounding.
        rounding = 64 * xp.finfo(W.dtype).eps * xp.abs(W).sum(axis=-1)[..., None, None]
        rest = xp.where(xp.abs(1 - t) <= rounding, 0.0, 1 - t)
        second = xp.swapaxes(W[..., :, None] * Z, -1, -2) @ Z
        aT, C = xp.swapaxes(a, -1, -2), c[:, None]
        return second - a * aT + rest * (a * C.T + C * aT + t * C * C.T)

    def quantile(self, q: Any) -> np.ndarray:
        """Marginal quantiles, as the rule gave them, or after projecting the weights onto the simplex.

        Args:
            q: a level in [0, 1], or several, (k,).

        Returns:
            (d,), or (k, d) for several levels; with a leading (batch,) for a batch.
        """
        self._check_numeric("quantile")
        levels = check_levels(q, "q")
        if self.marginals is not None:
            self.marginals = self.marginals() if callable(self.marginals) else self.marginals
            out = self.marginals.quantile(levels)
        else:
            W = np.atleast_2d(np.asarray(self._probabilities("quantile")))
            out = weighted_quantile(np.asarray(self.points), W, levels)
        out = out[:, 0] if np.ndim(q) == 0 else out
        return out if self.is_batch else out[0]

    def histogram(self, column: int = 0, bins: int = 30) -> tuple[np.ndarray, np.ndarray]:
        """Marginal histogram of one column: densities (bins,) or (batch, bins), and edges (bins + 1,).

        The weights are projected onto the simplex first.
        """
        self._check_numeric("histogram")
        d = self.points.shape[1]
        if not isinstance(column, (int, np.integer)) or not -d <= column < d:
            raise ValueError(f"column must be an index below {d}, got {column!r}.")
        values = np.asarray(self.points)[:, column]
        edges = np.histogram_bin_edges(values, check_count(bins, "bins"))
        W = np.atleast_2d(np.asarray(self._probabilities("histogram")))
        rows = [np.histogram(values, edges, weights=w, density=True)[0] for w in W]
        return (np.stack(rows) if self.is_batch else rows[0]), edges

    def herd(self, n: int, candidates: Any = None, continuous: bool = False) -> np.ndarray:
        """``n`` super-samples by kernel herding [CH10], (n, d) or (batch, n, d).

        Args:
            n: how many.
            candidates: points to choose among; the embedding's own by default.
            continuous: whether each is moved by gradient ascent from the best candidate.
        """
        n = check_count(n, "n")
        Z = np.asarray(self.points if candidates is None else self._rows(candidates, "candidates"))
        if self.is_batch:
            return np.stack([self[b].herd(n, Z, continuous) for b in range(len(self))])
        if continuous:
            self._check_numeric("continuous herding")
            return herd_ascent(self.kernel, np.asarray(self.points), np.asarray(self.weights), n, Z)
        return Z[herd_candidates(self.kernel, Z, np.asarray(self(Z)), n)]

    def density(
        self,
        reference: Any = None,
        reg: float | None = None,
        kernel: Kernel | None = None,
        mass: Any = None,
        limits: Any = None,
    ) -> Density:
        """The density behind the embedding, by Tikhonov reconstruction [S20, §3].

        Args:
            reference: where the density is reconstructed: points (M, d), a list of axes of a grid, or
                None for a grid (a Sobol sequence in more than three dimensions) on a box about the
                points.
            reg: α', on the scale of the covariance operator of the reference; None for the schedule
                of Cor. 3.4.
            kernel: of the reconstruction. None for a Gaussian whose width is chosen by leave-one-out:
                the lengthscales that suit tests and regression are far too wide for detail. ``mu.kernel``
                reconstructs from the embedding as it is.
            mass: of the reference points, V; the volume of their box by default.
            limits: bounds that no point lies beyond, (2, d), infinite ones included: the default grid ends
                there, and so does the density.
        """
        self._check_numeric("density")
        points = np.asarray(self.points, dtype=np.float64)
        W = np.asarray(self.weights)
        typical = project_simplex(W.mean(axis=0) if self.is_batch else W)
        if kernel is None:
            kernel = choose_kernel(points, typical)
        else:
            kernel = resolve_kernel(kernel, points, self.encoder, "kernel")
        if reg is not None:
            check_positive(reg, "reg", "give α' > 0, or None for the schedule", scalar=True)
        if reference is None:
            if mass is not None:
                raise ValueError("mass is that of your own reference: give reference, too, or neither.")
            ref = box_for(kernel, points, typical, limits)
        else:
            ref = as_reference(reference, mass, points.shape[1])
        values = kernel_matmul(kernel, ref.points, points, W.T).T
        out = reconstruct(kernel, ref, values, reg, effective_size(typical))
        return out if limits is None else replace(out, limits=np.asarray(limits, dtype=np.float64))

    def _probabilities(self, what: str) -> Array:
        """The weights on the simplex, for a readout of a distribution."""
        least = float(np.abs(np.asarray(self.weights).sum(axis=-1)).min())
        if least < 1e-6:
            raise ValueError(
                f"{what} needs a distribution, but the weights sum to {least:.1g}: a difference of "
                "embeddings has none; far from the data, or with a large regulariser, none is left."
            )
        return project_simplex(self.weights)

    def _check_numeric(self, what: str) -> None:
        if self.encoder is not None and self.encoder.categories:
            names = self.encoder.names or range(self.points.shape[1])
            which = [names[j] for j in self.encoder.categories]
            raise ValueError(
                f"{what} needs numbers, but columns {which} are categories: use expect with a function "
                "of the rows, or embed the numeric columns alone."
            )


def embed(
    X: Any,
    kernel: Kernel | None = None,
    weights: Any = None,
    representation: Representation | None = None,
    shrink: Any = None,
    random_state: Any = 0,
) -> Embedding:
    """The mean embedding of a sample, ``μ̂ = Σᵢ wᵢ k(xᵢ, ·)``.

    Args:
        X: the sample, (n, d): an array or a data frame (text columns are categories); or rows that are read
            in blocks, twice (see :func:`muhat.open_rows`).
        kernel: k; None for a Gaussian on the numbers times a Delta on each category.
        weights: (n,), or (batch, n) for several embeddings on the same points; 1/n by default.
        representation: how the embedding is held, e.g. ``mh.Nystrom(500)``; exact by default, and Nyström's
            for rows that are read in blocks.
        shrink: None for the plain average; a number λ > 0 or ``"loo"`` (chosen by leave-one-out) for
            the spectral shrinkage estimate S-KMSE [MU16; F16, §4.2], better at small n.
        random_state: seed of the representation's random choices.
    """
    source = as_source(X)
    if source is not None:
        from muhat.embedding.moments import embed_rows

        if weights is not None or shrink is not None:
            raise ValueError("weights and shrink need all rows in memory: leave them out, or give an array.")
        return embed_rows(source, kernel, representation, random_state)
    encoder, A = encode(X, "X")
    if representation is None:
        kernel = resolve_kernel(kernel, A, encoder, "kernel")
    else:
        part = A[sample_indices(A.shape[0])]
        kernel = resolve_kernel(kernel, part, encoder, "kernel")
        kernel = as_representation(representation).fit(kernel, part, as_generator(random_state))
    if shrink is not None:
        if weights is not None:
            raise ValueError("weights and shrink exclude each other: shrinkage finds its own weights.")
        W = _shrunk(kernel, A, shrink)
    elif weights is None:
        xp = namespace(A)
        W = xp.full(A.shape[0], 1.0 / A.shape[0])
    else:
        W = as_weights(weights, A.shape[0])
    return Embedding(kernel, A, W, None, encoder)


def _shrunk(kernel: Kernel, X: Array, shrink: Any) -> Array:
    if X.shape[0] < 3:
        raise ValueError(f"shrink needs at least 3 rows, got {X.shape[0]}: leave it out.")
    gram = as_representation(None).gram_of(kernel, X)
    if isinstance(shrink, str):
        check_choice(shrink, "shrink", ("loo",))
        # λ is chosen on at most 1000 points: the risk needs all n leave-one-out estimates.
        part = X[np.random.default_rng(0).choice(X.shape[0], min(X.shape[0], 1000), replace=False)]
        shrink = choose_shrinkage(np.asarray(kernel(part)))
    check_positive(shrink, "shrink", 'give λ > 0, or "loo"', scalar=True)
    return shrinkage_weights(gram, shrink)


def mmd(mu: Any, nu: Any, kernel: Kernel | None = None) -> Array:
    """Maximum mean discrepancy ``‖μ − ν‖`` between two embeddings or two samples.

    Args:
        mu: an embedding, or a sample (n, d).
        nu: an embedding, or a sample (m, d).
        kernel: for samples; None for the default, scaled from both together.

    Samples of any size work: the kernel matrix is summed block by block and never held.
    """
    if isinstance(mu, Embedding) and isinstance(nu, Embedding):
        if kernel is not None:
            raise ValueError("kernel is for samples: embeddings bring their own.")
        return mu.distance(nu)
    if isinstance(mu, Embedding) or isinstance(nu, Embedding):
        given = mu if isinstance(mu, Embedding) else nu
        if kernel is not None:
            raise ValueError("kernel is for samples: the embedding brings its own.")
        other = nu if given is mu else mu
        rows = given._rows(other, "the sample")
        sample = Embedding(given.kernel, rows, np.full(len(rows), 1 / len(rows)), None, given.encoder)
        return given.distance(sample)
    encoder, X = encode(mu, "mu", also=nu)
    Y = encoder.transform(nu, "nu")
    check_same_columns(Y, X.shape[1], "nu", "mu")
    xp = namespace(X, Y)
    numbers = isinstance(kernel, Kernel) and not any(isinstance(leaf, str) for leaf in kernel.leaves())
    kernel = resolve_kernel(kernel, X if numbers else xp.concatenate([X, Y]), encoder, "kernel")
    parts = [Embedding(kernel, Z, xp.full(Z.shape[0], 1.0 / Z.shape[0]), None, encoder) for Z in (X, Y)]
    return parts[0].distance(parts[1])
