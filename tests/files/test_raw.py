"""Tables with text and gaps: read as their columns are declared, from every kind of file alike."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from files.tables import parquet, refused
from kcagc.files.features import read_raw
from kcagc.files.reading import Cells, Reading

READING = Reading(Cells(), {"n": Cells(gaps=True), "w": Cells("text", True), "note": Cells("drop")})
TEXT = 'id,n,w,x,note\na,1.5,red,1,"long,\n ""story"""\nb,,"two, words",2,\nc,NA,,3,x\nd,null,NA,4,x\n'


def read(path, reading=READING, **options):
    return read_raw(path, reading=reading, **({"party": "bank", "id_column": "id"} | options))


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
    number = Reading(Cells(), {**READING.named, "n": Cells()})
    place = "line 4" if word == "line" else "row 2"
    wrong(path, f"{place}, column 'n': the value is missing", number)
    text = Reading(Cells(), {**READING.named, "w": Cells("text")})
    wrong(path, f"{word} {start}, column 'w': the value is missing; fill it in", text)


def test_words_without_a_rule_are_refused_with_how_to_declare_them(tmp_path):
    path = as_csv(tmp_path)
    reading = Reading(Cells(), {"n": Cells(gaps=True), "note": Cells("drop")})
    said = (
        "line 2, column 'w': 'red' is not a number (a column of words needs a rule, kind = \"categorical\" or \"drop\")"
    )
    wrong(path, said, reading)
    path = as_parquet(tmp_path)
    said = "column 'w': values must be numbers, but their type is dictionary"
    assert 'kind = "categorical"' in wrong(path, said, reading)


def test_other_columns_may_all_be_dropped_or_refused(tmp_path):
    path = as_csv(tmp_path)
    only = Reading(Cells("drop"), {"x": Cells()})
    assert read(path, only).columns == ["x"]
    wrong(path, "column 'n' was not in the table that was fitted", Reading(None, {"x": Cells()}))
    wrong(path, "all columns are dropped by their rules", Reading(Cells("drop")))
    wrong(path, "there is no column 'm'; there are 'id', 'n', 'w'", Reading(Cells(), {"m": Cells()}))
    wrong(path, "column 'id' holds the ids", Reading(Cells("drop"), {"id": Cells()}))
    possible = Reading(None, {"x": Cells(), "n": Cells(gaps=True)}, {"w": Cells("drop"), "note": Cells("drop")})
    assert read(path, possible).columns == ["n", "x"]


def test_levels_of_a_parquet_file_are_text_whatever_their_type(tmp_path):
    reading = Reading(Cells("text", True))
    path = parquet(tmp_path / "a.parquet", id=[1, 2], zip=[8001, None], yes=[True, False])
    assert read(path, reading).texts == {"zip": ["8001", None], "yes": ["true", "false"]}
    path = parquet(tmp_path / "b.parquet", id=[1, 2], size=[1.5, 2.0])
    wrong(path, "column 'size': levels must be strings or whole numbers, but their type is double", reading)


def test_true_and_false_may_begin_after_a_gap(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,n\n1,\n2,true\n3,false\n")
    assert_array_equal(read(path, Reading(Cells(gaps=True))).numbers, [[np.nan], [1], [0]])
    path.write_text("id,n\n1,\n2,5\n3,false\n")
    wrong(path, "line 4, column 'n': 'false' in a column that begins with numbers", Reading(Cells(gaps=True)))


def test_a_matrix_may_have_gaps_and_columns_that_are_dropped(tmp_path):
    values = sparse.csr_array(np.array([[0, np.nan, 1.0], [2, 0, np.nan]]))
    sparse.save_npz(tmp_path / "a.npz", values)
    reading = Reading(Cells(gaps=True), {"0": Cells("drop")})
    table = read(tmp_path / "a.npz", reading, id_column=None)
    assert table.columns == ["1", "2"]
    assert_array_equal(table.numbers.toarray(), [[np.nan, 1], [0, np.nan]])
    path = tmp_path / "a.npz"
    reading = Reading(Cells(gaps=True), {"2": Cells()})
    said = "row 1, column 2 (counted from 0): the value is missing (NaN)"
    wrong(path, said, reading, id_column=None)
    words = Reading(Cells(gaps=True), {"1": Cells("text")})
    wrong(path, "column '1' cannot be categorical: a matrix holds", words, id_column=None)
    unknown = Reading(Cells(), {"9": Cells()})
    wrong(path, "there is no column '9'; columns are called", unknown, id_column=None)


@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_rows_that_are_not_there_are_gaps(tmp_path, stored):
    table = read(as_csv(tmp_path))
    table = type(table)(**{**vars(table), "numbers": stored(np.nan_to_num(table.numbers))})
    found = table.selected(np.array([3, -1, 0]), None)
    numbers = found.numbers.toarray() if sparse.issparse(found.numbers) else found.numbers
    assert_array_equal(numbers, [[0, 4], [np.nan, np.nan], [1.5, 1]])
    assert found.texts["w"] == ["NA", None, "red"]
    assert str(found.error(0, "n", "so")).endswith("line 6, column 'n': so")
    assert str(found.error(1, "n", "so")).endswith("there is no row for node 1; column 'n': so")
