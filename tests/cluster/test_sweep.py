"""The sweep over numbers of clusters: its rule on known labels, and its ranges on graphs whose number is known."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from kcagc import metrics
from kcagc.cluster.held_out import hold_out_edges
from kcagc.cluster.joint import fit_joint_kmeans
from kcagc.cluster.local import fit_projection
from kcagc.cluster.sweep import (
    MOST_VALUES,
    SWEEP_DIMENSIONS,
    Sweep,
    _merged,
    _stability,
    assess_sweep,
    check_range,
    sweep_clusters,
    sweep_dimensions,
)
from kcagc.datasets import generate
from kcagc.errors import DataError, ParameterError
from kcagc.graph import HalfFilter
from kcagc.graph.graph import Graph


@pytest.fixture(scope="module")
def planted():
    return generate(600, 6, homophily=0.8, signal=3, features=20, seed=1)


@pytest.fixture(scope="module")
def edges(planted):
    return hold_out_edges(Graph.from_matrix(planted.adjacency), 0)


def split_to(labels, k, seed=0):
    """Return labels of k clusters: the given ones merged, or split at random."""
    random, found = np.random.RandomState(seed), labels.copy()
    while found.max() + 1 > k:
        found[found == found.max()] = random.randint(found.max())
    while found.max() + 1 < k:
        largest = np.flatnonzero(found == np.bincount(found).argmax())
        found[largest[random.rand(len(largest)) < 0.5]] = found.max() + 1
    return found


def restarts_of(planted, ks):
    """Return two restarts for each k, with small differences."""
    return {k: [split_to(planted.labels, k, seed) for seed in (0, 1)] for k in ks}


def costs_of(ks):
    return {k: [1.0 / k + 0.01, 1.0 / k] for k in ks}


def test_the_range_is_the_planted_number_where_every_other_is_clearly_worse(planted, edges):
    ks = range(2, 11)
    found = assess_sweep(edges, restarts_of(planted, ks), costs_of(ks))
    assert (found.ks, found.low, found.high) == (tuple(ks), 6, 6)
    assert found.modularity[4] == max(found.modularity)
    assert found.error[4] == 0 < min(found.error[:4] + found.error[5:])
    assert found.cost == tuple(round(1 / k, 9) for k in ks)
    assert "highest at k = 6" in found.reason
    assert "clearly lower at every other k" in found.reason


def test_neither_the_numbers_of_clusters_nor_the_order_of_restarts_matter(planted, edges):
    ks = range(2, 9)
    labels = restarts_of(planted, ks)
    turned = {k: [(k - 1) - one for one in labels[k][::-1]] for k in reversed(ks)}
    one, other = assess_sweep(edges, labels, costs_of(ks)), assess_sweep(edges, turned, costs_of(ks))
    assert replace(one, cost=()) == replace(other, cost=())


def test_merged_clusters_of_a_larger_number_replace_poor_restarts(planted, edges):
    ks = range(2, 13)
    labels = restarts_of(planted, ks)
    random = np.random.RandomState(0)
    for k in range(2, 8):  # all restarts up to 7 are useless, but merging 8 clusters gives the planted 6
        labels[k] = [random.randint(k, size=len(planted.labels)) for _ in range(2)]
    found = assess_sweep(edges, labels, costs_of(ks))
    assert (found.low, found.high) == (6, 6)
    assert found.modularity[4] == pytest.approx(edges.modularity(planted.labels), abs=1e-6)
    assert found.stability[4] < 0.1  # of the restarts themselves


def test_merging_follows_the_modularity_of_the_edges_that_are_not_held_out(planted, edges):
    labels = split_to(planted.labels, 9)
    merged = _merged(sparse.csr_array(edges.graph.adjacency), labels, 9, 2)
    assert sorted(merged) == list(range(2, 10))
    for count, (modularity, into) in merged.items():
        assert set(into.tolist()) == set(range(count))
        assert modularity == pytest.approx(metrics.modularity(edges.graph, into[labels]), abs=1e-6)
    assert metrics.ari(planted.labels, merged[6][1][labels]) == 1


def test_held_out_edges_do_not_choose_among_the_clusters_of_one_number(planted, edges):
    """The best of several by held-out edges would be too high: by chance, one of many fits them."""
    random = np.random.RandomState(3)
    labels = {k: [random.randint(k, size=len(planted.labels)) for _ in range(20)] for k in (2, 3)}
    found = assess_sweep(edges, labels, {k: [1.0] * 20 for k in (2, 3)})
    assert found.modularity[1] < max(edges.modularity(one) for one in labels[3])


def test_clusters_without_structure_recommend_nothing(planted, edges):
    random = np.random.RandomState(0)
    labels = {k: [random.randint(k, size=len(planted.labels)) for _ in range(2)] for k in range(3, 9)}
    found = assess_sweep(edges, labels, costs_of(labels))
    assert (found.low, found.high, found.clear) == (3, 8, False)
    assert "nothing prefers any of them" in found.reason
    assert "Recommended: no number of clusters." in found.table()
    assert "*" not in found.table()


def test_pure_noise_recommends_nothing():
    data = generate(500, 4, homophily=0.25, signal=0, features=20, seed=2)
    found = sweep_clusters(data.features, data.adjacency, 2, 10, psi=3, seed=0)
    assert (found.low, found.high) == (2, 10)
    assert "nothing prefers any of them" in found.reason


def test_the_ends_of_a_range_are_named(planted, edges):
    low, high = ({k: restarts_of(planted, [k])[k] for k in ks} for ks in (range(2, 7), range(6, 9)))
    assert "No larger k was tried" in assess_sweep(edges, low, costs_of(low)).reason
    found = assess_sweep(edges, high, costs_of(high))
    assert "No smaller k was tried" in found.reason
    assert "No larger k" not in found.reason


def test_several_numbers_that_cannot_be_told_apart_are_a_range_in_words(planted, edges):
    few = replace(edges, ends=edges.ends[:40], weights=edges.weights[:40])  # 40 edges tell little
    ks = range(2, 12)
    found = assess_sweep(few, restarts_of(planted, ks), costs_of(ks))
    assert found.low <= 6 <= found.high
    assert found.high - found.low >= 2
    assert f"from k = {found.low} to {found.high}" in found.reason
    assert "nothing prefers one of them" in found.reason


def test_a_number_inside_the_range_that_is_clearly_worse_is_named(planted, edges, monkeypatch):
    ks = range(2, 9)
    labels = restarts_of(planted, ks)
    noise = np.random.RandomState(0).randint(7, size=len(planted.labels))
    monkeypatch.setattr("kcagc.cluster.sweep._candidates", lambda *_: dict.fromkeys(ks, planted.labels) | {7: noise})
    found = assess_sweep(edges, labels, costs_of(ks))
    assert (found.low, found.high) == (2, 8)
    assert "from k = 2 to 8, except k = 7, it is not clearly lower" in found.reason


def test_fewer_held_out_edges_never_narrow_the_errors(planted, edges):
    ks = range(2, 9)
    few = replace(edges, ends=edges.ends[::4], weights=edges.weights[::4])
    many, less = (assess_sweep(one, restarts_of(planted, ks), costs_of(ks)).error for one in (edges, few))
    assert np.mean(less) > 1.5 * np.mean(many)


def test_stability_is_the_adjusted_rand_index_of_restarts(planted):
    one, other = (np.random.RandomState(seed).randint(4, size=300) for seed in (0, 1))
    third = np.where(np.arange(300) < 200, one, other)
    wanted = [metrics.ari(one, other), metrics.ari(one, third), metrics.ari(other, third)]
    assert _stability([one, other, third]) == pytest.approx(np.mean(wanted))
    assert _stability([one, 3 - one]) == 1
    assert _stability([np.zeros(5, dtype=int)] * 2) == 1


def test_a_sweep_can_be_written_to_json(planted, edges):
    found = assess_sweep(edges, restarts_of(planted, range(2, 8)), costs_of(range(2, 8)))
    assert Sweep.from_document(json.loads(json.dumps(found.document()))) == found


def test_the_table_marks_the_recommended_numbers(planted, edges):
    found = replace(assess_sweep(edges, restarts_of(planted, range(2, 12)), costs_of(range(2, 12))), low=6, high=8)
    lines = found.table().splitlines()
    assert [line[1:].split()[0] for line in lines[1:11]] == [str(k) for k in range(2, 12)]
    assert [line[0] == "*" for line in lines[1:11]] == [k in (6, 7, 8) for k in range(2, 12)]
    assert max(map(len, lines[:11])) <= 80
    assert "Recommended: 6 to 8 clusters." in lines[-1]


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [
        (5, 2, "empty"),
        (1, 9, "2 clusters or more"),
        (0, 9, "2 clusters or more"),
        (-3, 9, "2 clusters or more"),
        (4, 4, "n_clusters=4"),
        (2, 42, "at most 40"),
    ],
)
def test_ranges_that_cannot_work_are_refused_by_name(least, most, words):
    with pytest.raises(ParameterError, match=r"^n_clusters: ") as error:
        check_range(least, most)
    assert words in str(error.value)
    with pytest.raises(ParameterError):
        sweep_clusters(np.eye(50), sparse.eye(50), least, most, psi=1, seed=0)


def test_the_longest_range_is_accepted_and_the_subspace_stays_small():
    check_range(2, 1 + MOST_VALUES)
    check_range(2, 3)
    assert sweep_dimensions(2, 1 + MOST_VALUES) == SWEEP_DIMENSIONS
    assert sweep_dimensions(2, 5) == 5


def test_more_clusters_than_nodes_are_refused():
    data = generate(30, 2, degree=7, features=5, seed=0)
    with pytest.raises(DataError, match=r"n_clusters: .* 31 clusters, but there are 30 nodes"):
        sweep_clusters(data.features, data.adjacency, 2, 31, psi=1, seed=0)


def test_labels_and_costs_must_be_complete(planted, edges):
    labels = restarts_of(planted, (2, 3))
    for wrong, costs in (({}, {}), ({2: labels[2][:1]}, costs_of((2,))), (labels, costs_of((2,)))):
        with pytest.raises(ParameterError, match="n_clusters"):
            assess_sweep(edges, wrong, costs)


def test_the_same_seed_gives_the_same_sweep(planted):
    one, other = (sweep_clusters(planted.features, planted.adjacency, 2, 9, psi=3, seed=4) for _ in range(2))
    assert one == other


HOMOPHILY = (0.75, 0.8, 0.85, 0.9)
CLEAR = [  # nodes, classes, degree, homophily, words instead of numbers, seed
    (300 + 60 * one, 2 + one % 9, 6.0 + one % 5 * 2, HOMOPHILY[one % 4], one % 3 == 0, one) for one in range(20)
]


def test_on_graphs_with_clear_structure_the_range_holds_the_true_number_and_is_narrow():
    """Of twenty generated graphs, at least 18 ranges hold the number of classes, and half are at most 3 wide."""
    held, widths = [], []
    for n_nodes, n_classes, degree, homophily, words, seed in CLEAR:
        kind = {"features": 400, "sparsity": 0.95} if words else {"features": 60}
        data = generate(n_nodes, n_classes, degree=degree, homophily=homophily, signal=4, seed=seed, **kind)
        assert _pooled_accuracy(data) >= 0.85
        found = sweep_clusters(data.features, data.adjacency, 2, 14, psi=5, seed=seed)
        held.append(found.low <= n_classes <= found.high)
        widths.append(found.high - found.low + 1)
    assert sum(held) >= 18
    assert np.median(widths) <= 3


def _pooled_accuracy(data):
    filtered = HalfFilter(5).apply(Graph.from_matrix(data.adjacency), data.features)
    rows = fit_projection(filtered, data.n_classes).transform(filtered, "unit")
    return metrics.accuracy(data.labels, fit_joint_kmeans(rows, data.n_classes, seed=0).labels)
