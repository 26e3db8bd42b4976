"""Collaborative equals pooled: what the protocols compute on masked sums is what one party with all columns would."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from collaborations import limits_of, parameters, pooled_kmeans, random_parties, run_fit, spied_fit

few = settings(max_examples=25)
seeds = st.integers(0, 10_000)


def pooled(call, members, chosen):
    rows = [call.rows[member] for member in members]
    return pooled_kmeans(rows, call.sizes, call.k, call.starts, call.seed, chosen.max_iter, *limits_of(chosen))


@few
@given(
    seed=seeds, n_parties=st.integers(2, 6), k=st.integers(1, 5), aggregator=st.sampled_from(["coordinator", "party"])
)
def test_basic_gives_the_labels_of_pooled_kmeans_from_the_same_starts(seed, n_parties, k, aggregator):
    data = random_parties(seed, n_parties)
    chosen = parameters(method="basic", n_clusters=k, n_init=3, aggregator=aggregator)
    with pytest.MonkeyPatch.context() as patch:
        results, calls = spied_fit(patch, chosen, data, seed=seed)
    expected = pooled(calls["all"], data, chosen)
    for result in results.values():
        np.testing.assert_array_equal(result.labels, expected)


@few
@given(seed=seeds, n_parties=st.integers(2, 4), virtual=st.sampled_from(["cell", "local"]))
def test_optimized_equals_weighted_kmeans_on_the_pooled_cells(seed, n_parties, virtual):
    data = random_parties(seed, n_parties, n_nodes=40)
    chosen = parameters(n_init=3, virtual_nodes=virtual)
    with pytest.MonkeyPatch.context() as patch:
        results, calls = spied_fit(patch, chosen, data, seed=seed)
    assume(calls)  # as many cells as clusters need no sums
    (call,) = calls.values()
    expected = pooled(call, data, chosen)
    for name, result in results.items():
        np.testing.assert_array_equal(call.labels[name], expected)
        assert len(np.unique(result.labels)) <= chosen.n_clusters


@few
@given(seed=seeds, n_parties=st.integers(2, 7), fan_in=st.integers(2, 4))
def test_every_merge_of_a_tree_equals_weighted_kmeans_on_its_pooled_cells(seed, n_parties, fan_in):
    data = random_parties(seed, n_parties, n_nodes=40)
    chosen = parameters(method="tree", fan_in=fan_in)
    with pytest.MonkeyPatch.context() as patch:
        results, calls = spied_fit(patch, chosen, data, seed=seed)
    for call in calls.values():
        members = [name for name in data if name in call.rows]
        expected = pooled(call, members, chosen)
        for member in members:
            np.testing.assert_array_equal(call.labels[member], expected)
    first, *others = results.values()
    for other in others:
        np.testing.assert_array_equal(other.labels, first.labels)


@few
@given(seed=seeds, method=st.sampled_from(["basic", "cells", "tree"]))
def test_coordinator_and_party_give_the_same_labels(seed, method):
    data = random_parties(seed, 4)
    neutral = run_fit(parameters(method=method), data, seed=seed)["party-1"].labels
    with_data = run_fit(parameters(method=method, aggregator="party"), data, seed=seed)["party-1"].labels
    np.testing.assert_array_equal(neutral, with_data)


@few
@given(seed=seeds, method=st.sampled_from(["basic", "cells"]), order=st.permutations(range(4)))
def test_the_order_of_parties_changes_nothing(seed, method, order):
    data = random_parties(seed, 4)
    chosen = parameters(method=method, n_init=3)
    turned = {f"party-{place}": data[f"party-{number + 1}"] for place, number in enumerate(order, start=1)}
    np.testing.assert_array_equal(
        run_fit(chosen, data, seed=seed)["party-1"].labels, run_fit(chosen, turned, seed=seed)["party-1"].labels
    )


@few
@given(seed=seeds, method=st.sampled_from(["basic", "cells", "tree"]), interleaving=st.data(), party=st.booleans())
def test_labels_do_not_depend_on_the_interleaving_of_messages(seed, method, interleaving, party):
    data = random_parties(seed, 5, n_nodes=20)
    chosen = parameters(method=method, aggregator="party" if party else "coordinator", fan_in=2, max_iter=5)

    def choose(ready):
        return interleaving.draw(st.integers(0, len(ready) - 1))

    np.testing.assert_array_equal(
        run_fit(chosen, data, seed=seed)["party-1"].labels,
        run_fit(chosen, data, seed=seed, choose=choose)["party-1"].labels,
    )


@pytest.mark.parametrize("method", ["basic", "cells"])
@pytest.mark.parametrize("aggregator", ["coordinator", "party"])
def test_ties_go_to_the_lowest_cluster_for_every_aggregator(method, aggregator):
    """Rows on a grid: many equal distances, in an order that the coordinator does not see."""
    data = random_parties(1, 3, n_nodes=24)
    grid = {
        name: type(one)(one.graph, np.indices((4, 6)).reshape(2, -1).T[:, [number % 2]].astype(float), one.filter)
        for number, (name, one) in enumerate(data.items())
    }
    chosen = parameters(method=method, aggregator=aggregator, scaling="US", n_clusters=4, n_init=4)
    with pytest.MonkeyPatch.context() as patch:
        _, calls = spied_fit(patch, chosen, grid, seed=3)
    (call,) = calls.values()
    expected = pooled(call, grid, chosen)
    np.testing.assert_array_equal(call.labels["party-1"], expected)
