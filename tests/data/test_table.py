import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from data.tables import parquet, refused
from kcagc.data import read_features, read_graph
from kcagc.data.table import ColumnType, Schema
from kcagc.errors import DataError

ENDINGS = ".csv, .csv.gz, .tsv, .tsv.gz, .parquet, .npz, .mtx or .mtx.gz"


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz", "csv", "a.txt", "a.parquet.gz"])
def test_an_unknown_ending_lists_the_known_ones(tmp_path, name):
    refused(tmp_path / name, f"its name must end in {ENDINGS}", read_features, tmp_path / name)
    refused(tmp_path / name, f"its name must end in {ENDINGS}", read_graph, tmp_path / name, nodes=2)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "a.mtx", "a.MTX.GZ"])
def test_a_file_that_is_not_there_or_not_a_file_is_named(tmp_path, name):
    path = tmp_path / name
    refused(path, "there is no such file", read_features, path)
    path.mkdir()
    refused(path, "this is a folder", read_features, path)
    path.rmdir()
    os.mkfifo(path)
    refused(path, "this is not a regular file", read_features, path)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.npz", "a.mtx"])
def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_text("x")

    def forbidden(self):  # the tests may run as a user who may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", forbidden)
    refused(path, "there is no permission to read it", read_features, path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_text_that_is_not_utf_8_is_named_with_the_line(tmp_path, encoding):
    path = tmp_path / "a.csv"
    lines = ["id,x", *(f"n{number},1" for number in range(5000)), "münchen,2", "wien,3"]
    path.write_bytes("\n".join(lines).encode(encoding))
    line = 5002 if encoding == "latin-1" else 1
    refused(path, f"line {line}: not UTF-8", read_features, path, id_column="id")


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    (tmp_path / "a.csv").write_bytes("\ufeffid,x\nn,1\n".encode())
    assert read_features(tmp_path / "a.csv", party="bank", id_column="id").columns == ["x"]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz", "a.mtx.gz"])
def test_a_damaged_packing_is_named(tmp_path, name):
    path = tmp_path / name
    rows = "".join(f"{row} 1 {row * 0.37}\n" for row in range(1, 3000))
    text = {
        "a.csv.gz": "id,x\n" + rows.replace(" ", "", 1).replace(" ", ","),
        "a.tsv.gz": "i\tj\tx\n" + rows.replace(" ", "\t"),
        "a.mtx.gz": "%%MatrixMarket matrix coordinate real general\n3000 1 2999\n" + rows,
    }[name]
    whole = gzip.compress(text.encode())
    for damaged in (whole[: len(whole) // 2], whole[:-6], whole[:1000] + b"\xff" * 50 + whole[1050:], b"no gzip"):
        path.write_bytes(damaged)
        refused(path, "", read_features, path)
        with pytest.raises(DataError, match="damaged"):
            read_features(path, party="bank")


SCHEMA = Schema(ColumnType(), {"n": ColumnType(gaps=True), "w": ColumnType("text", True), "note": ColumnType("drop")})
TEXT = 'id,n,w,x,note\na,1.5,red,1,"long,\n ""story"""\nb,,"two, words",2,\nc,NA,,3,x\nd,null,NA,4,x\n'


def read(path, schema=SCHEMA, **options):
    return read_features(path, schema=schema, **({"party": "bank", "id_column": "id"} | options))


def wrong(path, said, reading, **options):
    return refused(path, said, read, path, reading, **options)


def as_csv(folder):
    (folder / "a.csv").write_text(TEXT)
    return folder / "a.csv"


def as_tsv(folder):
    (folder / "a.tsv").write_text(
        "id\tn\tw\tx\tnote\na\t1.5\tred\t1\t\nb\t\ttwo, words\t2\t\nc\t\t\t3\t\nd\t\tNA\t4\t\n"
    )
    return folder / "a.tsv"


def as_parquet(folder):
    table = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "n": [1.5, None, float("nan"), None],
            "w": pa.array(["red", "two, words", None, "NA"]).dictionary_encode(),
            "x": [1, 2, 3, 4],
            "note": ["", None, "x", "x"],
        }
    )
    pq.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


@pytest.mark.parametrize("form", [as_csv, as_tsv, as_parquet])
def test_words_and_gaps_are_read_alike_from_every_kind_of_file(tmp_path, form):
    table = read(form(tmp_path))
    assert table.number_columns == ["n", "x"]
    assert_array_equal(table.numbers, [[1.5, 1], [np.nan, 2], [np.nan, 3], [np.nan, 4]])
    assert table.texts == {"w": ["red", "two, words", None, "NA"]}
    assert table.ids.values == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("form", "word"), [(as_csv, "line"), (as_parquet, "row")])
