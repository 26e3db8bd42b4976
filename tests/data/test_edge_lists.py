"""Lists of edges in memory: in every form the same graph, with the nodes of the tables, and clear where unclear."""

import networkx
import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from data.tensors import Tensor
from kcagc import AGC, KCAGC
from kcagc.data.edge_lists import EdgeList
from kcagc.data.interop import graph_of
from kcagc.data.memory import graphs_of, prepare_parties
from kcagc.errors import DataError, ParameterError
from kcagc.graph import Graph

NAMES = ["ann", "bob", "cid", "dan", "eve"]
PAIRS = [(0, 1), (1, 2), (3, 1)]  # node 4 has no edge
BY_NAME = [(NAMES[one], NAMES[two]) for one, two in PAIRS]
MATRIX = networkx.to_numpy_array(networkx.Graph(PAIRS), nodelist=range(4))
WANTED = np.pad(MATRIX, (0, 1))
TABLE = np.arange(10.0).reshape(5, 2) + 1


def brought(adjacency, tables=None, **options):
    tables = {"bank": TABLE, "shop": TABLE} if tables is None else tables
    graphs, _ = graphs_of(adjacency, tables)
    return prepare_parties(tables, graphs, **options)


def people(order=range(5), make=pandas.DataFrame, names=NAMES):
    rows = list(order)
    return make({"id": [names[row] for row in rows], "x": TABLE[rows, 0], "y": TABLE[rows, 1]})


def by_name(**tables):
    return brought(BY_NAME, tables, id_column="id")


