"""Theorem 1 against runs of the method itself: where it promises something, that is what happens."""

import numpy as np
import pytest

from analysis.planted import planted, strayed
from kcagc import KCAGC, diagnose
from kcagc.datasets import load
from kcagc.metrics import accuracy

ACCEPTED = ("revealing-labels",)  # planted clusters are few columns, and the labels repeat them


def misclassified(truth, found):
    return round(len(truth) * (1 - accuracy(truth, found)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parties", [2, 3])
def test_where_all_conditions_hold_nothing_is_misclassified(seed, parties):
    tables, graph, groups = planted(seed, parties=parties)
    model = KCAGC(n_clusters=3, n_local_clusters="k", psi=1, accept=ACCEPTED, random_state=seed)
    found = diagnose(model, tables, groups, adjacency=graph)
    assert found.bound.c > 100
    assert (found.joint.good, [party.own.good for party in found.parties]) == (1.0, [1.0] * parties)
    assert (found.restricted.share_a, found.restricted.share_b) == (1.0, 1.0)
    assert found.bound.holds
    assert found.bound.nodes == 0
    assert found.bound.formula < 1
    assert found.conclusions[0].startswith("Theorem 1 guarantees that no node is misclassified")
    assert misclassified(groups, model.fit(tables, adjacency=graph).labels_) == 0


def run_strayed(seed, size, stray, enough, virtual_nodes):
    tables, graph, groups = strayed(seed, size=size, stray=stray)
    model = KCAGC(
        n_clusters=2,
        n_local_clusters="k",
        n_components=2,
        psi=0,
        scaling="US",
        virtual_nodes=virtual_nodes,
        n_init=3,
        accept=ACCEPTED,
        random_state=seed,
    )
    found = diagnose(model, tables, groups, adjacency=graph, local_labels=[groups, groups], enough=enough)
    wrong = misclassified(groups, model.fit(tables, adjacency=graph).labels_)
    assert [party.own.n_bad for party in found.parties] == [stray, stray]
    assert found.bound.holds, found.bound.unmet
    assert 2 * stray <= found.bound.nodes < 3 * stray
    return wrong, found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stray", [1, 3])
def test_the_bound_is_above_what_the_papers_virtual_nodes_misclassify(seed, stray):
    """Some nodes are on the wrong side at one party: cells of local means lose some of them, within the bound."""
    wrong, found = run_strayed(seed, 1500, stray, 10, "local")
    assert 0 < wrong <= found.bound.nodes


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_above_what_cell_means_misclassify(seed):
    wrong, found = run_strayed(seed, 1500, 3, 10, "cell")
    assert wrong <= found.bound.nodes


def test_the_bound_holds_with_the_papers_own_constant():
    """That c exceeds 100 although a node is 1-bad takes more than 10,000 k nodes (Lemma 1 (b))."""
    wrong, found = run_strayed(0, 25_000, 1, 100, "local")
    assert found.bound.c > 100
    assert 0 < wrong <= found.bound.nodes
    assert "at most 2 of 50,000 nodes are misclassified" in found.conclusions[0]


def test_with_bad_nodes_it_is_part_a_that_counts_and_without_them_part_b():
    """A large constant in O(1/c) makes (a) fail and leaves (b) as it is."""
    for stray, holds in ((1, False), (0, True)):
        tables, graph, groups = strayed(0, size=500, stray=stray)
        model = KCAGC(n_clusters=2, n_local_clusters="k", n_components=2, psi=0, scaling="US", accept=ACCEPTED)
        given = {"adjacency": graph, "local_labels": [groups, groups], "enough": 10}
        found = diagnose(model, tables, groups, order_constant=1e7, **given)
        assert found.restricted.share_b == 1
        assert found.restricted.share_a < 1
        assert found.bound.holds == holds
        assert found.bound.unmet == (() if holds else (found.bound.unmet[0],))
        assert holds or "the restricted proximity condition (a) fails" in found.bound.unmet[0]
        assert found.bound.nodes == (0 if holds else 1000)


def test_a_pair_that_one_party_does_not_separate_is_named_with_that_party():
    tables, graph, groups = planted(1, parties=3, noise=0.05, same=(1, 0, 2))
    model = KCAGC(n_clusters=3, n_local_clusters="k", psi=1, random_state=0)
    found = diagnose(model, tables, groups, adjacency=graph, names=["alice", "bob", "carol"])
    assert [[(pair.first, pair.second) for pair in party.target.not_separated] for party in found.parties] == [
        [],
        [(0, 2)],
        [],
    ]
    assert found.conclusions[0].startswith("Theorem 1 gives no guarantee: bob's own clusters")
    assert found.conclusions[1].startswith("bob's data do not separate clusters 0 and 2 (")
    assert "depends on alice's and carol's data" in found.conclusions[1]
    assert found.parties[1].conclusions[0].startswith("bob's data do not separate clusters 0 and 2 (")
    assert "alone separate most nodes" in found.parties[0].conclusions[0]


def test_a_pair_that_nobody_separates_is_said_to_be_lost():
    tables, graph, groups = planted(1, noise=0.05)
    split = groups.copy()
    split[:20] = 7  # half of group 0 by number, which no column knows
    model = KCAGC(n_clusters=4, n_local_clusters="k", psi=0, random_state=0)
    found = diagnose(model, tables, split, adjacency=graph)
    assert found.conclusions[1].startswith("All data together do not separate clusters 0 and 7 (")


def test_too_many_local_clusters_are_advised_against():
    tables, graph, groups = planted(0)
    found = diagnose(KCAGC(n_clusters=3, n_local_clusters="2k", psi=1, random_state=0), tables, groups, adjacency=graph)
    assert not found.bound.holds
    advice = "The target has 3 clusters: fewer than 6 local ones (n_local_clusters) may be clearer."
    assert advice in found.conclusions[-1]


def test_conclusions_stay_short_with_sixteen_parties_and_many_pairs():
    random = np.random.default_rng(0)
    tables, graph, groups = planted(0, k=8, size=20, parties=16, noise=3, width=8)
    model = KCAGC(n_clusters=8, psi=1, random_state=0, n_local_clusters="k")
    found = diagnose(model, tables, random.permutation(groups), adjacency=graph)
    assert all(len(party.target.not_separated) > 5 for party in found.parties)
    assert len(found.conclusions) <= 10
    assert max(map(len, found.conclusions)) < 800
    assert "further pairs" in found.conclusions[1]
    assert "the theorem merges all at once" in found.conclusions[-1]


@pytest.mark.real_data
def test_the_theorem_gives_no_guarantee_on_cora():
    cora = load("cora")
    model = KCAGC(n_clusters=7, n_local_clusters="k", psi=9, random_state=0)
    found = diagnose(model, cora.parties(2), cora.labels, adjacency=cora.adjacency)
    assert 0 < found.bound.c < 1
    assert all(0 < party.own.c < 1 for party in found.parties)
    assert not found.bound.holds
    assert found.bound.nodes == cora.n_nodes
    assert found.conclusions[0].startswith("Theorem 1 gives no guarantee")
    # With as many local clusters as target ones, local means are nearer to the rows (after Definition 2).
    assert found.restricted.norm < found.joint.norm
