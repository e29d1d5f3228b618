"""Figures: one of each, drawn, labelled, and without global state."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import muhat as mh
from muhat.datasets import fork, fork_pdf, fork_quantile, normal_and_laplace
from muhat.report import Report, plots

GRID = np.linspace(0.1, 3.9, 15)
LEVELS = [0.05, 0.25, 0.75, 0.95]


def witness():
    x, y = normal_and_laplace(100)
    kernel = mh.Gaussian(1.0)
    return plots.witness(mh.embed(x, kernel), mh.embed(y, kernel), ("normal", "Laplace"))


def panels():
    axes = [np.linspace(-1, 1, 9), np.linspace(-2, 2, 11)]
    density = np.exp(-(axes[0][:, None] ** 2) - axes[1] ** 2)
    points = np.random.default_rng(0).standard_normal((10, 2))
    return plots.sample_panels(axes, density, {"herded": points, "random": points})


def leave_one_out():
    model = mh.ConditionalMean().fit(*fork(60))
    assert model.selection_ is not None
    return plots.leave_one_out(model.selection_)


FIGURES = {
    "densities": lambda: plots.densities(GRID, {"a": GRID, "b": GRID**2}, GRID, fork(50).X),
    "witness": witness,
    "null_distribution": lambda: plots.null_distribution(np.linspace(0, 1, 50), 0.9),
    "sample_panels": panels,
    "error_curves": lambda: plots.error_curves(
        np.array([1, 10, 100]), {"a": np.array([1, 0.1, 0.01])}, "n", slope=-1
    ),
    "quantile_fan": lambda: plots.quantile_fan(
        GRID, fork_quantile(GRID, LEVELS), LEVELS, fork(50), fork_quantile(GRID, LEVELS), GRID
    ),
    "conditional_densities": lambda: plots.conditional_densities(
        GRID, np.linspace(-4, 4, 21), {"a": fork_pdf(GRID, np.linspace(-4, 4, 21))}
    ),
    "leave_one_out": leave_one_out,
    "calibration": lambda: plots.calibration(np.array([0.1, 0.9]), {"a": np.array([0.2, 0.8])}),
}


@pytest.mark.parametrize("name", FIGURES)
def test_each_is_drawn_and_labelled(name):
    figure = FIGURES[name]()
    assert isinstance(figure, Figure)
    assert len(Report("t").figure(figure, name).html()) > 5000
    data = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert all(ax.get_xlabel() for ax in data[-1:])
    assert data[0].get_ylabel()
    drawn = sum(len(ax.lines) + len(ax.collections) + len(ax.patches) for ax in data)
    assert drawn > 0


def test_every_plot_is_tried():
    import inspect

    public = {
        name
        for name, member in inspect.getmembers(plots, inspect.isfunction)
        if member.__module__ == plots.__name__ and not name.startswith("_")
    }
    assert public - {"new_figure"} == set(FIGURES)


def test_curves_that_belong_together_differ_by_more_than_colour():
    figure = plots.densities(GRID, {"a": GRID, "b": GRID, "c": GRID})
    lines = figure.axes[0].lines
    assert len({line.get_linestyle() for line in lines}) == len({line.get_color() for line in lines}) == 3


def test_large_samples_are_thinned():
    figure = plots.densities(GRID, {"a": GRID}, sample=np.arange(50_000.0)[:, None])
    assert len(np.asarray(figure.axes[0].lines[-1].get_xdata())) == plots.DRAWN


def test_a_flat_leave_one_out_path_can_be_drawn():
    model = mh.ConditionalMean(mh.Gaussian(1.0)).fit(*fork(30))
    assert model.selection_ is not None
    assert plots.leave_one_out(model.selection_).axes[0].lines


def test_no_pyplot_and_no_lasting_settings():
    code = (
        "import sys, matplotlib; from matplotlib import rcParams\n"
        "def settings(): return {key: rcParams[key] for key in rcParams if key != 'backend'}\n"
        "before = settings()  # to read the backend would choose one\n"
        "import numpy as np; from muhat.report import Report, plots\n"
        "figure = plots.calibration(np.array([0.5]), {'a': np.array([0.5])})\n"
        "Report('t').figure(figure, 'c').html()\n"
        "assert settings() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
