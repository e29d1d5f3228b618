"""Terrain, traffic, parking and the regression tables: read where they are, refused when they are others."""

import os
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from muhat import datasets
from muhat.datasets.arrays import digest

TRAFFIC = "traffic_occupancy_hourly_sensor0.csv.gz"
FOLDER = os.environ.get("MUHAT_DATA", "")
FILES = {
    "mount_st_helens.npz": datasets.terrain,
    TRAFFIC: datasets.traffic,
    "birmingham_parking.npz": datasets.parking,
    "uci_regression.npz": lambda: datasets.uci_regression("yacht"),
    "ep_binary_classification.npz": lambda: datasets.uci_binary("fertility"),
}


def needs(file):
    there = bool(FOLDER) and (Path(FOLDER) / file).is_file()
    return pytest.mark.skipif(not there, reason=f"needs {file} in the folder MUHAT_DATA")


@needs("mount_st_helens.npz")
def test_the_terrain_is_a_grid_in_order():
    X, y = datasets.terrain()
    assert X.shape == (14_040, 2)
    axes = np.arange(8.0, 961, 8), np.arange(8.0, 937, 8)
    np.testing.assert_array_equal(X, np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2))
    assert 764 < y.min() < y.max() < 2522
    assert abs(np.diff(y.reshape(117, 120), axis=1)).max() < 250  # a mountain, not noise


@needs(TRAFFIC)
def test_each_hour_of_the_week_comes_about_104_times():
    table = datasets.traffic()
    assert table.shape == (17_544, 4)
    assert table["datetime"].diff().drop_nulls().unique().to_list() == [timedelta(hours=1)]
    np.testing.assert_array_equal(table["datetime"].dt.weekday() - 1, table["day_of_week"])
    assert set(table.group_by("day_of_week", "hour").len()["len"]) == {104, 105}
    assert 0 <= table["occupancy"].min() <= table["occupancy"].max() <= 1


@needs("birmingham_parking.npz")
def test_car_parks_have_their_calendar_and_no_missing_cells():
    table = datasets.parking()
    assert table["cars"].min() > 0
    assert table["car_park"].n_unique() == 30
    np.testing.assert_array_equal(table["date"].dt.weekday() - 1, table["day_of_week"])
    assert sorted(table["minute"].unique()) == list(range(480, 991, 30))
    assert len(table) == pytest.approx(0.851 * 30 * 77 * 18, rel=0.001)


@needs("uci_regression.npz")
@pytest.mark.parametrize(
    ("name", "shape"), [("energy", (768, 8)), ("kin8nm", (8192, 8)), ("yacht", (308, 6))]
)
def test_splits_part_the_rows(name, shape):
    data = datasets.uci_regression(name)
    assert data.X.shape == shape
    X, y, X_test, y_test = data.split(7)
    assert len(X_test) == len(y_test) == data.tests.shape[1] == pytest.approx(0.1 * len(data.X), abs=1)
    np.testing.assert_array_equal(np.sort(np.concatenate([y, y_test])), np.sort(data.y))
    assert len(X) == len(y) == len(data.y) - len(y_test)
    assert not np.array_equal(y_test, data.split(8)[3])
    with pytest.raises(ValueError, match="0 to 19, got 20"):
        data.split(20)


@needs("ep_binary_classification.npz")
@pytest.mark.parametrize(
    ("name", "shape", "ones", "train"),
    [
        ("banknote", (1372, 4), 610, 201),
        ("blood_transfusion", (748, 4), 178, 201),
        ("fertility", (100, 9), 12, 50),
        ("ionosphere", (351, 33), 126, 201),
    ],
)
def test_tables_with_two_classes_have_their_splits(name, shape, ones, train):
    data = datasets.uci_binary(name)
    assert data.X.shape == shape
    assert data.y.sum() == ones
    assert set(data.y) == {0, 1}
    assert data.train.sum() == train
    # Both parts have both classes in about the same shares.
    assert data.y[data.train].mean() == pytest.approx(data.y[~data.train].mean(), abs=0.05)
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=0.2)
    np.testing.assert_allclose(data.X.std(axis=0), 1, atol=0.2)


def test_an_unknown_table_is_refused():
    with pytest.raises(ValueError, match="energy"):
        datasets.uci_regression("boston")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("folder", [None, "empty"])
def test_absence_says_what_to_put_where(monkeypatch, tmp_path, file, folder):
    if folder is None:
        monkeypatch.delenv("MUHAT_DATA", raising=False)
    else:
        monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    with pytest.raises(datasets.DataNotFound, match=file) as caught:
        FILES[file]()
    assert "MUHAT_DATA" in str(caught.value)
    assert "It " in str(caught.value)


@pytest.mark.parametrize("file", FILES)
def test_another_file_is_refused(monkeypatch, tmp_path, file):
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    (tmp_path / file).write_bytes(b"not,what\n1,2\n")
    with pytest.raises(ValueError, match="replace it") as caught:
        FILES[file]()
    assert str(tmp_path / file) in str(caught.value)


@needs("mount_st_helens.npz")
def test_one_changed_number_is_found_and_another_type_is_not(monkeypatch, tmp_path):
    X, y = datasets.terrain()
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    np.savez(tmp_path / "mount_st_helens.npz", points=X.astype(np.int64), elevation=y)
    np.testing.assert_array_equal(datasets.terrain().y, y)
    y[3] += 1e-9
    np.savez(tmp_path / "mount_st_helens.npz", points=X, elevation=y)
    with pytest.raises(ValueError, match="checksum"):
        datasets.terrain()


@needs(TRAFFIC)
def test_a_table_with_a_changed_number_is_found(monkeypatch, tmp_path):
    table = datasets.traffic()
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    text = table.write_csv()
    (tmp_path / TRAFFIC).write_text(text)
    assert datasets.traffic().equals(table)
    (tmp_path / TRAFFIC).write_text(text.replace("0.0048", "0.0049", 1))
    with pytest.raises(ValueError, match="checksum"):
        datasets.traffic()


def test_the_checksum_is_of_numbers_and_shapes():
    a = np.arange(6)
    assert digest([a]) == digest([a.astype(float)])
    assert digest([a]) != digest([a.reshape(2, 3)])
    assert digest([a]) != digest([a[::-1]])
