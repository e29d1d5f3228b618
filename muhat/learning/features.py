"""Learning features of x by a network, the operator on them in closed form [X22, Section 3.3]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from muhat._array import Array, column_sd, namespace
from muhat._progress import progress_bar
from muhat._threads import one_blas_thread
from muhat._validation import as_generator, as_rows, as_weights, check_positive, check_same_rows
from muhat.gram import networks
from muhat.gram.fourier import fourier_kernel
from muhat.gram.landmarks import kmeanspp_landmarks
from muhat.gram.neural import CONSTANT, Neural, NeuralKernel, Training
from muhat.gram.nystrom import NystromKernel
from muhat.kernels.base import Kernel, NoClosedForm

# λ tried on the rows kept out.
REGULARISERS = np.logspace(-8, 0, 17)
# Rows that the operator is fitted on to measure the loss of the rows kept out; and features of targets.
EVALUATION_ROWS = 2000
TARGETS = 100
# Keeping rows out needs this many in all.
LEAST_ROWS = 20
TINY = 1e-20  # added to squares that are divided by


def ridge_loss(Psi: Array, F: Array, reg: Array, weights: Array | None = None) -> Array:
    """``min_E (1/n) Σ rᵢ ‖fᵢ − Eᵀψᵢ‖² + λ‖E‖²`` in closed form [X22, 3.3; A.2].

    ``tr(FᵀDF) − tr(FᵀDΨ (ΨᵀDΨ + λI)⁻¹ ΨᵀDF)`` with ``D = diag(r)/n``: the paper's sums lack the 1/n.

    Args:
        Psi: features ψ of x, (n, p).
        F: targets, (n, q).
        reg: λ, on the operator scale.
        weights: r, (n,); ones by default.
    """
    xp = namespace(Psi, F)
    D = xp.ones_like(F[:, :1]) / len(F) if weights is None else weights[:, None] / len(F)
    B = Psi.T @ (D * F)
    A = Psi.T @ (D * Psi) + reg * xp.eye(Psi.shape[1], dtype=Psi.dtype)
    return (D * F**2).sum() - (B * xp.linalg.solve(A, B)).sum()


class Norm(NamedTuple):
    """Centre and scale of features: ``√(1−c) gain (raw − offset)`` beside the constant feature √c."""

    offset: Array
    gain: Array

    def __call__(self, raw: Array) -> Array:
        xp = namespace(raw)
        constant = xp.full((len(raw), 1), CONSTANT**0.5, dtype=raw.dtype)
        return xp.concatenate([constant, (1 - CONSTANT) ** 0.5 * self.gain * (raw - self.offset)], axis=1)


def unit_norm(raw: Array, weights: Array) -> Norm:
    """So that ψ(x)ᵀψ(x) is 1 on average over rows ``raw`` (n, p) with weights of mean 1, (n,).

    Without it the loss could be lowered by making all features larger, and λ would mean nothing.
    """
    xp = namespace(raw)
    share = (weights / (weights.sum() + TINY))[:, None]
    offset = (share * raw).sum(axis=0)
    size = (share * (raw - offset) ** 2).sum()
    return Norm(offset, 1 / xp.sqrt(size + TINY))


def target_features(
    kernel: Kernel, Z: np.ndarray, rng: np.random.Generator, numbers: bool = True
) -> np.ndarray:
    """Targets φ̃(z) for :meth:`Neural.train`: features of ``kernel``, and z itself, (n, q).

    Random Fourier features, as in [X22], or Nyström features of a kernel that has none. The columns of z,
    centred and of total variance 1, are there for the posterior mean.

    Args:
        kernel: on z, its lengthscales resolved.
        Z: (n, k).
        rng: of the frequencies or landmarks.
        numbers: False where columns of ``Z`` are codes of categories.
    """
    try:
        features = fourier_kernel(kernel, TARGETS, Z.shape[1], rng)
    except NoClosedForm:
        distinct = np.unique(Z, axis=0)
        p = min(TARGETS, len(distinct))
        landmarks = distinct if p == len(distinct) else kmeanspp_landmarks(Z, p, rng, kernel)
        features = NystromKernel.fit(kernel, landmarks)
    Phi = np.asarray(features.features(Z), dtype=np.float64)  # type: ignore[attr-defined]
    if not numbers:
        return Phi
    sd = column_sd(Z)
    spread = np.where(sd > 0, sd, 1.0)
    return np.concatenate([Phi, (Z - Z.mean(axis=0)) / (spread * Z.shape[1] ** 0.5)], axis=1)


def train_features(
    neural: Neural, X: Any, targets: Any, reg: float | None, weights: Any, random_state: Any
) -> NeuralKernel:
    """The work of :meth:`Neural.train`."""
    import equinox as eqx
    import jax

    A, F = np.asarray(as_rows(X, "X", 2)), np.asarray(as_rows(targets, "targets", 2))
    check_same_rows(A, F, "X", "targets")
    reg = neural.reg if reg is None else reg
    check_positive(reg, "reg", "give λ > 0, e.g. 1e-3", scalar=True)
    r, rng = _mean_one(weights, len(A)), as_generator(random_state)
    network = networks.Perceptron() if neural.module is None else neural.module
    key_seed = int(rng.integers(2**31))
    # Whatever the process has set, the network is in single precision. BLAS sees small matrices only.
    with jax.enable_x64(False), one_blas_thread():
        key = jax.random.key(key_seed)
        ready = isinstance(network, networks.Ready)
        module = network.build(A.shape[1], neural.features, key) if ready else network
        skeleton, arrays = networks.split(eqx.nn.inference_mode(module))
        module = networks.join(skeleton, arrays, A.shape[1], 0)
        p = networks.check_output(module, A.shape[1])
        together = neural.standardize == "together" or (
            neural.standardize is None and getattr(network, "together", False)
        )
        centre, scale = _standard(A, together)
        rows = ((A - centre) / scale).astype(np.float32)
        problem = _Problem(rows, F.astype(np.float32), r.astype(np.float32), float(reg), p)
        arrays, training = _descend(module, problem, neural, key, rng)
        raw = networks.evaluate(networks.join(skeleton, arrays, A.shape[1], p), rows, p)
    norm = unit_norm(raw, r)
    if not norm.gain < 0.5 * TINY**-0.5:
        raise ValueError(
            "The network gives the same features for all rows, which tell nothing of x: lower "
            f"learning_rate (now {neural.learning_rate}) or weight_decay (now {neural.weight_decay}), or use "
            "another module."
        )
    return NeuralKernel(
        network if ready else skeleton, arrays, centre, scale, norm.offset, np.float64(norm.gain), training
    )


def _mean_one(weights: Any, n: int) -> np.ndarray:
    if weights is None:
        return np.ones(n)
    r = np.asarray(as_weights(weights, n))
    if r.ndim != 1 or (r < 0).any() or not r.sum() > 0:
        raise ValueError(
            f"weights must be one number ≥ 0 a row, not all 0, got shape {r.shape}, least {r.min():.3g}: "
            "clip density ratios at 0."
        )
    return r / r.mean()


def _standard(X: np.ndarray, together: bool) -> tuple[np.ndarray, np.ndarray]:
    """Centre and scale of the columns, (d,); one that does not vary keeps its unit."""
    if together:
        spread = X.std() or 1.0
        return np.full(X.shape[1], X.mean()), np.full(X.shape[1], spread)
    centre, scale = X.mean(axis=0), X.std(axis=0)
    constant = scale <= 1e-12 * (np.abs(centre) + scale.max(initial=0.0))
    return centre, np.where(constant, 1.0, scale)


class _Problem(NamedTuple):
    """Standardised rows (n, d), targets (n, q), weights (n,), λ, and the number of outputs p."""

    X: np.ndarray
    F: np.ndarray
    r: np.ndarray
    reg: float
    p: int


def _descend(
    module: Any, problem: _Problem, neural: Neural, key: Any, rng: np.random.Generator
) -> tuple[tuple[np.ndarray, ...], Training]:
    """The arrays of the best network on the way down, and how it went."""
    n = len(problem.X)
    order = rng.permutation(n)
    held = round(neural.validation * n) if n >= LEAST_ROWS else 0
    out, used = np.sort(order[:held]), np.sort(order[held:])
    batch = len(used) if neural.batch_size is None else min(neural.batch_size, len(used))
    step = _compiled_step(networks.takes_key(module))
    data = tuple(_on_device(a) for a in (problem.X, problem.F, problem.r))
    rates = _cosine(neural.learning_rate, neural.epochs * (len(used) // batch))
    judge = _Judge(problem, used[:: -(-len(used) // EVALUATION_ROWS)], out)
    networks.check_finite_features(networks.evaluate(module, problem.X[used[:batch]], problem.p))
    state, losses, found = _first(module, key), [], []
    best: tuple[float, int, Any] = (np.inf, 0, module)
    with progress_bar("features", neural.epochs, neural.progress) as move:
        for epoch in range(1, neural.epochs + 1):
            total = []
            for rows in _batches(used, batch, rng):
                options = (np.float32(v) for v in (problem.reg, next(rates), neural.weight_decay))
                state, loss = step(state, rows, data, *options)
                total.append(loss)
            losses.append(float(np.mean([float(value) for value in total])))
            _check_loss(losses[-1], epoch, neural)
            score = losses[-1]
            if held:
                found.append(judge(state.module))
                score = found[-1].min()
            if score < best[0]:
                best = (score, epoch, state.module)
            elif held and epoch - best[1] >= neural.patience:
                break
            move(epoch, f"loss {score:.4g}")
    kept = state.module if not held else best[2]
    reg, path, epoch = problem.reg, np.empty((0, 2)), len(losses)
    if held:
        epoch = best[1]
        path = np.stack([REGULARISERS, found[epoch - 1]], axis=1)
        reg = float(REGULARISERS[np.argmin(path[:, 1])])
    history = np.array([values.min() for values in found])
    return networks.split(kept)[1], Training(np.array(losses), history, epoch, reg, path)


def _cosine(rate: float, steps: int) -> Iterator[float]:
    """Learning rates that fall from ``rate`` to 0 along a cosine."""
    for i in range(steps):
        yield rate * 0.5 * (1 + np.cos(np.pi * i / steps))


def _batches(rows: np.ndarray, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Whole batches of ``rows`` in a new order; what is left over has its turn in another epoch."""
    if size == len(rows):
        yield rows
        return
    order = rng.permutation(rows)
    for start in range(0, len(rows) - size + 1, size):
        yield order[start : start + size]


