import datetime
import decimal
import sys

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from data.tables import parquet, refused
from kcagc.data import read_features, write_labels
from kcagc.errors import ParameterError

IDS = ["b", "a", "c"]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (["1", "2", "3"], "column 'x': values must be numbers, but their type is string"),
        (
            pa.array(["1", "2", "1"]).dictionary_encode(),
            "column 'x': values must be numbers, but their type is dictionary",
        ),
        ([[1.0], [2.0], []], "column 'x': values must be numbers, but their type is list"),
        ([datetime.date(2024, 1, 1)] * 3, "column 'x': values must be numbers, but their type is date32[day]"),
        ([datetime.datetime(2024, 1, 1)] * 3, "column 'x': values must be numbers, but their type is timestamp"),
        ([{"re": 1.0, "im": 2.0}] * 3, "column 'x': values must be numbers, but their type is struct"),
        ([1.0, None, None], "row 2, column 'x': the value is missing (NaN), and 1 more in this column"),
        ([1, 2, None], "row 3, column 'x': the value is missing"),
        ([True, None, False], "row 2, column 'x': the value is missing"),
        (pa.nulls(3), "row 1, column 'x': the value is missing"),
        ([1.0, 2.0, np.nan], "row 3, column 'x': the value is missing"),
        ([1.0, -np.inf, 2.0], "row 2, column 'x': the value is infinite"),
    ],
)
def test_a_column_that_is_no_column_of_numbers_is_named(tmp_path, column, said):
    path = parquet(tmp_path / "a.parquet", id=IDS, x=column)
    refused(path, said, read_features, path, id_column="id")


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["b", "a", "b"], "row 3, column 'id': the id 'b' is already in row 1"),
        ([4, 3, 3], "row 3, column 'id': the id 3 is already in row 2"),
        (["b", None, "c"], "row 2, column 'id': the id is missing"),
        ([4, None, 5], "row 2, column 'id': the id is missing"),
        (["b", "", "c"], "row 2, column 'id': the id is empty"),
        ([1.0, 2.0, 3.0], "column 'id': ids must be whole numbers or strings, but their type is double"),
        ([True, False, True], "column 'id': ids must be whole numbers or strings, but their type is bool"),
        (pa.array([1, 2**63, 3], pa.uint64()), "row 2, column 'id': the id 9223372036854775808 is too large"),
    ],
)
def test_bad_ids_are_named(tmp_path, ids, said):
    path = parquet(tmp_path / "a.parquet", id=ids, x=[1.0, 2.0, 3.0])
    refused(path, said, read_features, path, id_column="id")


def test_a_table_without_rows_or_columns_or_with_two_of_one_name_is_refused(tmp_path):
    path = parquet(tmp_path / "a.parquet", id=pa.array([], pa.string()), x=pa.array([], pa.float64()))
    refused(path, "there are no rows", read_features, path, id_column="id")
    parquet(path, id=IDS)
    refused(path, "there are no feature columns, only 'id'", read_features, path, id_column="id")
    refused(path, "there is no column 'idd'; there are 'id'; did you mean 'id'?", read_features, path, id_column="idd")
    pa.parquet.write_table(pa.table([[1], [2]], names=["x", "x"]), path)
    refused(path, "columns 1 and 2 are both called 'x'", read_features, path)


@pytest.mark.parametrize("kept", [0, 3, 50, 0.5, -1])
def test_a_file_that_is_cut_off_is_named(tmp_path, kept):
    path = parquet(tmp_path / "a.parquet", x=np.arange(10_000.0))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept) if isinstance(kept, float) else kept])
    refused(path, "not a Parquet file, or a damaged one", read_features, path)


def test_damage_in_the_middle_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"x": np.arange(10_000.0)}), path, use_dictionary=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
    refused(path, "a damaged Parquet file", read_features, path)


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.decimal128(5, 2), pa.int64()],
    ids=str,
)
def test_every_type_of_number_is_read(tmp_path, kind):
    given = [decimal.Decimal(1), decimal.Decimal(0)] if pa.types.is_decimal(kind) else [1, 0]
    column = pa.array(given).cast(kind)
    table = read_features(parquet(tmp_path / "a.parquet", x=column, y=column), party="bank")
    assert table.numbers.dtype == np.float64
    assert_array_equal(table.numbers, [[1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (pa.array(["7", "b"]), ["7", "b"]),
        (pa.array(["7", "8"], pa.large_string()), ["7", "8"]),
        (pa.array(["7", "8"]).dictionary_encode(), ["7", "8"]),
        (pa.array([7, 8], pa.int16()), [7, 8]),
        (pa.array([7, 8], pa.uint64()), [7, 8]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_the_type_says_whether_ids_are_numbers_or_strings(tmp_path, given, ids):
    table = read_features(parquet(tmp_path / "a.parquet", x=[1.0, 2.0], id=given), party="bank", id_column="id")
    assert isinstance(table.ids.values, list) == isinstance(ids[0], str)
    assert list(table.ids.values) == ids
    assert table.columns == ["x"]


def test_without_pyarrow_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = parquet(tmp_path / "a.parquet", x=[1.0])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ParameterError, match=r"pip install 'kcagc\[parquet\]'"):
        read_features(path, party="bank")
    with pytest.raises(ParameterError, match=r"pip install 'kcagc\[parquet\]'"):
        write_labels(tmp_path / "labels.parquet", None, [0])
