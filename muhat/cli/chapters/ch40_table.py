"""A real table with numbers and categories, scored on held-out rows beside simple baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import muhat as mh
from muhat._words import percent
from muhat.cli.page import Page
from muhat.datasets import diabetes, iris
from muhat.report import plots
from muhat.report.cells import cell

TITLE = "A table with numbers and categories"
LEVELS = np.array([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
FOLDS = 5


def predict(X: pl.DataFrame, y: np.ndarray, new: pl.DataFrame) -> Any:
    model = mh.ConditionalMean().fit(X, y)  # text columns are categories
    return model.predict(new), model.at(new).quantile(LEVELS)[..., 0]


def classify(X: pl.DataFrame, y: pl.Series, new: pl.DataFrame) -> np.ndarray:
    model = mh.ConditionalMean().fit(X, y)  # y is text: its codes count the sorted labels
    return model.at(new).simplex().expect(lambda code: code == np.arange(3))


def run(page: Page, seed: int) -> None:
    """Write the chapter."""
    _regression(page, seed)
    _classification(page, seed)


def _regression(page: Page, seed: int) -> None:
    from sklearn.metrics import r2_score
    from sklearn.model_selection import KFold

    X, y = diabetes()
    text = [name for name, kind in X.schema.items() if kind == pl.String]
    page.say(
        f"The diabetes table: {X.height} patients, {X.width} columns, of which `{', '.join(text)}` is a "
        "category. A polars or pandas frame goes in as it is: the default kernel scales the numbers and "
        "compares the categories."
    )
    methods = {"muhat": predict, "ridge": _ridge, "nearest neighbours": _neighbours, "no inputs": _marginal}
    means = {name: np.empty(len(y)) for name in methods}
    quantiles = {name: np.empty((len(y), len(LEVELS))) for name in methods}
    for fold, (train, test) in enumerate(KFold(FOLDS, shuffle=True, random_state=seed).split(y)):
        for name, method in methods.items():
            shown = page.run if fold == 0 and method is predict else _call
            means[name][test], quantiles[name][test] = shown(method, X[train], y[train], X[test])
    rows = []
    for name, q in quantiles.items():
        error = y[:, None] - q
        inside = (y >= q[:, 0]) & (y <= q[:, -1])
        rows.append(
            (
                name,
                f"{round(r2_score(y, means[name]), 2) + 0.0:.2f}",  # never "-0.00"
                np.maximum(LEVELS * error, (LEVELS - 1) * error).mean(),
                percent(inside.mean()),
                (q[:, -1] - q[:, 0]).mean(),
            )
        )
    page.table(
        rows,
        ["method", "R²", "quantile loss", "in 90% interval", "its width"],
        f"Held-out rows of {FOLDS}-fold cross-validation. R² of the mean: more is better; quantile "
        "(pinball) loss: less is better; 90% of the values should fall in the interval.",
    )
    best_mean, best_loss = (
        max(means, key=lambda name: r2_score(y, means[name])),
        min(rows, key=lambda row: row[2])[0],
    )
    page.say(
        f"Best mean here: {best_mean}. Best quantiles: {best_loss}. The baselines take their quantiles from "
        "the residuals of ridge regression, from the values of the nearest neighbours, and from all training "
        "values; what they leave free was chosen by cross-validation on the training rows."
    )
    shares = {name: (y[:, None] <= q).mean(axis=0) for name, q in quantiles.items() if name != "no inputs"}
    page.figure(
        plots.calibration(LEVELS, shares),
        "Calibration: the share of held-out values below their predicted quantile. On the diagonal a "
        "quantile keeps its promise.",
    )


def _classification(page: Page, seed: int) -> None:
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.neighbors import KNeighborsClassifier

    X, y = iris()
    labels, codes = np.unique(y.to_numpy(), return_inverse=True)
    page.say(
        f"Outputs may be categories, too: the species of {X.height} irises. The expectation of an indicator "
        "is a probability."
    )
    ours, theirs = np.empty((len(codes), 3)), np.empty((len(codes), 3))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for fold, (train, test) in enumerate(folds.split(codes, codes)):
        shown: Any = page.run if fold == 0 else _call
        ours[test] = shown(classify, X[train], y[train], X[test])
        search: Any = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 10, 15, 20]})
        theirs[test] = search.fit(X[train].to_numpy(), codes[train]).predict_proba(X[test].to_numpy())
    page.table(
        [
            (name, (p.argmax(axis=1) == codes).mean(), ((p - np.eye(3)[codes]) ** 2).sum(axis=1).mean())
            for name, p in (("muhat", ours), ("nearest neighbours", theirs))
        ],
        ["method", "accuracy", "Brier score"],
        f"Held-out rows of {FOLDS}-fold cross-validation: {', '.join(labels)}. Brier score: less is better.",
    )
    doubt = int(np.argmin(ours.max(axis=1)))
    chances = ", ".join(f"{label} {cell(p)}" for label, p in zip(labels, ours[doubt], strict=True))
    page.say(f"The flower in most doubt is row {doubt} ({labels[codes[doubt]]}): {chances}.")


def _call(function: Any, *args: Any) -> Any:
    return function(*args)


def _numbers(frame: pl.DataFrame) -> np.ndarray:
    """The table for the baselines: the category has two values, so one column of codes says it all."""
    return frame.with_columns(pl.col("sex").cast(pl.Float64)).to_numpy()


def _ridge(X: pl.DataFrame, y: np.ndarray, new: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 3, 21))).fit(_numbers(X), y)
    mean = model.predict(_numbers(new))
    residuals = y - model.predict(_numbers(X))
    return mean, mean[:, None] + np.quantile(residuals, LEVELS)


def _neighbours(X: pl.DataFrame, y: np.ndarray, new: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import GridSearchCV
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler().fit(_numbers(X))
    search: Any = GridSearchCV(KNeighborsRegressor(), {"n_neighbors": [5, 10, 15, 20, 30, 40]})
    model = search.fit(scale.transform(_numbers(X)), y).best_estimator_
    near = y[model.kneighbors(scale.transform(_numbers(new)), return_distance=False)]
    return near.mean(axis=1), np.quantile(near, LEVELS, axis=1).T


def _marginal(X: pl.DataFrame, y: np.ndarray, new: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return np.full(new.height, y.mean()), np.tile(np.quantile(y, LEVELS), (new.height, 1))
