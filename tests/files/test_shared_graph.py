import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import io as scipy_io
from scipy import sparse

from files.tables import parquet, refused
from kcagc.errors import DataError, ParameterError
from kcagc.files import delimited, read_graph
from kcagc.graph.ids import NodeIds

TEXT = NodeIds.of(["ann", "bob", "cid"], where="")
NUMBERS = NodeIds.of([12, 7, 5], where="")
PATH = np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=float)


@pytest.mark.parametrize(
    ("nodes", "text", "said"),
    [
        (TEXT, "source,target\nann,bob\nbob,dan\n", "line 3, column 'target': there is no node 'dan' (the ids of the"),
        (
            TEXT,
            "source,target\nx,bob\ny,ann\n",
            "line 2, column 'source': there is no node 'x', 'y' in line 3 (the ids",
        ),
        (NUMBERS, "source,target\n7,5\n7,6\n", "line 3, column 'target': there is no node 6"),
        (
            NUMBERS,
            "source,target\n" + "1,7\n" * 9,
            "line 2, column 'source': there is no node 1, 1 in line 3, 1 in line 4 and 6",
        ),
        (
            NUMBERS,
            "source,target\n7,5\n7,n5\n",
            "line 3, column 'target': the id 'n5' is a string, but the ids of the features are numbers (such as 12)",
        ),
        (NUMBERS, "source,target\n7,5\n007,5\n", "line 3, column 'source': the id '007' is a string, but"),
        (
            3,
            "source,target\n0,2\n1,3\n",
            "line 3, column 'target': there is no node 3 (the features have no ids, so that",
        ),
        (3, "source,target\n0,2\n1,-1\n", "line 3, column 'target': there is no node -1"),
        (
            3,
            "source,target\n0,2\n1,ann\n",
            "line 3, column 'target': the id 'ann' is a string, but the features have no ids",
        ),
        (TEXT, "source,target\nann,bob\nann,\n", "line 3, column 'target': the id is missing"),
        (TEXT, "source,target\n", "there are no rows below the header"),
        (TEXT, "", "the file is empty"),
        (TEXT, "from,target\nann,bob\n", "there is no column 'source'; there are 'from', 'target'"),
        (
            TEXT,
            "source,Target\nann,bob\n",
            "there is no column 'target'; there are 'source', 'Target'; did you mean 'Target'?",
        ),
        (TEXT, "source,target\nann,bob,1\n", "line 2: there are 3 cells, but the header has 2"),
    ],
)
def test_a_bad_edge_is_named(tmp_path, nodes, text, said):
    path = tmp_path / "edges.csv"
    path.write_text(text)
    refused(path, said, read_graph, path, nodes=nodes)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (["1", "-2"], "line 3, column 'w': the weight is negative (-2)"),
        (["1", "inf"], "line 3, column 'w': the value is infinite"),
        (["1", "nan"], "line 3, column 'w': the value is missing"),
        (["1", ""], "line 3, column 'w': the value is missing"),
        (["1", "heavy"], "line 3, column 'w': 'heavy' is not a number"),
        (["1", "1j"], "line 3, column 'w': '1j' is not a number"),
        (
            ["1", "1", "1", "1.5"],
            "line 5, column 'w': the edge is in line 3 already, with the weight 1.0 instead of 1.5",
        ),
    ],
)
def test_a_bad_weight_is_named(tmp_path, weights, said):
    path = tmp_path / "edges.csv"
    edges = [("ann", "bob"), ("bob", "cid"), ("ann", "cid"), ("cid", "bob")]
    lines = (f"{one},{other},{weight}" for (one, other), weight in zip(edges, weights, strict=False))
    path.write_text("\n".join(["source,target,w", *lines]))
    refused(path, said, read_graph, path, nodes=TEXT, weight="w")
    path.write_text(path.read_text().replace("ann", '"ann"'))  # for the careful reader
    refused(path, said, read_graph, path, nodes=TEXT, weight="w")


@pytest.mark.parametrize(
    ("nodes", "sources", "said"),
    [
        (
            TEXT,
            [1, 2],
            "row 1, column 'source': the id 1 is a number, but the ids of the features are strings (such as 'ann')",
        ),
        (
            NUMBERS,
            ["12", "7"],
            "row 1, column 'source': the id '12' is a string, but the ids of the features are numbers",
        ),
        (TEXT, ["ann", "dan"], "row 2, column 'source': there is no node 'dan'"),
        (NUMBERS, [12, 6], "row 2, column 'source': there is no node 6"),
        (NUMBERS, [12, None], "row 2, column 'source': the id is missing"),
        (NUMBERS, [12.0, 7.0], "column 'source': ids must be whole numbers or strings, but their type is double"),
    ],
)
def test_a_bad_edge_in_parquet_is_named_by_its_row(tmp_path, nodes, sources, said):
    path = parquet(tmp_path / "edges.parquet", source=sources, target=[nodes.values[0], nodes.values[1]])
    refused(path, said, read_graph, path, nodes=nodes)


