import numpy as np
import pytest

from experiments.paper import literal
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.datasets import generate
from kcagc.graph.filters import HalfFilter
from kcagc.metrics import ari

EASY = generate(300, 3, features=(20, 20), seed=0)


@pytest.mark.parametrize("variant", literal.VARIANTS)
def test_clusters_that_are_easy_to_see_are_found(variant):
    found = literal.run(EASY, variant, 2, psi=3, seed=0)
    assert found["accuracy"] > 85


def test_basic_ends_where_k_means_on_the_unprojected_features_ends():
    filtered = [HalfFilter(3).apply(EASY.adjacency, table) for table in EASY.parties(2)]
    projected = np.hstack([literal._projected(table, 3) for table in filtered])
    found = literal._cheapest(projected, np.hstack(filtered), np.ones(300), 3, np.random.RandomState(0))
    pooled = fit_kmeans(np.hstack(filtered), 3, random_state=0)
    assert found.inertia == pytest.approx(pooled.inertia, rel=1e-6)
    assert ari(found.labels, pooled.labels) > 0.99
