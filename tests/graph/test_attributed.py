import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from kcagc.errors import DataError, ParameterError
from kcagc.graph import AttributedGraph, Graph, check_features
from kcagc.graph.ids import NodeIds

EDGE = np.array([[0, 1], [1, 0]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0], [2.0], [3.0]], "3 rows, but the graph has 2 nodes"),
        ([[1.0, 2.0], [3.0, np.nan]], "row 1, column 1 is nan"),
        ([[np.inf, 2.0], [3.0, 4.0]], "row 0, column 0 is inf"),
        (np.zeros((2, 0)), "no columns"),
    ],
)
def test_features_that_do_not_fit_are_refused(features, message, form):
    with pytest.raises(DataError, match=message):
        AttributedGraph.build(EDGE, form(np.asarray(features)))


@pytest.mark.parametrize("features", [[["a"], ["b"]], [[1j], [2.0]]])
def test_features_that_are_no_numbers_are_refused(features):
    with pytest.raises(DataError, match="real numbers"):
        check_features(features)


def test_one_dimension_is_refused():
    with pytest.raises(DataError, match="two dimensions"):
        check_features([1.0, 2.0])


def test_rows_are_aligned_by_id():
    graph = Graph.from_matrix(EDGE, ids=["x", "y"])
    made = AttributedGraph.build(graph, [[1.0], [2.0]], feature_ids=["y", "x"])
    assert_array_equal(made.features, [[2.0], [1.0]])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["x", "z"], r"1 of the graph's ids are missing \('y'\); 1 are not among the graph's ids \('z'\)"),
        (["x"], "1 of the graph's ids are missing"),
        (["x", "x"], "'x' appears twice, in rows 0 and 1"),
        ([1, 2], r"numbers \(such as 1\), but the graph's ids are strings \(such as 'x'\)"),
        (["x", 2], "row 1 is 2 and row 0 is 'x'"),
        (["x", None], "row 1 has no usable id"),
        (["x", ""], "row 1 has no usable id"),
        ([1.5, 2.5], "row 0 has no usable id"),
        ([True, False], "row 0 has no usable id"),
        (np.array([["x", "y"]]), "one column"),
        (np.array(["x", ""]), "row 1 has no usable id"),
        (np.ma.masked_equal([3, 4], 4), "row 1 has no id"),
    ],
)
def test_ids_that_do_not_match_are_refused(ids, message):
    graph = Graph.from_matrix(EDGE, ids=["x", "y"])
    with pytest.raises(DataError, match=message):
        AttributedGraph.build(graph, np.ones((2, 1)), feature_ids=ids)


def test_ids_for_a_graph_without_ids_are_refused():
    with pytest.raises(DataError, match="the graph has none"):
        AttributedGraph.build(EDGE, [[1.0], [2.0]], feature_ids=["x", "y"])


def test_ids_are_for_a_matrix_not_for_a_graph():
    with pytest.raises(ParameterError, match="not allowed with a Graph"):
        AttributedGraph.build(Graph.from_matrix(EDGE), [[1.0], [2.0]], ids=["x", "y"])


def test_numbers_beyond_64_bits_never_wrap_around():
    ids = NodeIds.of([-1], where="here")
    with pytest.raises(DataError, match="row 0 has no usable id"):
        ids.alignment(np.array([2**64 - 1], np.uint64), where="there")
    assert ids.alignment(np.array([-1], np.int8), where="there") == [0]


def test_long_ids_take_no_more_room_than_they_have():
    ids = NodeIds.of([f"node {row}" for row in range(20_000)] + ["x" * 20_000], where="here")
    assert ids.positions(["x" * 20_000], where="there") == [20_000]


def test_repeated_entries_of_a_sparse_matrix_are_added_up_and_the_callers_matrix_left_alone():
    twice = sparse.csr_array((np.array([1.0, 2.0]), [0, 0], [0, 2, 2]), shape=(2, 1))
    assert_array_equal(check_features(twice).toarray(), [[3.0], [0.0]])
    assert check_features(twice).nnz == 1
    assert twice.nnz == 2
    with pytest.raises(DataError, match="row 0, column 0 is inf"):
        check_features(sparse.csr_array((np.array([1.7e308] * 2), [0, 0], [0, 2, 2]), shape=(2, 1)))


def test_wild_indices_in_features_are_refused():
    with pytest.raises(DataError, match="features: the sparse matrix is damaged"):
        check_features(sparse.csr_array((np.ones(1), [7], [0, 1, 1]), shape=(2, 1)))


def test_many_unknown_ids_are_counted():
    ids = NodeIds.of(["a"], where="here")
    with pytest.raises(DataError, match=r"'b' in row 0, 'c' in row 1, 'd' in row 2 and 1 more"):
        ids.positions(["b", "c", "d", "e"], where="there")


def test_float32_stays_and_integers_become_float64():
    assert check_features(np.ones((2, 1), np.float32)).dtype == np.float32
    assert check_features(sparse.csr_array(np.ones((2, 1), np.int8))).dtype == np.float64