def _check_loss(loss: float, epoch: int, neural: Neural) -> None:
    if not np.isfinite(loss):
        raise ValueError(
            f"Training broke down: the loss is {loss} in epoch {epoch}, since the network gave non-finite "
            f"features. Lower learning_rate (now {neural.learning_rate}), raise reg (now {neural.reg}), or "
            "check the module."
        )


class _State(NamedTuple):
    """The network, the memory of Adam, and the key of what is random in the network."""

    module: Any
    memory: Any
    key: Any


def _first(module: Any, key: Any) -> _State:
    import equinox as eqx
    import jax
    import optax

    module = eqx.nn.inference_mode(jax.tree.map(_on_device, module), False)
    return _State(module, optax.scale_by_adam().init(eqx.filter(module, eqx.is_inexact_array)), key)


@lru_cache
def _compiled_step(keyed: bool) -> Callable[..., tuple[_State, Any]]:
    """A step of AdamW on a batch: compiled once for all trainings of the same network on as many rows.

    Args:
        keyed: whether the network is called with a key.
    """
    import equinox as eqx
    import jax
    import optax

    adam = optax.scale_by_adam()

    def loss(trained: Any, fixed: Any, X: Array, F: Array, r: Array, reg: Array, key: Any) -> Array:
        network = eqx.combine(trained, fixed)
        if keyed:
            raw = jax.vmap(lambda x, k: network(x, key=k))(X, jax.random.split(key, len(X)))
        else:
            raw = jax.vmap(network)(X)
        return ridge_loss(unit_norm(raw, r)(raw), F, reg, r)

    @eqx.filter_jit
    def step(state: _State, rows: Array, data: Any, reg: Array, rate: Array, decay: Array) -> Any:
        key, use = jax.random.split(state.key)
        batch = (a[rows] for a in data)
        trained, fixed = eqx.partition(state.module, eqx.is_inexact_array)
        value, slope = jax.value_and_grad(loss)(trained, fixed, *batch, reg, use)
        move, memory = adam.update(slope, state.memory)
        trained = jax.tree.map(lambda w, m: w - rate * (m + decay * w), trained, move)
        return _State(eqx.combine(trained, fixed), memory, key), value

    return step