ENDS = np.array(PAIRS)
FORMS = {
    "m × 2": ENDS,
    "2 × m": ENDS.T,
    "fractions": ENDS.astype(float),
    "tuples": PAIRS,
    "lists": [list(pair) for pair in PAIRS],
    "tensor": Tensor(ENDS.T),
    "both directions": np.vstack([ENDS, ENDS[:, ::-1]]),
    "pandas": pandas.DataFrame(ENDS, columns=["source", "target"]),
    "polars": polars.DataFrame({"a": ENDS[:, 0], "b": ENDS[:, 1]}),
    "unused columns": pandas.DataFrame({"day": ["x"] * 3, "target": ENDS[:, 1], "source": ENDS[:, 0]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_graph_with_all_nodes_of_the_tables(form):
    found = brought(FORMS[form])
    for party in ("bank", "shop"):
        assert_array_equal(found[party].graph.adjacency.toarray(), WANTED)
        assert found[party].graph.ids is None


@given(st.permutations(range(5)), st.permutations(range(5)), st.sampled_from([pandas.DataFrame, polars.DataFrame]))
def test_ends_are_matched_with_the_ids_of_tables_in_any_order(one, two, make):
    found = by_name(bank=people(one, make), shop=people(two))
    ids = found["bank"].graph.ids.values
    assert ids == [NAMES[row] for row in one] == found["shop"].graph.ids.values
    assert_array_equal(found["bank"].graph.adjacency.toarray(), WANTED[np.ix_(one, one)])
    assert_array_equal(np.asarray(found["shop"].features), TABLE[list(one)])


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame])
def test_a_column_called_weight_holds_weights(make):
    frame = make({"source": [0, 1, 3], "target": [1, 2, 1], "weight": [2.0, 0.5, 1.0]})
    assert brought(frame)["bank"].graph.adjacency[0, 1] == 2
    with pytest.raises(DataError, match=r"^adjacency: a weight is not a number"):
        brought(make({"source": [0], "target": [1], "weight": ["much"]}))
    with pytest.raises(DataError, match=r"^adjacency: weight: row 1 has weight -1"):
        brought(make({"source": [0, 1], "target": [1, 2], "weight": [1.0, -1.0]}))
    with pytest.raises(DataError, match=r'^adjacency: .*rows 0 and 1 give the same edge .*repeats="sum"'):
        brought(make({"source": [0, 1], "target": [1, 0], "weight": [1.0, 2.0]}))


def test_a_square_array_is_a_matrix_and_two_edges_in_one_are_explained():
    two = np.array([[0, 1], [1, 0]])
    assert isinstance(graph_of(two), Graph)
    assert isinstance(graph_of([[0, 1], [1, 0]]), Graph)
    assert isinstance(graph_of([(0, 1), (1, 2)]), EdgeList)
    assert_array_equal(brought(two, {"bank": TABLE[:2], "shop": TABLE[:2]})["bank"].graph.adjacency.toarray(), two)
    with pytest.raises(
        DataError, match=r"is a graph of 2 nodes, but bank has 5 rows. .*such as \[\(0, 1\), \(1, 2\)\]"
    ):
        brought(np.array([[0, 1], [1, 0]]))
    with pytest.raises(DataError, match=r"^adjacency: an array of shape \(2, 2\) .*\(with two edges, both shapes"):
        brought(np.array([["ann", "bob"], ["bob", "cid"]]))
    assert (
        brought([("ann", "bob"), ("bob", "cid")], {"a": people(), "b": people()}, id_column="id")["a"].graph.n_edges
        == 2
    )


def test_a_square_frame_whose_index_equals_its_columns_is_a_matrix_with_names():
    frame = pandas.DataFrame(WANTED, index=NAMES, columns=NAMES)
    found = brought(frame, {"bank": people([4, 3, 2, 1, 0]), "shop": people()}, id_column="id")
    assert found["bank"].graph.ids.values == NAMES
    assert_array_equal(np.asarray(found["bank"].features), TABLE)
    assert graph_of(pandas.DataFrame(WANTED)).ids is None
    assert isinstance(graph_of(pandas.DataFrame({"a": [0, 1], "b": [1, 2]})), EdgeList)
    assert isinstance(graph_of(pandas.DataFrame([[0, 1], [1, 0]])), Graph)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones((3, 4), dtype=int), r"^adjacency: an array of shape \(3, 4\) .* neither a matrix .* nor a list"),
        (np.array([[0, 1, 1], [1, 2, 2], [2, 3, 1]]), "must be symmetric"),
        (pandas.DataFrame({"from": [0], "to": [1], "km": [3.0]}), r"^adjacency: has the columns 'from', 'to' and 'km'"),
        ([(0, 1), (1, 7)], r"^adjacency: there is no row in any table for 1 node of 1 edge: 7 in edge 1 .* 0 to 4\)"),
        ("edges.csv", r"^adjacency: must be a graph, not the name of a file; read 'edges\.csv' first"),
        (BY_NAME, r"the ends of edges are strings \(such as 'ann'\), but the tables have no ids.*id_column="),
        (np.array([[0, 1.5], [1, 2], [0, 3]]), r"^adjacency: target: row 0 has no usable id \(1\.5\)"),
        (pandas.DataFrame({"source": ["ann", None], "target": ["bob", "cid"]}), "source: row 1 .*no usable id"),
        (pandas.DataFrame({"source": [0], "target": ["bob"]}), "the first source is 0 and the first target 'bob'"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_edges_is_refused_with_what_one_is(given, words):
    with pytest.raises(DataError, match=words):
        brought(given)


def test_edges_to_unknown_nodes_are_an_error_unless_the_nodes_were_chosen():
    edges = [*BY_NAME, ("ann", "zoe")]
    tables = {"bank": people([0, 1, 2, 3]), "shop": people([1, 2, 3, 4])}
    with pytest.raises(DataError, match=r"^shop: ids do not match bank's: 1 of bank's ids are missing \('ann'\)"):
        brought(BY_NAME, tables, id_column="id")
    with pytest.raises(DataError, match=r"for 1 node of 1 edge: 'zoe' in edge 3 .*nodes='intersection'"):
        brought(edges, {"bank": people(), "shop": people()}, id_column="id")
    found = brought(edges, tables, id_column="id", nodes="intersection")
    assert found["bank"].graph.ids.values == ["bob", "cid", "dan"]
    assert found["shop"].graph.n_edges == 2
    assert_array_equal(np.asarray(found["shop"].features), TABLE[1:4])
    chosen = brought(edges, {"bank": people(), "shop": people([4, 2, 1])}, id_column="id", nodes=["cid", "bob"])
    assert chosen["shop"].graph.ids.values == ["cid", "bob"]


def test_the_error_about_unknown_nodes_looks_at_both_ends_and_names_the_party_without_them():
    tables = {"bank": people([0, 1, 2]), "shop": people()}
    said = r"^adjacency: there is no row at bank for 2 nodes of 2 edges: 'dan' in edge 2 and 'eve' in edge 3 \("
    with pytest.raises(DataError, match=said):
        brought([*BY_NAME, ("bob", "eve")], tables, id_column="id")
    table = people().set_index("id")
    with pytest.raises(DataError, match=r"there is no row for 1 node of 2 edges: 'zoe' in edge 3.*remove these edges$"):
        AGC(n_clusters=2, psi=1).fit(table, adjacency=[*BY_NAME, ("zoe", "ann"), ("bob", "zoe")])


def test_edges_that_all_name_nodes_in_another_way_are_an_error_and_not_left_out():
    tables, edges = {"bank": people(), "shop": people()}, [(one.upper(), two.upper()) for one, two in BY_NAME]
    for nodes in ("intersection", NAMES[:3]):
        with pytest.raises(
            DataError, match=r"^adjacency: none of the 3 edges joins two .*'ANN'; .*'ann'\)\); write ids"
        ):
            brought(edges, tables, id_column="id", nodes=nodes)


def test_each_party_may_have_edges_of_its_own():
    graphs, sharing = graphs_of({"shop": BY_NAME[:1], "bank": BY_NAME}, {"bank": people(), "shop": people()})
    assert sharing == "own"
    found = prepare_parties({"bank": people(), "shop": people([4, 3, 2, 1, 0])}, graphs, id_column="id")
    assert (found["bank"].graph.n_edges, found["shop"].graph.n_edges) == (3, 1)
    assert found["shop"].graph.ids.values == NAMES
    with pytest.raises(DataError, match=r"^adjacency: has the parties 'bank', but the tables are of 'bank' and 'shop'"):
        graphs_of({"bank": BY_NAME}, {"bank": people(), "shop": people()})
    with pytest.raises(DataError, match=r"^adjacency\[1\]: is missing; every party needs a graph, or none"):
        graphs_of([ENDS, None], {"bank": TABLE, "shop": TABLE})
    mixed = [Graph.from_matrix(WANTED[::-1, ::-1], ids=NAMES[::-1]), BY_NAME]
    found = brought(mixed, {"bank": people(), "shop": people()}, id_column="id")
    assert found["shop"].graph.ids.values == NAMES[::-1]
    assert_array_equal(found["shop"].graph.adjacency.toarray(), found["bank"].graph.adjacency.toarray())


def test_no_edges_at_all_are_a_graph_without_edges():
    assert brought(np.empty((0, 2), dtype=int))["bank"].graph.n_edges == 0


def test_estimators_take_them():
    random = np.random.default_rng(0)
    names = [f"n{number}" for number in range(60)]
    tables = {
        name: pandas.DataFrame(random.normal(size=(60, 4)) + 4 * (np.arange(60) % 2)[:, None], index=names)
        for name in ("bank", "shop")
    }
    edges = pandas.DataFrame({"source": names[:-2], "target": names[2:]})
    model = KCAGC(n_clusters=2, psi=2, random_state=0).fit(tables, adjacency=edges)
    assert set(model.labels_[::2]) != set(model.labels_[1::2])
    upside_down = tables["bank"].iloc[::-1]
    agc = AGC(n_clusters=2, psi=2, random_state=0).fit(upside_down, adjacency=edges)
    assert agc.node_ids_ == names[::-1]
    matrix = networkx.to_numpy_array(networkx.from_pandas_edgelist(edges), nodelist=names[::-1])
    assert_array_equal(AGC(n_clusters=2, psi=2, random_state=0).fit(upside_down, adjacency=matrix).labels_, agc.labels_)
    with pytest.raises(ParameterError, match="second argument is not used"):
        KCAGC(n_clusters=2).fit(tables, edges)
