"""Whatever happens to the bytes of a file, loading it gives an object or a ValueError."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import muhat as mh

rng = np.random.default_rng(0)
X = rng.standard_normal((8, 2))
Y = np.c_[np.sin(X[:, 0]), X[:, 1]] + 0.1 * rng.standard_normal((8, 2))


def loads_or_says_so(path):
    """Whatever the bytes: an object, or a ValueError."""
    try:
        mh.load(path)
    except ValueError:
        return False
    return True


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "file"
    frame = pd.DataFrame({"a": X[:, 0], "c": list("ppqqrrpq")})
    mh.save(mh.ConditionalMean(reg=0.1, representation=mh.Nystrom(4)).fit(frame, Y), path)
    return path.read_bytes()


class TestDamage:
    def test_every_truncation_is_noticed(self, content, tmp_path):
        path = tmp_path / "file"
        for size in range(0, len(content), 97):
            path.write_bytes(content[:size])
            assert not loads_or_says_so(path)

    @pytest.mark.filterwarnings("ignore")  # of readers about odd headers
    def test_flipped_bytes(self, content, tmp_path):
        path, draw = tmp_path / "file", np.random.default_rng(0)
        survived = 0
        for _ in range(400):
            damaged = bytearray(content)
            for at in draw.integers(0, len(content), draw.integers(1, 4)):
                damaged[at] ^= 1 << draw.integers(8)
            path.write_bytes(damaged)
            survived += loads_or_says_so(path)
        assert survived < 200  # the zip's own checksums see nearly all but a few unused bytes

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_bytes_flipped_inside_valid_checksums(self, content, tmp_path):
        # The manifest is damaged and packed again, so that only our own reader can notice.
        path, draw = tmp_path / "file", np.random.default_rng(0)
        (tmp_path / "good").write_bytes(content)
        with zipfile.ZipFile(tmp_path / "good") as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        for trial in range(600):
            damaged = {name: bytearray(part) for name, part in parts.items()}
            part = damaged["muhat.json" if trial % 2 else draw.choice(list(parts))]
            for at in draw.integers(0, len(part), draw.integers(1, 3)):
                part[at] = draw.integers(32, 127) if trial % 4 else draw.integers(256)
            with zipfile.ZipFile(path, "w") as archive:
                for name, data in damaged.items():
                    archive.writestr(name, bytes(data))
            loads_or_says_so(path)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_values_of_the_wrong_type_anywhere_in_the_manifest(self, content, tmp_path):
        path = tmp_path / "file"
        (tmp_path / "good").write_bytes(content)
        with zipfile.ZipFile(tmp_path / "good") as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        document = json.loads(parts.pop("muhat.json"))

        def places(value, where=()):
            yield where
            items = (
                value.items()
                if isinstance(value, dict)
                else enumerate(value)
                if isinstance(value, list)
                else ()
            )
            for key, inner in items:
                yield from places(inner, (*where, key))

        others = [None, True, -1, 1e308, "text", [], {}, {"array": 0}, {"class": "Gaussian", "fields": {}}]
        draw = np.random.default_rng(0)
        every = [where for where in places(document) if where]
        for where in every:
            for other in draw.permutation(len(others))[:3]:
                changed = json.loads(json.dumps(document))
                inside = changed
                for key in where[:-1]:
                    inside = inside[key]
                inside[where[-1]] = others[other]
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr("muhat.json", json.dumps(changed))
                    for name, data in parts.items():
                        archive.writestr(name, data)
                loads_or_says_so(path)
        assert len(every) > 100
