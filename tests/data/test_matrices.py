import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import io as scipy_io
from scipy import sparse

from data.tables import parquet, refused
from kcagc.data import read_features
from kcagc.data.table import ColumnType, Schema
from kcagc.errors import ParameterError

MATRIX = np.array([[0, 1.5, 0], [2, 0, 0], [0, 0, -3], [0, 0, 0]])


def saved(path, matrix):
    if path.suffix == ".npz":
        sparse.save_npz(path, sparse.csr_array(matrix)) if sparse.issparse(matrix) else np.savez(path, x=matrix)
    else:
        scipy_io.mmwrite(path, matrix)
    return path


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.bsr_array])
@pytest.mark.parametrize("name", ["a.npz", "a.mtx"])
def test_a_sparse_matrix_stays_sparse(tmp_path, form, name):
    table = read_features(saved(tmp_path / name, form(MATRIX)), party="bank")
    assert isinstance(table.numbers, sparse.csr_array)
    assert table.numbers.has_sorted_indices
    assert_array_equal(table.numbers.toarray(), MATRIX)
    assert table.columns == ["0", "1", "2"]
    assert table.ids is None


@pytest.mark.parametrize("name", ["a.npz", "a.mtx"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_a_dense_matrix_stays_dense_and_becomes_float64(tmp_path, name, dtype):
    values = read_features(saved(tmp_path / name, MATRIX.astype(dtype)), party="bank").numbers
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    assert_array_equal(values, MATRIX.astype(dtype))


def test_a_column_of_a_dense_matrix_may_hold_levels(tmp_path):
    path = saved(tmp_path / "a.npz", np.array([[8001, 1.5], [8002, 2.5]]))
    table = read_features(path, party="bank", schema=Schema(named={"0": ColumnType("text")}))
    assert table.texts == {"0": ["8001", "8002"]}
    assert_array_equal(table.numbers, [[1.5], [2.5]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ["a.npz", "a.mtx"])
@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([[0, 1], [np.nan, 3.0]], "row 1 (counted from 0), column '0': the value is missing (NaN)"),
        ([[0, -np.inf], [1, 3.0]], "row 0 (counted from 0), column '1': the value is infinite"),
        ([[1j, 0], [1, 3.0]], "values must be real numbers, but their type is complex128"),
    ],
)
def test_values_that_are_no_finite_numbers_are_named(tmp_path, form, name, matrix, said):
    path = saved(tmp_path / name, form(np.asarray(matrix)))
    refused(path, said, read_features, path)


@pytest.mark.parametrize(("shape", "said"), [((0, 3), "there are no rows"), ((3, 0), "there are no columns")])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_matrix_without_rows_or_columns_is_refused(tmp_path, shape, said, form):
    path = saved(tmp_path / "a.npz", form(np.zeros(shape)))
    refused(path, said, read_features, path)


def test_archives_that_are_no_matrix_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=MATRIX, y=MATRIX)
    refused(
        path,
        "must hold one array, or what scipy.sparse.save_npz writes, but its arrays are 'x', 'y'",
        read_features,
        path,
    )
    np.savez(path)
    refused(path, "must hold one array", read_features, path)
    np.savez(path, x=np.zeros(3))
    refused(path, "must have two dimensions, but has 1", read_features, path)
    np.savez(path, x=np.array([["a"]]))
    refused(path, "values must be real numbers", read_features, path)
    np.savez(path, format=np.array("csr"), data=np.ones(1))
    refused(path, "not a matrix, or a damaged one", read_features, path)


def test_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.array([[print]], dtype=object))
    refused(path, "not a matrix, or a damaged one", read_features, path)


def test_indices_that_point_outside_are_refused_before_anything_follows_them(tmp_path):
    path = tmp_path / "a.npz"
    parts = {"indices": [1, 10**8], "indptr": [0, 1, 2], "data": [1.0, 1.0], "shape": [2, 2]}
    np.savez(path, format=b"csr", **{name: np.array(part) for name, part in parts.items()})
    assert "damaged" in refused(path, "", read_features, path)


