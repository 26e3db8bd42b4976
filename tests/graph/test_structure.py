import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from kcagc.errors import DataError, ParameterError
from kcagc.graph import Graph
from random_graphs import adjacencies

PATH = np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=float)


def with_entry(row: int, column: int, value: float) -> np.ndarray:
    matrix = PATH.copy()
    matrix[row, column] = value
    return matrix


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "must be square, but has 2 rows and 3 columns"),
        (np.zeros((0, 0)), "no nodes"),
        (with_entry(1, 2, np.nan), r"finite and not negative, not nan \(row 1, column 2\)"),
        (with_entry(2, 0, np.inf), r"finite and not negative, not inf \(row 2, column 0\)"),
        (with_entry(0, 1, -1), r"finite and not negative, not -1 \(row 0, column 1\)"),
        (with_entry(0, 2, 5), r"weight \(0, 2\) is 5 and \(2, 0\) is 0 \(pairs that differ: 1\)"),
        (with_entry(1, 2, 3), r"weight \(1, 2\) is 3 and \(2, 1\) is 2"),
        (PATH * 1j, "real numbers, but their type is complex128"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_a_bad_matrix_is_refused_and_the_place_named(matrix, message, form):
    with pytest.raises(DataError, match=message):
        Graph.from_matrix(form(matrix))


@pytest.mark.parametrize(("matrix", "message"), [(np.ones(3), "two dimensions"), ([["a"]], "real numbers")])
def test_what_is_no_matrix_of_numbers_is_refused(matrix, message):
    with pytest.raises(DataError, match=message):
        Graph.from_matrix(matrix)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix])
def test_a_sparse_matrix_with_wild_indices_is_refused_before_anything_follows_them(form):
    wild = form((np.ones(2), [1, 10**8], [0, 1, 2]), shape=(2, 2))
    with pytest.raises(DataError, match="adjacency: the sparse matrix is damaged"):
        Graph.from_matrix(wild)


def test_masked_weights_are_refused():
    with pytest.raises(DataError, match="some values are masked"):
        Graph.from_matrix(np.ma.masked_equal(PATH, 2))


def test_symmetry_is_judged_pair_by_pair():
    """A heavy edge elsewhere must not hide that a light one goes one way only."""
    matrix = np.zeros((4, 4))
    matrix[2, 3] = matrix[3, 2] = 1e13
    matrix[0, 1] = 1
    with pytest.raises(DataError, match=r"weight \(0, 1\) is 1 and \(1, 0\) is 0"):
        Graph.from_matrix(matrix)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_that_differ_by_rounding_become_equal_and_no_more_than_that(dtype):
    epsilon = np.finfo(dtype).eps
    close = np.array([[0, 0.3], [0.3 * (1 + 2 * epsilon), 0]], dtype=dtype)
    adjacency = Graph.from_matrix(close).adjacency
    assert adjacency[0, 1] == adjacency[1, 0]
    assert adjacency.dtype == dtype
    with pytest.raises(DataError, match="must be symmetric"):
        Graph.from_matrix(np.array([[0, 0.3], [0.3 * (1 + 100 * epsilon), 0]], dtype=dtype))


def test_weights_that_add_up_to_infinity_are_refused():
    with pytest.raises(DataError, match=r"not inf \(row 0, column 1\)"):
        Graph.from_matrix([[0, 1.7e308], [1.6e308, 0]], symmetrise="sum")


@pytest.mark.parametrize("n_nodes", [-1, 2.5, "3", True])
def test_a_meaningless_number_of_nodes_is_refused(n_nodes):
    with pytest.raises(ParameterError, match="n_nodes"):
        Graph.from_edges([0], [1], n_nodes=n_nodes)


def test_edges_may_come_from_generators():
    graph = Graph.from_edges((i for i in (0, 1)), (i for i in (1, 2)), (w for w in (1.0, 2.0)))
    assert_array_equal(graph.adjacency.toarray(), PATH)


def test_many_bad_places_are_counted_not_listed():
    with pytest.raises(DataError, match=r"-1 \(row 0, column 0\); .* and 20 more"):
        Graph.from_matrix(np.full((5, 5), -1.0))


@pytest.mark.parametrize(("how", "wanted"), [("max", 5.0), ("mean", 3.5), ("sum", 7.0)])
def test_symmetrise_when_asked(how, wanted):
    graph = Graph.from_matrix([[0, 5], [2, 0]], symmetrise=how)
    assert_array_equal(graph.adjacency.toarray(), [[0, wanted], [wanted, 0]])


def test_an_unknown_way_to_symmetrise_is_refused():
    with pytest.raises(ParameterError, match="symmetrise: must be 'max', 'mean', 'sum' or None, not 'min'"):
        Graph.from_matrix(PATH, symmetrise="min")


@pytest.mark.parametrize("form", [sparse.coo_array, sparse.csr_array, sparse.csc_matrix])
def test_the_callers_matrix_is_left_alone(form):
    mine = form(sparse.coo_array(([1.0, 1.0, 0.0], ([0, 1, 0], [1, 0, 0])), shape=(2, 2)))
    graph = Graph.from_matrix(mine)
    assert mine.nnz == 3
    assert graph.adjacency.nnz == 2
    mine.data[:] = 7
    assert_array_equal(graph.adjacency.toarray(), [[0, 1], [1, 0]])


