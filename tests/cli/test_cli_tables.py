"""Reading tables: what is in the file comes out, or one clear line says why not."""

import datetime
import gzip

import pandas as pd
import polars as pl
import pytest

from muhat.cli.errors import BadUsage
from muhat.cli.points import parse_at
from muhat.cli.tables import common_columns, doubts, own_columns, pick, prepare, printable, read_table


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path, content, categories=(), drop_missing=False):
    """The frame that a file becomes."""
    table = read_table(write(path, content))
    (frame,), (dropped,) = prepare([table], table.columns, categories, drop_missing)
    return frame, dropped


EXPECTED = pl.DataFrame({"a": [1.0, 2.5, -3e4], "b": ["x", "y z", "x"]})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "a,b\n1,x\n2.5,y z\n-3e4,x\n"),
        ("t.CSV", "a,b\r\n1,x\r\n2.5,y z\r\n-3e4,x\r\n"),
        ("blank-end.csv", "a,b\n1,x\n2.5,y z\n-3e4,x\n\n\n"),
        ("no-end.csv", "a,b\n1,x\n2.5,y z\n-3e4,x"),
        ("spaces.csv", "a, b\n1, x\n 2.5, y z \n-3e4,x\n"),
        ("quoted.csv", '"a","b"\n"1","x"\n"2.5","y z"\n"-3e4","x"\n'),
        ("mark.csv", b"\xef\xbb\xbfa,b\n1,x\n2.5,y z\n-3e4,x\n"),
        ("semicolons.csv", "a;b\n1;x\n2.5;y z\n-3e4;x\n"),
        ("t.tsv", "a\tb\n1\tx\n2.5\ty z\n-3e4\tx\n"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,x\n2.5,y z\n-3e4,x\n", mtime=0)),
    ],
)
def test_text_files(tmp_path, name, content):
    frame, dropped = read(tmp_path / name, content)
    assert frame.equals(EXPECTED)
    assert dropped == 0


def test_parquet(tmp_path):
    path = tmp_path / "t[0]*.parquet"  # no pattern
    frame = EXPECTED.with_columns(
        pl.Series("whole", [1, 2, 3]),
        pl.Series("flag", [True, False, True]),
        pl.Series("kind", ["u", "v", "u"], dtype=pl.Categorical),
    )
    frame.write_parquet(path)
    table = read_table(path)
    (out,), _ = prepare([table], table.columns, [], False)
    assert out.schema == {"a": pl.Float64, "b": pl.String, "whole": pl.Float64} | dict.fromkeys(
        ["flag", "kind"], pl.String
    )
    assert out["flag"].to_list() == ["true", "false", "true"]


