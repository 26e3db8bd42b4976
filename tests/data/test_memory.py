"""Rows and nodes: matched by id wherever there are ids, refused where ids disagree, by position only where none are."""

from pathlib import Path

import networkx
import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from data.tensors import Data, Tensor
from kcagc import KCAGC
from kcagc.data import TablePreprocessor
from kcagc.data.memory import graphs_of, prepare_parties, rows_to_predict
from kcagc.errors import DataError, ParameterError
from kcagc.graph import Graph
from kcagc.graph.graph import check_features
from kcagc.graph.ids import NodeIds

NAMES = ["a", "b", "c", "d"]
LINE = sparse.csr_array(np.diag([1.0, 2.0, 3.0], 1) + np.diag([1.0, 2.0, 3.0], -1))
TABLE = np.arange(8.0).reshape(4, 2) + 1


def brought(tables, graph, **options):
    names = [f"party-{number}" for number in range(1, len(tables) + 1)]
    graphs = graph if isinstance(graph, list) else [graph] * len(tables)
    return prepare_parties(dict(zip(names, tables, strict=True)), graphs, **options)


def named(ids=NAMES):
    return Graph.from_matrix(LINE, ids=ids)


def frame(order=(0, 1, 2, 3), names=NAMES, make=pandas.DataFrame):
    rows = list(order)
    return make({"id": [names[row] for row in rows], "x": TABLE[rows, 0], "y": TABLE[rows, 1]})


def features(found, party="party-1"):
    return check_features(found[party].features)


@given(st.permutations(range(4)), st.permutations(range(4)), st.booleans())
def test_rows_in_any_order_come_into_the_order_of_the_graph(one, two, reverse):
    graph = named(NAMES[::-1]) if reverse else named()
    found = brought([frame(one), frame(two, make=polars.DataFrame)], graph, id_column="id")
    for party in ("party-1", "party-2"):
        assert_array_equal(features(found, party), TABLE[::-1] if reverse else TABLE)
    assert found["party-1"].graph.ids.values == (NAMES[::-1] if reverse else NAMES)


@given(st.permutations(range(4)))
def test_a_shuffled_frame_that_kept_its_row_numbers_is_put_right(order):
    shuffled = pandas.DataFrame(TABLE).iloc[list(order)]
    found = brought([shuffled, TABLE], Graph.from_matrix(LINE))
    assert_array_equal(features(found), TABLE)
    assert found["party-1"].graph.ids is None


def test_a_frame_that_counts_its_rows_follows_nodes_that_are_numbers():
    order = [2, 0, 3, 1]
    graph = Graph.from_matrix(LINE[order][:, order], ids=order)
    found = brought([pandas.DataFrame(TABLE), pandas.DataFrame(TABLE)], graph)
    assert_array_equal(features(found), TABLE[order])


def test_without_ids_the_graph_has_the_order_that_all_tables_share():
    found = brought([frame(), frame(), TABLE], Graph.from_matrix(LINE), id_column="id")
    assert found["party-1"].graph.ids.values == NAMES
    message = "^party-2: ids are not those of party-1 in the same order, and the graph has no ids"
    with pytest.raises(DataError, match=message):
        brought([frame(), frame([1, 0, 2, 3])], Graph.from_matrix(LINE), id_column="id")


@pytest.mark.parametrize("path", ["b.csv", Path("b.csv")])
def test_the_name_of_a_file_is_no_table(path):
    said = r"^shop: must be a table, not the name of a file; read 'b\.csv' first, as a frame$"
    for other in (TABLE, frame().set_index("id"), "a.csv"):
        with pytest.raises(DataError, match=r"^(bank|shop): must be a table"):
            KCAGC(n_clusters=2).fit({"bank": other, "shop": path})
    with pytest.raises(DataError, match=said):
        KCAGC(n_clusters=2).fit({"bank": TABLE, "shop": path})
    with pytest.raises(DataError, match=r"^shop: features: must have two dimensions, but has 1$"):
        KCAGC(n_clusters=2).fit({"bank": TABLE, "shop": [1, 2, 3, 4]})


