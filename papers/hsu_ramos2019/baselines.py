"""What one might do without a model of the task: regressors in a row [HR19, 8.1].

Every regressor is a Gaussian process whose kernel and noise are learned by its marginal likelihood.
"""

from __future__ import annotations

import numpy as np

import muhat as mh
from papers.hsu_ramos2019.toys import Task


def regress(x: np.ndarray, z: np.ndarray) -> mh.TaskTransformedGP:
    """The mean of z given x."""
    return mh.TaskTransformedGP().fit_direct(x, z)


def cascade(task: Task, x: np.ndarray) -> np.ndarray:
    """y from x, then z from y, at ``x`` (q,)."""
    y = regress(task.x, task.y).predict(x)
    return regress(task.y_task, task.z_task).predict(y)


def impute(task: Task, x: np.ndarray) -> np.ndarray:
    """z from y at the y of the pairs, then that from x, at ``x`` (q,)."""
    fake = regress(task.y_task, task.z_task).predict(task.y)
    return regress(task.x, fake).predict(x)
