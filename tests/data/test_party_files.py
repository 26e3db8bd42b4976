import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import io as scipy_io
from scipy import sparse

from data.tables import parquet, refused
from kcagc.data import read_features, read_graph, read_party, table_files
from kcagc.data.node_lists import read_ids
from kcagc.data.table import ColumnType, Schema
from kcagc.errors import DataError, ParameterError
from kcagc.graph.ids import NodeIds
from kcagc.protocol.agreement import graph_digest, ids_digest
from random_graphs import attributed

TEXT = NodeIds.of(["ann", "bob", "cid"], where="")
NUMBERS = NodeIds.of([12, 7, 5], where="")
PATH = np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0]], dtype=float)


@pytest.mark.parametrize(
    ("nodes", "text", "said"),
    [
        (
            TEXT,
            "source,target\nann,bob\nbob,dan\n",
            "line 3, column 'target': there is no row for node 'dan' (the ids of the",
        ),
        (
            TEXT,
            "source,target\nx,bob\ny,ann\n",
            "line 2, column 'source': there is no row for node 'x', nor for 'y' in line 3 (the ids",
        ),
        (NUMBERS, "source,target\n7,5\n7,6\n", "line 3, column 'target': there is no row for node 6"),
        (
            NUMBERS,
            "source,target\n" + "".join(f"{row},7\n" for row in (1, 1, 2, 3, 4, 6, 12)),
            "line 2, column 'source': there is no row for node 1, nor for 2 in line 4, 3 in line 5, 4 in line 6 and 1 "
            "more (the ids of the features are numbers (such as 12)). 5 of 7 nodes of the graph have none, on 6 of 7 "
            "edges. To cluster all nodes of the graph: `kcagc nodes all` writes their list",
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
            "line 3, column 'target': there is no row for node 3 (the features have no ids, so nodes",
        ),
        (3, "source,target\n0,2\n1,-1\n", "line 3, column 'target': there is no row for node -1"),
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
        (
            TEXT,
            "from,to\nann,bob\n",
            "there is no column 'source'; there are 'from', 'to'. If line 1 names the columns, set source = \"from\" "
            'and target = "to"; otherwise, put names above it',
        ),
        (
            TEXT,
            "source;target\nann;bob\n",
            "there is no column 'source'; the header is 'source;target': set graph_csv = "
            '{ delimiter = ";" }, or separate columns by commas',
        ),
        (TEXT, "source,target\nann,bob,1\n", "line 2: has 3 cells, but the header has 2"),
    ],
)
def test_a_bad_edge_is_named(tmp_path, nodes, text, said):
    path = tmp_path / "edges.csv"
    path.write_text(text)
    refused(path, said, read_graph, path, nodes=nodes)


def test_advice_about_the_format_of_a_file_is_that_for_its_role(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target\nann,bob\n", "utf-16")
    said = 'not UTF-8 (invalid start byte); save it as UTF-8, or set graph_csv = { encoding = "..." }'
    refused(path, f"line 1: {said}", read_graph, path, nodes=TEXT)
    path.write_text('source,target,w\nann,bob,"0,5"\n')
    said = "line 2, column 'w': '0,5' is not a number; set graph_csv = { decimal = \",\" } if '0,5' is 0.5"
    refused(path, said, read_graph, path, nodes=TEXT, weight="w")
    path.write_text("id\nann\n", "utf-16")
    assert refused(path, "line 1: not UTF-8", read_ids, path).endswith("save it as UTF-8")
    path.write_text("id;x;y\nann;1;2\n")
    rules = Schema(named={"x": ColumnType(), "y": ColumnType()})
    found = refused(path, "there is no column 'id'; the header", read_features, path, id_column="id", schema=rules)
    assert found.count("delimiter") == 1


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
            "line 5, column 'w': the edge is already in line 3, with the weight 1.0 instead of 1.5",
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
        (TEXT, ["ann", "dan"], "row 2, column 'source': there is no row for node 'dan'"),
        (NUMBERS, [12, 6], "row 2, column 'source': there is no row for node 6"),
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
    monkeypatch.setattr(table_files, "_careful", None)
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
        (
            4,
            "ids do not match the features': 1 of the features' ids are missing (3) (the features have no ids, so",
        ),
        (2, "ids do not match the features': 1 are not among the features' ids (2)"),
        (
            NUMBERS,
            "ids do not match the features': 3 of the features' ids are missing (5, 7 and 12); 3 are not",
        ),
        (
            TEXT,
            "rows are called 0 to 2, but the ids of the features are strings (such as 'ann'); give the ids",
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
            "ids do not match the features': 1 of the features' ids are missing ('cid'); 1 are not",
        ),
        ("1\n2\n3\n", "ids here are numbers (such as 1), but the features' ids are strings (such as 'ann')"),
        ("ann\nbob\n", "there are 2 ids, but"),
        ("ann\nbob\nann\n", "line 3, column 'id': the id 'ann' is already in line 1"),
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
        (-PATH, "adjacency: weights must be finite and not negative, not -1 (row 0, column 1)"),
        (
            np.where(PATH == 2, np.inf, PATH),
            "adjacency: weights must be finite and not negative, not inf (row 1, column 2)",
        ),
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


ANY_NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1)
ANY_STRINGS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4).map(lambda text: f"n{text}")
FORMS = ("csv", "csv.gz", "parquet", "npz", "mtx", "mtx.gz")


