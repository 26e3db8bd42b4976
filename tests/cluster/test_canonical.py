import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from kcagc.cluster.canonical import canonical_rows

tables = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0])
)


@given(tables, st.randoms(use_true_random=False))
def test_rows_are_distinct_sorted_and_found_again(rows, random):
    weights = np.array([random.choice([0.1, 0.2, 0.3, 1.0]) for _ in rows])
    found = canonical_rows(rows, weights)
    assert_array_equal(found.rows[found.inverse], rows)
    assert [tuple(row) for row in found.rows] == sorted({tuple(row) for row in rows + 0.0})
    for place in range(len(found.rows)):
        np.testing.assert_allclose(found.weights[place], weights[found.inverse == place].sum())


@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_not_one_bit(rows, random):
    weights = np.array([random.choice([0.1, 0.2, 0.3, 0.7]) for _ in rows])
    order = np.array(random.sample(range(len(rows)), len(rows)))
    one, other = canonical_rows(rows, weights), canonical_rows(rows[order], weights[order])
    assert_array_equal(one.rows, other.rows)
    assert one.weights.tobytes() == other.weights.tobytes()
    assert_array_equal(one.inverse[order], other.inverse)
