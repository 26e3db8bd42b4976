"""What a party's own columns would have found alone: properties of the comparison, on clusters that are known."""

import json
import time

import numpy as np
import pytest

from kcagc.graph.graph import Graph
from kcagc.protocol.fit_result import Restarts
from kcagc.report.insights import worth as module
from kcagc.report.insights.worth import Together, Worth, compare_with_own, shares_of_restarts
from kcagc.report.worth import worth_sentences, worth_table

K, EACH = 4, 60


def groups(order=None):
    labels = np.repeat(np.arange(K), EACH)
    return labels if order is None else labels[order]


def points(labels, *, merged=(), noise=0.1, seed=0):
    """Rows around a centre for each label; those of `merged` labels have one centre."""
    centers = np.eye(max(K, 6))[: int(labels.max()) + 1]
    for label in merged:
        centers[label] = centers[merged[0]]
    return centers[labels] + np.random.default_rng(seed).normal(scale=noise, size=(len(labels), centers.shape[1]))


def compared(labels, rows, *, method="joint", graph=None, restarts=None, k=K):
    return compare_with_own(Together(labels, k, rows, method, graph, restarts))


@pytest.mark.parametrize("method", ["joint", "cells"])
def test_columns_that_show_all_clusters_find_them_alone(method):
    labels = groups()
    found = compared(labels, points(labels), method=method)
    assert found.agreement == pytest.approx(1)
    assert found.moved == 0
    assert found.hidden == []
    assert [one.alone for one in found.clusters] == ["found"] * K
    assert {one.found_in for one in found.clusters} == {found.clusterings}
    assert "nearly the same" in worth_sentences(found, "bank")[0]
    assert "find every joint cluster" in " ".join(worth_sentences(found, "bank"))


@pytest.mark.parametrize("method", ["joint", "cells"])
def test_clusters_that_only_others_separate_are_named_with_those_they_are_merged_with(method):
    labels = groups()
    found = compared(labels, points(labels, merged=(1, 3)), method=method)
    assert {one.cluster for one in found.hidden} <= {1, 3}
    assert len(found.hidden) > 0
    assert found.agreement < 0.95
    assert found.moved > EACH / 4
    for one in found.hidden:
        assert one.alone != "merged" or one.together_with == [4 - one.cluster]
    said = " ".join(worth_sentences(found, "bank"))
    assert f"Only the columns of others separate cluster{'s' if len(found.hidden) == 2 else ''} " in said


def test_columns_of_noise_find_nothing_and_their_own_clusterings_do_not_agree():
    labels = groups()
    found = compared(labels, np.random.default_rng(3).normal(size=(len(labels), 8)))
    assert abs(found.agreement) < 0.1
    assert found.own_agreement < 0.8
    assert len(found.hidden) == K
    assert found.moved > len(labels) / 3
    assert {one.alone for one in found.clusters} <= {"merged", "scattered"}


def test_the_numbers_of_the_clusters_and_the_order_of_the_nodes_change_nothing():
    labels, rows = groups(), points(groups(), merged=(0, 2))
    first = compared(labels, rows)
    swap = np.array([2, 3, 0, 1])
    renamed = compared(swap[labels], rows)
    assert (renamed.agreement, renamed.moved) == (first.agreement, first.moved)
    by_cluster = {one.cluster: one for one in renamed.clusters}
    for one in first.clusters:
        other = by_cluster[int(swap[one.cluster])]
        assert (other.alone, other.overlap, other.found_in) == (one.alone, one.overlap, one.found_in)


def test_modularity_is_that_of_both_clusterings_in_the_graph():
    labels = groups()
    pairs = np.array([(one, two) for one in range(len(labels)) for two in (one + 1, one + 2) if two < len(labels)])
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)), n_nodes=len(labels))
    noise = np.random.default_rng(1).normal(size=(len(labels), 5))
    found = compared(labels, noise, graph=graph)
    assert found.modularity_together > found.modularity_alone + 0.3
    assert compared(labels, noise).modularity_alone is None


def test_restarts_with_other_numbers_of_clusters_agree():
    labels = groups()
    same = np.array([3, 2, 1, 0])[labels]
    other = same.copy()
    other[:30] = 2  # half of cluster 0 joins cluster 1
    nodes, shares = shares_of_restarts(labels, Restarts(np.array([same, other]), np.arange(len(labels))), K)
    assert len(nodes) == len(labels)
    np.testing.assert_array_equal(shares[:30], 0.5)
    np.testing.assert_array_equal(shares[30:], 1.0)
    found = compared(labels, points(labels), restarts=Restarts(np.array([same, other]), np.arange(len(labels))))
    assert found.sure == pytest.approx(1 - 30 / len(labels))
    assert [one.sure for one in found.clusters] == pytest.approx([0.75, 1, 1, 1])


def test_nodes_outside_the_sample_of_a_run_say_nothing_about_restarts():
    labels = groups()
    row_of_node = np.full(len(labels), -1)
    row_of_node[::3] = np.arange(len(labels[::3]))
    nodes, shares = shares_of_restarts(labels, Restarts(labels[::3][None, :], row_of_node), K)
    np.testing.assert_array_equal(nodes, np.arange(0, len(labels), 3))
    assert (shares == 1).all()


def test_an_empty_cluster_has_no_view_and_one_cluster_nothing_to_compare():
    labels = groups()
    found = compared(labels, points(labels), k=K + 1)
    assert [one.cluster for one in found.clusters] == [0, 1, 2, 3]
    assert compared(np.zeros(30, dtype=np.int64), points(groups())[:30], k=1) is None


def test_the_comparison_is_plain_json_and_the_same_again():
    labels = groups()
    first, again = (compared(labels, points(labels, merged=(0, 1))) for _ in range(2))
    text = json.dumps(first.as_dict(), allow_nan=False)
    assert json.loads(text) == again.as_dict()
    assert Worth.from_dict(json.loads(text)).as_dict() == first.as_dict()


def test_a_large_graph_is_sampled_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_NODES", 100)
    labels = groups()
    found = compared(labels, points(labels))
    assert (found.sampled, found.nodes) == (100, len(labels))
    assert "100 nodes" in str(worth_table(found, "bank"))
    assert found.agreement == pytest.approx(1)
    assert found.hidden == []


@pytest.mark.parametrize("method", ["joint", "cells"])
def test_many_nodes_take_seconds(method):
    labels = np.tile(groups(), 500)  # 120,000 nodes
    rows = points(labels, noise=0.3)
    start = time.process_time()
    found = compared(labels, rows, method=method)
    assert time.process_time() - start < 8
    assert found.sampled == module.SAMPLE_NODES
