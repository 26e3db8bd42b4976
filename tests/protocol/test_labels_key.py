"""The key of kept local labels: it changes with the data and with each parameter that the labels depend on."""

import msgspec
import numpy as np
import pytest
from scipy import sparse

from kcagc.graph import Graph, HalfFilter, NormFilter
from kcagc.protocol.local import PartyData, compute_labels, compute_rows, labels_key
from kcagc.protocol.parameters import Parameters, RunSettings

JOINT = {
    "task",
    "model",
    "virtual_nodes",
    "fan_in",
    "aggregator",
    "max_iter",
    "graph",
    "joint_rows",
    "orders",
    "most_clusters",
}
CHANGES = {
    "task": "predict",
    "model": "00",
    "method": "basic",
    "filter": repr(NormFilter(1)),
    "scaling": "US",
    "unit": 2.0,
    "virtual_nodes": "local",
    "aggregator": "party",
    "graph": "own",
    "joint_rows": "coordinator",
    "orders": (1, 2),
}
CELLS = RunSettings(n_clusters=3, psi=1, n_local_clusters=6, min_local_size=1).resolve(3)
BASIC = RunSettings(n_clusters=3, psi=1, method="basic").resolve(3)


def data_of(change=None):
    random = np.random.default_rng(3)
    table, upper = random.normal(size=(20, 4)), np.triu(random.random((20, 20)) < 0.2, 1).astype(float)
    ids = [f"n{number:02}" for number in range(20)]
    if change == "value":
        table[3, 1] = np.nextafter(table[3, 1], 9.0)
    elif change == "edge":
        upper[0, 1] = 1 - upper[0, 1]
    elif change == "weight":
        upper *= 2
    elif change == "id":
        ids[0] = "m"
    elif change == "rows":
        table = table[::-1].copy()
    elif change == "columns":
        table = table[:, :3]
    matrix = sparse.csr_array(upper + upper.T)
    return PartyData.build("ann", Graph.from_matrix(matrix, ids=ids), table, HalfFilter(1))


@pytest.mark.parametrize("name", Parameters.__struct_fields__)
@pytest.mark.parametrize("parameters", [CELLS, BASIC], ids=["cells", "basic"])
def test_the_key_depends_on_the_parameters_that_the_labels_depend_on(parameters, name):
    before = getattr(parameters, name)
    after = CHANGES.get(name, before + 1 if isinstance(before, int) else before)
    if name == "method":
        after = "basic" if parameters is CELLS else "cells"
    changed = msgspec.structs.replace(parameters, **{name: after})
    assert changed != parameters, f"{name}: add another value to CHANGES"
    data = data_of()
    ignored = JOINT | ({"n_clusters", "n_init"} if parameters is CELLS else set())
    assert (labels_key(data, changed) == labels_key(data, parameters)) == (name in ignored)
    if name in ignored:
        assert labels_of(data, changed) == labels_of(data, parameters)


def labels_of(data, parameters):
    found = compute_labels(data, compute_rows(data, parameters), parameters, seed=5)
    return found.stored_labels.data, found.n_clusters, found.whole, found.stored_starts.data


def test_cells_and_tree_have_the_same_local_labels():
    data, tree = data_of(), msgspec.structs.replace(CELLS, method="tree")
    assert labels_key(data, tree) == labels_key(data, CELLS)
    assert labels_of(data, tree) == labels_of(data, CELLS)


@pytest.mark.parametrize("change", ["value", "edge", "weight", "id", "rows", "columns"])
def test_the_key_depends_on_every_part_of_the_data(change):
    assert labels_key(data_of(change), CELLS) != labels_key(data_of(), CELLS)


def test_equal_tables_have_one_key_whatever_types_and_layout_store_them():
    one = data_of()
    other = PartyData(one.graph, np.asfortranarray(one.features), one.filter)
    assert other.digest == one.digest
    whole, half = (PartyData(one.graph, (one.features > 0).astype(kind), one.filter) for kind in (np.float64, np.int8))
    assert whole.digest == half.digest
    thin = PartyData(one.graph, sparse.csr_array(one.features * (one.features > 0)), one.filter)
    narrow = sparse.csr_array(thin.features)
    narrow.indices, narrow.indptr = narrow.indices.astype(np.int32), narrow.indptr.astype(np.int64)
    assert PartyData(one.graph, narrow, one.filter).digest == thin.digest


def test_an_empty_sparse_table_has_a_digest():
    empty = PartyData(data_of().graph, sparse.csr_array((20, 3)), HalfFilter(1))
    assert len(empty.digest) == 32
