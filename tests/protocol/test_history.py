"""What a result says of its iterations, one entry each and in the last nothing moved, and what it cost."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collaborations import parameters, random_parties, run_fit, spied_fit
from kcagc.graph import Graph, HalfFilter
from kcagc.protocol import joint_kmeans
from kcagc.protocol.local import PartyData
from kcagc.secagg.masks import FRACTION_BITS, MAX_LONG_DISTANCE

few = settings(max_examples=20)
seeds = st.integers(0, 10_000)


@few
@given(
    seed=seeds,
    n_parties=st.integers(2, 4),
    method=st.sampled_from(["cells", "basic", "tree"]),
    n_init=st.integers(1, 5),
)
def test_every_iteration_has_an_entry_and_nothing_moves_in_the_last_of_a_run_that_converged(
    seed, n_parties, method, n_init
):
    data = random_parties(seed, n_parties)
    for max_iter in (2, 3, 30):
        results = run_fit(parameters(method=method, n_init=n_init, max_iter=max_iter), data, seed=seed)
        for merge in (merge for result in results.values() for merge in result.merges):
            assert len(merge.moved) == merge.n_iter <= max_iter
            if merge.moved:
                assert (merge.moved[-1] == 0) == merge.converged
            assert all(0 <= moved <= 30 for moved in merge.moved)


@few
@given(
    seed=seeds,
    n_parties=st.integers(2, 16),
    method=st.sampled_from(["cells", "basic", "tree"]),
    aggregator=st.sampled_from(["coordinator", "party"]),
    scaling=st.sampled_from(["unit", "US"]),
)
def test_the_cost_that_opens_is_that_of_the_pooled_rows(seed, n_parties, method, aggregator, scaling):
    """All nodes count, not their cells; each party rounds its part once."""
    data = random_parties(seed, n_parties, n_nodes=20)
    chosen = parameters(method=method, aggregator=aggregator, scaling=scaling, unit=8.0, n_init=1, max_iter=4)
    results = run_fit(chosen, data, seed=seed)
    away = 0.0
    for result in results.values():
        for cluster in np.unique(result.labels):
            own = result.rows[result.labels == cluster]
            away += float(((own - own.mean(axis=0)) ** 2).sum()) / 20
    (cost,) = {result.cost for result in results.values()}
    assert cost == pytest.approx(away, abs=n_parties / 2**FRACTION_BITS)


@few
@given(seed=seeds, method=st.sampled_from(["cells", "basic", "tree"]))
def test_all_parties_have_the_same_history(seed, method):
    results = run_fit(parameters(method=method), random_parties(seed, 4), seed=seed)
    by_group = {}
    for result in results.values():
        for merge in result.merges:
            assert by_group.setdefault(merge.group, merge.moved) == merge.moved


@pytest.mark.parametrize("seed", range(4))
def test_moved_counts_the_nodes_of_cells_that_change_their_cluster(seed):
    data = random_parties(seed, 3, n_nodes=60)
    seen, refill = [], joint_kmeans.refill_empty_clusters

    def watched(labels, *more):
        seen.append(labels)
        return refill(labels, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_kmeans, "refill_empty_clusters", watched)
        results, calls = spied_fit(patch, parameters(n_init=1, n_local_clusters=5), data, seed=seed)
    (merge,), (call,) = results["party-1"].merges, calls.values()
    assert merge.converged
    steps = [*seen[:: len(data)], call.labels["party-1"]]  # every party fills for itself, and the last round fills none
    moved = [int(call.sizes[later != earlier].sum()) for earlier, later in pairwise(steps)]
    assert merge.moved[1:] == moved
    assert call.sizes.max() > 1


def test_a_cost_may_be_larger_than_any_distance_that_was_compared():
    """Nodes lie far from their cell, in many columns of noise, and the cells near each other."""
    random, graph = np.random.RandomState(0), Graph.from_matrix(np.zeros((200, 200)))
    tables = {name: 1.5 * random.normal(size=(200, 30)) for name in ("party-1", "party-2")}
    data = {name: PartyData.build(name, graph, table, HalfFilter(1)) for name, table in tables.items()}
    chosen = parameters(scaling="US", n_components=30, n_clusters=2, n_local_clusters=2)
    for result in run_fit(chosen, data).values():
        assert result.cost > 2 * MAX_LONG_DISTANCE
