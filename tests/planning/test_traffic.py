"""The forecast counts the messages that a run really sends."""

from dataclasses import replace

import pytest

from kcagc import KCAGC
from kcagc.datasets import generate
from kcagc.errors import ParameterError
from kcagc.graph import Graph
from kcagc.planning.traffic import Task, cells, traffic
from kcagc.protocol.parameters import RunSettings


def task(nodes, edges, columns, parties, *, cells=None, **settings):
    return Task(nodes, edges, columns, parties, RunSettings.read(settings).resolve(parties), cells)


def fitted(nodes, columns, parties, accept=(), **settings):
    """Return a fitted model, and the task that the forecast would have known."""
    k = settings["n_clusters"]
    data = generate(nodes, k, degree=10, features=(columns,) * parties, homophily=0.6, signal=1.0, seed=0)
    tables = {f"party-{number:02}": one for number, one in enumerate(data.parties())}
    model = KCAGC(random_state=0, accept=list(accept), **settings).fit(tables, adjacency=data.adjacency)
    return model, task(nodes, Graph(data.adjacency).n_edges, columns, parties, **settings)


def ratios(model, found):
    """Return the forecast of each role divided by the bytes that it sent."""
    return [found.sent[number] / sent for number, sent in enumerate(model.bytes_by_role_.values())]


def test_the_bytes_are_those_of_a_run_where_the_coordinator_sees_rows():
    model, planned = fitted(
        7_000, 30, 3, ["anonymous-geometry"], method="joint", joint_rows="coordinator", n_clusters=16, psi=2
    )
    found = traffic(planned)
    assert ratios(model, found) == pytest.approx([1.0] * 4, rel=0.02)
    assert found.sums == model.rounds_


@pytest.mark.parametrize(
    ("nodes", "k", "settings"),
    [(7_000, 4, {"psi": 3}), (1_000, 12, {"psi": 3}), (1_500, 4, {})],
    ids=["sample", "many clusters", "search for psi"],
)
def test_the_bytes_of_a_run_in_shares_are_at_most_those_of_the_forecast(nodes, k, settings):
    """Rounds that all restarts need are counted; restarts that converge early need fewer."""
    model, planned = fitted(nodes, 16, 3, method="joint", n_clusters=k, **settings)
    found = traffic(planned)
    each = ratios(model, found)
    assert all(0.999 < one < 1.25 for one in each), each
    assert each[2] == pytest.approx(1.0, rel=0.02)  # a party that holds no shares takes no part in these rounds
    assert model.rounds_ <= found.sums <= 1.5 * model.rounds_


def test_the_first_holder_receives_the_shares():
    found = traffic(task(5_000, 25_000, 64, 3, method="joint", n_clusters=4, psi=3))
    first, second, third, coordinator = found.received
    assert first > 5 * second
    assert second == third
    assert coordinator == sum(found.sent[:3])
    assert sum(found.received[:3]) == found.sent[3]


def test_the_number_of_cells_decides_the_bytes_of_cells():
    model, planned = fitted(3_000, 16, 3, ["revealing-labels"], method="cells", n_clusters=6, psi=5)
    known = replace(planned, cells=model.merges_[0].n_rows)
    assert all(0.6 < one < 1.6 for one in ratios(model, traffic(known)))
    assert cells(known, 3) == model.merges_[0].n_rows
    assert traffic(replace(planned, cells=60)).sent[0] < 0.5 * traffic(known).sent[0]


def test_a_party_as_aggregator_has_no_link_and_no_probes():
    found = traffic(task(1_000, 5_000, 16, 2, method="cells", n_clusters=4, psi=3, aggregator="party", cells=50))
    assert len(found.sent) == 2
    assert found.received[1] == found.sent[0]
    with_coordinator = traffic(task(1_000, 5_000, 16, 2, method="cells", n_clusters=4, psi=3, cells=50))
    assert found.sent[0] < with_coordinator.sent[0]


def test_merges_of_one_layer_run_at_the_same_time():
    small = traffic(task(10_000, 50_000, 8, 4, method="tree", fan_in=2, n_clusters=4, psi=3))
    large = traffic(task(10_000, 50_000, 8, 8, method="tree", fan_in=2, n_clusters=4, psi=3))
    assert large.sums == pytest.approx(1.5 * small.sums, rel=0.1)  # three layers instead of two
    assert large.received[8] == pytest.approx(3 * small.received[4], rel=0.3)


def test_a_thousand_million_nodes_are_counted_in_no_time():
    found = traffic(task(10**9, 10**10, 100, 4, method="joint", n_clusters=20))
    words = 8 * 10**9 * 19  # one comparison for each node and each cluster but one
    assert words < found.sent[3] < 1.3 * words


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"nodes": 3, "edges": 2}, "n_clusters: 4 clusters, but there are only 3 nodes"),
        ({"nodes": 10, "edges": 46}, "edges: 46 edges, but 10 nodes have at most 45"),
        ({"nodes": 10, "edges": 9, "cells": 11}, "cells: must be from 4 "),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(ParameterError, match=message):
        task(columns=4, parties=2, method="cells", n_clusters=4, psi=1, **sizes).check()
