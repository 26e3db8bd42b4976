"""The description of clusters: plain JSON that is the same every time, with a map of the nodes."""

import json

import numpy as np
import pytest

from kcagc import metrics
from kcagc.report.insights.description import Description, describe, map_of
from report.insights.examples import blobs, ring


def described(graph=True, columns=None):
    rows, labels = blobs()
    sure = np.linspace(0, 1, 90)
    return describe(Description(labels, 4, rows, columns, rows, sure, ring(90) if graph else None))


def test_a_map_keeps_neighbours_together_within_its_frame_and_is_the_same_again():
    rows, labels = blobs()
    first, second = map_of(rows, labels), map_of(rows, labels)
    np.testing.assert_array_equal(first.places, second.places)
    assert first.places.min() >= 0
    assert first.places.max() <= 1
    away = np.linalg.norm(first.places[:, None] - first.places, axis=2) + 9 * np.eye(90)
    assert (labels[away.argmin(axis=1)] == labels).mean() > 0.9


def test_a_map_is_drawn_of_a_sample_that_says_so():
    rows, labels = blobs()
    found = map_of(rows, labels, most=30)
    assert (len(found.places), found.of) == (30, 90)


@pytest.mark.parametrize("rows", [np.zeros((50, 3)), np.eye(4)])
def test_what_cannot_be_drawn_has_no_map(rows):
    assert map_of(rows, np.zeros(len(rows), dtype=np.int64)) is None


def test_one_dimension_can_be_drawn():
    assert map_of(np.arange(20.0)[:, None], np.arange(20) // 10).places.shape == (20, 2)


def test_a_description_is_plain_json_and_counts_every_node():
    found = described(columns=["age", "income", "visits", "<b>"])
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert [one["size"] for one in found["clusters"]] == [30, 30, 30, 0]
    assert sum(one["share"] for one in found["clusters"]) == pytest.approx(1)
    assert sum(found["confidence"]["bins"]) == 90
    assert found["clusters"][3]["confidence"] is None
    assert found["clusters"][3]["top_features"] == []
    assert {feature["feature"] for one in found["clusters"] for feature in one["top_features"]} <= {
        "age",
        "income",
        "visits",
        "<b>",
    }
    assert found["quality"]["modularity"] == metrics.modularity(ring(90), blobs()[1])


def test_without_the_whole_graph_nothing_is_said_about_links():
    found = described(graph=False)
    assert "links" not in found
    assert "modularity" not in found["quality"]
