"""Frames of pandas and polars: what their cells mean, and which row is which node."""

from decimal import Decimal

import numpy as np
import pandas
import polars
import pytest
from numpy.testing import assert_array_equal

from kcagc.errors import DataError
from kcagc.files.reading import Cells, Reading
from kcagc.foreign.frames import frame_ids, frame_rows, raw_frame, without

ANY = Reading(Cells(gaps=True), {"w": Cells("text", True)})
MAKERS = [pandas.DataFrame, polars.DataFrame]


@pytest.mark.parametrize("make", MAKERS)
def test_cells_mean_the_same_in_both(make):
    frame = make({"x": [1, None, 3], "b": [True, False, None], "w": ["a", None, " "]})
    raw = raw_frame(frame, ANY, "bank")
    assert_array_equal(raw.numbers, [[1, 1], [np.nan, 0], [3, np.nan]])
    assert raw.texts == {"w": ["a", None, None]}
    assert raw.columns == ["x", "b", "w"]


def test_types_of_pandas_with_gaps_of_their_own_are_read():
    frame = pandas.DataFrame({"x": pandas.array([1, None], dtype="Int64"), "b": pandas.array([True, None])})
    frame["d"] = [Decimal("1.5"), None]
    frame["w"] = pandas.Categorical(["u", None])
    with pytest.raises(DataError, match="column 'd' holds values of type object"):
        raw_frame(frame, ANY, "bank")
    raw = raw_frame(frame.drop(columns="d"), ANY, "bank")
    assert_array_equal(raw.numbers, [[1, 1], [np.nan, np.nan]])
    assert raw.texts["w"] == ["u", None]


@pytest.mark.parametrize("values", [["a", "b"], pandas.to_datetime(["2020-01-01", "2021-01-01"]), [[1], [2]]])
def test_what_is_no_number_is_named_by_its_column(values):
    with pytest.raises(DataError, match=r"^bank: column 'x' holds"):
        raw_frame(pandas.DataFrame({"x": values}), Reading(), "bank")


def test_a_cell_is_named_by_row_id_and_column():
    frame = pandas.DataFrame({"x": [1.0, None]}, index=["u", "v"])
    ids = frame_ids(frame, None, "bank")
    with pytest.raises(DataError, match=r"^bank: row 1 \(id 'v'\), column 'x': the value is missing"):
        raw_frame(frame, Reading(), "bank", ids)


@pytest.mark.parametrize("make", MAKERS)
def test_a_column_of_ids_names_the_rows_and_is_no_feature(make):
    frame = make({"id": ["u", "v"], "x": [1, 2]})
    assert frame_ids(frame, "id", "bank").values == ["u", "v"]
    assert list(without(frame, "id").columns) == ["x"]
    with pytest.raises(DataError, match="bank: there is no column 'name' to name the nodes; there are 'id', 'x'"):
        frame_ids(frame, "name", "bank")
    with pytest.raises(DataError, match="bank: column 'id': id 'u' appears twice"):
        frame_ids(make({"id": ["u", "u"]}), "id", "bank")


def test_an_index_that_counts_names_nothing():
    assert frame_ids(pandas.DataFrame({"x": [1, 2]}), None, "bank") is None
    assert frame_ids(polars.DataFrame({"x": [1, 2]}), None, "bank") is None
    assert frame_ids(pandas.DataFrame({"x": [1, 2]}, index=[1, 0]), None, "bank").values.tolist() == [1, 0]
    moments = pandas.DataFrame({"x": [1, 2]}, index=pandas.to_datetime(["2020-01-01", "2021-01-01"]))
    with pytest.raises(DataError, match=r"^bank: index: row 0 has no usable id .*reset_index\(drop=True\)"):
        frame_ids(moments, None, "bank")


@pytest.mark.parametrize("make", MAKERS)
def test_rows_are_taken_by_number_and_one_that_is_not_there_is_all_gaps(make):
    frame = make({"x": [1, 2, 3], "w": ["a", "b", "c"]})
    raw = raw_frame(frame_rows(frame, np.array([2, -1, 0])), ANY, "bank")
    assert_array_equal(raw.numbers, [[3], [np.nan], [1]])
    assert raw.texts["w"] == ["c", None, "a"]
