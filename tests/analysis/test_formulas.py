"""The figures are the paper's: worked out by hand on a few numbers, and by plain loops on random ones."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.planted import around, loop_c, loop_good, loop_norm, loop_restricted
from kcagc.analysis.clusters import Clusters, spectral_norm
from kcagc.analysis.conditions import conditions
from kcagc.analysis.theorem import bound, cell_ratio, common_c, restricted_proximity


def test_a_line_worked_out_by_hand():
    """Means 1, 11 and 30; X - C = (-1, 1, -1, 1, 0), so its norm is 2; k = 3 and the sizes are 2, 2 and 1."""
    found = conditions(around([[0], [2], [10], [12], [30]], ["a", "a", "b", "b", "c"]))
    assert found.clusters == ("a", "b", "c")
    assert found.sizes == (2, 2, 1)
    assert found.norm == pytest.approx(2)
    root3, root6 = 3**0.5, 6**0.5
    assert found.deltas == pytest.approx([root6, root6, 2 * root3])
    # a and b: 10 / (2 √6) = 2.04; b and c: 19 / (√6 + 2 √3) = 3.21; a and c: 29 / (√6 + 2 √3) = 4.90
    by_pair = {(pair.first, pair.second): pair for pair in found.pairs}
    assert found.c == pytest.approx(10 / (2 * root6))
    assert found.pair == ("a", "b")
    assert by_pair["b", "c"].c == pytest.approx(19 / (root6 + 2 * root3))
    assert by_pair["a", "c"].c == pytest.approx(29 / (root6 + 2 * root3))
    # Closest to the middle is the node at 2: 8 from b's mean and 1 from its own, 8 more than (2/√2) · 2 = 2.83.
    assert found.n_bad == 0


def test_a_node_in_the_middle_is_bad_worked_out_by_hand():
    """Means 2 and 10, X - C = (-2, -2, 4, 0, 0, 0) with norm √24; (1/√3 + 1/√3) √24 = 5.66.

    The node at 6 is as near to 10 as to 2: bad. Those at 0, beyond their mean, are closer to it by all of the 8.
    """
    found = conditions(around([[0], [0], [6], [10], [10], [10]], [0, 0, 0, 1, 1, 1]))
    assert found.norm == pytest.approx(24**0.5)
    assert (found.n_bad, found.good) == (1, pytest.approx(5 / 6))
    (pair,) = found.pairs
    assert (pair.bad, pair.nodes) == (1, 6)
    # At 9 its mean is 3, and (1/√3 + 1/√3) √54 = 8.49 is more than the 7 between the means: no node can be good.
    assert conditions(around([[0], [0], [9], [10], [10], [10]], [0, 0, 0, 1, 1, 1])).n_bad == 6


def test_the_wrong_side_is_that_of_the_other_nodes_worked_out_by_hand():
    """Without the node at 6 its cluster's mean is 0, which is further from it than 10; at 4 it is nearer."""
    (pair,) = conditions(around([[0], [0], [6], [10], [10], [10]], [0, 0, 0, 1, 1, 1])).pairs
    assert (pair.wrong_side, pair.more_in, pair.confused) == (1, 0, pytest.approx(1 / 3))
    assert not pair.separated
    (pair,) = conditions(around([[0], [0], [4], [10], [10], [10]], [0, 0, 0, 1, 1, 1])).pairs
    assert (pair.wrong_side, pair.separated) == (0, True)


def test_groups_drawn_by_lot_are_not_separated_in_many_columns_either():
    """To their own mean nearly all nodes are nearer, having pulled it; to that of the others half of them are."""
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(60, 200)), np.arange(60) % 3
    found = conditions(around(rows, labels))
    assert len(found.not_separated) == 3
    assert all(0.3 < pair.wrong_side / pair.nodes < 0.7 for pair in found.pairs)


def test_m0_worked_out_by_hand():
    """Target a has 4 nodes and b has 2; cells are (0,0): a a a, (0,1): a b, (1,1): b."""
    target = Clusters.of(list("aaaabb"), 6, "target")
    first = Clusters.of([0, 0, 0, 0, 0, 1], 6, "first")  # sizes 5 and 1
    second = Clusters.of([0, 0, 0, 1, 1, 1], 6, "second")  # sizes 3 and 3
    # a: cells (0,0) and, shared, (0,1): local sizes 5, 3, 5, 3. b: cells (0,1) and (1,1): 5, 3, 1, 3.
    assert cell_ratio(target, [first, second]) == pytest.approx([np.sqrt(4 / 3), np.sqrt(2 / 1)])