def test_row_labels_that_pandas_stores_without_a_name_are_no_data(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"]}, index=[7, 0, 4])
    frame.to_parquet(tmp_path / "filtered.parquet")
    assert "__index_level_0__" in pl.read_parquet_schema(tmp_path / "filtered.parquet")
    assert read_table(tmp_path / "filtered.parquet").columns == ["a", "b"]
    # Some readers bring it as a column, and write it without saying what it was.
    kept = pl.DataFrame({"a": [1.0], "__index_level_0__": [0], "__index_level_1__": [0]})
    kept.write_parquet(tmp_path / "again.parquet")
    assert read_table(tmp_path / "again.parquet").columns == ["a"]
    frame.rename_axis("date").to_parquet(tmp_path / "named.parquet")
    assert set(read_table(tmp_path / "named.parquet").columns) == {"a", "b", "date"}


@pytest.mark.parametrize(("rows", "offered"), [(3, True), (40, False)])
def test_text_that_never_repeats_is_a_category_only_where_rows_are_few(tmp_path, rows, offered):
    cells = ["id", *(f"n{i}" for i in range(rows))]
    table = read_table(write(tmp_path / "t.csv", "\n".join(cells)))
    with pytest.raises(BadUsage, match="leave it out with --drop") as error:
        prepare([table], ["id"], [], False)
    assert ("--categories" in str(error.value)) == offered
    with pytest.raises(BadUsage, match="a test of the differences of pairs") as error:
        prepare([table, table], ["id"], [], False)
    assert "--categories" not in str(error.value)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_missing_cells_are_an_error_or_dropped(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        write(path, "a,b,c\n1,x,0\n,y,1\n3,NA,2\n4,x,nan\n5,y,4\n")
    else:
        pl.DataFrame(
            {"a": [1.0, None, 3, 4, 5], "b": ["x", "y", None, "x", "y"], "c": [0.0, 1, 2, float("nan"), 4]}
        ).write_parquet(path)
    table = read_table(path)
    with pytest.raises(BadUsage, match=r"missing cells in 'a' \(1\), 'b' \(1\), 'c' \(1\).*--missing drop"):
        prepare([table], ["a", "b", "c"], [], False)
    (frame,), dropped = prepare([table], ["a", "b", "c"], [], True)
    assert (frame.rows(), dropped) == ([(1.0, "x", 0.0), (5.0, "y", 4.0)], [3])
    (frame,), dropped = prepare([table], ["b"], [], True)  # gaps elsewhere do not matter
    assert (frame.height, dropped) == (4, [1])


BAD = {
    "empty": ("t.csv", "", "is empty"),
    "blank": ("t.csv", "\n\n", "0 rows"),
    "header alone": ("t.csv", "a,b\n", "0 rows"),
    "two names alike": ("t.csv", "a,a\n1,2\n", "several columns named 'a'"),
    "long row": ("t.csv", "a,b\n1,2\n1,2,3\n", "more cells than the first line"),
    "latin": ("t.csv", "a\né\n".encode("latin-1"), "UTF-8"),
    "no gzip": ("t.csv.gz", b"a,b\n1,2\n", "cannot be read"),
    "half gzip": ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999, mtime=0)[:30], "cannot be read"),
    "no parquet": ("t.parquet", b"PAR1 nothing", "cannot be read as Parquet"),
    "another kind": ("t.xlsx", b"x", "no known kind"),
    "mixed": ("t.csv", "a\n1\n2\nthree\n", "'a' mixes numbers and text.*row 3 of 't.csv' has 'three'"),
    "identifier": ("t.csv", "id,a\nu,1\nv,2\nw,3\n", "'id'.*--drop"),
    "infinite": ("t.csv", "a\n1\ninf\n", "infinite"),
    "all missing": ("t.csv", "a,b\n1,\n2,\n", "missing cells in 'b'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path, case):
    name, content, message = BAD[case]
    with pytest.raises(BadUsage, match=message):
        read(tmp_path / name, content)


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(BadUsage, match="there is no file"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(BadUsage, match="not an ordinary file"):
        read_table(tmp_path)


@pytest.mark.parametrize("values", [[datetime.date(2024, 1, 1)] * 3, [[1], [2], [3]], [b"x", b"y", b"y"]])
def test_columns_that_are_neither_numbers_nor_categories(tmp_path, values):
    pl.DataFrame({"d": values}).write_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    with pytest.raises(BadUsage, match=r"'d'.*--drop"):
        prepare([table], ["d"], [], False)


def test_nothing_is_left_without_missing_cells(tmp_path):
    with pytest.raises(BadUsage, match="no row"):
        read(tmp_path / "t.csv", "a,b\n1,\n,2\n", drop_missing=True)


def test_categories_on_request(tmp_path):
    frame, _ = read(tmp_path / "t.csv", "a,zip,id\n1,007,u\n2,3b,v\n3,007,w\n", ["a", "zip", "id"])
    assert frame.rows() == [("1", "007", "u"), ("2", "3b", "v"), ("3", "007", "w")]


def test_a_column_of_numbers_in_one_file_and_text_in_the_other(tmp_path):
    tables = [
        read_table(write(tmp_path / f"{i}.csv", f"a\n{cells}\n")) for i, cells in enumerate(("1\n2", "x\nx"))
    ]
    for order in (tables, tables[::-1]):
        with pytest.raises(BadUsage, match=r"'a'.*'0.csv' has numbers, but row 1 of '1.csv' has 'x': mend"):
            prepare(order, ["a"], [], False)
    frames, _ = prepare(tables, ["a"], ["a"], False)
    assert [frame["a"].to_list() for frame in frames] == [["1", "2"], ["x", "x"]]


def test_booleans_in_one_file_and_0_and_1_in_the_other(tmp_path):
    tables = [
        read_table(write(tmp_path / f"{i}.csv", f"a\n{v}\n")) for i, v in enumerate(("1\n0", "True\nFalse"))
    ]
    for order in (tables, tables[::-1]):
        with pytest.raises(
            BadUsage, match=r"0 and 1 in '0.csv', but true and false in '1.csv'.*write them alike"
        ):
            prepare(order, ["a"], [], False)


@pytest.mark.parametrize("word", ["None", "<NA>", "n/a", "#N/A", "NA", "NULL"])
def test_words_for_missing_cells(tmp_path, word):
    """As pandas reads them."""
    frame, _ = read(tmp_path / "t.csv", f"a,b\nu,1\n{word},{word}\nu,3\n", drop_missing=True)
    assert frame.rows() == [("u", 1.0), ("u", 3.0)]


@pytest.mark.parametrize("words", ["True,False", "TRUE,FALSE", "true,false"])
def test_booleans_are_the_same_categories_whoever_wrote_them(tmp_path, words):
    yes, no = words.split(",")
    frame, _ = read(tmp_path / "t.csv", f"a,b\n{yes},1\n{no},2\n {yes} ,3\nmaybe,4\n")
    assert frame["a"].to_list() == ["true", "false", "true", "maybe"]
    pl.DataFrame({"a": [yes, no]}).write_parquet(tmp_path / "t.parquet")
    (frame,), _ = prepare([read_table(tmp_path / "t.parquet")], ["a"], [], False)
    assert frame["a"].to_list() == ["true", "false"]
    assert parse_at(f"a={yes}", frame) == {"a": "true"}


def test_the_same_numbers_written_as_text_and_as_numbers(tmp_path):
    pl.DataFrame({"a": ["1", "2"]}).write_parquet(tmp_path / "text.parquet")
    pl.DataFrame({"a": [1.0, 2.0]}).write_parquet(tmp_path / "numbers.parquet")
    write(tmp_path / "t.csv", "a\n1.0\n2.\n")
    tables = [read_table(tmp_path / name) for name in ("text.parquet", "numbers.parquet", "t.csv")]
    frames, _ = prepare(tables, ["a"], [], False)
    assert [frame["a"].to_list() for frame in frames] == [[1.0, 2.0]] * 3


def test_doubts_about_spelling():
    def said(first, second):
        return doubts([pl.DataFrame({"a": first}), pl.DataFrame({"a": second})], ["1.csv", "2.csv"])

    assert said(["u", "v"], ["v", "w"]) == []
    assert said(["Yes"], ["no", "Yes"]) == []
    assert said([1.0], [2.0]) == []
    assert said(["u", "Yes", "yes"], ["u"]) == []  # in one file alone they are its own affair
    assert said(["u", "-"], ["u", "v"]) == []
    (line,) = said(["u", "-"], ["u", None])
    assert "'-' in '1.csv' may mean a missing cell, which '2.csv' has" in line
    (line,) = said(["New  York", "u"], ["new york", "u"])
    assert "'New  York' and 'new york' may mean the same" in line
    assert "in common" not in line
    (line,) = said([f"U{i}" for i in range(9)], [f"u{i}" for i in range(9)])
    assert "no category in common (e.g. 'U0' and 'u0')" in line
    assert "'U5' and 'u5' and 3 more pairs may mean the same" in line


def test_control_characters_are_spelled_out(tmp_path):
    frame, _ = read(tmp_path / "t.csv", "\x1b[31m,b\n\x07q,1\n\x07q,2\n")
    assert frame.columns == ["\\x1b[31m", "b"]
    assert frame.row(0) == ("\\x07q", 1.0)
    assert printable("a\nb\u202e\x9b") == "a\\nb\\u202e\\x9b"
    assert printable("é 漢字 [bold] <b>") == "é 漢字 [bold] <b>"


def test_a_column_without_a_name_gets_its_place(tmp_path):
    frame, _ = read(tmp_path / "t.csv", ",a\n0,5\n1,6\n")
    assert frame.columns == ["column 1", "a"]


def test_names_in_options():
    known = ["a", "b", "c,d", "wind speed"]
    assert pick(["a,b"], known, "--x") == ["a", "b"]
    assert pick(["c,d", "a, wind speed", "a"], known, "--x") == ["c,d", "a", "wind speed"]
    with pytest.raises(BadUsage, match=r"--x names 'wind_speed'.*did you mean 'wind speed'"):
        pick(["wind_speed"], known, "--x")
    with pytest.raises(BadUsage, match=r"the columns are 'a', 'b'"):
        pick(["zzz"], known, "--x")


def test_which_columns(tmp_path):
    first = read_table(write(tmp_path / "1.csv", "a,b,c\n1,2,3\n"))
    second = read_table(write(tmp_path / "2.csv", "c,a,d\n1,2,3\n"))
    with pytest.raises(BadUsage, match=r"only '1.csv' has 'b'; only '2.csv' has 'd'"):
        common_columns(first, second, [], [])
    assert common_columns(first, second, [], ["b,d"]) == ["a", "c"]
    assert common_columns(first, second, ["c,a"], ["a"]) == ["c"]
    with pytest.raises(BadUsage, match=r"'d', which '1.csv' does not have"):
        common_columns(first, second, ["d"], [])
    with pytest.raises(BadUsage, match="no column is left"):
        own_columns(first, ["a"], ["a"])
    assert own_columns(first, [], ["b"]) == ["a", "c"]
