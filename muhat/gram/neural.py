"""Neural features: a network whose outputs are the features of x, trained for what is to be inferred.

``k̂(x, x') = ψ_θ(x)ᵀψ_θ(x')`` with θ learned against targets [X22, Section 3.3]. The training itself is in
:mod:`muhat.learning.features`.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from muhat._array import Array, namespace
from muhat._validation import check_count, check_positive, check_same_columns
from muhat.gram import networks
from muhat.gram.features import FeatureKernel
from muhat.gram.networks import Convolutional, Perceptron
from muhat.gram.representation import Representation
from muhat.kernels.base import Kernel

# The share of k̂(x, x) that is the constant feature, as the share of ‖μ‖² in a Gaussian kernel's.
CONSTANT = 0.5


@dataclass(frozen=True, eq=False)
class Training:
    """How features were trained.

    Attributes:
        loss: of the training rows in each epoch, as it went.
        held_out: of the rows kept out, after each epoch; empty where none were.
        best: the epoch whose network is kept, counted from 1.
        reg: λ with the least loss on the rows kept out, for features of unit size: the operator scale.
        path: rows (λ, held-out loss) at the best epoch.
    """

    loss: np.ndarray
    held_out: np.ndarray
    best: int
    reg: float
    path: np.ndarray


class NeuralKernel(FeatureKernel):
    """``k̂(x, x') = ψ(x)ᵀψ(x')`` with the features of a trained network.

    ``ψ(x) = (√c, √(1−c) g (N((x − m)/s) − b))``: a constant feature, and those of the network N centred and
    scaled so that k̂(x, x) is 1 on average over the training rows. The network runs in single precision.

    Args:
        network: a ready architecture, or the skeleton of an equinox module.
        weights: its arrays.
        centre: m, (d,).
        scale: s, (d,).
        offset: b, (p − 1,).
        gain: g.
        training: how it was trained.
    """

    _parameters: ClassVar[tuple[str, ...]] = ("weights", "centre", "scale", "offset", "gain")
    _choices: ClassVar[tuple[str, ...]] = ("network", "training")
    _module: Any = None  # the module on JAX's device: made when needed, left out of copies and files

    def __init__(
        self,
        network: Any,
        weights: tuple[Array, ...],
        centre: Array,
        scale: Array,
        offset: Array,
        gain: Array,
        training: Training | None = None,
    ) -> None:
        self.network, self.weights = network, weights
        self.centre, self.scale, self.offset, self.gain = centre, scale, offset, gain
        self.training = training

    @property
    def size(self) -> int:
        return self.offset.shape[0] + 1

    def features(self, X: Array) -> Array:
        import jax

        check_same_columns(X, self.centre.shape[0], "X", "the X that the network was trained on")
        xp = namespace(X, *self.leaves())
        if xp is np:
            with jax.enable_x64(False):
                if self._module is None:
                    self._module = jax.tree.map(_on_device, self.module())
                rows = ((X - self.centre) / self.scale).astype(np.float32)
                raw = networks.evaluate(self._module, rows, self.size - 1)
            networks.check_finite_features(raw)
        else:
            raw = jax.vmap(self.module())((X - self.centre) / self.scale)
        constant = xp.full((X.shape[0], 1), CONSTANT**0.5, dtype=raw.dtype)
        return xp.concatenate([constant, (1 - CONSTANT) ** 0.5 * self.gain * (raw - self.offset)], axis=1)

    def module(self) -> Any:
        """The trained network, an equinox module from a standardised row (d,) to its outputs (p − 1,)."""
        return networks.join(self.network, self.weights, self.centre.shape[0], self.size - 1)

    def leaves(self) -> list[Any]:
        return [*self.weights, self.centre, self.scale, self.offset, self.gain]

    def resolve(self, X: Any, names: list[str] | None = None) -> Kernel:
        return self

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, NeuralKernel) or self.network != other.network:
            return False
        pairs = list(zip(self.leaves(), other.leaves(), strict=False))
        return len(self.weights) == len(other.weights) and all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = Kernel.__hash__

    def __repr__(self) -> str:
        kind = self.network
        if isinstance(kind, networks.Skeleton):
            kind = type(kind.module).__name__
        return f"NeuralKernel({kind}, p={self.size})"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_module"}

    def _prepare(self) -> None:
        """Nothing to make again: that it is here keeps ``_module`` out of files."""


def _on_device(leaf: Any) -> Any:
    import jax.numpy as jnp

    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


@dataclass(frozen=True)
class Neural(Representation):
    """Features of x by a network, trained for what x is to tell of: no kernel on x is needed [X22, 3.3].

    For images and other rows whose distances mean little. The network is trained to explain features of
    the other variable, with the operator between them in closed form,
    ``min_E (1/n) Σ rᵢ ‖φ̃(zᵢ) − Eᵀψ_θ(xᵢ)‖² + λ‖E‖²``, by Adam in mini-batches; some rows are kept out to stop
    in time. :class:`muhat.ConditionalMean` and the Bayes' rules train it in their ``fit``;
    :meth:`train` does it by hand.

    Args:
        module: an equinox module from one row (d,) to features (p,), with the weights to start from; or a
            ready architecture from :meth:`mlp` or :meth:`convolutional`, which is what None gives.
        features: p of a ready architecture.
        reg: λ of the loss, for features of unit size. Estimators choose their own λ afterwards.
        epochs: passes over the training rows, at most.
        batch_size: rows of a step; None for all. A batch should have several times as many rows as features.
        learning_rate: of Adam at the start; it falls to 0 along a cosine.
        weight_decay: of AdamW.
        validation: share of the rows kept out to choose the epoch and λ; 0 for none.
        patience: epochs without a lower loss on them, after which training ends.
        standardize: ``"columns"`` (each column to mean 0 and variance 1), ``"together"`` (one mean and
            variance for all, as suits pixels) or None: together for convolutions, else columns.
        progress: whether to show a bar, on a terminal.
    """

    module: Any = None
    features: int = 32
    reg: float = 1e-3
    epochs: int = 150
    batch_size: int | None = 256
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    validation: float = 0.1
    patience: int = 30
    standardize: str | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("features", "epochs", "patience"):
            check_count(getattr(self, name), name)
        if self.batch_size is not None:
            check_count(self.batch_size, "batch_size", 2)
        for name, example in (("reg", 1e-3), ("learning_rate", 1e-3)):
            check_positive(getattr(self, name), name, f"give a number, e.g. {example}", scalar=True)
        if not (isinstance(self.weight_decay, Real) and 0 <= self.weight_decay < np.inf):
            raise ValueError(f"weight_decay must be a number ≥ 0, got {self.weight_decay!r}: e.g. 0.01.")
        if not (isinstance(self.validation, Real) and 0 <= self.validation <= 0.9):
            raise ValueError(f"validation must be a share from 0 to 0.9, got {self.validation!r}: e.g. 0.1.")
        if self.standardize not in (None, "columns", "together"):
            raise ValueError(f"standardize must be 'columns', 'together' or None, got {self.standardize!r}.")
        if not (self.module is None or isinstance(self.module, networks.Ready) or callable(self.module)):
            raise TypeError(
                f"module must be an equinox module, a ready architecture or None, got {self.module!r}: pass "
                "e.g. equinox.nn.MLP(d, 32, 64, 2, key=key), or use mh.Neural.mlp((128, 64))."
            )

    @classmethod
    def mlp(cls, widths: Any = (128, 64), **options: Any) -> Neural:
        """Dense hidden layers of these widths, with ReLU; ``options`` as for :class:`Neural`."""
        return cls(Perceptron(widths), **options)

    @classmethod
    def convolutional(
        cls, shape: Any, channels: Any = (16, 32, 32), pool: int | None = None, **options: Any
    ) -> Neural:
        """Convolutions for rows that are images of ``shape`` (height, width, colours).

        Args:
            shape: of each row; ``X`` is ``images.reshape(n, -1)``.
            channels: of the convolutions (stride 2; 5 × 5 the first, 3 × 3 the others).
            pool: side of the squares of pixels averaged first. None for 2 from 32 × 32 pixels on, else 1.
            **options: as for :class:`Neural`.
        """
        return cls(Convolutional(shape, channels, pool), **options)

    def train(
        self, X: Any, targets: Any, reg: float | None = None, weights: Any = None, random_state: Any = None
    ) -> NeuralKernel:
        """The kernel whose features of ``X`` explain ``targets`` best.

        Args:
            X: (n, d).
            targets: φ̃(z), (n, q): features of what is to be inferred.
            reg: λ; that of the constructor by default.
            weights: r, (n,), importance weights ≥ 0 of the rows, of which only the ratios matter.
            random_state: seed of the first weights, the rows kept out and the batches.
        """
        from muhat.learning.features import train_features  # learning builds on this module, not it on that

        return train_features(self, X, targets, reg, weights, random_state)

    def fit(self, kernel: Kernel, X: Array, random_state: Any = None) -> Kernel:
        """``kernel`` if it is trained."""
        if isinstance(kernel, NeuralKernel):
            return kernel
        raise TypeError(
            "mh.Neural has to be trained against what x is to tell of, and here is x alone: use it in an "
            "estimator of pairs, e.g. mh.ConditionalMean(representation=mh.Neural()), or train it yourself, "
            "kernel = mh.Neural().train(X, targets), and pass the kernel."
        )
