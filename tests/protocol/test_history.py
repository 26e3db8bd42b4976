"""What a result says of its iterations: one entry each, costs that fall, and a last one in which nothing moved."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from collaborations import parameters, random_parties, run_fit, spied_fit
from kcagc.protocol import joint_kmeans
from kcagc.protocol.aggregator import TIE_TOLERANCE
from kcagc.secagg.masks import ONE

few = settings(max_examples=20)
seeds = st.integers(0, 10_000)
ROUNDING = 2 * TIE_TOLERANCE / ONE


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
            assert len(merge.history) == merge.n_iter <= max_iter
            if merge.history:
                assert (merge.history[-1].moved == 0) == merge.converged
            assert all(0 <= one.moved <= 30 for one in merge.history)
            assert all((one.cost is None) == (n_init == 1) for one in merge.history)


@few
@given(seed=seeds, n_parties=st.integers(2, 4), method=st.sampled_from(["cells", "basic"]))
def test_costs_do_not_rise_and_end_at_what_the_pooled_rows_cost(seed, n_parties, method):
    data = random_parties(seed, n_parties)
    emptied = []
    refill = joint_kmeans.refill_empty_clusters

    def watched(labels, *more):
        filled = refill(labels, *more)
        emptied.append(filled is not labels)
        return filled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint_kmeans, "refill_empty_clusters", watched)
        results, calls = spied_fit(patch, parameters(method=method, n_init=4), data, seed=seed)
    assume(calls and not any(emptied))  # a row that fills an empty cluster may cost more for a round
    (call,) = calls.values()
    (merge,) = results["party-1"].merges
    costs = [one.cost for one in merge.history]
    assert all(later <= earlier + ROUNDING for earlier, later in pairwise(costs))
    rows, labels = np.hstack(list(call.rows.values())), call.labels["party-1"]
    away = 0.0
    for cluster in np.unique(labels):
        own, sizes = rows[labels == cluster], call.sizes[labels == cluster]
        away += float(sizes @ ((own - np.average(own, axis=0, weights=sizes)) ** 2).sum(axis=1))
    assert merge.converged
    assert costs[-1] == pytest.approx(away / call.sizes.sum(), abs=ROUNDING)


@few
@given(seed=seeds, method=st.sampled_from(["cells", "basic", "tree"]))
def test_all_parties_have_the_same_history(seed, method):
    results = run_fit(parameters(method=method), random_parties(seed, 4), seed=seed)
    by_group = {}
    for result in results.values():
        for merge in result.merges:
            assert by_group.setdefault(merge.group, merge.history) == merge.history


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
    assert [one.moved for one in merge.history[1:]] == moved
    assert call.sizes.max() > 1
