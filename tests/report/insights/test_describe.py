"""What a party says about clusters: links, quality, map, and all of it as JSON that is the same every time."""

import json

import numpy as np
import pytest
from scipy import sparse

from kcagc import metrics
from kcagc.graph import Graph
from kcagc.report.insights.describe import Description, describe
from kcagc.report.insights.links import links_between
from kcagc.report.insights.quality import against_known, sample, silhouette
from kcagc.report.insights.scatter import scatter_of


def blobs(n=90, k=3, q=4, seed=0):
    random = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return random.normal(scale=6, size=(k, q))[labels] + random.normal(size=(n, q)), labels


def ring(n):
    there = np.arange(n)
    matrix = sparse.coo_array((np.ones(n), (there, (there + 1) % n)), shape=(n, n)).tocsr()
    return Graph.from_matrix(sparse.csr_array(matrix + matrix.T))


def described(graph=True, columns=None):
    rows, labels = blobs()
    sure = np.linspace(0, 1, 90)
    return describe(Description(labels, 4, rows, columns, rows, sure, ring(90) if graph else None))


def test_links_count_every_end_once():
    labels = np.array([0, 0, 0, 1, 1, 2])
    links = links_between(ring(6), labels, 4)
    assert links.weights.tolist() == [[4, 1, 1, 0], [1, 2, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert links.weights.sum(axis=1).tolist() == [6, 4, 2, 0]  # the degrees of their nodes
    assert links.shares[3] == [None] * 4
    assert all(sum(row) == pytest.approx(1) for row in links.shares[:3])


def test_quality_against_known_labels_is_that_of_the_metrics():
    known = ["b", "a", "a", "b", "c", "c"]
    found = np.array([1, 0, 0, 1, 1, 2])
    quality = against_known(known, found, 4)
    assert quality.measures == metrics.table(known, found)
    assert quality.classes == ["a", "b", "c"]
    assert quality.counts == [[2, 0, 0, 0], [0, 2, 0, 0], [0, 1, 1, 0]]
    assert quality.matched == {0: "a", 1: "b", 2: "c"}


def test_the_silhouette_has_no_value_where_it_has_no_meaning():
    rows, labels = blobs()
    assert 0.5 < silhouette(rows, labels) <= 1
    assert silhouette(rows, np.zeros(90, dtype=np.int64)) is None
    assert silhouette(rows[:3], np.arange(3)) is None


def test_a_sample_is_in_order_without_repetition_and_always_the_same():
    chosen = sample(10_000, 500)
    assert len(np.unique(chosen)) == 500
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_array_equal(chosen, sample(10_000, 500))
    assert sample(7, 500).tolist() == list(range(7))


def test_a_map_keeps_neighbours_together_within_its_frame_and_is_the_same_again():
    rows, labels = blobs()
    first, second = scatter_of(rows, labels), scatter_of(rows, labels)
    np.testing.assert_array_equal(first.places, second.places)
    assert first.places.min() >= 0
    assert first.places.max() <= 1
    away = np.linalg.norm(first.places[:, None] - first.places, axis=2) + 9 * np.eye(90)
    assert (labels[away.argmin(axis=1)] == labels).mean() > 0.9


def test_a_map_is_drawn_of_a_sample_that_says_so():
    rows, labels = blobs()
    found = scatter_of(rows, labels, most=30)
    assert (len(found.places), found.of) == (30, 90)


@pytest.mark.parametrize("rows", [np.zeros((50, 3)), np.eye(4)])
def test_what_cannot_be_drawn_has_no_map(rows):
    assert scatter_of(rows, np.zeros(len(rows), dtype=np.int64)) is None


def test_one_dimension_can_be_drawn():
    assert scatter_of(np.arange(20.0)[:, None], np.arange(20) // 10).places.shape == (20, 2)


def test_a_description_is_plain_json_and_counts_every_node():
    found = described(columns=["age", "income", "visits", "<b>"])
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert [one["size"] for one in found["clusters"]] == [30, 30, 30, 0]
    assert sum(one["share"] for one in found["clusters"]) == pytest.approx(1)
    assert sum(found["confidence"]["bins"]) == 90
    assert found["clusters"][3]["confidence"] is None
    assert found["clusters"][3]["marks"] == []
    assert {mark["feature"] for one in found["clusters"] for mark in one["marks"]} <= {"age", "income", "visits", "<b>"}
    assert found["quality"]["modularity"] == metrics.modularity(ring(90), blobs()[1])


def test_without_the_whole_graph_nothing_is_said_about_links():
    found = described(graph=False)
    assert "links" not in found
    assert "modularity" not in found["quality"]
