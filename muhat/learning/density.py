"""What is free in a conditional density, by its leave-one-out log density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muhat._linalg import SingularSystem, cholesky
from muhat._progress import progress_bar
from muhat._threads import one_blas_thread, row_blocks, run_blocks
from muhat.embedding import Reference, reference
from muhat.embedding.density import detail_kernel
from muhat.embedding.reference import box_reference
from muhat.gram import FeatureKernel
from muhat.gram.landmarks import kmeanspp_landmarks
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel
from muhat.kernels.stationary import Gaussian
from muhat.learning.leave_one_out import choose_conditional, stretch
from muhat.learning.residuals import Way
from muhat.operators.density import completion

# The search works in this many landmarks, on at most this many rows, and on a grid of at most this many
# points an axis.
LANDMARKS = 150
ROWS = {1: 4000, 2: 2500, 3: 1200}
GRID = {1: 256, 2: 36, 3: 14, 4: 8}
EVALUATIONS = 55
# Rows that a core takes at a time.
BLOCK_ROWS = 256
# Each way to take the outputs has so many steps on this part of the rows; the search goes on with the best.
TRIAL, PART = 15, 0.4
# Points along each axis of a grid, at most, by dimension; and standard deviations of the output kernel from
# one to the next, at most.
FINEST = {1: 4096, 2: 192, 3: 64, 4: 24}
COARSE = 1.5
# The box goes beyond the outputs by this multiple of their range, by the number of columns: in one, room is
# cheap, and a new output far out is better found unlikely than impossible.
PADDING = {1: 2.0, 2: 0.5}
# While it searches, this share of a uniform density tempers the score: the logarithm alone hangs on the few
# rows in the tails, for whose sake it smooths too much.
SHARE = 0.2
# A way to take the outputs whose CRPS is above that of the best by this factor is not chosen.
WORSE = 1.02
# Shares of the uniform density that are tried.
BACKGROUNDS = np.array([3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1])
# Where the search starts: multiples of the kernels of x and y, λ, and α' as a share of the kernel's integral.
START = np.log([0.5, 0.02, 1.5, 0.05])
MOVES = np.array([-0.7, 1.5, 0.4, 1.5])
BOUNDS = np.log([1e-9, 1e3])


def leave_one_out_density(
    Phi: np.ndarray,
    Y: np.ndarray,
    kernel: Kernel,
    reference: Reference,
    reg_x: float,
    reg_y: float,
    crps: np.ndarray | None = None,
) -> np.ndarray:
    """The density of yᵢ given xᵢ from all other rows, (n,), clipped at 0 and normalised.

    The weights of the others on yⱼ are ``Hᵢⱼ/(1 − Hᵢᵢ)`` with the hat matrix ``H = K (K + nλI)⁻¹`` to which
    the share of the marginal that completes its rows is added. What follows is linear, but for the
    last step: the mass of the positive part, from the reference points.

    Args:
        Phi: features of x, (n, p).
        Y: outputs, (n, k).
        kernel: of the outputs.
        reference: ρ.
        reg_x: λ.
        reg_y: α'.
        crps: (n, k), filled with the continuous ranked probability score of each column, if the reference is
            a grid.
    """
    n, p = Phi.shape
    A = Phi.T @ Phi
    A[np.diag_indices(p)] += n * reg_x
    factor = cholesky(A, "ΦᵀΦ + nλI", "Raise the regulariser.", overwrite=True)
    solved = factor.solve(Phi.T)
    rest = completion(Phi @ solved.sum(axis=1))
    own = np.einsum("ij,ji->i", Phi, solved) + rest / n
    # In the eigenbasis of the Gram of the reference points, where the reconstruction is diagonal. Single
    # precision is enough for a score. Rows go in blocks to every core.
    spectrum = reference.spectrum(kernel).leading(1e-6)
    scale = 1 / reference.cell
    invert = (scale / (spectrum.eigenvalues + scale * reg_y) ** 2).astype(np.float32)
    eigenvalues = spectrum.eigenvalues.astype(np.float32)
    Phi, solved, rest, own = (A.astype(np.float32) for A in (Phi, solved, rest, own))
    values = np.empty((n, len(eigenvalues)), dtype=np.float32)
    blocks = row_blocks(n, 1, BLOCK_ROWS)

    def embed(rows: slice) -> tuple[np.ndarray, np.ndarray]:
        values[rows] = spectrum.features(Y[rows], np.float32)
        return solved[:, rows] @ values[rows], values[rows].sum(axis=0)

    parts = run_blocks(embed, blocks)
    coefficients, marginal = (np.sum([part[i] for part in parts], axis=0) for i in range(2))
    out = np.empty(n)

    def leave_out(rows: slice) -> None:
        left = Phi[rows] @ coefficients
        left += rest[rows, None] * (marginal / n)
        left -= own[rows, None] * values[rows]
        left /= np.maximum(1 - own[rows], 1e-6)[:, None]
        left *= invert
        at_own = np.einsum("ij,ij->i", left, values[rows])
        left *= eigenvalues
        grid = np.maximum(spectrum.back(left), 0.0)
        total = grid.sum(axis=1) * reference.cell
        if crps is not None:
            crps[rows] = _grid_crps(grid, reference, Y[rows])
        out[rows] = np.maximum(at_own, 0.0) / np.maximum(total, 1e-30)

    run_blocks(leave_out, blocks)
    return out


def _grid_crps(grid: np.ndarray, reference: Reference, Y: np.ndarray) -> np.ndarray:
    """``∫ (F(t) − 1{y ≤ t})² dt`` for each column, from values on the grid (m, M), (m, k)."""
    axes: Any = reference.axes
    P = grid.reshape(len(grid), *(len(a) for a in axes))
    out = np.empty(Y.shape)
    for j, axis in enumerate(axes):
        F = np.cumsum(P.sum(axis=tuple(1 + i for i in range(len(axes)) if i != j)), axis=1)
        F = F / np.maximum(F[:, -1:], 1e-30)
        out[:, j] = ((F - (Y[:, [j]] <= axis)) ** 2).sum(axis=1) * reference.spacing[j]
    return out


@dataclass(frozen=True)
class DensityChoice:
    """What is in use in a conditional density.

    Attributes:
        kernel_x, kernel_y: on inputs and outputs.
        reg_x: λ.
        reg_y: α'.
        background: the share of the uniform density.
        score: the mean leave-one-out log density of the rows that the search used; NaN if nothing was
            chosen.
        path: rows of all that was tried: the logarithms of the multiple of the lengthscales of x, of λ, of
            those of y (one a column in up to three dimensions) and of α' over the integral of the kernel;
            and the score.
        rows: that the search used.
    """

    kernel_x: Kernel
    kernel_y: Kernel
    reg_x: float
    reg_y: float
    background: float
    score: float
    path: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class DensityTask:
    """Rows, with what is given and what is free: None, or a ``tune`` flag.

    ``relevant`` says that the lengthscales of ``kernel_x`` already tell which columns matter, ``share_y``
    gives α' as a share of the integral of the kernel.
    """

    X: np.ndarray
    Y: np.ndarray
    kernel_x: Kernel
    kernel_y: Kernel
    tune_x: bool
    tune_y: bool
    reg_x: float | None
    reg_y: float | None
    background: float | None
    relevant: bool = False
    share_y: float | None = None

    @property
    def columns(self) -> int:
        """Multiples of the kernel of y that are free."""
        k = self.Y.shape[1]
        return k if k <= 3 else 1


class Search:
    """A search by Nelder and Mead's method.

    Args:
        task: what is given and what is free.
        rng: for the rows that are used.
        part: the share of the rows that a whole search would use.
        before: a search on fewer rows, to go on from.
    """

    def __init__(
        self, task: DensityTask, rng: np.random.Generator, part: float = 1.0, before: Search | None = None
    ) -> None:
        n, k = task.Y.shape
        rows = self.rows = np.sort(rng.permutation(n)[: int(part * ROWS.get(k, 1000))])
        self.X, self.Y = task.X[rows].astype(np.float64), task.Y[rows].astype(np.float64)
        kernel_x = task.kernel_x
        if before is not None:
            kernel_x = before.task.kernel_x
        elif task.tune_x and not task.relevant and task.X.shape[1] > 1:
            # Columns that tell less of y get longer lengthscales.
            found = choose_conditional(self.X, self.Y, kernel_x, task.kernel_y, None, True, rng)
            kernel_x = found.kernel
        self.task = replace(task, kernel_x=kernel_x)
        one, reg, y, alpha = START
        ahead = 0.0 if task.X.shape[1] > 1 else one
        self.start = np.array([ahead, reg, *[y] * task.columns, alpha])
        self.moves = np.array([*MOVES[:2], *[MOVES[2]] * task.columns, MOVES[3]])
        given = [
            task.tune_x,
            task.reg_x is None,
            *[task.tune_y] * task.columns,
            task.reg_y is None and task.share_y is None,
        ]
        self.free = np.array(given)
        if task.share_y is not None:
            self.start[-1] = np.log(task.share_y)
        if not task.tune_x:
            self.start[0] = 0.0
        if not task.tune_y:
            self.start[2:-1] = 0.0
        if before is not None:
            self.start, self.moves = before.best[:-1], 0.5 * self.moves
        # One grid for the whole search, some widths beyond the outputs; the uniform share has all the box.
        width = kernel_width(task.kernel_y, self.Y)
        lower, upper = self.Y.min(axis=0) - 4 * width, self.Y.max(axis=0) + 4 * width
        self.reference = box_reference(lower, upper, width, size=GRID.get(k))
        lower, upper = box_about(self.Y, width)
        self.uniform = 1 / float(np.prod(upper - lower))
        self.landmarks = self.X if n <= LANDMARKS else kmeanspp_landmarks(self.X, LANDMARKS, rng, kernel_x)
        self.path: list[np.ndarray] = []
        self.tick: Callable[[int, str], None] = lambda done, text: None

    def at(self, values: np.ndarray) -> tuple[Kernel, Kernel, float, float]:
        """The kernels and regularisers at a point of the search."""
        task, k = self.task, self.Y.shape[1]
        d = self.X.shape[1]
        kernel_x = stretch(task.kernel_x, np.full(d, np.exp(values[0]))) if task.tune_x else task.kernel_x
        multiples = np.broadcast_to(np.exp(values[2:-1]), (k,))
        kernel_y = stretch(task.kernel_y, multiples) if task.tune_y else task.kernel_y
        reg_x = float(np.exp(values[1])) if task.reg_x is None else task.reg_x
        reg_y = task.reg_y
        if reg_y is None:
            reg_y = float(np.exp(values[-1]) * np.asarray(kernel_y.integral(k)))
        return kernel_x, kernel_y, reg_x, reg_y

    def densities(self, values: np.ndarray, crps: np.ndarray | None = None) -> np.ndarray:
        kernel_x, kernel_y, reg_x, reg_y = self.at(values)
        features: Any = kernel_x
        if not isinstance(kernel_x, FeatureKernel):
            features = NystromKernel.fit(kernel_x, self.landmarks)
        Phi = np.asarray(features.features(self.X))
        return leave_one_out_density(Phi, self.Y, kernel_y, self.reference, reg_x, reg_y, crps)

    def loss(self, u: np.ndarray) -> float:
        values = self._clip(u)
        try:
            density = self.densities(values)
        except SingularSystem:
            return 1e6
        score = float(np.log((1 - SHARE) * density + SHARE * self.uniform).mean())
        self.path.append(np.append(values, score))
        self.tick(len(self.path), f"log density {self.best[-1]:.3g}")
        return -score

    def _clip(self, u: np.ndarray) -> np.ndarray:
        values = self.start.copy()
        values[self.free] = u
        values[[1, -1]] = np.clip(values[[1, -1]], *BOUNDS)
        if self.task.tune_y:  # no finer than the grid can show
            k = self.Y.shape[1]
            least = np.log(0.8 * self.reference.spacing / kernel_width(self.task.kernel_y, self.Y))
            least = least if self.task.columns == k else np.array([least.max()])
            values[2:-1] = np.maximum(values[2:-1], least)
        return values

    @property
    def best(self) -> np.ndarray:
        """The row of the path with the highest score."""
        return max(self.path, key=lambda row: row[-1])

    def run(self, evaluations: int) -> float:
        """The score of the best of so many steps."""
        from scipy.optimize import minimize

        u = self.start[self.free]
        if not self.free.any():
            return -self.loss(u)
        simplex = np.vstack([u, u + np.diag(self.moves[self.free])])
        options = {"maxfev": evaluations, "initial_simplex": simplex, "xatol": 0.02, "fatol": 1e-4}
        minimize(self.loss, u, method="Nelder-Mead", options=options)
        return self.best[-1]

    def crps(self, scales: np.ndarray) -> float:
        """The mean leave-one-out CRPS at the best so far, in units of the outputs; 0 where there is no grid.

        Args:
            scales: of the outputs of the task, (n, k).
        """
        if self.reference.axes is None:
            return 0.0
        out = np.empty(self.Y.shape)
        self.densities(self.best[:-1], out)
        return float((out * scales[self.rows]).mean(axis=0).sum())

    def choice(self) -> DensityChoice:
        """The best so far, with the background that suits it."""
        kernel_x, kernel_y, reg_x, reg_y = self.at(self.best[:-1])
        density = self.densities(self.best[:-1])
        given = self.task.background
        # What was never seen has at least the share of one more row.
        shares = np.maximum(BACKGROUNDS, 1 / len(self.Y)) if given is None else np.array([given])
        with np.errstate(divide="ignore"):
            scores = [np.log((1 - e) * density + e * self.uniform).mean() for e in shares]
        i = int(np.argmax(scores))
        return DensityChoice(
            kernel_x,
            kernel_y,
            reg_x,
            reg_y,
            float(shares[i]),
            float(scores[i]),
            np.array(self.path),
            self.rows,
        )


def choose_density(tasks: list[DensityTask], ways: list[Way], random_state: int) -> tuple[Way, DensityChoice]:
    """The way to take the outputs with the best leave-one-out log density, and what was chosen there."""
    alone = len(tasks) == 1
    steps = EVALUATIONS + (0 if alone else TRIAL * len(tasks))
    # On small matrices BLAS's threads cost more than they bring, most of all on a busy machine.
    with one_blas_thread(), progress_bar("choosing the density", steps) as move:
        best, trials, scores, errors, done = 0, [None], [], [], 0
        if not alone:
            unit, trials = ways[0].scales.mean(axis=0) * ways[0].outputs.std(axis=0), []
            for task, way in zip(tasks, ways, strict=True):
                trial = Search(task, np.random.default_rng(random_state), PART)
                trial.tick = lambda done, text, before=done: move(before + done, text)
                scores.append(trial.run(TRIAL) - np.log(way.scales[trial.rows]).sum(axis=1).mean())
                errors.append(trial.crps(way.scales / unit))
                trials.append(trial)
                done += TRIAL
            # Spikes on repeated values buy log density and may give up the dependence on x: not with CRPS.
            fair = np.array(errors) <= WORSE * min(errors)
            best = int(np.argmax(np.where(fair, scores, -np.inf)))
        search = Search(tasks[best], np.random.default_rng(random_state), 1.0, trials[best])
        search.tick = lambda done, text, before=done: move(before + done, text)
        search.run(EVALUATIONS if alone else EVALUATIONS - TRIAL)
    choice = search.choice()
    units = np.log(ways[best].scales[search.rows]).sum(axis=1).mean()
    return ways[best], replace(
        choice, score=choice.score - units, path=choice.path - [*[0.0] * (choice.path.shape[1] - 1), units]
    )


def kernel_width(kernel: Kernel, Y: np.ndarray) -> np.ndarray:
    """The standard deviation of the kernel along each column, (k,)."""
    width = np.sqrt(np.asarray(kernel.variance(Y.shape[1])))
    return np.where(np.isfinite(width), width, Y.std(axis=0))


def box_about(Y: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Opposite corners of a box about the outputs that new ones will hardly leave."""
    reach = PADDING.get(Y.shape[1], 0.25) * np.ptp(Y, axis=0) + 4 * width
    return Y.min(axis=0) - reach, Y.max(axis=0) + reach