def _on_device(leaf: Any) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


class _Judge:
    """The loss of the rows kept out for each of :data:`REGULARISERS`, in double precision."""

    def __init__(self, problem: _Problem, used: np.ndarray, out: np.ndarray) -> None:
        self.used, self.out = (
            tuple(np.asarray(a[rows], dtype) for a, dtype in zip(problem[:3], "fdd", strict=True))
            for rows in (used, out)
        )
        self.p = problem.p

    def __call__(self, module: Any) -> np.ndarray:
        import equinox as eqx

        module = eqx.nn.inference_mode(module)
        (X, F, r), (x, f, s) = self.used, self.out
        raw = networks.evaluate(module, X, self.p)
        networks.check_finite_features(raw)
        norm = unit_norm(raw, r)
        Psi, psi = norm(raw), norm(networks.evaluate(module, x, self.p))
        D = r[:, None] / r.sum()
        values, V = np.linalg.eigh(Psi.T @ (D * Psi))
        B, psi = V.T @ (Psi.T @ (D * F)), psi @ V
        left = [f - psi @ (B / (values + reg)[:, None]) for reg in REGULARISERS]
        share = s / s.sum() if s.sum() > 0 else np.full(len(s), 1 / len(s))
        return np.array([share @ (residual**2).sum(axis=1) for residual in left])


__all__ = ["Norm", "ridge_loss", "target_features", "train_features", "unit_norm"]
