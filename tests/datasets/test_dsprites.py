"""The heart of dSprites is read where it is, refused when it is another, and its absence says what to do."""

import os
from pathlib import Path

import numpy as np
import pytest

from muhat import datasets
from muhat.datasets.dsprites import FILE

here = Path(os.environ.get("MUHAT_DATA", "")) / FILE
needs_file = pytest.mark.skipif(
    not (os.environ.get("MUHAT_DATA") and here.is_file()), reason=f"needs {FILE} in the folder MUHAT_DATA"
)


@needs_file
def test_the_heart_moves_along_columns_and_rows():
    images, original = datasets.dsprites()
    assert images.shape == (32, 32, 64, 64)
    assert set(np.unique(images)) == {0, 1}
    assert original.shape == (32, 32)
    assert original.sum() == 256 + 39
    mass = images.sum(axis=(2, 3))
    assert mass.min() >= 50
    assert mass.max() <= 62
    row = (images * np.arange(64)[:, None]).sum(axis=(2, 3)) / mass
    column = (images * np.arange(64)).sum(axis=(2, 3)) / mass
    step = 32 / 31  # the positions are 32 pixels apart in 31 steps
    np.testing.assert_allclose(
        column - column[0], np.broadcast_to(step * np.arange(32)[:, None], (32, 32)), atol=0.5
    )
    np.testing.assert_allclose(row - row[:, :1], np.broadcast_to(step * np.arange(32), (32, 32)), atol=0.5)


@pytest.mark.parametrize("folder", [None, "empty"])
def test_its_absence_says_what_to_put_where(monkeypatch, tmp_path, folder):
    if folder is None:
        monkeypatch.delenv("MUHAT_DATA", raising=False)
    else:
        monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    with pytest.raises(datasets.DataNotFound, match=FILE) as caught:
        datasets.dsprites()
    for word in ("MUHAT_DATA", "images_packed", "heart", "provenance"):
        assert word in str(caught.value)
    assert (str(tmp_path) in str(caught.value)) == (folder is not None)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ({"images_packed": np.zeros((1024, 512), np.uint8), "provenance": np.zeros(1024)}, "checksum"),
        ({"images_packed": np.zeros((1024, 64), np.uint8), "provenance": np.zeros(1024)}, r"\(1024, 64\)"),
        ({"images_packed": np.zeros((1024, 512)), "provenance": np.zeros(1024)}, "float64"),
        ({"images": np.zeros(3)}, "not the file expected"),
        (b"no archive", "not the file expected"),
    ],
)
def test_another_file_is_refused(monkeypatch, tmp_path, content, match):
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    if isinstance(content, bytes):
        (tmp_path / FILE).write_bytes(content)
    else:
        np.savez(tmp_path / FILE, **content)
    with pytest.raises(ValueError, match=match):
        datasets.dsprites()


@needs_file
def test_one_changed_pixel_is_found(monkeypatch, tmp_path):
    with np.load(here) as file:
        content = {name: file[name] for name in file.files}
    content["images_packed"][500, 100] ^= 1
    np.savez(tmp_path / FILE, **content)
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="checksum"):
        datasets.dsprites()