def test_a_read_only_matrix_will_do():
    mine = sparse.csr_array(([0.0, 1.0, 1.0], [0, 1, 0], [0, 2, 3]), shape=(2, 2))
    for part in (mine.data, mine.indices, mine.indptr):
        part.flags.writeable = False
    assert Graph.from_matrix(mine).n_edges == 1


def test_repeated_entries_of_a_small_type_do_not_wrap_around():
    repeated = sparse.coo_array((np.array([200, 100, 200, 100], np.uint8), ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert Graph.from_matrix(repeated).adjacency[0, 1] == 300


@given(adjacencies())
def test_a_symmetric_matrix_is_taken_as_it_is(adjacency):
    graph = Graph.from_matrix(adjacency)
    assert_array_equal(graph.adjacency.toarray(), adjacency.toarray())
    dense = adjacency.toarray()
    assert graph.n_edges == np.count_nonzero(np.triu(dense, 1))
    assert graph.n_self_loops == np.count_nonzero(np.diag(dense))
    np.fill_diagonal(dense, 0)
    assert graph.n_isolated == np.count_nonzero(~dense.any(axis=1))


@given(adjacencies(), st.randoms(use_true_random=False))
def test_edges_in_any_order_direction_and_repetition_give_the_matrix(adjacency, random):
    upper = sparse.coo_array(sparse.triu(adjacency))
    listed = list(zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True))
    listed += random.sample(listed, len(listed) // 2)
    listed = [(a, b, w) if random.random() < 0.5 else (b, a, w) for a, b, w in listed]
    random.shuffle(listed)
    sources, targets, weights = ([edge[part] for edge in listed] for part in range(3))
    graph = Graph.from_edges(sources, targets, weights, n_nodes=adjacency.shape[0])
    assert_array_equal(graph.adjacency.toarray(), adjacency.toarray())
    assert_array_equal(Graph.from_matrix(graph.adjacency).adjacency.toarray(), adjacency.toarray())


def test_edges_by_id():
    graph = Graph.from_edges(["b", "c"], ["a", "b"], ids=["a", "b", "c", "d"])
    assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    assert graph.n_isolated == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"sources": [0, 5], "targets": [1, 1], "n_nodes": 3},
            "edges: source: row 1 is 5, but nodes are 0 to 2",
        ),
        ({"sources": [0, 1], "targets": [1, -1]}, "edges: target: row 1 is -1"),
        ({"sources": [0.5], "targets": [1]}, r"source: row 0 has no usable id \(0.5\)"),
        ({"sources": ["a"], "targets": ["b"]}, "row 0 is 'a', but without ids nodes are numbered from 0"),
        ({"sources": [True], "targets": [1]}, "row 0 has no usable id"),
        ({"sources": [[0, 1]], "targets": [1]}, "row 0 has no usable id"),
        ({"sources": np.zeros((2, 2), int), "targets": [1]}, "one column"),
        ({"sources": np.array([2**64 - 1], np.uint64), "targets": [1]}, "row 0 has no usable id"),
        ({"sources": [2**63], "targets": [1]}, "row 0 has no usable id"),
        ({"sources": [10**9], "targets": [1]}, "largest node number is 1000000000 for 1 edges; if these are ids"),
        (
            {"sources": [0, 0], "targets": [1, 1], "weights": [1.7e308, 1.7e308], "repeats": "sum"},
            "row 0 has weight inf",
        ),
        ({"sources": [0, 1], "targets": [1]}, "2 sources but 1 targets"),
        ({"sources": [0], "targets": [1], "weights": [np.nan]}, "row 0 has weight nan"),
        ({"sources": [0], "targets": [1], "weights": [-1]}, "row 0 has weight -1"),
        ({"sources": [0], "targets": [1], "weights": [1, 2]}, r"1 rows but weights of shape \(2,\)"),
        ({"sources": [0], "targets": [1], "weights": ["x"]}, "real numbers"),
        ({"sources": [], "targets": []}, "no nodes"),
        ({"sources": [1, "a"], "targets": ["a", "1"], "ids": ["1", "a"]}, "row 1 is 'a' and row 0 is 1"),
        ({"sources": ["a", float("nan")], "targets": ["a", "a"], "ids": ["a", "nan"]}, "row 1 has no usable id"),
        ({"sources": ["a"], "targets": ["x"], "ids": ["a", "b"]}, "edges: target: no node has the id 'x' in row 0"),
        ({"sources": [1], "targets": [2], "ids": ["1", "2"]}, "ids here are numbers .* the graph's ids are strings"),
        ({"sources": [0], "targets": [1], "ids": [7, 8, 9], "n_nodes": 2}, "3 ids for 2 nodes"),
        (
            {"sources": [0, 1, 2], "targets": [1, 2, 1], "weights": [1, 2, 3]},
            "rows 1 and 2 give the same edge the weights 2 and 3",
        ),
    ],
)
def test_a_bad_edge_list_is_refused_and_the_row_named(arguments, message):
    with pytest.raises(DataError, match=message):
        Graph.from_edges(**arguments)


def test_repeated_edges_add_up_when_asked():
    graph = Graph.from_edges([0, 1, 0], [1, 0, 2], [1, 2, 4], repeats="sum")
    assert_array_equal(graph.adjacency.toarray(), [[0, 3, 4], [3, 0, 0], [4, 0, 0]])


def test_an_edge_of_weight_zero_is_no_edge():
    assert Graph.from_edges([0], [1], [0.0], n_nodes=2).n_edges == 0
