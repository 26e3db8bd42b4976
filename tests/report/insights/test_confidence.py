"""Confidence: from 0 to 1, the margin to the nearest other centre, and 0 wherever another is as near."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import DataError
from kcagc.report.insights.confidence import confidence


def drawn(seed, n=50, k=4, q=3):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, q)), random.normal(size=(k, q)), random.integers(k, size=n)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 5))
def test_it_is_the_margin_of_the_definition_and_within_0_and_1(seed, k, q):
    rows, centers, labels = drawn(seed, k=k, q=q)
    found = confidence(rows, centers, range(k), labels)
    assert ((found >= 0) & (found <= 1)).all()
    away = np.linalg.norm(rows[:, None] - centers, axis=2)
    for node, label in enumerate(labels):
        other = np.delete(away[node], label).min()
        assert found[node] == pytest.approx(max(0.0, 1 - away[node, label] / other), abs=1e-6)


def test_a_tie_is_0_and_a_node_on_its_centre_is_1():
    centers = np.array([[-1.0, 0.0], [1.0, 0.0]])
    rows = np.array([[0.0, 5.0], [-1.0, 0.0], [1.0, 0.0], [0.9, 0.0]])
    assert confidence(rows, centers, [0, 1], np.array([0, 0, 0, 0])).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_two_centres_in_one_place_leave_nothing_to_be_sure_of():
    centers = np.ones((2, 3)) / 3
    assert confidence(centers, centers, [0, 1], np.array([0, 1])).tolist() == [0.0, 0.0]


def test_one_centre_cannot_be_taken_for_another():
    assert confidence(np.eye(3), np.zeros((1, 3)), [7], np.array([7, 7, 7])).tolist() == [1.0, 1.0, 1.0]


@given(st.integers(0, 10_000))
def test_clusters_may_be_numbered_in_any_way_and_some_may_be_empty(seed):
    rows, centers, labels = drawn(seed)
    names = np.array([9, 2, 5, 0])
    np.testing.assert_array_equal(
        confidence(rows, centers, names.tolist(), names[labels]), confidence(rows, centers, range(4), labels)
    )


def test_a_label_without_a_centre_is_refused():
    with pytest.raises(DataError, match="cluster 3 has no centre"):
        confidence(np.eye(2), np.eye(2), [0, 1], np.array([0, 3]))
