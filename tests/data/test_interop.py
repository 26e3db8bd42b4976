"""Frames of pandas and polars: what their cells mean, and which row is which node."""

import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import networkx
import numpy as np
import pandas
import polars
import pytest
from numpy.testing import assert_array_equal

import kcagc
from data.tensors import Data, Tensor
from kcagc.data.interop import frame_ids, graph_of, rows_of, table_of, without_column
from kcagc.data.problems import Origin
from kcagc.data.table import ColumnType, Schema
from kcagc.errors import DataError
from kcagc.graph import AttributedGraph, Graph

ANY = Schema(ColumnType(gaps=True), {"w": ColumnType("text", True)})
MAKERS = [pandas.DataFrame, polars.DataFrame]


@pytest.mark.parametrize("make", MAKERS)
def test_cells_mean_the_same_in_both(make):
    frame = make({"x": [1, None, 3], "b": [True, False, None], "w": ["a", None, " "]})
    raw = table_of(frame, ANY, Origin("bank"))
    assert_array_equal(raw.numbers, [[1, 1], [np.nan, 0], [3, np.nan]])
    assert raw.texts == {"w": ["a", None, None]}
    assert raw.columns == ["x", "b", "w"]


def test_types_of_pandas_with_gaps_of_their_own_are_read():
    frame = pandas.DataFrame({"x": pandas.array([1, None], dtype="Int64"), "b": pandas.array([True, None])})
    frame["d"] = [Decimal("1.5"), None]
    frame["w"] = pandas.Categorical(["u", None])
    with pytest.raises(
        DataError, match=r"column 'd': 1\.5 is of type Decimal, not a number; convert the column to numbers"
    ):
        table_of(frame, ANY, Origin("bank"))
    raw = table_of(frame.drop(columns="d"), ANY, Origin("bank"))
    assert_array_equal(raw.numbers, [[1, 1], [np.nan, np.nan]])
    assert raw.texts["w"] == ["u", None]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["a", "b"], r"row 0, column 'x': 'a' is of type str, not a number, and 1 more in this column \(row 1 'b'\)"),
        (pandas.to_datetime(["2020-01-01", "2021-01-01"]), "column 'x': the column holds times"),
        ([[1], [2]], r"row 0, column 'x': \[1\] is of type list, not a number"),
        (["1,234", "1"], r"read the file with thousands = \",\" if '1,234' is 1234, or decimal = \",\""),
    ],
)
def test_what_is_no_number_is_named_by_its_column(values, said):
    with pytest.raises(DataError, match=f"^bank: .*{said}"):
        table_of(pandas.DataFrame({"x": values}), Schema(), Origin("bank"))


def test_two_columns_of_one_name_are_refused():
    frame = pandas.DataFrame([[1, 2], [3, 4]], columns=["x", "x"])
    with pytest.raises(DataError, match=r"^bank: two columns have the same name"):
        table_of(frame, Schema(), Origin("bank"))


def test_a_cell_is_named_by_row_id_and_column():
    frame = pandas.DataFrame({"x": [1.0, None]}, index=["u", "v"])
    ids = frame_ids(frame, None, "bank")
    with pytest.raises(DataError, match=r"^bank: row 1 \(id 'v'\), column 'x': the value is missing"):
        table_of(frame, Schema(), Origin("bank", ids=ids))


@pytest.mark.parametrize("make", MAKERS)
def test_a_column_of_ids_names_the_rows_and_is_no_feature(make):
    frame = make({"id": ["u", "v"], "x": [1, 2]})
    assert frame_ids(frame, "id", "bank").values == ["u", "v"]
    assert list(without_column(frame, "id").columns) == ["x"]
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
    raw = table_of(rows_of(frame, np.array([2, -1, 0])), ANY, Origin("bank"))
    assert_array_equal(raw.numbers, [[3], [np.nan], [1]])
    assert raw.texts["w"] == ["c", None, "a"]


def test_names_of_nodes_are_ids_and_weights_are_weights():
    given = networkx.Graph()
    given.add_nodes_from(["z", "a", "m"])
    given.add_edge("a", "z", weight=2.5)
    given.add_edge("m", "m")
    found = graph_of(given)
    assert found.ids.values == ["z", "a", "m"]
    assert_array_equal(found.adjacency.toarray(), [[0, 2.5, 0], [2.5, 0, 0], [0, 0, 1]])