def test_ids_that_disagree_are_never_matched_by_position():
    with pytest.raises(
        DataError, match=r"^party-2: ids do not match the graph's: 1 of the graph's ids are missing \('d'\)"
    ):
        brought([frame(), frame(names=["a", "b", "c", "z"])], named(), id_column="id")
    with pytest.raises(DataError, match=r"party-1: ids here are strings .*but the graph's ids are numbers"):
        brought([frame(), frame()], named([7, 8, 9, 10]), id_column="id")


def test_graphs_of_each_party_come_into_one_order():
    order = [3, 1, 0, 2]
    other = Graph.from_matrix(LINE[order][:, order], ids=[NAMES[row] for row in order])
    found = brought([frame(), frame()], [named(), other], id_column="id")
    assert_array_equal(found["party-2"].graph.adjacency.toarray(), LINE.toarray())
    assert found["party-2"].graph.ids.values == NAMES


def test_the_intersection_is_what_the_graph_and_all_tables_have():
    tables = [frame([3, 0, 1]), frame([1, 2, 3]), TABLE]
    found = brought(tables, named(), id_column="id", nodes="intersection")
    assert found["party-1"].graph.ids.values == ["b", "d"]
    assert_array_equal(features(found), TABLE[[1, 3]])
    assert_array_equal(features(found, "party-3"), TABLE[[1, 3]])
    assert_array_equal(found["party-1"].graph.adjacency.toarray(), [[0, 0], [0, 0]])
    with pytest.raises(DataError, match="nodes: no node is in the graph and in all tables"):
        brought([frame([0]), frame([1])], named(), id_column="id", nodes="intersection")
    with pytest.raises(DataError, match=r"^party-2: 3 rows without ids, but the graph has 4 nodes: nothing says which"):
        brought([frame(), TABLE[:3]], named(), id_column="id", nodes="intersection")


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame])
def test_a_list_takes_its_nodes_and_lets_the_transformer_fill_what_a_table_lacks(make):
    filling = TablePreprocessor(default={"missing": "mean"})
    options = {"id_column": "id", "nodes": ["d", "a", "b"]}
    found = brought([frame([3, 0], make=make), frame()], named(), transformers=[filling, None], **options)
    assert found["party-1"].graph.ids.values == ["a", "b", "d"]
    assert_array_equal(features(found), [TABLE[0], (TABLE[0] + TABLE[3]) / 2, TABLE[3]])
    assert found["party-1"].graph.n_edges == 1
    message = r"^party-1: there is no row for node 'b' .*transformer that fills"
    with pytest.raises(DataError, match=message):
        brought([frame([3, 0], make=make), frame()], named(), **options)
    strict = TablePreprocessor()
    with pytest.raises(DataError, match=r"(?s)^party-1: 2 problems in 2 columns.*column 'x': 1 cell \(node 'b'\)"):
        brought([frame([3, 0], make=make), frame()], named(), transformers=strict, **options)


def test_nodes_of_a_list_that_the_graph_does_not_have_are_named():
    with pytest.raises(DataError, match="nodes: no node has the id 'q'"):
        brought([frame(), frame()], named(), id_column="id", nodes=["a", "q"])
    with pytest.raises(ParameterError, match=r"^nodes: must be 'all', 'intersection' or a list of ids, not 'some'"):
        brought([frame(), frame()], named(), nodes="some")