def test_a_stray_node_in_a_small_cluster_of_others_does_not_count_for_m0():
    """Cells of the first party: four of a, and one of a with two of b; the second has one cluster of all seven."""
    target = Clusters.of(list("aaaaabb"), 7, "target")
    first, second = Clusters.of([0, 0, 0, 0, 1, 1, 1], 7, "first"), Clusters.of([0] * 7, 7, "second")
    assert cell_ratio(target, [first, second]) == pytest.approx([np.sqrt(5 / 4), np.sqrt(2 / 3)])


def test_m0_of_a_target_that_leads_no_cell_takes_all_cells_it_is_in():
    target = Clusters.of(list("aaab"), 4, "target")
    everything = Clusters.of([0, 0, 0, 0], 4, "local")
    assert cell_ratio(target, [everything, everything]) == pytest.approx([np.sqrt(3 / 4), np.sqrt(1 / 4)])


@st.composite
def two_parties(draw):
    """Give two tables, a target and local targets that are neither trivial nor all alike."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, n = draw(st.integers(2, 4)), draw(st.integers(12, 30))
    labels = np.concatenate([np.arange(k), random.integers(k, size=n - k)])
    apart = draw(st.sampled_from([0.5, 3.0, 30.0]))
    tables = [apart * random.normal(size=(k, 3))[labels] + random.normal(size=(n, 3)) for _ in range(2)]
    moved = [np.where(random.random(n) < 0.1, random.integers(k, size=n), labels) for _ in range(2)]
    return tables, moved, labels


@given(two_parties())
def test_the_conditions_are_those_of_plain_loops(case):
    tables, _, labels = case
    for rows in (*tables, np.hstack(tables)):
        found = conditions(around(rows, labels))
        assert found.norm == pytest.approx(loop_norm(rows, labels))
        assert found.c == pytest.approx(loop_c(rows, labels))
        assert found.n_bad == np.sum(~loop_good(rows, labels))


@given(two_parties(), st.sampled_from([0.0, 0.5, 4.0]))
def test_the_restricted_condition_and_the_bound_are_those_of_plain_loops(case, order):
    tables, moved, labels = case
    locals_ = [around(table, own) for table, own in zip(tables, moved, strict=True)]
    joint = around(np.hstack(tables), labels)
    own = {str(number): conditions(one) for number, one in enumerate(locals_)}
    whole = conditions(joint)
    c = min(loop_c(np.hstack(tables), labels), *map(loop_c, tables, moved))
    assert common_c(whole, own) == pytest.approx(c)
    near = restricted_proximity(joint, whole.norm, locals_, c=c, order_constant=order)
    m0 = cell_ratio(joint.clusters, [one.clusters for one in locals_])
    assert near.violate_a == np.sum(~loop_restricted(tables, moved, labels, m0, order / c))
    assert near.violate_b == np.sum(~loop_restricted(tables, moved, labels, m0, 0.0))
    found = bound(whole, own, near, enough=100, order_constant=order)
    epsilon = max(np.mean(~loop_good(table, mine)) for table, mine in zip(tables, moved, strict=True))
    assert found.epsilon == pytest.approx(epsilon)
    assert found.formula == pytest.approx(min((2 * epsilon + order * 2 * c**-4) * len(labels), len(labels)))
    assert found.holds == (c > 100 and (near.violate_b if epsilon == 0 else near.violate_a) == 0)
    assert found.nodes == (0 if epsilon == 0 else found.formula) if found.holds else found.nodes == len(labels)


def test_the_norm_of_parts_side_by_side_is_that_of_the_joined_table():
    random = np.random.default_rng(0)
    tables = [random.normal(size=(70_000, width)) for width in (2, 3)]  # more rows than one block has
    labels = [random.integers(4, size=70_000) for _ in tables]
    parts = [around(table, own) for table, own in zip(tables, labels, strict=True)]
    joined = np.hstack([part.rows - part.means[part.clusters.codes] for part in parts])
    assert spectral_norm(parts) == pytest.approx(np.linalg.norm(joined, 2))


def test_nothing_larger_than_a_few_tables_is_held():
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(200_000, 8)), random.integers(5, size=200_000)
    given_ = around(rows, labels)
    tracemalloc.start()
    try:
        conditions(given_)
        assert tracemalloc.get_traced_memory()[1] < 3 * rows.nbytes
    finally:
        tracemalloc.stop()