def test_numbers_from_0_on_are_rows_whatever_the_order_they_came_in():
    given = networkx.Graph()
    given.add_edges_from([(3, 1), (0, 2)])
    found = graph_of(given)
    assert found.ids is None
    assert_array_equal(found.adjacency.toarray(), networkx.to_numpy_array(given, nodelist=range(4)))
    other = networkx.relabel_nodes(given, {0: 70})
    assert sorted(graph_of(other).ids.values) == [1, 2, 3, 70]


def test_parallel_edges_add_up_as_they_do_there():
    given = networkx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    assert_array_equal(graph_of(given).adjacency.toarray(), networkx.to_numpy_array(given))


def test_a_directed_graph_is_taken_only_where_both_directions_are_there():
    given = networkx.DiGraph([("a", "b"), ("b", "a")])
    assert graph_of(given).n_edges == 1
    given.add_edge("b", "c")
    with pytest.raises(DataError, match=r"must be symmetric.*The graph is directed; graph.to_undirected\(\)"):
        graph_of(given)


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([((0, 1), (0, 2), 1)], "has no usable id .*convert_node_labels_to_integers"),
        ([("a", 1, 1)], "ids must be all numbers or all strings"),
        ([("a", "b", "heavy")], "a weight is not a number"),
        ([("a", "b", -1)], "negative"),
    ],
)
def test_what_makes_no_graph_is_said(edges, said):
    given = networkx.Graph()
    given.add_weighted_edges_from(edges)
    with pytest.raises(DataError, match=said):
        graph_of(given)
    with pytest.raises(DataError, match="adjacency: the graph has no nodes"):
        graph_of(networkx.Graph())


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", [None, "edge_weight", "edge_attr"])
def test_edges_of_geometric_data_are_undirected_in_one_direction_or_both(both, name):
    ends = np.array([[0, 1], [2, 2]])
    weights = np.array([0.5, 2.0])
    if both:
        ends, weights = np.hstack([ends, ends[::-1]]), np.tile(weights, 2)
    more = {} if name is None else {name: Tensor(weights[:, None] if name == "edge_attr" else weights)}
    found = graph_of(Data(edge_index=Tensor(ends), num_nodes=4, **more))
    one, two = (1, 1) if name is None else (0.5, 2)
    assert_array_equal(found.adjacency.toarray(), [[0, 0, one, 0], [0, 0, two, 0], [one, two, 0, 0], [0, 0, 0, 0]])


def test_wrong_geometric_data_are_named_by_field():
    with pytest.raises(DataError, match=r"edge_index: must be whole numbers of shape \(2, edges\)"):
        graph_of(Data(edge_index=Tensor(np.ones((3, 2))), num_nodes=3))
    index = Tensor(np.array([[0], [1]]))
    with pytest.raises(DataError, match=r"edge_attr: has shape \(1, 2\); one weight for each edge"):
        graph_of(Data(edge_index=index, num_nodes=2, edge_attr=Tensor(np.ones((1, 2)))))
    with pytest.raises(DataError, match="edges: target: row 0 is 1, but nodes are 0 to 0"):
        graph_of(Data(edge_index=index, num_nodes=1))


def test_graphs_of_ours_are_taken_as_they_are():
    graph = Graph.from_edges([0], [1])
    assert graph_of(graph) is graph
    assert graph_of(AttributedGraph.build(graph, np.eye(2))) is graph


def test_none_of_these_libraries_is_needed_by_ours():
    """scikit-learn imports pandas where it is installed, so it is shut out: all must go without."""
    code = (
        "import sys\n"
        "class Shut:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] in ('pandas', 'polars', 'networkx', 'torch', 'torch_geometric', 'pyarrow'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Shut())\n"
        "import kcagc.data.interop, kcagc.data.transformer\n"
        "from kcagc import AGC, KCAGC\n"
        "from kcagc.datasets import load\n"
        "data = load('demo')\n"
        "model = KCAGC(n_clusters=5, psi=2, n_init=1, random_state=0).fit(data.parties(), adjacency=data.adjacency)\n"
        "print(len(model.labels_))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("600\n", "")


def test_our_sources_never_import_them():
    imports = re.compile(r"^\s*(import|from) (pandas|polars|networkx|torch)", flags=re.MULTILINE)
    sources = Path(kcagc.__file__).parent.rglob("*.py")
    assert [path for path in sources if imports.search(path.read_text())] == []
