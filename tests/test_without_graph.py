"""Clustering without a graph: by the columns alone, with every method, and never by accident."""

import pandas
import pytest
from numpy.testing import assert_array_equal

from kcagc import AGC, KCAGC
from kcagc.data import TablePreprocessor
from kcagc.datasets import generate
from kcagc.disclosure import RISKS, Ledger, Policy
from kcagc.errors import AgreementError, DataError, ParameterError
from kcagc.graph import Graph, HalfFilter
from kcagc.graph.ids import NodeIds
from kcagc.metrics import ari
from kcagc.protocol.local import PartyData
from kcagc.protocol.parameters import RunSettings
from kcagc.simulation import simulate_fit

DATA = generate(240, 4, homophily=0.5, signal=6, features=(16, 16, 16), seed=3)
TABLES = dict(zip(("bank", "telecom", "shop"), DATA.parties(), strict=True))
NAMES = [f"n{number:03}" for number in range(240)]


def frames(orders=((0, 240), (0, 240), (0, 240))):
    return {
        name: pandas.DataFrame(table, index=NAMES).iloc[slice(*rows)]
        for (name, table), rows in zip(TABLES.items(), orders, strict=True)
    }


def model(**changes):
    return KCAGC(**{"n_clusters": 4, "random_state": 0} | changes)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"joint_rows": "coordinator", "accept": tuple(RISKS)},
        {"method": "cells", "n_init": 2},
        {"method": "basic", "n_init": 2},
        {"method": "tree", "fan_in": 2, "n_init": 2},
        {"aggregator": "party", "accept": tuple(RISKS), "n_init": 2, "filter": "norm"},
    ],
)
def test_every_method_clusters_the_columns_alone(settings):
    found = model(**settings).fit(TABLES)
    assert (found.psi_, found.psi_search_) == (0, None)
    assert found.models_["bank"].parameters.graph == "none"
    assert ari(DATA.labels, found.labels_) > 0.9
    pooled = AGC(n_clusters=4, scaling="unit", random_state=0).fit(DATA.features)
    assert ari(pooled.labels_, found.labels_) > 0.9


def test_the_labels_are_those_of_a_graph_without_edges_but_the_runs_are_not_the_same():
    without, empty = model().fit(TABLES), model(psi=0).fit(TABLES, adjacency=Graph.without_edges(240))
    assert_array_equal(without.labels_, empty.labels_)
    assert empty.models_["bank"].parameters.graph == "shared"
    with pytest.raises(DataError, match=r"the graph has 0 edges, and a search needs"):
        model().fit(TABLES, adjacency=Graph.without_edges(240))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"psi": 2}, r"^psi: is 2, but there is no graph .*; leave psi out, or give a graph"),
        ({"n_clusters": (2, 5)}, r"^n_clusters: .* there is no graph, by whose edges clusters could be judged"),
        ({"filter": HalfFilter(2)}, r"^filter: HalfFilter\(psi=2\) needs a graph"),
    ],
)
def test_what_needs_edges_is_refused_with_the_reason(settings, words):
    with pytest.raises(ParameterError, match=words):
        model(**settings).fit(TABLES)


def test_rows_are_matched_by_id_and_the_first_table_gives_the_order():
    wanted = model().fit(frames())
    shuffled = frames()
    shuffled["shop"] = shuffled["shop"].sample(frac=1, random_state=1)
    assert_array_equal(model().fit(shuffled).labels_, wanted.labels_)
    assert list(wanted.node_ids_) == NAMES
    shuffled["bank"] = shuffled["bank"].iloc[::-1]
    found = model().fit(shuffled)
    assert list(found.node_ids_) == NAMES[::-1]
    assert ari(found.labels_[::-1], wanted.labels_) > 0.95


def test_other_rows_are_an_error_that_names_them_or_are_left_out_or_filled_in():
    tables = frames(((0, 230), (5, 240), (0, 240)))
    with pytest.raises(
        DataError, match=r"^telecom: ids do not match bank's: 5 of bank's ids are missing \('n000', .*10 ar"
    ):
        model().fit(tables)
    found = model(nodes="intersection").fit(tables)
    assert list(found.node_ids_) == NAMES[5:230]
    chosen = model(nodes=NAMES[100:], transformers=TablePreprocessor(default={"missing": "mean"})).fit(tables)
    assert list(chosen.node_ids_) == NAMES[100:]
    new = chosen.predict(tables)
    assert len(new) == 100
    with pytest.raises(DataError, match="nodes: no node is in all tables"):
        model(nodes="intersection").fit(frames(((0, 10), (10, 20), (0, 240))))


def test_tables_of_which_only_some_have_ids_are_never_matched_by_position():
    tables = frames() | {"shop": TABLES["shop"]}
    with pytest.raises(DataError, match=r"^shop: rows have no ids, but those of bank have: nothing says which rows"):
        model().fit(tables)
    with pytest.raises(DataError, match=r"^X: every party must have a row for every node, but bank has 239, telecom"):
        model().fit(TABLES | {"bank": TABLES["bank"][1:]})
    numbered = pandas.DataFrame(TABLES["shop"]).sample(frac=1, random_state=2)  # its index says which row is which
    assert_array_equal(model().fit(TABLES | {"shop": numbered}).labels_, model().fit(TABLES).labels_)


def test_new_nodes_are_predicted_without_a_graph_and_with_one_refused():
    found = model().fit({name: table[:220] for name, table in TABLES.items()})
    assert ari(DATA.labels[220:], found.predict(TABLES)) > 0.8
    with pytest.raises(ParameterError, match=r"^adjacency: must be no graph, as it was for fit"):
        found.predict(TABLES, adjacency=DATA.adjacency)
    with_graph = model(psi=1).fit(TABLES, adjacency=DATA.adjacency)
    with pytest.raises(ParameterError, match=r"^adjacency: must be one graph for all parties, as it was for fit"):
        with_graph.predict(TABLES)


def test_a_saved_model_remembers_that_there_was_no_graph(tmp_path):
    found = model().fit({name: table[:220] for name, table in TABLES.items()})
    found.save(tmp_path / "model")
    assert_array_equal(KCAGC.load(tmp_path / "model").predict(TABLES), found.predict(TABLES))


def party(name, ids):
    rows = [NAMES.index(one) for one in ids]
    return PartyData.build(
        name, Graph.without_edges(len(ids), NodeIds(ids, where=name)), TABLES[name][rows], HalfFilter(0)
    )


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (
            NAMES[1:],
            "do not have the same number of nodes: .* 240, .* 239 .*needs a row for the same nodes: agree on a",
        ),
        (
            NAMES[1:] + NAMES[:1],
            r"both have 240 ids, which are strings \(other ids, or the same in another order: agree on a list of nodes",
        ),
    ],
)
def test_parties_with_other_rows_learn_that_and_what_to_do(ids, words):
    parameters = RunSettings.read({"n_clusters": 4, "graph": "none"}).resolve(2)
    data = {"bank": party("bank", NAMES), "shop": party("shop", ids)}
    with pytest.raises(AgreementError, match=words):
        simulate_fit(parameters, data, policy=Policy(), seeds=dict.fromkeys(data, 0), ledger=Ledger())
