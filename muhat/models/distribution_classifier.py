"""Classification of bags: one example is a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from muhat.kernels.base import Kernel
from muhat.models.distribution_base import BagEstimator, as_targets, new_seed, targets_of
from muhat.operators.bags import Landmarks, bag_noise

# Prior variances of the coefficients that are tried, in units of the amplitude that regression finds.
VARIANCES = np.logspace(-1, 4, 6)
FOLDS = 5


class DistributionClassifier(ClassifierMixin, BagEstimator):
    """The class of a sample of points: logistic regression on the features of bags [G15].

    The features are those of :class:`DistributionRegressor`, whose marginal likelihood on the indicators of
    the classes chooses the kernel. Logistic regression on them is the posterior mode of the Gaussian process
    classifier; its likelihood is the right one for labels, so that its probabilities need no second step to
    be calibrated, as those of a regression on labels would. The prior variance of the coefficients is chosen
    by the log loss of cross-validation. Training bags are as noisy as they are, and the probabilities know
    it; a bag that is noisier than they are on average has its logits shrunk for the rest.

    Args:
        kernel: the outer kernel, or a whole ``mh.OnDistributions``. None for ``mh.Cauchy()``. A lengthscale
            that is a number is kept; one that is ``"median"`` is learned.
        inner: the kernel on points, alike, for bags as they are; None for place and scales of shape.
        representation: as in :class:`DistributionRegressor`.
        random_state: seed of the features, of the bags looked at and of the folds.

    Attributes:
        classes_: the labels, sorted.
        kernel_: the kernel on distributions in use.
        features_: of bags.
        coef_, intercept_: of the logits, (classes, p) and (classes,).
        variance_: prior variance of the coefficients.
        losses_: log loss of cross-validation for each variance tried.
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        inner: Kernel | None = None,
        representation: Any = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.inner = inner
        self.representation = representation
        self.random_state = random_state

    def fit(self, bags: Any, y: Any) -> DistributionClassifier:
        """Learn from bags (as :meth:`DistributionRegressor.fit`) and their labels (n,)."""
        self.seed_ = new_seed(self.random_state)
        bags, sample = self._take(bags)
        labels = _labels(as_targets(y, bags))
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_.tolist()}: pass bags of at least two.")
        self.n_features_in_ = sample.dimension
        looked = self._looked(codes, sample)
        Y = np.eye(len(self.classes_))[looked]
        Y = Y - Y.mean(axis=0)
        self._choose(bags, sample, Y / max(float(Y.std()), 1e-12))
        if isinstance(self.features_, Landmarks) and len(self.features_.bags) < len(labels):
            self.features_ = Landmarks.fit(self.kernel_, bags)
        parts = [self.features_.of(b) for b, _ in targets_of(codes, self._known(bags))]
        Psi = np.concatenate(parts)
        self._choose_variance(Psi, codes)
        model = self._logistic(self.variance_).fit(Psi, codes)
        coef, intercept = model.coef_, model.intercept_
        if len(self.classes_) == 2:  # logits of both, centred
            coef, intercept = np.vstack([-coef, coef]) / 2, np.append(-intercept, intercept) / 2
        self.coef_, self.intercept_ = coef - coef.mean(axis=0), intercept - intercept.mean()
        self.typical_, self.usual_ = np.zeros(len(self.classes_)), np.zeros(len(self.classes_))
        sizes = sample.effective_sizes
        for k, spreads in enumerate(self.features_.spreads(sample, self.coef_)):
            self.typical_[k] = spreads[sizes > 1].mean() if (sizes > 1).any() else 0.0
            self.usual_[k] = bag_noise(spreads, self.typical_[k], sizes).mean()
        return self

    def _choose_variance(self, Psi: np.ndarray, codes: np.ndarray) -> None:
        from sklearn.metrics import log_loss
        from sklearn.model_selection import StratifiedKFold, cross_val_predict

        variances = VARIANCES * max(self.selection_.amplitude, 1e-6)
        folds = min(FOLDS, int(np.bincount(codes).min()))
        self.losses_ = np.full(len(variances), np.nan)
        self.variance_ = float(variances[2])
        if folds < 2:  # a class with one bag: nothing to hold out
            return
        keep = self._rng(2).permutation(len(codes))[: max(1000, 20 * len(self.classes_))]
        if np.bincount(codes[keep], minlength=len(self.classes_)).min() < folds:
            keep = np.arange(len(codes))
        split = StratifiedKFold(folds, shuffle=True, random_state=self.seed_)
        for i, variance in enumerate(variances):
            held = cross_val_predict(
                self._logistic(float(variance)), Psi[keep], codes[keep], cv=split, method="predict_proba"
            )
            self.losses_[i] = log_loss(codes[keep], held, labels=np.arange(len(self.classes_)))
        self.variance_ = float(variances[int(np.argmin(self.losses_))])

    def _logistic(self, variance: float) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=variance, max_iter=5000)

    def predict_proba(self, bags: Any) -> np.ndarray:
        """Probabilities of the classes for each bag, (n, classes)."""
        from scipy.special import softmax

        out = []
        for batch in self._known(bags):
            logits = self.features_.of(batch) @ self.coef_.T + self.intercept_
            excess = np.empty_like(logits)
            for k, spreads in enumerate(self.features_.spreads(batch, self.coef_)):
                noise = bag_noise(spreads, self.typical_[k], batch.effective_sizes)
                excess[:, k] = np.maximum(noise - self.usual_[k], 0.0)
            if len(self.classes_) == 2:  # each holds half of their difference, the logit that is noisy
                excess *= 4
            # E sigmoid(z + √v N) ≈ sigmoid(z/√(1 + πv/8)).
            out.append(softmax(logits / np.sqrt(1 + np.pi * excess / 8), axis=1))
        return np.concatenate(out)

    def predict(self, bags: Any) -> np.ndarray:
        """The most probable class of each bag, (n,)."""
        return self.classes_[self.predict_proba(bags).argmax(axis=1)]


def _labels(y: np.ndarray) -> np.ndarray:
    """Labels, none of which is missing."""
    # NaN is not equal to itself, and of pandas' NA that is not known.
    gone = [i for i, label in enumerate(y.tolist()) if label is None or (label == label) is not True]
    if gone:
        raise ValueError(f"The label of bag {gone[0]} is {y[gone[0]]}: drop the bags without one.")
    return y


__all__ = ["DistributionClassifier"]
