"""Figures of tests: what is drawn is what the result says, for every kind of column and any size."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from muhat.report import Report, tests
from muhat.testing.conditional import conditional_independence_test
from muhat.testing.independence import independence_test
from muhat.testing.two_sample import two_sample_test


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def mixed(n, share, seed):
    rng = np.random.default_rng(seed)
    colour = np.where(rng.random(n) < share, "red", "a rather long name of a colour")
    return pl.DataFrame({"$x^$": rng.standard_normal(n), "colour": colour, "_c": rng.standard_normal(n)})


def two(x, y, **kwargs):
    return two_sample_test(x, y, permutations=49, random_state=0, **kwargs)


def categories(seed, letters):
    return pl.DataFrame({"c": np.random.default_rng(seed).choice(list(letters), 60)})


def ring():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 150)
    return np.cos(angle), np.sin(angle)


RESULTS = {
    "one column": lambda: two(normal(40), normal(50, seed=1) + 1),
    "gamma": lambda: two(normal(40), normal(40, seed=1) + 3, kernel="median", method="gamma"),
    "wild": lambda: two(normal(40), normal(40, seed=1), method="wild"),
    "two columns": lambda: two(normal(40, 2), normal(40, 2, seed=1)),
    "twenty columns": lambda: two(normal(40, 20), normal(40, 20, seed=1)),
    "mixed columns": lambda: two(mixed(40, 0.8, 0), mixed(50, 0.2, 1)),
    "one category": lambda: two(categories(0, "abcdef"), categories(1, "abc")),
    "many categories": lambda: two(
        categories(0, "abcdefghijklmnopqrstuvwxyz").with_columns(x=1.0),
        categories(1, "abcdefghijklm").with_columns(x=2.0),
    ),
    "two rows": lambda: two(normal(2), normal(2, seed=1)),
    "two rows, three columns": lambda: two(normal(2, 3), normal(2, 3, seed=1)),
    "identical": lambda: two(normal(30, 2), normal(30, 2)),
    "nearly constant": lambda: two(np.zeros(40), np.r_[np.zeros(39), 1.0]),
    "outliers": lambda: two(np.r_[normal(200), 1e6], normal(200, seed=1)),
    "a constant column": lambda: two(np.c_[normal(30), np.ones(30)], np.c_[normal(30, seed=1), np.ones(30)]),
    "ring": lambda: independence_test(*ring(), permutations=49, random_state=0),
    "dependence, mixed": lambda: independence_test(
        mixed(60, 0.5, 0), normal(60, 2), permutations=49, random_state=0
    ),
    "categories depend": lambda: independence_test(
        categories(0, "abc"), categories(1, "abcd"), permutations=49, random_state=0
    ),
    "kci": lambda: conditional_independence_test(
        normal(60), normal(60, seed=1), normal(60, seed=2), permutations=49, random_state=0
    ),
    "residual": lambda: conditional_independence_test(
        normal(60),
        normal(60, seed=1),
        normal(60, seed=2),
        method="residual",
        permutations=49,
        random_state=0,
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_each_is_drawn_with_labels_and_the_null(name):
    result = RESULTS[name]()
    figure = plotted(result)
    assert isinstance(figure, Figure)
    assert len(Report("t").figure(figure, name).html()) > 5000
    null: Any = next(ax for ax in figure.axes if "observed" in legend(ax))
    observed = [line.get_xdata()[0] for line in null.lines if line.get_label().startswith("observed")]
    assert observed == [result.statistic]
    if result.method != "gamma":
        assert sum(bar.get_height() for bar in null.patches) == len(result.null)


def plotted(result, **kwargs) -> Any:
    """The figure, its parts of any type."""
    return tests.two_sample(result, **kwargs) if kwargs else result.plot()


def legend(ax):
    return "" if ax.get_legend() is None else " ".join(t.get_text() for t in ax.get_legend().get_texts())


def meshes(figure):
    """The heat map of a figure: its values, (rows, columns)."""
    ax = figure.axes[1]
    mesh: Any = next(part for part in ax.collections if isinstance(part, QuadMesh))
    return mesh, np.asarray(mesh.get_array()).reshape(mesh._coordinates.shape[0] - 1, -1)


def test_the_columns_that_differ_most_are_drawn():
    x, y = normal(80, 5), normal(80, 5, seed=1)
    y[:, 3] += 2
    y[:, 1] *= 4
    figure = plotted(two(x, y))
    assert {figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()} == {"x[1]", "x[3]"}
    assert {figure.axes[1].get_xlabel(), figure.axes[1].get_ylabel()} == {"x[1]", "x[3]"}


def test_the_heat_map_is_the_witness_with_the_other_columns_at_their_median():
    x, y = normal(60, 3), normal(60, 3, seed=1) + np.array([2.0, 1.0, 0.0])
    result = two(x, y)
    figure = plotted(result)
    mesh, values = meshes(figure)
    ax = figure.axes[1]
    names = [ax.get_xlabel(), ax.get_ylabel()]
    pair = [int(name[2]) for name in names]
    corners = mesh._coordinates
    middle = (corners[1:, 1:] + corners[:-1, :-1]) / 2
    for i, j in ((5, 9), (40, 20)):
        point = np.median(np.concatenate([x, y]), axis=0)
        point[pair] = middle[i, j]
        np.testing.assert_allclose(values[i, j], result.witness(point[None])[0], atol=1e-9)
    assert mesh.norm.vmin == -mesh.norm.vmax  # white is zero
    assert mesh.cmap(0.5)[:3] == pytest.approx((1, 1, 1), abs=0.02)


def test_the_line_of_one_column_is_its_witness_and_names_are_shown():
    result = two(normal(60), normal(60, seed=1) + 2)
    figure = plotted(result, names=("_before", "$after^"))
    top, middle = figure.axes[:2]
    assert legend(top).split() == ["_before", "$after^"]
    curve = max(middle.lines, key=lambda line: len(line.get_xdata()))
    grid = np.asarray(curve.get_xdata())
    np.testing.assert_allclose(curve.get_ydata(), result.witness(grid[:, None]), atol=1e-12)
    assert len(Report("t").figure(figure, "names are no formulas").html()) > 5000


def test_names_that_are_short_alike_are_told_apart():
    result = two(normal(20), normal(20, seed=1))
    names = ("measurements_A_of_2024.csv", "measurements_B_of_2024.csv")
    shown = plotted(result, names=names).axes[0].get_legend().get_texts()
    assert len({text.get_text() for text in shown}) == 2


def test_histograms_show_every_row_once():
    x = np.r_[normal(300), 50.0]
    figure = plotted(two(x, normal(300, seed=1)))
    stairs = figure.axes[0].patches[0].get_data()
    area = float((stairs.values * np.diff(stairs.edges)).sum())
    assert 0.98 < area < 1  # the outlier is outside the range shown, and counted as such


def test_shares_of_categories():
    first = pl.DataFrame({"c": ["a"] * 3 + ["b"]})
    second = pl.DataFrame({"c": ["a", "b", "b", "c"]})
    top = plotted(two(first, second)).axes[0]
    heights = [[bar.get_height() for bar in group] for group in top.containers]
    assert heights == [[75, 25, 0], [25, 50, 25]]


def test_the_strongest_pair_and_the_witness_of_dependence():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((80, 3)), rng.standard_normal((80, 2))
    y[:, 1] = x[:, 2] + 0.1 * y[:, 1]
    result = independence_test(x, y, permutations=99, random_state=0)
    figure = plotted(result)
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("x[2]", "y[1]")
    mesh, values = meshes(figure)
    corners = mesh._coordinates
    middle = (corners[1:, 1:] + corners[:-1, :-1]) / 2
    p, q = np.median(x, axis=0), np.median(y, axis=0)
    p[2], q[1] = middle[30, 10]
    np.testing.assert_allclose(values[30, 10], result.witness(p[None], q[None])[0], atol=1e-9)


def test_bars_name_the_columns_in_order_with_those_that_stand_out_in_colour():
    x, y = normal(80, 3), normal(80, 3, seed=1)
    y[:, 2] += 3
    result = two(x, y)
    columns = result.columns()
    bars = plotted(result, columns=columns).axes[3]
    assert [t.get_text() for t in bars.get_yticklabels()] == [c.name for c in columns]
    widths = [bar.get_width() for bar in bars.patches]
    np.testing.assert_allclose(widths, [100 * max(c.effect_size - 0.5, 0) for c in columns])
    assert bars.patches[0].get_facecolor() != bars.patches[1].get_facecolor()


def test_many_rows_are_thinned_and_blocks_agree(monkeypatch):
    result = two(normal(1300, 2), normal(1300, 2, seed=1), kernel="median")
    whole = meshes(plotted(result))[1]
    monkeypatch.setattr(tests, "ELEMENTS", 50_000)
    figure = plotted(result)
    assert max(len(line.get_xdata()) for line in figure.axes[0].lines) == tests.POINTS
    np.testing.assert_allclose(meshes(figure)[1], whole, atol=1e-12)


def test_residuals_are_drawn_against_each_other():
    result = RESULTS["residual"]()
    drawn = plotted(result).axes[0].lines[0]
    np.testing.assert_allclose(drawn.get_xdata(), result.residuals[0][:, 0])
    np.testing.assert_allclose(drawn.get_ydata(), result.residuals[1][:, 0])
