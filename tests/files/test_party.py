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

from kcagc.errors import DataError
from kcagc.files import read_party
from kcagc.protocol.handshake import graph_digest, ids_digest
from random_graphs import attributed

NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1)
STRINGS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4).map(lambda text: f"n{text}")
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


def matrix(folder, name, form, values, ids):
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
        path, options["feature_ids"] = matrix(folder, "x", form, sparse.csr_array(features[order]), called)
        again = random.permutation(n)
        graph, options["graph_ids"] = matrix(
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
    kind = data.draw(st.sampled_from([NUMBERS, STRINGS]))
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
        values = read.values.toarray() if sparse.issparse(read.values) else read.values
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
        assert [ids[int(row)] for row in read.values[:, 0]] == list(map(str, ordered))
        assert read.columns == ["x"]


def test_without_ids_the_order_of_the_file_stays(tmp_path):
    features = table(tmp_path, "x", "csv", {"x": [5, 3, 4]})
    graph = table(tmp_path, "g", "csv", {"source": [0], "target": [2]})
    read = read_party(features, graph, party="bank")
    assert read.graph.ids is None
    assert_array_equal(read.values, [[5], [3], [4]])
    assert_array_equal(read.graph.adjacency.toarray(), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])


def test_an_id_column_that_was_forgotten_is_noticed_at_the_edges(tmp_path):
    features = table(tmp_path, "x", "csv", {"account": [70, 71], "x": [5, 3]})
    graph = table(tmp_path, "g", "csv", {"source": [70], "target": [71]})
    with pytest.raises(
        DataError, match=r"there is no node 70 \(the features have no ids, so that nodes are called 0 to 1"
    ):
        read_party(features, graph, party="bank")