def test_a_text_has_no_types_so_edges_are_read_as_the_features_are(tmp_path):
    """Of the ids 1, 2 and x3 the features make strings; edges between 1 and 2 alone must not become numbers."""
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    graph = read_graph(tmp_path / "edges.csv", party="bank", nodes=NodeIds.of(["1", "2", "x3"], where=""))
    assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_the_word_na_is_a_node_where_the_features_have_one(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\nNA,2\n2,2\n")
    graph = read_graph(tmp_path / "edges.csv", party="bank", nodes=NodeIds.of(["NA", "2", "DE"], where=""))
    assert graph.n_edges == graph.n_self_loops == 1


def test_other_columns_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_careful", None)
    (tmp_path / "edges.csv").write_text("when,b,w,a\ntoday,ann,2,bob\n,cid,0.5,bob\n")
    graph = read_graph(tmp_path / "edges.csv", party="bank", nodes=TEXT, source="a", target="b", weight="w")
    assert_array_equal(graph.adjacency.toarray(), [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]])
    assert graph.ids is TEXT


def test_quoted_ids_are_the_same_ids(tmp_path):
    (tmp_path / "edges.csv").write_text('"source","target"\n"12","5"\n7,"7"\n')
    graph = read_graph(tmp_path / "edges.csv", party="bank", nodes=NUMBERS)
    assert_array_equal(graph.adjacency.toarray(), [[0, 0, 1], [0, 1, 0], [1, 0, 0]])


def test_columns_that_are_one_are_refused(tmp_path):
    for options in ({"source": "a", "target": "a"}, {"weight": "source"}):
        with pytest.raises(ParameterError, match="must be different columns"):
            read_graph(tmp_path / "edges.csv", party="bank", nodes=TEXT, **options)
    with pytest.raises(ParameterError, match="ids are for a matrix"):
        read_graph(tmp_path / "edges.csv", party="bank", nodes=TEXT, ids="ids.txt")
    with pytest.raises(ParameterError, match="nodes: must be a whole number"):
        read_graph(tmp_path / "edges.csv", party="bank", nodes=0)


@pytest.mark.parametrize("name", ["g.npz", "g.mtx"])
def test_a_matrix_is_brought_into_the_order_of_the_nodes(tmp_path, name):
    path, ids = matrix(tmp_path / name), tmp_path / "ids.txt"
    ids.write_text("cid\nann\nbob\n")
    graph = read_graph(path, party="bank", nodes=TEXT, ids=ids)
    assert_array_equal(graph.adjacency.toarray(), [[0, 2, 1], [2, 0, 0], [1, 0, 0]])
    assert graph.adjacency.has_canonical_format
    assert graph.ids is TEXT


@pytest.mark.parametrize("nodes", [3, NodeIds.of([0, 1, 2], where="")])
def test_rows_without_names_are_called_by_their_numbers(tmp_path, nodes):
    graph = read_graph(matrix(tmp_path / "g.npz"), party="bank", nodes=nodes)
    assert_array_equal(graph.adjacency.toarray(), PATH)
    assert graph.ids is (nodes if nodes != 3 else None)


def matrix(path, values=PATH):
    if path.suffix == ".npz":
        sparse.save_npz(path, sparse.csr_array(values))
    else:
        scipy_io.mmwrite(path, sparse.coo_array(values))
    return path


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (4, "rows do not match the nodes of the features: there is no row for 3 (the features have no ids, so that"),
        (2, "rows do not match the nodes of the features: there are no features for 2"),
        (
            NUMBERS,
            "rows do not match the nodes of the features: there is no row for 5, 7, 12; there are no",
        ),
        (
            TEXT,
            "rows are called 0 to 2 (a file with other names can be given as ids), but the ids of the",
        ),
    ],
)
def test_a_matrix_about_other_nodes_is_refused(tmp_path, nodes, said):
    path = matrix(tmp_path / "g.npz")
    refused(path, said, read_graph, path, nodes=nodes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "ann\nbob\ndan\n",
            "rows do not match the nodes of the features: there is no row for 'cid'; there are no",
        ),
        ("1\n2\n3\n", "ids are numbers (such as 1), but the ids of the features are strings (such as 'ann')"),
        ("ann\nbob\n", "there are 2 ids, but"),
        ("ann\nbob\nann\n", "line 3, column 'id': the id 'ann' is in line 1 already"),
    ],
)
def test_a_file_of_other_names_is_refused(tmp_path, text, said):
    ids = tmp_path / "ids.txt"
    ids.write_text(text)
    refused(ids, said, read_graph, matrix(tmp_path / "g.npz"), nodes=TEXT, ids=ids)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.ones((2, 3)), "adjacency: must be square"),
        (-PATH, "adjacency: the weight is negative at (row, column) (0, 1)"),
        (np.where(PATH == 2, np.inf, PATH), "adjacency: the weight is infinite at (row, column) (1, 2)"),
        (np.triu(PATH), "adjacency: must be symmetric"),
        (PATH * 1j, "values must be real numbers"),
    ],
)
@pytest.mark.parametrize("name", ["g.npz", "g.mtx"])
def test_a_matrix_that_is_no_graph_is_refused(tmp_path, values, said, name):
    path = matrix(tmp_path / name, values)
    refused(path, said, read_graph, path, nodes=3)


def test_no_nodes_are_refused(tmp_path):
    with pytest.raises(DataError, match="nodes: there are none"):
        read_graph(tmp_path / "edges.csv", party="bank", nodes=NodeIds.of([], where=""))
