"""Sums, samples and functions of rows, whatever the rows are read from."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from row_forms import FORMS, as_form

from muhat.engine import (
    Checkpoint,
    CheckpointMismatch,
    map_rows,
    on_dask,
    open_rows,
    passes,
    sample,
    sample_indices,
    sample_rows,
    sum_rows,
)
from muhat.engine import checkpoint as checkpoints
from muhat.engine.sample import row_keys

TABLE = np.random.default_rng(0).normal(size=(2503, 3))
X, Y = TABLE[:, :2], TABLE[:, 2]


def moments(A, B):
    return A.T @ A, A.T @ B, np.array(len(A))


@pytest.mark.parametrize("form", FORMS)
class TestForms:
    def test_sums_are_those_in_memory(self, form, tmp_path):
        sources = [open_rows(as_form(form, TABLE, tmp_path, c)) for c in (["c0", "c1"], ["c2"])]
        second, cross, n = sum_rows(moments, *sources, width=1 << 14)  # blocks of 256 rows
        assert n == len(X)
        np.testing.assert_allclose(second, X.T @ X, rtol=1e-12)
        np.testing.assert_allclose(cross[:, 0], X.T @ Y, rtol=1e-11)
        assert [s.passes for s in sources] == [1, 1]

    def test_sample_is_the_same_rows(self, form, tmp_path):
        n, (part,) = sample_rows(open_rows(as_form(form, TABLE, tmp_path, ["c0", "c1"])), size=400)
        assert n == len(X)
        np.testing.assert_allclose(part, X[sample_indices(n, 400)], rtol=1e-15)

    def test_a_function_of_rows(self, form, tmp_path):
        out = map_rows(lambda A: A.sum(axis=1), open_rows(as_form(form, TABLE, tmp_path, ["c0", "c1"])))
        np.testing.assert_allclose(np.asarray(out), X.sum(axis=1), rtol=1e-12)

    def test_nan_is_found_and_named(self, form, tmp_path):
        bad = TABLE.copy()
        bad[1700, 1] = np.nan
        source = open_rows(as_form(form, bad, tmp_path, ["c0", "c1"]))
        with pytest.raises(ValueError, match="X contains NaN"):
            sum_rows(lambda A: (A.sum(axis=0),), source)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_what_was_written_to_a_map_is_read(mode, tmp_path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    want = X.copy()
    if mode != "r":
        mapped[0] = want[0] = 7.0
    rows = open_rows(mapped)
    for _ in range(2):  # pages are given back after each read
        np.testing.assert_array_equal(rows.read(0, len(X)), want)


def test_keys_do_not_depend_on_the_cut():
    whole = row_keys(0, 1000)
    parts = [row_keys(a, b) for a, b in ((0, 7), (7, 333), (333, 1000))]
    assert np.array_equal(np.concatenate(parts), whole)
    assert abs(whole.mean() - 0.5) < 0.05
    assert len(np.unique(whole)) == 1000


def test_sample_is_even():
    """Each row is as likely as any other to be drawn: the share from each tenth is a tenth."""
    chosen = sample_indices(100_000, 20_000)
    counts = np.histogram(chosen, 10, (0, 100_000))[0]
    assert (np.abs(counts - 2000) < 5 * np.sqrt(2000 * 0.9)).all()
    assert sample_indices(20_000, 20_000) == slice(None)


def test_blocks_send_on_little_more_than_the_sample():
    sent = []
    combine = sample._Least.__call__

    def watched(self, a, b):
        sent.append(len(b[1]))
        return combine(self, a, b)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample._Least, "__call__", watched)
        patch.setattr(passes, "BLOCK_ELEMENTS", 10_000)
        rows = np.arange(100_000.0)[:, None]
        n, (part,) = sample_rows(open_rows(rows), size=2000)
    assert n == 100_000
    np.testing.assert_array_equal(part, rows[sample_indices(n, 2000)])
    assert len(sent) >= 9
    assert sum(sent) < 2000 + 10 * np.sqrt(2000)


def test_a_chunk_of_dask_arrays_is_one_task(monkeypatch):
    import dask
    import dask.array as da

    graphs, compute = [], dask.compute
    monkeypatch.setattr(
        dask, "compute", lambda *a, **k: (graphs.append(dict(a[0].__dask_graph__())), compute(*a, **k))[1]
    )
    A = da.map_blocks(lambda: np.ones((10, 3)), chunks=((10,) * 20, (3,)), dtype=float, meta=np.empty((0, 3)))
    b = da.map_blocks(lambda: np.ones(10), chunks=((10,) * 20,), dtype=float, meta=np.empty(0))
    total, count = sum_rows(lambda x, y: (x.T @ y, np.array(len(x))), open_rows(A), open_rows(b))
    np.testing.assert_allclose(total, np.full((3, 1), 200.0))
    assert count == 200
    work = [task for task in graphs[0].values() if type(task).__name__ == "Task"]
    sums = 3 + 1  # of eight, and the sum of these; Dask of early 2025 has no type for them
    assert len(work) in (20, 20 + sums)


class TestKeptMemory:
    """What the C library is told while tasks run, and after."""

    @pytest.fixture
    def told(self, monkeypatch):
        calls = []
        monkeypatch.setattr(on_dask, "_mallopt", lambda: lambda *call: calls.append(call))
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
        monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
        return calls

    KEEP = [(-1, 1 << 28), (-3, 1 << 25)]  # noqa: RUF012

    def test_dask_has_its_own_way_again_after_the_last_task(self, told, monkeypatch):
        monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "70000")
        with on_dask.kept_memory:
            with on_dask.kept_memory:
                pass
            assert told == self.KEEP
        assert told == [*self.KEEP, (-1, 65536), (-3, 70000)]

    def test_also_after_an_error(self, told):
        with pytest.raises(ZeroDivisionError), on_dask.kept_memory:
            _ = 1 / 0
        assert told == [*self.KEEP, (-1, 65536), (-3, 1 << 17)]
        assert on_dask.kept_memory.count == 0

    def test_never_is_said_by_a_negative_number(self, told, monkeypatch):
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "-1")
        monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "much")
        with on_dask.kept_memory:
            pass
        assert told[2:] == [(-1, -1), (-3, 1 << 17)]

    def test_who_was_not_told_to_give_memory_back_is_told_nothing(self, told, monkeypatch):
        monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
        with on_dask.kept_memory:
            pass
        assert told == []

    def test_tasks_run_with_it(self, told):
        add_up = on_dask._piece(0, [np.ones((5, 2))], lambda start, a: (a.sum(axis=0),), None, ["X"], 5)
        np.testing.assert_allclose(add_up[0], [5, 5])
        assert told[:2] == self.KEEP

    @pytest.mark.slow
    def test_glibc_takes_these_numbers(self):
        if on_dask._mallopt() is None:
            pytest.skip("needs glibc")
        code = "from muhat.engine import on_dask as d; k = d.kept_memory; t = d._mallopt(); "
        code += "print(t(k.TRIM, k.KEPT), t(k.MMAP, k.LARGEST))"
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert told.stdout.split() == ["1", "1"]  # what it gives where it obeys


def test_small_samples_are_all_rows():
    n, (part,) = sample_rows(open_rows(X), size=5000)
    assert n == len(X)
    assert np.array_equal(part, X)


def test_blocks_come_in_order():
    """The sum of blocks in the order of their rows, to the bit, whoever is ready first."""
    first, second = (sum_rows(moments, X, Y, width=1 << 14)[0] for _ in range(2))
    assert np.array_equal(first, second)


def test_sources_of_different_lengths():
    with pytest.raises(ValueError, match="X has 2503 rows but Y has 100"):
        sum_rows(moments, X, Y[:100])
    short = open_rows(lambda: iter([X[:100]]))
    with pytest.raises(ValueError, match=r"more rows|rows but Y has|differ in length"):
        sum_rows(moments, short, open_rows(lambda: iter([Y[:100], Y[100:]])))


def test_a_generator_that_is_not_the_same_twice():
    lengths = [3]
    source = open_rows(lambda: (X[:50] for _ in range(lengths[0])))
    sum_rows(lambda A: (A.sum(axis=0),), source)
    lengths[0] = 2
    with pytest.raises(ValueError, match="150 rows the first time and 100 now"):
        sum_rows(lambda A: (A.sum(axis=0),), source)


class TestOpening:
    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"There is no .*none\.parquet"):
            open_rows(tmp_path / "none.parquet")

    def test_a_kind_that_is_not_read(self, tmp_path):
        (tmp_path / "a.xlsx").touch()
        with pytest.raises(ValueError, match=r"\.parquet, \.npy, \.csv and \.zarr"):
            open_rows(tmp_path / "a.xlsx")

    @pytest.mark.parametrize("form", ["parquet", "csv"])
    def test_a_column_that_is_not_there(self, form, tmp_path):
        as_form(form, TABLE, tmp_path, ["c0"])
        with pytest.raises(ValueError, match=r"no column 'c9': it has c0, c1, c2"):
            open_rows(tmp_path / f"table.{form}", ["c9"])

    def test_no_header(self, tmp_path):
        (tmp_path / "a.csv").write_text("1.0,2.0\n3.0,4.0\n")
        with pytest.raises(ValueError, match=r"a\.csv has no header"):
            open_rows(tmp_path / "a.csv")

    def test_numbers_that_begin_as_integers(self, tmp_path):
        (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 500 + "0.5,2\n")
        (total,) = sum_rows(lambda A: (A.sum(axis=0),), open_rows(tmp_path / "a.csv"))
        np.testing.assert_allclose(total, [500.5, 1002])

    def test_one_column_by_position(self, tmp_path):
        as_form("csv", TABLE, tmp_path, ["c0"])
        as_form("npy", TABLE, tmp_path, ["c0", "c1"])
        for file in ("table.csv", "c0_c1.npy"):
            source = open_rows(tmp_path / file, 1)
            assert source.flat
            np.testing.assert_allclose(map_rows(lambda A: A[:, 0], source), TABLE[:, 1])
        with pytest.raises(ValueError, match="positions from 0 to 1"):
            open_rows(tmp_path / "c0_c1.npy", "c0")

    def test_the_same_iterator_twice(self):
        once = iter([X[:10], X[10:20]])
        with pytest.raises(ValueError, match="same iterator twice"):
            open_rows(lambda: once)

    def test_a_folder(self, tmp_path):
        (tmp_path / "a.parquet").mkdir()
        with pytest.raises(ValueError, match="is a folder"):
            open_rows(tmp_path / "a.parquet")

    def test_row_labels_without_a_name_are_no_column(self, tmp_path):
        import pandas as pd

        frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}, index=[7, 0, 4])
        frame.to_parquet(tmp_path / "filtered.parquet")
        rows = open_rows(tmp_path / "filtered.parquet")
        assert (rows.names, rows.shape) == (["a", "b"], (3, 2))
        np.testing.assert_array_equal(rows.read(0, 3), frame.to_numpy())
        labels = open_rows(tmp_path / "filtered.parquet", "__index_level_0__")  # asked for, it is there
        assert labels.read(0, 3).ravel().tolist() == [7, 0, 4]
        frame.rename_axis("date").to_parquet(tmp_path / "named.parquet")
        assert open_rows(tmp_path / "named.parquet").names == ["a", "b", "date"]

    def test_text_is_refused(self, tmp_path):
        import pandas as pd

        pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(TypeError, match=r"Column 'b' of t\.parquet holds no numbers"):
            sum_rows(lambda A: (A.sum(axis=0),), open_rows(tmp_path / "t.parquet"))

    def test_nothing_that_can_be_read(self):
        with pytest.raises(TypeError, match="source must be a path"):
            open_rows(3.0)


class TestCheckpoint:
    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch):
        monkeypatch.setattr(checkpoints, "EVERY", 0.0)

    def test_goes_on_where_it_stopped(self, tmp_path):
        """A pass that fails in its seventh block goes on from there, to the same bits."""
        path, seen = tmp_path / "sums.npz", []

        def work(A, fail=False):
            seen.append(len(A))
            if fail and len(seen) == 7:
                raise KeyboardInterrupt
            return (A.T @ A,)

        def run(fail):
            saved = Checkpoint(path, ["a fit"])
            return sum_rows(lambda A: work(A, fail), open_rows(X), width=1 << 14, checkpoint=saved, label="s")

        whole = sum_rows(lambda A: (A.T @ A,), open_rows(X), width=1 << 14)[0]
        with pytest.raises(KeyboardInterrupt):
            run(True)
        ((before, _),) = Checkpoint(path, ["a fit"]).passes.values()
        assert 1 <= before <= 6
        seen.clear()
        again = run(False)[0]
        assert len(seen) == 10 - before
        assert np.array_equal(again, whole)

    def test_finished_passes_are_not_made_again(self, tmp_path):
        saved = Checkpoint(tmp_path / "s.npz", ["a fit"])
        one = sum_rows(lambda A: (A.sum(axis=0),), open_rows(X), checkpoint=saved, label="s")[0]
        later = Checkpoint(tmp_path / "s.npz", ["a fit"])
        two = sum_rows(lambda A: 1 / 0, open_rows(X), checkpoint=later, label="s")[0]
        assert np.array_equal(one, two)

    def test_other_rows_begin_anew(self, tmp_path):
        """A file of other rows of the same shape has no part in the sums."""
        path = tmp_path / "s.npz"
        sum_rows(lambda A: (A.sum(axis=0),), open_rows(X), checkpoint=Checkpoint(path, ["a"]), label="s")
        saved = Checkpoint(path, ["a"])
        found = sum_rows(lambda A: (A.sum(axis=0),), open_rows(X + 1), checkpoint=saved, label="s")[0]
        np.testing.assert_allclose(found, (X + 1).sum(axis=0), rtol=1e-12)

    def test_empty_blocks_are_not_counted(self, tmp_path):
        """A stream with empty blocks that fails and goes on has every row once."""
        path, seen = tmp_path / "s.npz", []

        def blocks():
            for i in range(0, 2500, 250):
                yield X[:0]
                yield X[i : i + 250]

        def run(fail):
            def work(A):
                seen.append(1)
                if fail and len(seen) == 6:
                    raise KeyboardInterrupt
                return (np.array(len(A)),)

            saved = Checkpoint(path, ["a"])
            return sum_rows(work, open_rows(blocks), checkpoint=saved, label="s")[0]

        with pytest.raises(KeyboardInterrupt):
            run(True)
        assert run(False) == 2500

    def test_of_another_fit(self, tmp_path):
        Checkpoint(tmp_path / "s.npz", ["a fit"]).store("s", 1, (np.zeros(1),))
        with pytest.raises(CheckpointMismatch, match="other parameters or columns"):
            Checkpoint(tmp_path / "s.npz", ["another"])

    def test_no_checkpoint_at_all(self, tmp_path):
        (tmp_path / "s.npz").write_text("nothing")
        with pytest.raises(CheckpointMismatch, match="no file of a fit"):
            Checkpoint(tmp_path / "s.npz", ["a fit"])

    def test_no_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="no folder"):
            Checkpoint(tmp_path / "none" / "s.npz", ["a fit"])
