"""An agreed list of nodes: what it takes of a party's files, and how organisations come to one."""

import stat

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from data.tables import parquet, refused
from kcagc.data import ColumnRule, TableRules, common_nodes, present_nodes, read_party, write_ids
from kcagc.data.node_lists import read_ids
from kcagc.errors import DataError, ParameterError
from kcagc.graph.ids import NodeIds

GAPS = TableRules(ColumnRule(missing="indicator", weighting="none"))


def files(folder, ids=("d", "a", "c"), edges=(("a", "b"), ("c", "a"), ("d", "e")), listed=("c", "b", "a")):
    (folder / "x.csv").write_text("id,x\n" + "".join(f"{name},{row}\n" for row, name in enumerate(ids)))
    (folder / "g.csv").write_text("source,target\n" + "".join(f"{one},{two}\n" for one, two in edges))
    (folder / "n.csv").write_text("node\n" + "".join(f"{name}\n" for name in listed))
    return folder / "x.csv", folder / "g.csv"


def read(folder, **options):
    table, graph = folder / "x.csv", folder / "g.csv"
    chosen = {"party": "bank", "id_column": "id", "rules": GAPS, "node_list": folder / "n.csv"} | options
    return read_party(table, graph, **chosen)


def test_nodes_of_the_list_take_part_and_no_others(tmp_path):
    files(tmp_path)
    found = read(tmp_path)
    assert found.graph.ids.values == ["a", "b", "c"]
    assert_array_equal(found.features, [[1, 0], [1.5, 1], [2, 0]])  # filled with the mean, and marked
    assert_array_equal(found.graph.adjacency.toarray(), [[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    counted = (found.listed, found.rows_left_out, found.rows_filled_in, found.edges_left_out)
    assert counted == (3, 1, 1, 1)


def test_without_a_list_nothing_is_left_out(tmp_path):
    table, graph = files(tmp_path, ids="abcde")
    found = read(tmp_path, node_list=None)
    assert (found.listed, found.rows_left_out, found.rows_filled_in, found.edges_left_out) == (None, 0, 0, 0)
    files(tmp_path)
    with pytest.raises(DataError, match="there is no row for node"):
        read_party(table, graph, party="bank", id_column="id")


def test_ids_are_what_the_list_says_numbers_or_strings(tmp_path):
    """A row that is called otherwise makes strings of all ids in a text file, which changes nothing for the others."""
    files(tmp_path, ids=("7", "8", "extra"), edges=(("7", "8"), ("8", "nine")), listed=("7", "8"))
    with pytest.raises(DataError, match="the id 'nine' is a string, but the ids of the node list are numbers"):
        read(tmp_path)
    files(tmp_path, ids=("7", "8", "extra"), edges=(("7", "8"),), listed=("7", "8"))
    assert read(tmp_path).graph.ids.values.tolist() == [7, 8]
    files(tmp_path, ids=("7", "8"), edges=(("7", "x9"),), listed=("7", "x9"))
    found = read(tmp_path)
    assert found.graph.ids.values == ["7", "x9"]
    assert_array_equal(found.features, [[0, 0], [0, 1]])


def test_types_of_a_parquet_file_are_not_guessed_away(tmp_path):
    files(tmp_path, listed=("7", "8"), edges=((7, 8),))
    path = parquet(tmp_path / "x.parquet", id=["7", "8"], x=[1.0, 2.0])
    said = "ids here are strings (such as '7'), but the node list's ids are numbers (such as 7)"
    options = {"id_column": "id", "node_list": tmp_path / "n.csv"}
    refused(path, said, read_party, path, tmp_path / "g.csv", **options)


def test_a_list_without_a_header_is_refused_where_it_would_lose_its_first_node(tmp_path):
    files(tmp_path)
    (tmp_path / "n.csv").write_text("c\nb\na\n")
    said = "line 1 'c' is an id, but must name the column"
    refused(tmp_path / "n.csv", said, lambda party: read(tmp_path, party=party))
    (tmp_path / "n.txt").write_text("c\nb\na\n")
    assert read(tmp_path, node_list=tmp_path / "n.txt").listed == 3
    (tmp_path / "m.csv").write_text("id\na\nb\nc\n")
    with pytest.raises(DataError, match=r"n\.csv: line 1 'c' is an id"):
        common_nodes([tmp_path / "m.csv", tmp_path / "n.csv"])


def test_a_list_that_has_nothing_to_do_with_the_table_is_refused(tmp_path):
    files(tmp_path, listed=("x", "y"))
    refused(tmp_path / "x.csv", "none of its ids is in the node list", lambda party: read(tmp_path, party=party))
    files(tmp_path, edges=(("A", "B"), ("C", "A")))
    said = "none of the 2 edges joins two nodes of the list (the first begins at 'A'; the ids of the node list"
    refused(tmp_path / "g.csv", said, lambda party: read(tmp_path, party=party))
    files(tmp_path, listed=("a", "b", "a"))
    refused(
        tmp_path / "n.csv",
        "line 4, column 'node': the id 'a' is already in line 2",
        lambda party: read(tmp_path, party=party),
    )
    with pytest.raises(ParameterError, match=r"^node_list: .* has no ids to look up"):
        read(tmp_path, id_column=None, rules=TableRules(columns={"id": ColumnRule(kind="categorical")}))


def test_a_matrix_is_cut_to_the_list(tmp_path):
    files(tmp_path, listed=("c", "a"))
    adjacency = sparse.csr_array(np.array([[0, 1.0, 2], [1, 0, 3], [2, 3, 4]]))
    sparse.save_npz(tmp_path / "g.npz", adjacency)
    (tmp_path / "g.txt").write_text("a\nb\nc\n")
    found = read_party(
        tmp_path / "x.csv",
        tmp_path / "g.npz",
        party="bank",
        id_column="id",
        graph_ids=tmp_path / "g.txt",
        node_list=tmp_path / "n.csv",
    )
    assert_array_equal(found.graph.adjacency.toarray(), [[0, 2], [2, 4]])
    assert found.edges_left_out == 2
    assert_array_equal(found.features, [[1], [2]])


def test_only_nodes_of_the_graph_are_told(tmp_path):
    """A customer who is not in the graph is nobody's business."""
    table, graph = files(tmp_path, ids=("secret", "d", "a", "c"))
    found = present_nodes(table, graph, party="bank", id_column="id")
    assert found.values == ["a", "c", "d"]
    files(tmp_path, ids=("x", "y"))
    refused(table, "has a row for none of the nodes of the graph", present_nodes, table, graph, id_column="id")
    with pytest.raises(ParameterError, match="has no ids; name their column"):
        present_nodes(table, graph, party="bank")


def test_what_is_told_does_not_depend_on_cells_that_are_wrong(tmp_path):
    table, graph = files(tmp_path)
    table.write_text("id,x\na,not a number\nc,\n")
    assert present_nodes(table, graph, party="bank", id_column="id").values == ["a", "c"]


def test_a_matrix_tells_by_the_files_of_its_names(tmp_path):
    sparse.save_npz(tmp_path / "x.npz", sparse.eye_array(3, format="csr"))
    sparse.save_npz(tmp_path / "g.npz", sparse.eye_array(2, format="csr"))
    (tmp_path / "x.txt").write_text("30\n10\n20\n")
    (tmp_path / "g.txt").write_text("20\n30\n")
    options = {"party": "bank", "feature_ids": tmp_path / "x.txt"}
    found = present_nodes(tmp_path / "x.npz", tmp_path / "g.npz", graph_ids=tmp_path / "g.txt", **options)
    assert found.values.tolist() == [20, 30]
    with pytest.raises(ParameterError, match="is a matrix whose rows have no ids"):
        present_nodes(tmp_path / "x.npz", tmp_path / "g.npz", **options)


@pytest.mark.parametrize("ids", [["b", 'a "quoted", one', "c\nd"], [10, 9, -3]])
def test_lists_are_written_for_their_owner_and_read_back(tmp_path, ids):
    write_ids(tmp_path / "n.csv", NodeIds.of(ids, where=""))
    assert list(read_ids(tmp_path / "n.csv", party="bank").values) == ids
    assert stat.S_IMODE((tmp_path / "n.csv").stat().st_mode) == 0o600


def test_what_is_common_is_in_all_lists_in_order(tmp_path):
    for name, ids in (("1", [3, 20, 1]), ("2", [20, 3, 4]), ("3", [3, 5, 20])):
        write_ids(tmp_path / f"{name}.csv", NodeIds.of(ids, where=""))
    paths = sorted(tmp_path.iterdir())
    assert common_nodes(paths).values.tolist() == [3, 20]
    write_ids(tmp_path / "3.csv", NodeIds.of([99], where=""))
    with pytest.raises(DataError, match="no id is in all 3 of them"):
        common_nodes(paths)
    write_ids(tmp_path / "3.csv", NodeIds.of(["x"], where=""))
    with pytest.raises(DataError, match=r"3.csv: ids here are strings .*1.csv's ids are numbers"):
        common_nodes(paths)
