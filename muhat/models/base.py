"""What the estimators share: taking tables in, in scikit-learn's manner."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from muhat._array import Array
from muhat._tables import Encoder, encode, is_frame
from muhat._validation import as_rows


class Estimator(BaseEstimator):
    """An estimator whose inputs X are tables."""

    n_features_in_: int
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

    def _fit_rows(self, X: Any, min_rows: int = 2, name: str = "X") -> Array:
        encoder, A = encode(X, name, min_rows)
        A = np.asarray(A)  # estimators work in NumPy, whatever comes in
        _check_feature_names(self, X, reset=True)
        self.encoder_x_ = encoder
        self.n_features_in_ = A.shape[1]
        return A

    def _rows(self, X: Any, name: str = "X") -> Array:
        check_is_fitted(self)
        _check_feature_names(self, X, reset=False)
        A = np.asarray(self.encoder_x_.transform(X, name))
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
