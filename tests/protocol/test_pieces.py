"""The pieces of the protocols, each on its own: packing, cells, seeds, answers, distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from kcagc.cluster.lloyd import squared_distances
from kcagc.errors import PeerError
from kcagc.protocol import cells as cells_module
from kcagc.protocol.answers import OUTLOOK, TIE, cheapest, hopeless, judge, positions_of, sample
from kcagc.protocol.cells import intersect, virtual_nodes
from kcagc.protocol.distances import reproducible_distances
from kcagc.protocol.joint_kmeans import refilled
from kcagc.protocol.packing import bits_for, pack, packed_size, unpack, unpack_bits
from kcagc.protocol.seeds import distinct, draw, random_for, starts_from_codes
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
    with pytest.raises(PeerError, match="ann: labels: 2 bytes where 3 were due"):
        unpack(five, 6, 5, "ann", "labels")
    with pytest.raises(PeerError, match="last bits"):
        unpack_bits(b"\xff", 3, "ann", "flags")


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
    monkeypatch.setattr(cells_module, "_TABLE", table)
    monkeypatch.setattr(cells_module, "_LARGEST_CODE", largest)
    found = intersect(labels)
    for field in ("of_node", "sizes", "codes"):
        np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field))


def test_many_clusterings_of_many_clusters_do_not_overflow():
    labels = [np.random.RandomState(seed).randint(1000, size=500) for seed in range(16)]
    assert len(intersect(labels)) == 500


def test_virtual_nodes_stand_at_the_mean_of_the_cell_or_of_the_local_cluster():
    rows = np.array([[0.0], [2.0], [10.0], [14.0]])
    own, other = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    cells = intersect([own, other])
    np.testing.assert_array_equal(virtual_nodes(rows, cells, "cell", own), [[0.0], [2.0], [12.0]])
    np.testing.assert_array_equal(virtual_nodes(rows, cells, "local", own), [[1.0], [1.0], [12.0]])


@given(seed=st.integers(0, 1000), k=st.integers(1, 6))
def test_starts_from_codes_are_different_cells_and_the_same_for_everybody(seed, k):
    random = np.random.RandomState(seed)
    cells = intersect([random.randint(4, size=60) for _ in range(3)])
    found = starts_from_codes(cells.codes, cells.sizes, k, 4, seed)
    assert found.shape == (4, k)
    assert all(len(set(start)) == k for start in found.tolist())
    np.testing.assert_array_equal(found, starts_from_codes(cells.codes[:, ::-1], cells.sizes, k, 4, seed))


def test_starts_are_those_that_every_version_must_draw():
    """Parties may run different versions of everything: these numbers must never change within a protocol version."""
    codes = np.stack([np.arange(40) % 5, np.arange(40) // 8], axis=1)
    found = starts_from_codes(codes, np.arange(1, 41), 4, 2, 12345)
    assert found.tolist() == STARTS
    assert [draw(np.arange(1, 41), random_for(12345, 1, number)) for number in range(4)] == DRAWS


STARTS = [[37, 8, 31, 18], [29, 23, 16, 32]]
DRAWS = [36, 27, 25, 15]


def test_a_proposal_that_names_a_row_twice_is_completed():
    sizes = np.ones(6, dtype=np.int64)
    found = distinct(np.array([3, 3, 1]), sizes, random_for(0))
    assert len(set(found.tolist())) == 3
    assert {3, 1} <= set(found.tolist())


distances = npst.arrays(np.float64, (2, 12, 4), elements=st.floats(0, 4))


@given(distances)
def test_the_receiver_judges_sums_as_one_party_judges_its_distances(values):
    sums = encode(values).view(np.int64)
    verdict = judge(sums, by_nine=True)
    flat = values.reshape(-1, 4)
    winners = unpack(verdict.winners, len(flat), 4, "x", "winners")
    clear = unpack_bits(verdict.clear, len(flat), "x", "clear")
    tied = np.sort(flat, axis=1)
    tied = tied[:, 1] - tied[:, 0] < 2 * TIE / ONE
    np.testing.assert_array_equal(winners[~tied], flat.argmin(axis=1)[~tied])
    best_two = np.sort(flat, axis=1)[:, :2]
    expected = 9 * best_two[:, 0] <= best_two[:, 1]
    edge = np.abs(9 * best_two[:, 0] - best_two[:, 1]) < 20 * TIE / ONE
    np.testing.assert_array_equal(clear[~edge], expected[~edge])


def test_ties_are_all_reported():
    sums = np.array([[[5 * ONE, 3 * ONE + 7, 3 * ONE, 3 * ONE + TIE], [0, ONE, ONE, ONE]]])
    verdict = judge(sums, by_nine=False)
    assert unpack(verdict.winners, 2, 4, "x", "").tolist() == [1, 0]
    rows, positions = positions_of(verdict.tied_rows, verdict.tied_positions)
    assert list(zip(rows.tolist(), positions.tolist(), strict=True)) == [(0, 2), (0, 3)]
    assert verdict.clear == b""


def test_judging_the_largest_sums_does_not_overflow():
    sums = np.array([[[2**62, 2**62 - 1], [2**62, 2**61]]])
    assert unpack_bits(judge(sums, by_nine=True).clear, 2, "x", "").tolist() == [False, False]


def test_the_cheapest_start_wins_and_of_equal_ones_the_first():
    assert cheapest({0: 5 * ONE, 1: 3 * ONE, 2: 3 * ONE - 1}) == 1
    assert cheapest({2: 3 * ONE - 1, 1: 3 * ONE, 0: 5 * ONE}) == 1  # in whatever order they were told
    assert cheapest({0: 3 * ONE + TIE + 1, 4: 3 * ONE}) == 4
    assert cheapest({}) == 0


def test_a_start_is_given_up_where_even_falling_on_would_not_bring_it_down_to_the_least():
    least, fall = 10 * ONE, ONE
    edge = least + OUTLOOK * fall + TIE
    before = {1: edge + fall, 2: edge + 1 + fall, 3: least}
    assert hopeless(before, {1: edge, 2: edge + 1, 3: least}, least) == (2,)


def test_a_start_that_was_not_costed_before_is_not_given_up():
    assert hopeless({}, {0: 100 * ONE, 1: ONE}, ONE) == ()


def test_a_start_whose_cost_has_risen_is_taken_not_to_fall():
    """As after an empty cluster was filled."""
    assert hopeless({0: 4 * ONE}, {0: 5 * ONE}, 5 * ONE) == ()
    assert hopeless({0: 4 * ONE}, {0: 5 * ONE}, 5 * ONE - TIE - 1) == (0,)


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), min_size=1))
def test_the_cheapest_start_is_never_given_up(costs):
    before, now = ({start: pair[when] for start, pair in costs.items()} for when in (0, 1))
    known = before | now
    best = cheapest(known)
    assert best not in hopeless(before, now, known[best])
    assert len(hopeless(before, now, known[best])) < len(known)


def test_sampling_draws_rows_by_their_least_sum():
    sums = np.array([[[0, 9], [3, 1], [0, 0], [5, 3]]]) * ONE
    drawn = [sample(sums, [seed])[0] for seed in range(800)]
    counts = np.bincount(drawn, minlength=4)
    assert counts[0] == counts[2] == 0
    assert counts[3] / counts[1] == pytest.approx(3, rel=0.25)


def test_rows_that_all_coincide_are_still_drawn():
    assert 0 <= sample(np.zeros((1, 5, 2), dtype=np.int64), [0])[0] < 5


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
def test_empty_clusters_are_filled_from_those_with_rows_to_spare(labels, seed):
    labels = np.array(labels)
    filled = refilled(labels, np.ones(len(labels), dtype=np.int64), 5, (seed,))
    assert len(np.unique(filled)) == min(5, len(labels))
    kept = np.unique(labels)
    assert set(kept) <= set(filled.tolist())