@pytest.mark.parametrize("form", ["csc", "coo", "lil", "dok", "bsr", "dia", "csr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_tables_of_every_format_are_taken(form, kind):
    made = (sparse.coo_array if kind == "array" else sparse.coo_matrix)(TABLE).asformat(form)
    assert_array_equal(features(brought([made, TABLE], Graph.from_matrix(LINE))).toarray(), TABLE)


def test_tensors_and_geometric_data_are_tables():
    data = Data(edge_index=Tensor([[0], [1]]), num_nodes=4, x=Tensor(TABLE))
    found = brought([data, Tensor(TABLE)], Graph.from_matrix(LINE))
    assert_array_equal(features(found), TABLE)
    assert_array_equal(features(found, "party-2"), TABLE)
    with pytest.raises(DataError, match="party-1: the graph has no features"):
        brought([Data(edge_index=Tensor([[0], [1]]), num_nodes=4), TABLE], Graph.from_matrix(LINE))


def test_a_graph_of_networkx_names_the_rows():
    given = networkx.relabel_nodes(networkx.from_scipy_sparse_array(LINE), dict(enumerate(NAMES)))
    graphs, sharing = graphs_of(given, {"party-1": TABLE, "party-2": TABLE})
    assert sharing == "shared"
    assert_array_equal(features(brought([frame([2, 1, 0, 3]), frame()], graphs, id_column="id")), TABLE)


def unconnected(ids):
    """A graph without edges; a number is the number of nodes, which have no ids."""
    return Graph.from_edges([], [], n_nodes=ids) if isinstance(ids, int) else Graph.from_edges([], [], ids=ids)


def new_rows(fitted, now, nodes=None):
    ids = None if isinstance(fitted, int) else NodeIds.of(fitted, where="model")
    n_fitted = fitted if isinstance(fitted, int) else len(fitted)
    return rows_to_predict(unconnected(now), ids, n_fitted, nodes, where="alice")


texts = st.lists(st.text(min_size=1, max_size=4), min_size=2, max_size=20, unique=True)
numbers = st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=20, unique=True)


@given(st.one_of(texts, numbers), st.data())
def test_new_rows_are_all_those_whose_ids_were_not_fitted_in_any_order(ids, data):
    fitted = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=len(ids) - 1, unique=True))
    shuffled = data.draw(st.permutations(ids))
    rows = new_rows(fitted, shuffled)
    assert [shuffled[row] for row in rows] == [name for name in shuffled if name not in fitted]


def test_without_ids_new_rows_are_those_after_the_fitted_ones():
    assert new_rows(5, 8).tolist() == [5, 6, 7]


def test_nodes_to_predict_are_named_by_id_or_by_row_number():
    assert new_rows(["a"], ["b", "a", "c"], nodes=["c", "a"]).tolist() == [2, 1]
    assert new_rows(["a"], ["b", "a", "c"], nodes="c").tolist() == [2]
    assert new_rows(5, 8, nodes=range(2, 7)).tolist() == [2, 3, 4, 5, 6]
    assert new_rows(5, 8, nodes=7).tolist() == [7]
    for wrong in ([8], [-1], [0.5], [], ["a"]):
        with pytest.raises(ParameterError, match="nodes: must be row numbers from 0 to 7"):
            new_rows(5, 8, nodes=wrong)
    with pytest.raises(DataError, match="nodes: no node has the id 'q'"):
        new_rows(["a"], ["b", "a"], nodes=["q"])


def test_a_fitted_node_that_is_missing_is_named():
    with pytest.raises(DataError, match=r"alice: nodes that were fitted are missing: no node has the id 'b'"):
        new_rows(["a", "b"], ["a", "c"])
    with pytest.raises(DataError, match=r"alice: 3 rows, but 5 were fitted and must come first"):
        new_rows(5, 3)


@pytest.mark.parametrize("ids", [["b", "a"], [2, 1], 2])
def test_a_table_without_new_nodes_is_refused_with_what_to_do(ids):
    with pytest.raises(DataError, match=r"alice: there is no node other than the 2 .*: append the new rows"):
        new_rows(ids, ids)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (["a", "b"], 3, "made with ids, but these nodes have row numbers"),
        (2, ["a", "b", "c"], "made with row numbers, but these nodes have ids"),
        (["1", "2"], [1, 2, 3], "strings .*numbers"),
        ([1, 2], ["1", "2", "3"], "numbers .*strings"),
    ],
)
def test_ids_of_another_kind_are_refused(before, now, words):
    with pytest.raises(DataError, match=words):
        new_rows(before, now)
