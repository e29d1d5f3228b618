"""Iris flowers of three species, shipped with scikit-learn."""

from __future__ import annotations

from typing import Any

from muhat.datasets.base import Table


def iris() -> Table:
    """The species of 150 flowers, from four lengths in centimetres [Fisher, 1936].

    ``X`` has the columns sepal_length, sepal_width, petal_length, petal_width. ``y`` is a polars series
    of text named species: setosa, versicolor, virginica, 50 each.
    """
    import polars as pl
    from sklearn.datasets import load_iris

    data: Any = load_iris()
    names = [name.removesuffix(" (cm)").replace(" ", "_") for name in data.feature_names]
    species = [str(data.target_names[i]) for i in data.target]
    return Table(pl.DataFrame(dict(zip(names, data.data.T, strict=True))), pl.Series("species", species))