def test_a_gap_in_a_column_without_a_rule_is_named(tmp_path, form, word):
    path = form(tmp_path)
    start = 5 if word == "line" else 3  # a quoted cell goes over two lines
    number = Schema(ColumnType(), {**SCHEMA.named, "n": ColumnType()})
    place = "line 4" if word == "line" else "row 2"
    wrong(path, f"{place}, column 'n': the value is missing", number)
    text = Schema(ColumnType(), {**SCHEMA.named, "w": ColumnType("text")})
    wrong(path, f"{word} {start}, column 'w': the value is missing; fill it in", text)


def test_words_without_a_rule_are_refused_with_how_to_declare_them(tmp_path):
    path = as_csv(tmp_path)
    reading = Schema(ColumnType(), {"n": ColumnType(gaps=True), "note": ColumnType("drop")})
    said = (
        "line 2, column 'w': 'red' is not a number, and 1 more in this column (line 4 'two, words'); "
        'set kind = "categorical" or "drop" for the column'
    )
    wrong(path, said, reading)
    path = as_parquet(tmp_path)
    said = "column 'w': values must be numbers, but their type is dictionary"
    assert 'kind = "categorical"' in wrong(path, said, reading)


def test_other_columns_may_all_be_dropped_or_refused(tmp_path):
    path = as_csv(tmp_path)
    only = Schema(ColumnType("drop"), {"x": ColumnType()})
    assert read(path, only).columns == ["x"]
    wrong(path, "column 'n' was not in the table that was fitted", Schema(None, {"x": ColumnType()}))
    wrong(path, "all columns are dropped by their rules", Schema(ColumnType("drop")))
    wrong(path, "there is no column 'm'; there are 'id', 'n', 'w'", Schema(ColumnType(), {"m": ColumnType()}))
    wrong(path, "column 'id' holds the ids", Schema(ColumnType("drop"), {"id": ColumnType()}))
    possible = Schema(
        None, {"x": ColumnType(), "n": ColumnType(gaps=True)}, {"w": ColumnType("drop"), "note": ColumnType("drop")}
    )
    assert read(path, possible).columns == ["n", "x"]


def test_levels_of_a_parquet_file_are_text_whatever_their_type(tmp_path):
    reading = Schema(ColumnType("text", True))
    path = parquet(tmp_path / "a.parquet", id=[1, 2], zip=[8001, None], yes=[True, False])
    assert read(path, reading).texts == {"zip": ["8001", None], "yes": ["true", "false"]}
    path = parquet(tmp_path / "b.parquet", id=[1, 2], size=[1.5, 2.0])
    wrong(path, "column 'size': levels must be strings or whole numbers, but their type is double", reading)


def test_true_and_false_may_begin_after_a_gap(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,n\n1,\n2,true\n3,false\n")
    assert_array_equal(read(path, Schema(ColumnType(gaps=True))).numbers, [[np.nan], [1], [0]])
    path.write_text("id,n\n1,\n2,5\n3,false\n")
    wrong(path, "line 4, column 'n': 'false' in a column that begins with numbers", Schema(ColumnType(gaps=True)))


def test_a_matrix_may_have_gaps_and_columns_that_are_dropped(tmp_path):
    values = sparse.csr_array(np.array([[0, np.nan, 1.0], [2, 0, np.nan]]))
    sparse.save_npz(tmp_path / "a.npz", values)
    reading = Schema(ColumnType(gaps=True), {"0": ColumnType("drop")})
    table = read(tmp_path / "a.npz", reading, id_column=None)
    assert table.columns == ["1", "2"]
    assert_array_equal(table.numbers.toarray(), [[np.nan, 1], [0, np.nan]])
    path = tmp_path / "a.npz"
    reading = Schema(ColumnType(gaps=True), {"2": ColumnType()})
    said = "row 1 (counted from 0), column '2': the value is missing (NaN)"
    wrong(path, said, reading, id_column=None)
    words = Schema(ColumnType(gaps=True), {"1": ColumnType("text")})
    wrong(path, "column '1' cannot be categorical: a sparse matrix holds", words, id_column=None)
    unknown = Schema(ColumnType(), {"9": ColumnType()})
    wrong(path, "there is no column '9'; there are '0', '1', '2'", unknown, id_column=None)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_rows_that_are_not_there_are_gaps(tmp_path, stored):
    table = read(as_csv(tmp_path))
    table = type(table)(**{**vars(table), "numbers": stored(np.nan_to_num(table.numbers))})
    found = table.selected(np.array([3, -1, 0]), None)
    numbers = found.numbers.toarray() if sparse.issparse(found.numbers) else found.numbers
    assert_array_equal(numbers, [[0, 4], [np.nan, np.nan], [1.5, 1]])
    assert found.texts["w"] == ["NA", None, "red"]
    assert str(found.error(0, "n", "so")).endswith("line 6, column 'n': so")
    assert str(found.error(1, "n", "so")).endswith("node 1 (it has no row), column 'n': so")
