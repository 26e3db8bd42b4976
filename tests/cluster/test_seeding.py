from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.cluster import fit_kmeans, local_search, plus_plus
from kcagc.cluster.kmeans import _SwapState
from kcagc.cluster.lloyd import squared_distances


def cost(rows, weights, centers):
    return float(weights @ squared_distances(rows, centers).min(axis=1))


def problem(seed, n=30, dimensions=3):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, dimensions)), random.uniform(0.5, 2.0, n)


def optimum(rows, weights, k):
    """The least cost over all partitions, for a handful of rows."""
    best = np.inf
    for labels in product(range(k), repeat=len(rows)):
        codes = np.array(labels)
        total = 0.0
        for label in set(labels):
            members, mass = rows[codes == label], weights[codes == label]
            total += mass @ ((members - mass @ members / mass.sum()) ** 2).sum(axis=1)
        best = min(best, total)
    return best


@given(st.integers(0, 1000), st.integers(1, 8), st.integers(0, 20))
def test_swaps_never_cost_more_and_keep_k_distinct_rows(seed, k, swaps):
    rows, weights = problem(seed)
    chosen = plus_plus(rows, weights, k, np.random.RandomState(seed))
    swapped = local_search(rows, weights, chosen, swaps, np.random.RandomState(seed))
    assert len(set(swapped.tolist())) == len(set(chosen.tolist())) == k
    assert cost(rows, weights, rows[swapped]) <= cost(rows, weights, rows[chosen]) * (1 + 1e-9)


@given(st.integers(0, 1000), st.integers(1, 6))
def test_the_two_nearest_stay_right_through_exchanges(seed, k):
    rows, _ = problem(seed)
    random = np.random.default_rng(seed)
    centers = rows[:k].copy()
    near = _SwapState(rows, centers)
    for _ in range(6):
        leaving, candidate = int(random.integers(k)), int(random.integers(len(rows)))
        centers[leaving] = rows[candidate]
        near.exchange(leaving, rows[candidate], squared_distances(rows, rows[candidate : candidate + 1])[:, 0])
        wanted = np.sort(np.column_stack([squared_distances(rows, centers), np.full(len(rows), np.inf)]), axis=1)
        np.testing.assert_allclose(near.first, wanted[:, 0], atol=1e-12)
        np.testing.assert_allclose(near.second, wanted[:, 1], atol=1e-12)
        to_owner = squared_distances(rows, centers)[np.arange(len(rows)), near.owner]
        np.testing.assert_allclose(to_owner, near.first, atol=1e-12)


def test_where_every_row_is_a_centre_swaps_do_not_chase_rounding_errors(monkeypatch):
    rows = np.random.default_rng(0).standard_normal((100, 20))
    monkeypatch.setattr(_SwapState, "exchange", None)
    chosen = plus_plus(rows, np.ones(100), 100, np.random.RandomState(0))
    assert sorted(local_search(rows, np.ones(100), chosen, 100, np.random.RandomState(0))) == list(range(100))
    assert fit_kmeans(rows, 100, random_state=0).inertia == pytest.approx(0, abs=1e-20)


def test_rows_are_drawn_in_proportion_to_their_weight():
    rows, weights = np.array([[0.0], [1.0]]), np.array([1.0, 9.0])
    drawn = [plus_plus(rows, weights, 1, np.random.RandomState(seed))[0] for seed in range(1000)]
    assert np.mean(drawn) == pytest.approx(0.9, abs=0.04)
    rows, weights = np.array([[0.0], [1.0], [-1.0]]), np.array([1e9, 1.0, 9.0])
    drawn = [plus_plus(rows, weights, 2, np.random.RandomState(seed))[1] for seed in range(1000)]
    assert np.mean(np.equal(drawn, 2)) == pytest.approx(0.9, abs=0.04)


def test_swaps_repair_a_bad_start():
    """Two centres in one blob and none in another: plain Lloyd never recovers from it, swaps do."""
    random = np.random.default_rng(0)
    blobs = np.concatenate([random.normal(place, 0.1, (20, 2)) for place in (0.0, 10.0, 20.0)])
    bad = np.array([0, 1, 20])
    good = local_search(blobs, np.ones(60), bad, 20, np.random.RandomState(0))
    assert sorted(index // 20 for index in good) == [0, 1, 2]


def test_swaps_on_rows_that_are_all_centres_do_nothing():
    rows = np.arange(3.0)[:, None]
    chosen = np.arange(3)
    assert (local_search(rows, np.ones(3), chosen, 5, np.random.RandomState(0)) == chosen).all()


def test_a_row_without_weight_is_never_drawn():
    rows, weights = problem(0)
    weights[::2] = 0
    for seed in range(20):
        chosen = plus_plus(rows, weights, 4, np.random.RandomState(seed))
        assert (local_search(rows, weights, chosen, 10, np.random.RandomState(seed)) % 2 == 1).all()


@pytest.mark.parametrize("k", [1, 2, 3])
@given(st.integers(0, 200))
def test_no_clustering_costs_less_than_the_optimum(k, seed):
    rows, weights = problem(seed, n=7, dimensions=2 + seed % 3)
    found = fit_kmeans(rows, k, weights=weights, n_init=1, random_state=seed)
    assert found.inertia >= optimum(rows, weights, k) * (1 - 1e-9)
