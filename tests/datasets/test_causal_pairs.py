"""Pairs of known direction, read from files that the user puts in place."""

import os
from pathlib import Path

import numpy as np
import pytest

from muhat.datasets import DataNotFound, simulated_pairs, tuebingen_pairs
from muhat.datasets.causation import META, SIMULATED, SIMULATED_DIGESTS, TUEBINGEN


def needs(*files):
    folder = os.environ.get("MUHAT_DATA", "")
    missing = [file for file in files if not (folder and (Path(folder) / file).is_file())]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)} in MUHAT_DATA")


@needs(TUEBINGEN, META)
def test_tuebingen():
    data = tuebingen_pairs()
    assert len(data.pairs) == len(data.names) == 102
    assert all(p.shape[1] == 2 and np.isfinite(p).all() for p in data.pairs)
    assert not {52, 53, 54, 55, 71, 105} & set(data.numbers)
    assert (data.numbers <= 82).sum() == 77
    assert data.names[0] == ("Altitude", "Temperature")
    assert data.labels[0] == 1
    assert np.corrcoef(data.pairs[0].T)[0, 1] < -0.8  # colder above
    assert set(data.labels) == {-1, 1}
    assert (data.weights > 0).all()


@needs(SIMULATED)
@pytest.mark.parametrize("group", SIMULATED_DIGESTS)
def test_simulated(group):
    data = simulated_pairs(group)
    assert np.shape(data.pairs) == (100, 1000, 2)
    assert 20 < (data.labels > 0).sum() < 80  # the cause is now in one column, now in the other


def test_without_the_files(monkeypatch, tmp_path):
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    with pytest.raises(DataNotFound, match=META):
        tuebingen_pairs()
    with pytest.raises(DataNotFound, match=SIMULATED):
        simulated_pairs("SIM")
    with pytest.raises(ValueError, match="group must be one of"):
        simulated_pairs("SIM-X")


def test_other_numbers_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("MUHAT_DATA", str(tmp_path))
    np.savez(tmp_path / SIMULATED, **{"AN": np.zeros((100, 1000, 2)), "AN_cause_col": np.zeros(100)})
    with pytest.raises(ValueError, match="checksum"):
        simulated_pairs("AN")
