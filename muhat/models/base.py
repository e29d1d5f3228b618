"""What the estimators share: taking tables in, in scikit-learn's manner."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from muhat._array import Array
from muhat._tables import Encoder, encode, is_frame
from muhat._validation import as_rows
from muhat.engine import Checkpoint, Rows, as_source
from muhat.engine.on_dask import DaskRows
from muhat.gram import Features, Neural, Nystrom, streamed_representation
from muhat.gram.representation import Representation
from muhat.kernels.algebra import used_columns
from muhat.learning.nearness import Nearness


class Estimator(BaseEstimator):
    """An estimator whose inputs X are tables."""

    n_features_in_: int
    kernel_x_: Any
    # Attributes that ``_prepare`` makes of the fitted ones. They may hold functions, so copies and files
    # leave them out and make them again.
    _prepared: ClassVar[tuple[str, ...]] = ()

    def _prepare(self) -> None:
        """Make what follows from the fitted attributes."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {k: v for k, v in state.items() if k not in self._prepared}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "n_features_in_"):
            self._prepare()

    def _near(self, X: Array) -> Nearness:
        """How near rows are to those of training, in the columns that the kernel looks at."""
        return Nearness.of(X, self.encoder_x_.categories, used_columns(self.kernel_x_, X.shape[1]))

    def _fit_rows(self, X: Any, min_rows: int = 2, name: str = "X") -> Array:
        encoder, A = encode(X, name, min_rows)
        A = np.asarray(A, dtype=np.float64)  # estimators work in NumPy and in double precision
        _check_feature_names(self, X, reset=True)
        self.encoder_x_ = encoder
        self.n_features_in_ = A.shape[1]
        return A

    def _fit_source(self, source: Rows) -> None:
        """As :meth:`_fit_rows`, of rows that are read in blocks."""
        self.encoder_x_ = Encoder(source.names)
        self.n_features_in_ = source.shape[1]
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _source(self, X: Any, name: str = "X") -> Rows | None:
        """``X`` as rows that are read in blocks, with the columns seen in fit; None for what is in memory."""
        check_is_fitted(self)
        source = as_source(X)
        if source is None:
            return None
        names = self.encoder_x_.names
        if source.shape[1] != self.n_features_in_ or (names and source.names and names != source.names):
            raise ValueError(
                f"{name} has {source.shape[1]} columns ({source.names or 'without names'}), but "
                f"{type(self).__name__} was fitted on {self.n_features_in_} ({names or 'without names'}): "
                "open the same columns in the same order."
            )
        return source

    def _checkpoint(self, path: Any, *sources: Rows) -> Checkpoint | None:
        """Where a fit on these rows goes on from, if a path is given."""
        if path is None:
            return None
        if any(isinstance(s, DaskRows) for s in sources):
            raise ValueError("checkpoint is for rows read on this machine: Dask does lost work again itself.")
        if not isinstance(getattr(self, "random_state", 0), (int, np.integer)):
            raise ValueError("checkpoint needs a random_state that repeats: give a whole number.")
        settings = {k: repr(v) for k, v in self.get_params(deep=False).items()}
        return Checkpoint(path, [type(self).__name__, settings, [[s.shape[1], s.names] for s in sources]])

    def _rows(self, X: Any, name: str = "X") -> Array:
        check_is_fitted(self)
        if not isinstance(X, np.ndarray) and as_source(X) is not None:
            raise TypeError(
                f"{name} is read in blocks, which fit and some predict do; here {type(self).__name__} needs "
                "an array: take the rows that you ask for into memory."
            )
        _check_feature_names(self, X, reset=False)
        A = np.asarray(self.encoder_x_.transform(X, name), dtype=np.float64)
        if A.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {A.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return A


def encode_outputs(Y: Any, name: str = "Y") -> tuple[Encoder, Array, bool]:
    """The encoder, the rows (n, k), and whether ``Y`` was a plain vector."""
    if Y is None:
        raise ValueError(
            f"This estimator requires y to be passed, but the target y is None: pass {name}, one row for "
            "every row of X."
        )
    if is_frame(Y):
        return (*encode(Y, name), False)
    if hasattr(Y, "to_frame"):
        return (*encode(Y.to_frame(), name), True)
    A = Y if hasattr(Y, "tocsr") else np.asarray(Y)
    flat = A.ndim == 1
    return Encoder(), as_rows(A.reshape(-1, 1) if flat else A, name), flat


def both_streamed(representation: Any) -> tuple[Representation, Representation]:
    """Those of inputs and outputs."""
    if isinstance(representation, tuple) and len(representation) == 2:
        return streamed_representation(representation[0]), streamed_representation(representation[1])
    both = streamed_representation(representation)
    return both, Nystrom() if isinstance(both, (Features, Neural)) else both
