"""Parts of the protocols, each alone: packing, cells, initial cells, distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from kcagc.cluster.lloyd import squared_distances
from kcagc.errors import PeerError
from kcagc.protocol import cells as cells_module
from kcagc.protocol.cells import draw, initial_cells, intersect, random_for, virtual_nodes, without_duplicates
from kcagc.protocol.joint_kmeans import refill_empty_clusters, reproducible_distances
from kcagc.protocol.messages import bits_for, pack, packed_size, unpack


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
