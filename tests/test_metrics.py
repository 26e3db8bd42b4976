from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from kcagc import metrics
from kcagc.errors import DataError
from kcagc.graph.graph import Graph
from random_graphs import adjacencies

labelings = st.integers(1, 25).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n), st.lists(st.integers(0, 4), min_size=n, max_size=n)
    )
)


def best_by_brute_force(true, found):
    """Try every one-to-one renaming of clusters to classes, spare names included."""
    names = np.arange(10, 10 + 5 + 4)
    names[:4] = np.arange(4)
    return max(np.mean(np.array(true) == np.array(renaming)[np.array(found)]) for renaming in permutations(names, 5))


@settings(max_examples=12)  # 15,120 renamings each
@given(labelings)
def test_accuracy_is_the_best_over_all_matchings(pair):
    true, found = pair
    assert metrics.accuracy(true, found) == pytest.approx(best_by_brute_force(true, found))


@given(labelings)
def test_names_of_clusters_do_not_matter(pair):
    true, found = pair
    renamed = [f"cluster {9 - label}" for label in found]
    for measure in (metrics.accuracy, metrics.nmi, metrics.ari, metrics.macro_f1):
        assert measure(true, found) == pytest.approx(measure(true, renamed))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_equal_partitions_score_one(labels):
    for name, value in metrics.table(labels, labels).items():
        assert value == pytest.approx(1.0), name


def test_fewer_and_more_clusters_than_classes():
    assert metrics.accuracy([0, 0, 1, 1, 2, 2], [5, 5, 5, 5, 5, 5]) == pytest.approx(2 / 6)
    assert metrics.accuracy([0, 0, 0, 0], [0, 1, 2, 2]) == pytest.approx(2 / 4)
    assert metrics.macro_f1([0, 0, 1, 1], [3, 3, 3, 3]) == pytest.approx(0.5 * 2 / 3)


def test_macro_f1_is_scikit_learns_after_renaming():
    true = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    found = np.array([1, 1, 2, 2, 2, 2, 0, 0, 0, 1])
    renamed = np.array([2, 0, 1])[found]
    assert metrics.macro_f1(true, found) == pytest.approx(f1_score(true, renamed, average="macro"))


def test_modularity_does_not_depend_on_how_many_rows_are_read_at_a_time(monkeypatch):
    random = np.random.default_rng(0)
    graph, labels = Graph.from_edges([0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 6, 6]), random.integers(0, 3, 7)
    whole = metrics.modularity(graph, labels)
    for rows in (1, 2, 3, 7):
        monkeypatch.setattr(metrics, "_ROWS", rows)
        assert metrics.modularity(graph, labels) == pytest.approx(whole, abs=1e-15)


@given(adjacencies(max_nodes=12), st.integers(0, 1000))
def test_modularity_is_the_double_sum(adjacency, seed):
    dense, n = adjacency.toarray(), adjacency.shape[0]
    labels = np.random.default_rng(seed).integers(3, size=n)
    degrees, total = dense.sum(axis=1), dense.sum()
    wanted = (
        sum(
            dense[i, j] / total - degrees[i] * degrees[j] / total**2
            for i in range(n)
            for j in range(n)
            if labels[i] == labels[j]
        )
        if total
        else 0.0
    )
    assert metrics.modularity(adjacency, labels) == pytest.approx(wanted, abs=1e-12)


def test_the_table_holds_what_the_arguments_allow():
    assert list(metrics.table([0, 1], [0, 1], np.ones((2, 2)))) == list(metrics.NAMES)
    assert list(metrics.table(None, [0, 1], np.ones((2, 2)))) == ["modularity"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.accuracy([0, 1], [0]), "equal length"),
        (lambda: metrics.nmi([[0]], [[0]]), "one column"),
        (lambda: metrics.macro_f1([], []), "labels: empty"),
        (lambda: metrics.accuracy(["a", None], ["a", "b"]), "the label in row 1 is missing"),
        (lambda: metrics.accuracy([1, 2], [1.0, np.nan]), "the label in row 1 is missing"),
        (lambda: metrics.modularity(np.ones((2, 2)), [0]), "1 labels for a graph of 2 nodes"),
    ],
)
def test_labels_that_do_not_fit_are_refused(call, message):
    with pytest.raises(DataError, match=message):
        call()


def test_a_matching_made_on_some_nodes_is_used_for_others():
    stands_for = metrics.matching(["a", "a", "b", "b"], [5, 5, 7, 7])
    assert stands_for == {5: "a", 7: "b"}
    assert metrics.matched_accuracy(stands_for, ["a", "b", "b", "a"], [5, 5, 7, 9]) == 0.5