def default_output_kernel(Y: np.ndarray) -> Gaussian:
    """A Gaussian as wide as the detail that the rows can show."""
    return detail_kernel(Y, np.full(len(Y), 1 / len(Y)))


def grid_size(lower: np.ndarray, upper: np.ndarray, width: np.ndarray) -> int | None:
    """Points along each axis that show a kernel of this width; None where there is no grid."""
    k = len(lower)
    if k not in FINEST:
        return None
    needed = int(np.ceil(((upper - lower) / width).max() * 1.25))
    return int(np.clip(needed, reference.GRID[k], FINEST[k]))


def on_grid(kernel: Kernel, free: bool, ref: Reference, Y: np.ndarray) -> Kernel:
    """The output kernel, no narrower than the points of the reference can show."""
    width, spacing = kernel_width(kernel, Y), ref.spacing
    ratio = spacing / width
    if ref.axes is None or (ratio <= COARSE).all():
        return kernel
    if free:
        return stretch(kernel, np.maximum(ratio / COARSE, 1.0))
    j = int(np.argmax(ratio))
    points = int(np.ceil(ratio[j] / COARSE * len(ref.axes[j])))
    raise ValueError(
        f"The grid is too coarse for kernel_y: its points are {spacing[j]:.3g} apart along column {j}, and "
        f"the kernel is {width[j]:.3g} wide. Pass size={points} or more, or a wider kernel."
    )
