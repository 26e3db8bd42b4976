"""Parts of the protocols, each alone: packing, cells, initial cells, answers, distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from kcagc.cluster.lloyd import squared_distances
from kcagc.errors import PeerError
from kcagc.protocol import cells as cells_module
from kcagc.protocol.aggregator import (
    LOOKAHEAD,
    TIE_TOLERANCE,
    best_restart,
    compare_columns,
    draw_rows,
    restarts_to_stop,
)
from kcagc.protocol.cells import draw, initial_cells, intersect, random_for, virtual_nodes, without_duplicates
from kcagc.protocol.joint_kmeans import refill_empty_clusters, reproducible_distances
from kcagc.protocol.messages import bits_for, pack, packed_size, unpack
from kcagc.secagg.masks import ONE, encode


@given(count=st.integers(1, 300), data=st.data())
def test_packed_numbers_come_back_in_the_fewest_bits(count, data):
    values = np.array(data.draw(st.lists(st.integers(0, count - 1), max_size=50)), dtype=np.int64)
    packed = pack(values, count)
    assert len(packed) == packed_size(len(values), count) == -(-len(values) * bits_for(count) // 8)
    assert 2 ** bits_for(count) >= count > 2 ** (bits_for(count) - 1) - (count == 1)
    np.testing.assert_array_equal(unpack(packed, len(values), count, "x", "labels"), values)


def test_packed_numbers_out_of_range_or_of_the_wrong_length_name_their_sender():
    five = pack(np.array([0, 4, 7]), 8)
    with pytest.raises(PeerError, match=r"ann: labels: 7 is out of range, there are 5"):
        unpack(five, 3, 5, "ann", "labels")
    with pytest.raises(PeerError, match="ann: labels: 2 bytes where 3 were expected"):
        unpack(five, 6, 5, "ann", "labels")
    with pytest.raises(PeerError, match="last bits"):
        unpack(b"\xff", 3, 2, "ann", "flags")


@given(npst.arrays(np.int64, (3, 25), elements=st.integers(0, 4)))
def test_cells_are_the_nonempty_intersections_numbered_by_smallest_node(labels):
    cells = intersect(list(labels))
    assert len(cells) == len({tuple(column) for column in labels.T})
    assert cells.sizes.sum() == 25
    np.testing.assert_array_equal(np.bincount(cells.of_node), cells.sizes)
    np.testing.assert_array_equal(cells.codes[cells.of_node], labels.T)
    firsts = [int(np.flatnonzero(cells.of_node == cell)[0]) for cell in range(len(cells))]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("table", [0, 4])
@pytest.mark.parametrize("largest", [100, 1 << 62])
def test_cells_are_the_same_however_their_codes_are_counted(table, largest, monkeypatch):
    labels = [np.random.RandomState(seed).randint(6, size=400) for seed in range(4)]
    wanted = intersect(labels)
    monkeypatch.setattr(cells_module, "_TABLE_SIZE", table)
    monkeypatch.setattr(cells_module, "_MAX_CODE", largest)
    found = intersect(labels)
    for field in ("of_node", "sizes", "codes"):
        np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field))


def test_many_clusterings_of_many_clusters_do_not_overflow():
    labels = [np.random.RandomState(seed).randint(1000, size=500) for seed in range(16)]
    assert len(intersect(labels)) == 500


def test_virtual_nodes_are_the_means_of_cells_or_of_local_clusters():
    rows = np.array([[0.0], [2.0], [10.0], [14.0]])
    own, other = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    cells = intersect([own, other])
    np.testing.assert_array_equal(virtual_nodes(rows, cells, "cell", own), [[0.0], [2.0], [12.0]])
    np.testing.assert_array_equal(virtual_nodes(rows, cells, "local", own), [[1.0], [1.0], [12.0]])


@given(seed=st.integers(0, 1000), k=st.integers(1, 6))
def test_initial_cells_are_different_and_the_same_at_every_party(seed, k):
    random = np.random.RandomState(seed)
    cells = intersect([random.randint(4, size=60) for _ in range(3)])
    found = initial_cells(cells.codes, cells.sizes, k, 4, seed)
    assert found.shape == (4, k)
    assert all(len(set(start)) == k for start in found.tolist())
    np.testing.assert_array_equal(found, initial_cells(cells.codes[:, ::-1], cells.sizes, k, 4, seed))


def test_initial_cells_and_draws_never_change_within_a_protocol_version():
    """Parties may run different versions of everything: these numbers must never change within a protocol version."""
    codes = np.stack([np.arange(40) % 5, np.arange(40) // 8], axis=1)
    found = initial_cells(codes, np.arange(1, 41), 4, 2, 12345)
    assert found.tolist() == STARTS
    assert [draw(np.arange(1, 41), random_for(12345, 1, number)) for number in range(4)] == DRAWS


STARTS = [[37, 8, 31, 18], [29, 23, 16, 32]]
DRAWS = [36, 27, 25, 15]


def test_a_proposal_that_names_a_row_twice_is_completed():
    sizes = np.ones(6, dtype=np.int64)
    found = without_duplicates(np.array([3, 3, 1]), sizes, random_for(0))
    assert len(set(found.tolist())) == 3
    assert {3, 1} <= set(found.tolist())


distances = npst.arrays(np.float64, (2, 12, 4), elements=st.floats(0, 4))


@given(distances)
def test_the_aggregator_compares_sums_as_one_party_compares_its_distances(values):
    sums = encode(values).view(np.int64)
    answer = compare_columns("all", 0, sums, with_margin=True)
    flat = values.reshape(-1, 4)
    winners = unpack(answer.winners, len(flat), 4, "x", "winners")
    clear = unpack(answer.clear, len(flat), 2, "x", "clear")
    tied = np.sort(flat, axis=1)
    tied = tied[:, 1] - tied[:, 0] < 2 * TIE_TOLERANCE / ONE
    np.testing.assert_array_equal(winners[~tied], flat.argmin(axis=1)[~tied])
    best_two = np.sort(flat, axis=1)[:, :2]
    expected = 9 * best_two[:, 0] <= best_two[:, 1]
    edge = np.abs(9 * best_two[:, 0] - best_two[:, 1]) < 20 * TIE_TOLERANCE / ONE
    np.testing.assert_array_equal(clear[~edge], expected[~edge])


def test_ties_are_all_reported():
    sums = np.array([[[5 * ONE, 3 * ONE + 7, 3 * ONE, 3 * ONE + TIE_TOLERANCE], [0, ONE, ONE, ONE]]])
    answer = compare_columns("all", 0, sums, with_margin=False)
    assert unpack(answer.winners, 2, 4, "x", "").tolist() == [1, 0]
    rows, positions = np.frombuffer(answer.tied_rows, "<u8"), np.frombuffer(answer.tied_positions, "<u4")
    assert list(zip(rows.tolist(), positions.tolist(), strict=True)) == [(0, 2), (0, 3)]
    assert answer.clear == b""


def test_comparing_the_largest_sums_does_not_overflow():
    sums = np.array([[[2**62, 2**62 - 1], [2**62, 2**61]]])
    assert unpack(compare_columns("all", 0, sums, with_margin=True).clear, 2, 2, "x", "").tolist() == [0, 0]


def test_the_restart_with_the_lowest_cost_wins_and_of_equal_ones_the_first():
    assert best_restart({0: 5 * ONE, 1: 3 * ONE, 2: 3 * ONE - 1}) == 1
    assert best_restart({2: 3 * ONE - 1, 1: 3 * ONE, 0: 5 * ONE}) == 1  # in any order
    assert best_restart({0: 3 * ONE + TIE_TOLERANCE + 1, 4: 3 * ONE}) == 4
    assert best_restart({}) == 0


def test_a_restart_stops_if_three_more_such_falls_would_not_reach_the_lowest_cost():
    least, fall = 10 * ONE, ONE
    edge = least + LOOKAHEAD * fall + TIE_TOLERANCE
    before = {1: edge + fall, 2: edge + 1 + fall, 3: least}
    assert restarts_to_stop(before, {1: edge, 2: edge + 1, 3: least}, least) == (2,)


def test_a_restart_without_an_earlier_cost_does_not_stop():
    assert restarts_to_stop({}, {0: 100 * ONE, 1: ONE}, ONE) == ()


def test_a_restart_whose_cost_has_risen_is_expected_to_stay():
    """As after an empty cluster was filled."""
    assert restarts_to_stop({0: 4 * ONE}, {0: 5 * ONE}, 5 * ONE) == ()
    assert restarts_to_stop({0: 4 * ONE}, {0: 5 * ONE}, 5 * ONE - TIE_TOLERANCE - 1) == (0,)


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), min_size=1))
def test_the_best_restart_never_stops(costs):
    before, now = ({start: pair[when] for start, pair in costs.items()} for when in (0, 1))
    known = before | now
    best = best_restart(known)
    assert best not in restarts_to_stop(before, now, known[best])
    assert len(restarts_to_stop(before, now, known[best])) < len(known)


def test_rows_are_drawn_by_their_smallest_sum():
    sums = np.array([[[0, 9], [3, 1], [0, 0], [5, 3]]]) * ONE
    drawn = [draw_rows(sums, [seed])[0] for seed in range(800)]
    counts = np.bincount(drawn, minlength=4)
    assert counts[0] == counts[2] == 0
    assert counts[3] / counts[1] == pytest.approx(3, rel=0.25)


def test_rows_that_all_coincide_are_still_drawn():
    assert 0 <= draw_rows(np.zeros((1, 5, 2), dtype=np.int64), [0])[0] < 5


@given(
    npst.arrays(np.float64, (9, 3), elements=st.floats(-2, 2)),
    npst.arrays(np.float64, (4, 3), elements=st.floats(-2, 2)),
)
def test_reproducible_distances_are_distances(rows, centers):
    found = reproducible_distances(rows, centers)
    np.testing.assert_allclose(found, squared_distances(rows, centers), atol=1e-13)
    np.testing.assert_array_equal(found[:1], reproducible_distances(rows[:1], centers))
    assert (reproducible_distances(rows, rows).diagonal() == 0).all()


@settings(max_examples=100)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(0, 100))
def test_empty_clusters_are_refilled_from_clusters_with_several_rows(labels, seed):
    labels = np.array(labels)
    filled = refill_empty_clusters(labels, np.ones(len(labels), dtype=np.int64), 5, (seed,))
    assert len(np.unique(filled)) == min(5, len(labels))
    kept = np.unique(labels)
    assert set(kept) <= set(filled.tolist())
