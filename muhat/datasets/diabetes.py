"""Diabetes progression of 442 patients, shipped with scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from muhat.datasets.base import Table

NAMES = {
    "bp": "blood_pressure",
    "s1": "cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol_hdl_ratio",
    "s5": "log_triglycerides",
    "s6": "glucose",
}


def diabetes() -> Table:
    """Disease progression one year on, from ten measurements [Efron et al., 2004].

    ``X`` has 442 rows in the original units: age, sex, bmi, blood_pressure, cholesterol, ldl, hdl,
    cholesterol_hdl_ratio, log_triglycerides, glucose. ``sex`` is text ("1" or "2", as published), so
    that it is taken as a category. ``y`` is the progression, a number from 25 to 346.
    """
    import polars as pl
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes(scaled=False)
    names = [NAMES.get(name, name) for name in data.feature_names]
    X = pl.DataFrame(dict(zip(names, data.data.T, strict=True)))
    return Table(X.with_columns(pl.col("sex").cast(pl.Int64).cast(pl.String)), np.asarray(data.target))
