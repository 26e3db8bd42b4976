"""Quality of clusters: the measures of `kcagc.metrics`, and a silhouette only where it is defined."""

import numpy as np

from kcagc import metrics
from kcagc.report.insights.quality import against_known, sample, silhouette
from report.insights.examples import blobs


def test_quality_against_known_labels_is_that_of_the_metrics():
    known = ["b", "a", "a", "b", "c", "c"]
    found = np.array([1, 0, 0, 1, 1, 2])
    quality = against_known(known, found, 4)
    assert quality.measures == metrics.table(known, found)
    assert quality.classes == ["a", "b", "c"]
    assert quality.counts == [[2, 0, 0, 0], [0, 2, 0, 0], [0, 1, 1, 0]]


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