@pytest.mark.parametrize("name", ["a.npz", "a.mtx"])
@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.95])
def test_a_matrix_that_is_cut_off_is_named(tmp_path, name, kept):
    path = saved(tmp_path / name, sparse.random_array((300, 20), density=0.5, rng=np.random.default_rng(0)))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept) if isinstance(kept, float) else kept])
    assert "damaged" in refused(path, "not a", read_features, path)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            "array real general\n90000000 90000000\n",
            "announces 8,100,000,000,000,000 entries (90,000,000 × 90,000,000)",
        ),
        ("array real symmetric\n% one\n\n%two\n90000000 90000000\n", "but is too short"),
        ("coordinate real general\n5 5 90000000000\n", "announces 90,000,000,000 entries (5 × 5)"),
        ("coordinate real general\n90000000000 5 1\n", "announces 90,000,000,000 × 5 with only 1 entries"),
        ("coordinate real general\n5 90000000000 1\n", "announces 5 × 90,000,000,000 with only 1 entries"),
        ("array real general\n", "not a matrix, or a damaged one"),
        ("array real general\nmany rows\n", "not a matrix, or a damaged one"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_header_that_announces_more_than_the_file_holds_is_refused_before_memory_is_taken(
    tmp_path, header, said, packed
):
    path = tmp_path / f"a.mtx{'.gz' if packed else ''}"
    text = f"%%MatrixMarket matrix {header}1 1 1\n".encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    assert said in refused(path, "", read_features, path)


def test_a_sparse_archive_of_nearly_nothing_but_empty_rows_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    sparse.save_npz(path, sparse.coo_array(([1.0], ([0], [0])), shape=(2**40, 1)))
    refused(path, "announces 1,099,511,627,776 × 1 with only 1 entries", read_features, path)


def test_damage_within_an_archive_is_named(tmp_path):
    path = saved(tmp_path / "a.npz", MATRIX)
    whole = path.read_bytes()
    at = whole.index(MATRIX.tobytes())
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    refused(path, "not a matrix, or a damaged one (Bad CRC-32", read_features, path)


@pytest.mark.parametrize("name", ["i.csv", "i.txt", "i.parquet", "i.tsv"])
def test_the_rows_of_a_matrix_are_named_by_a_file(tmp_path, name):
    path, ids = saved(tmp_path / "a.npz", sparse.csr_array(MATRIX)), tmp_path / name
    if name == "i.parquet":
        parquet(ids, node=["d", "a", "c", "b"])
    else:
        ids.write_text(("" if name == "i.txt" else "node\n") + "d\na\nc\nb\n")
    assert read_features(path, party="bank", ids=ids).ids.values == ["d", "a", "c", "b"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("i.txt", "4\n7\n5\n7\n", "line 4, column 'id': the id 7 is already in line 2"),
        ("i.txt", "a\n\nb\nc\n", "line 2, column 'id': the id is missing"),
        ("i.txt", "a\nb\nc\n", "there are 3 ids, but"),
        ("i.txt", "\n\n", "the file is empty"),
        ("i.csv", "node\na\nb\nc\n", "there are 3 ids, but"),
        ("i.csv", "node\na\nb\nc\na\n", "line 5, column 'node': the id 'a' is already in line 2"),
        ("i.csv", "node\na\n\nb\nc\n", "line 3 is empty, but line 4 is not"),
        ("i.csv", "node,x\na,1\n", "there must be one column, the ids of the rows, but there are 2"),
        ("i.npz", "", "its name must end in"),
    ],
)
def test_bad_names_for_rows_are_named(tmp_path, name, text, said):
    path, ids = saved(tmp_path / "a.npz", sparse.csr_array(MATRIX)), tmp_path / name
    ids.write_text(text)
    refused(ids, said, read_features, path, ids=ids)


def test_ways_to_name_rows_are_not_confused(tmp_path):
    with pytest.raises(ParameterError, match=r"id_column: .* is a matrix"):
        read_features(tmp_path / "a.npz", party="bank", id_column="id")
    with pytest.raises(ParameterError, match=r"ids: .* is a table"):
        read_features(tmp_path / "a.csv", party="bank", ids="ids.txt")
