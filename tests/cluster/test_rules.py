import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from kcagc.cluster import clear_winners, fill_empty, nearest
from kcagc.cluster.rules import UNASSIGNED

# Small whole numbers make ties and zeros likely.
distance_tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 8), st.integers(1, 6)),
    elements=st.integers(0, 40).map(float),
)


@given(distance_tables)
def test_the_nearest_wins_and_ties_go_to_the_lowest_number(distances):
    for row, label in zip(distances, nearest(distances), strict=True):
        assert label == min(r for r in range(len(row)) if row[r] == row.min())


def test_distances_that_differ_by_rounding_count_as_equal():
    distances = np.array([[1.0 + 1e-13, 1.0], [1.1, 1.0]])
    assert_array_equal(nearest(distances), [1, 1])
    assert_array_equal(nearest(distances, norms=np.ones(2)), [0, 1])


def test_what_counts_as_rounding_is_a_rows_own_affair():
    """A far-away row must not blur the distances of the others."""
    distances = np.array([[1e-6, 0.0], [1e14, 1e14 + 1.0]])
    assert_array_equal(nearest(distances, norms=np.array([1.0, 1e14])), [1, 0])
    assert_array_equal(clear_winners(distances, norms=np.array([1.0, 1e14])), [1, UNASSIGNED])


@given(distance_tables)
def test_clear_winners_are_those_of_the_definition(distances):
    for row, label in zip(distances, clear_winners(distances), strict=True):
        clear = [r for r in range(len(row)) if all(row[r] <= row[s] / 9 for s in range(len(row)) if s != r)]
        assert label == (clear[0] if clear else UNASSIGNED)


@given(st.data(), st.integers(1, 12), st.integers(1, 6))
def test_no_cluster_stays_empty_that_could_be_filled(data, n, k):
    labels = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)))
    costs = np.array(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), dtype=float)
    weights = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=n, max_size=n)))
    filled = fill_empty(labels, costs * weights, weights, k)
    heavy = weights > 0
    assert len(np.unique(filled[heavy])) == min(k, np.count_nonzero(heavy))
    # rows are only ever moved into clusters that were empty, and the rest keep their labels
    was_empty = np.setdiff1d(np.arange(k), labels[heavy])
    moved = filled != labels
    assert np.isin(filled[moved], was_empty).all()
    assert moved.sum() <= len(was_empty)


def test_the_costliest_row_fills_the_first_empty_cluster():
    labels = np.array([0, 0, 0, 3])
    filled = fill_empty(labels, np.array([1.0, 5.0, 3.0, 9.0]), np.ones(4), 4)
    assert_array_equal(filled, [0, 1, 2, 3])
    assert_array_equal(labels, [0, 0, 0, 3])
