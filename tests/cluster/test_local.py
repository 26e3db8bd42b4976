import numpy as np
import pytest
from numpy.testing import assert_allclose

from kcagc import metrics
from kcagc.cluster import cluster_locally
from kcagc.datasets import generate, load
from kcagc.graph import ChebyshevFilter, HalfFilter, NormFilter


@pytest.mark.parametrize("scaling", ["unit", "U", "US"])
@pytest.mark.parametrize("chosen", [HalfFilter(3), NormFilter(3), ChebyshevFilter(lambda x: np.exp(-2 * x))], ids=repr)
def test_planted_communities_are_found(scaling, chosen):
    data = generate(400, 4, homophily=0.8, signal=6, features=12, seed=2)
    found = cluster_locally(data.adjacency, data.features, 4, filter=chosen, scaling=scaling, random_state=0)
    assert metrics.accuracy(data.labels, found.labels) > 0.98


def test_on_the_demo_no_party_does_alone_what_all_do_together():
    data = load("demo")
    scores = [
        metrics.accuracy(
            data.labels,
            cluster_locally(data.adjacency, features, 5, filter=HalfFilter(2), random_state=0).labels,
        )
        for features in [*data.parties(), data.features]
    ]
    assert max(scores[:3]) < 0.8
    assert scores[3] > 0.9


def test_the_graph_helps():
    data = load("demo")
    with_graph, without = (
        metrics.accuracy(
            data.labels,
            cluster_locally(data.adjacency, data.parties()[0], 5, filter=HalfFilter(psi), random_state=0).labels,
        )
        for psi in (2, 0)
    )
    assert with_graph > without + 0.1


def test_what_is_kept_places_the_rows_again():
    data = load("demo")
    found = cluster_locally(
        data.adjacency, data.features, 5, filter=HalfFilter(2), n_components=9, max_iter=300, random_state=0
    )
    again = found.projection.transform(HalfFilter(2).apply(data.adjacency, data.features))
    assert again.shape == (600, 9)
    assert_allclose(again, found.embedding, atol=1e-12)
    away = ((again[:, None] - found.clusters.centers) ** 2).sum(axis=2)
    assert (away.argmin(axis=1) == found.labels).all()


def test_one_column_is_enough():
    data = generate(200, 2, signal=9, features=1, seed=0)
    found = cluster_locally(data.adjacency, data.features, 2, filter=HalfFilter(1), scaling="US", random_state=0)
    assert found.projection.n_components == 1
    assert metrics.accuracy(data.labels, found.labels) > 0.9
