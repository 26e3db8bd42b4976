"""Secret orders: all are equally likely, everything they hang on changes them, and they can be undone."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.stats import chi2

from kcagc.secagg.blinding import Shuffle
from secagg.parties import LABEL, SESSION, fixed, flipped

KEY = fixed("shuffle key")
shapes = st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(0, 6))
WIDE = (256, 257)  # the most columns that half words put in order, and one more
keys = st.binary(min_size=32, max_size=32)


def shuffle_of(shape, key=KEY, session=SESSION, label=LABEL):
    return Shuffle.from_key(key, session, label, shape)


def numbered(shape):
    return np.arange(np.prod(shape)).reshape(shape)


def evenly(counts):
    """Whether counts of equally likely things are no stranger than one in a million, uneven or too even."""
    expected = counts.sum() / counts.size
    return 1e-6 < chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1) < 1 - 1e-6


def numbers_of_orders(orders):
    """Each row, an order, as its number among all orders of that many things."""
    n = orders.shape[-1]
    known = {order: number for number, order in enumerate(permutations(range(n)))}
    return np.array([known[tuple(order)] for order in orders.reshape(-1, n).tolist()])


@given(shapes, keys)
def test_every_start_has_an_order_of_rows_and_every_row_one_of_columns(shape, key):
    starts, rows, columns = shape
    shuffle = shuffle_of(shape, key)
    assert shuffle.rows.shape == (starts, rows)
    assert shuffle.columns.shape == shape
    assert_array_equal(np.sort(shuffle.rows, axis=1), np.tile(np.arange(rows), (starts, 1)))
    assert_array_equal(np.sort(shuffle.columns, axis=2), np.tile(np.arange(columns), (starts, rows, 1)))


@given(shapes, keys)
def test_shuffling_moves_whole_rows_and_within_them_columns(shape, key):
    starts, rows, columns = shape
    shuffle, values = shuffle_of(shape, key), numbered(shape)
    found = shuffle.apply(values)
    for start in range(starts):
        for row in range(rows):
            source = values[start, shuffle.rows[start, row]]
            assert_array_equal(found[start, row], source[shuffle.columns[start, row]])
    assert_array_equal(np.sort(found, axis=None), np.sort(values, axis=None))
    assert columns == found.shape[2]


@given(shapes, keys)
def test_restoring_undoes_the_order_of_rows(shape, key):
    starts, rows, _ = shape
    shuffle, values = shuffle_of(shape, key), numbered((starts, rows))
    shuffled = np.take_along_axis(values, shuffle.rows, axis=1)
    assert_array_equal(shuffle.restore_rows(shuffled), values)
    assert_array_equal(np.take_along_axis(shuffle.restore_rows(values), shuffle.rows, axis=1), values)
    assert shuffle.restore_rows(shuffled.astype(bool)).dtype == bool


@given(shapes.filter(lambda shape: shape[2] > 0), keys)
def test_what_is_found_in_shuffled_rows_can_be_told_of_the_rows_themselves(shape, key):
    """As parties do: somebody names the smallest position of each shuffled row."""
    values = np.random.default_rng(list(key)).permutation(np.prod(shape)).reshape(shape)
    shuffle = shuffle_of(shape, key)
    found = shuffle.apply(values).argmin(axis=2)
    columns = np.take_along_axis(shuffle.columns, found[:, :, None], axis=2)[:, :, 0]
    assert_array_equal(shuffle.restore_rows(columns), values.argmin(axis=2))


@given(shapes, keys, st.binary(max_size=20))
def test_two_parties_with_the_same_key_have_the_same_order(shape, key, label):
    one, other = shuffle_of(shape, key, label=label), shuffle_of(shape, key, label=label)
    assert_array_equal(one.rows, other.rows)
    assert_array_equal(one.columns, other.columns)


@pytest.mark.parametrize(
    "change",
    [
        {"label": b"another label"},
        {"label": LABEL + b"\0"},
        {"label": b""},
        {"session": fixed("another session")},
        *({"session": flipped(SESSION, bit)} for bit in (0, 77, 255)),
        *({"key": flipped(KEY, bit)} for bit in (0, 77, 255)),
        {"shape": (2, 60, 9)},
        {"shape": (2, 60, 0)},
        {"shape": (1, 60, 8)},
        {"shape": (8, 60, 2)},
        {"key": SESSION, "session": KEY},
    ],
    ids=repr,
)
def test_orders_change_with_everything_they_hang_on(change):
    one, other = shuffle_of((2, 60, 8)), shuffle_of(**{"shape": (2, 60, 8)} | change)
    assert (one.rows[0] != other.rows[0]).mean() > 0.8
    if one.columns.shape == other.columns.shape:
        assert (one.columns != other.columns).mean() > 0.7


def test_no_two_starts_and_no_two_rows_share_an_order():
    shuffle = shuffle_of((20, 30, 20))
    assert len({tuple(order) for order in shuffle.rows.tolist()}) == 20
    assert len({tuple(order) for rows in shuffle.columns.tolist() for order in rows}) == 600


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_of_a_few_rows_are_equally_likely(n):
    orders = shuffle_of((24_000, n, 1)).rows
    assert evenly(np.bincount(numbers_of_orders(orders), minlength=len(list(permutations(range(n))))))


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_orders_of_a_few_columns_are_equally_likely(n):
    orders = shuffle_of((8_000, 3, n)).columns
    assert evenly(np.bincount(numbers_of_orders(orders), minlength=len(list(permutations(range(n))))))


def test_the_orders_of_rows_and_of_columns_have_nothing_to_do_with_each_other():
    shuffle = shuffle_of((20_000, 3, 3))
    rows = numbers_of_orders(shuffle.rows)
    for row in range(3):
        columns = numbers_of_orders(shuffle.columns[:, row])
        assert evenly(np.bincount(6 * rows + columns, minlength=36))
    first, second = (numbers_of_orders(shuffle.columns[:, row]) for row in (0, 1))
    assert evenly(np.bincount(6 * first + second, minlength=36))


def test_any_row_comes_to_any_place_equally_often():
    orders = shuffle_of((20_000, 12, 0)).rows
    for place in range(12):
        assert evenly(np.bincount(orders[:, place], minlength=12))


@pytest.mark.parametrize("columns", WIDE)
def test_many_columns_have_orders_that_can_be_undone(columns):
    shape = (2, 3, columns)
    shuffle, values = shuffle_of(shape), numbered(shape)
    assert_array_equal(np.sort(shuffle.columns, axis=2), np.tile(np.arange(columns), (2, 3, 1)))
    found = shuffle.apply(values)
    back = np.empty_like(found)
    np.put_along_axis(back, shuffle.columns, found, axis=2)
    for start in range(2):
        assert_array_equal(shuffle.restore_rows(back[start, :, 0][None].repeat(2, axis=0))[start], values[start, :, 0])


@pytest.mark.parametrize("columns", WIDE)
def test_any_of_many_columns_comes_to_any_place_equally_often(columns):
    """In sixteen parts of places: the low bits, in which positions stand while they are sorted, favour none."""
    orders = shuffle_of((60, 50, columns)).columns.reshape(-1, columns)[:, :256]
    for part in (0, 100, 255):
        assert evenly(np.bincount(orders[:, part] * 16 // columns, minlength=16))
    places = np.argsort(shuffle_of((60, 50, columns)).columns, axis=2).reshape(-1, columns)
    for column in (0, 1, 128, columns - 1):
        assert evenly(np.bincount(places[:, column] * 16 // columns, minlength=16))


@pytest.mark.parametrize("columns", WIDE)
def test_of_any_two_of_many_columns_either_comes_first_equally_often(columns):
    places = np.argsort(shuffle_of((100, 100, columns)).columns, axis=2).reshape(-1, columns)
    for one, other in [(0, 1), (0, columns - 1), (127, 128), (columns - 2, columns - 1)]:
        first = int((places[:, one] < places[:, other]).sum())
        assert evenly(np.array([first, len(places) - first]))


def test_all_orders_of_three_columns_are_equally_likely_under_many_labels():
    """Each label has a key of its own, as each sum has."""
    orders = [shuffle_of((1, 4, 3), label=b"sum %d" % number).columns for number in range(3_000)]
    assert evenly(np.bincount(numbers_of_orders(np.concatenate(orders)), minlength=6))


def test_as_many_rows_as_a_graph_has_nodes_are_put_in_order():
    rows = shuffle_of((1, 100_003, 1)).rows[0]
    assert_array_equal(np.sort(rows), np.arange(100_003))
    assert abs(np.corrcoef(rows, np.arange(100_003))[0, 1]) < 0.02