def cell(value):
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def table(folder, name, form, columns):
    path = folder / f"{name}.{form}"
    if form == "parquet":
        pq.write_table(pa.table(columns), path)
        return path
    lines = [",".join(columns), *(",".join(map(cell, row)) for row in zip(*columns.values(), strict=True))]
    with gzip.open(path, "w") if form == "csv.gz" else path.open("wb") as file:
        file.write("\n".join(lines).encode())
    return path


def named_matrix(folder, name, form, values, ids):
    path = folder / f"{name}.{form}"
    with gzip.open(path, "w") if form == "mtx.gz" else path.open("wb") as file:
        sparse.save_npz(file, values) if form == "npz" else scipy_io.mmwrite(file, values)
    return path, table(folder, f"{name}-ids", "csv", {"node": ids})


def party(folder, random, adjacency, features, ids, form):
    """Write one party's files, everything in an order of its own, and read them."""
    n = len(ids)
    order = random.permutation(n)
    called = [ids[row] for row in order]
    options = {"party": "bank"}
    if form in ("npz", "mtx", "mtx.gz"):
        path, options["feature_ids"] = named_matrix(folder, "x", form, sparse.csr_array(features[order]), called)
        again = random.permutation(n)
        graph, options["graph_ids"] = named_matrix(
            folder, "g", form, adjacency[again][:, again].tocsr(), [ids[row] for row in again]
        )
    else:
        columns = {f"c{column}": features[order, column].tolist() for column in range(features.shape[1])}
        path = table(folder, "x", form, {"id": called, **columns})
        options |= {"id_column": "id", "weight": "w"}
        upper = sparse.triu(adjacency).tocoo()
        edges = [(ids[i], ids[j], w) for i, j, w in zip(upper.row, upper.col, upper.data.tolist(), strict=True)]
        edges += [edges[place] for place in random.integers(0, len(edges), 3)]  # repeats
        shuffled = [edges[place] for place in random.permutation(len(edges))]
        turned = [(j, i, w) if random.random() < 0.5 else (i, j, w) for i, j, w in shuffled]
        graph = table(folder, "g", form, dict(zip(("source", "target", "w"), zip(*turned, strict=True), strict=True)))
    return read_party(path, graph, **options)


@given(attributed(12), st.data(), st.integers(0, 2**32 - 1))
def test_files_in_any_order_and_form_give_the_same_nodes_edges_and_features(tmp_path_factory, drawn, data, seed):
    adjacency, features = drawn
    adjacency = sparse.csr_array(
        adjacency + sparse.diags_array(np.full(adjacency.shape[0], 0.5))
    )  # never without edges
    kind = data.draw(st.sampled_from([ANY_NUMBERS, ANY_STRINGS]))
    n = len(features)
    ids = data.draw(st.lists(kind, min_size=n, max_size=n, unique=True))
    forms = data.draw(st.lists(st.sampled_from(FORMS), min_size=2, max_size=2))
    random = np.random.default_rng(seed)
    one, other = (party(tmp_path_factory.mktemp("party"), random, adjacency, features, ids, form) for form in forms)
    assert ids_digest(one.graph) == ids_digest(other.graph)
    assert graph_digest(one.graph) == graph_digest(other.graph)
    order = sorted(range(n), key=ids.__getitem__)
    assert list(one.graph.ids.values) == [ids[row] for row in order]
    for read in (one, other):
        values = read.features.toarray() if sparse.issparse(read.features) else read.features
        assert_array_equal(values, features[order])
        assert_array_equal(read.graph.adjacency.toarray(), adjacency.toarray()[np.ix_(order, order)])


def test_numbers_are_sorted_by_size_and_strings_by_code_point(tmp_path):
    for ids, ordered in (
        (["10", "9", "-1"], [-1, 9, 10]),
        (["b", "é", "B", "a10", "a9", "🙂", "\uffee"], ["B", "a10", "a9", "b", "é", "\uffee", "🙂"]),
    ):
        features = table(tmp_path, "x", "csv", {"id": ids, "x": range(len(ids))})
        graph = table(tmp_path, "g", "csv", {"source": ids[:1], "target": ids[1:2]})
        read = read_party(features, graph, party="bank", id_column="id")
        assert list(read.graph.ids.values) == ordered
        assert [ids[int(row)] for row in read.features[:, 0]] == list(map(str, ordered))
        assert read.columns == ["x"]


def test_without_ids_the_order_of_the_file_stays(tmp_path):
    features = table(tmp_path, "x", "csv", {"x": [5, 3, 4]})
    graph = table(tmp_path, "g", "csv", {"source": [0], "target": [2]})
    read = read_party(features, graph, party="bank")
    assert read.graph.ids is None
    assert_array_equal(read.features, [[5], [3], [4]])
    assert_array_equal(read.graph.adjacency.toarray(), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])


def test_an_id_column_that_was_forgotten_is_noticed_at_the_edges(tmp_path):
    features = table(tmp_path, "x", "csv", {"account": [70, 71], "x": [5, 3]})
    graph = table(tmp_path, "g", "csv", {"source": [70], "target": [71]})
    with pytest.raises(
        DataError, match=r"there is no row for node 70.* \(the features have no ids, so nodes are called 0 to 1"
    ):
        read_party(features, graph, party="bank")
