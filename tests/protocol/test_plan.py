"""Who merges with whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collaborations import parameters
from kcagc.disclosure.texts import LABELLED_SUMS, LOCAL_MEANS
from kcagc.protocol.plan import layers, risks
from kcagc.secagg.masks import TWO_PARTY_SUM
from kcagc.simulation import SimulatedRoles


def agreement(n_parties, **changes):
    names = [f"party-{number}" for number in range(1, n_parties + 1)]
    return SimulatedRoles.of(parameters(**changes), names).agreement


@given(n_parties=st.integers(2, 16), fan_in=st.integers(2, 5))
def test_a_tree_joins_every_party_once_in_each_layer_and_ends_in_one_root(n_parties, fan_in):
    found = layers(agreement(n_parties, method="tree", fan_in=fan_in))
    for layer in found:
        members = [member for merge in layer for member in merge.group.members]
        assert len(members) == len(set(members))
        assert all(2 <= len(merge.children) <= fan_in for merge in layer)
    (root,) = found[-1]
    assert root.root
    assert root.group.members == agreement(n_parties).parties
    assert [merge.root for layer in found for merge in layer].count(True) == 1


@given(n_parties=st.integers(2, 16))
def test_a_binary_tree_has_one_merge_less_than_parties(n_parties):
    assert sum(map(len, layers(agreement(n_parties, method="tree", fan_in=2)))) == n_parties - 1


@given(n_parties=st.integers(2, 16), fan_in=st.integers(2, 5))
def test_children_of_a_merge_are_merges_of_the_layers_below_or_single_parties(n_parties, fan_in):
    known = {(party,) for party in agreement(n_parties).parties}
    for layer in layers(agreement(n_parties, method="tree", fan_in=fan_in)):
        for merge in layer:
            assert set(merge.children) <= known
        known |= {merge.group.members for merge in layer}


def test_a_remaining_party_moves_up_one_layer():
    first, second, third = layers(agreement(5, method="tree", fan_in=2))
    assert [merge.group.members for merge in first] == [("party-1", "party-2"), ("party-3", "party-4")]
    assert [merge.group.members for merge in second] == [("party-1", "party-2", "party-3", "party-4")]
    assert third[0].children == (("party-1", "party-2", "party-3", "party-4"), ("party-5",))


def test_flat_and_basic_have_one_group_of_all():
    for method in ("cells", "basic"):
        ((merge,),) = layers(agreement(6, method=method))
        assert merge.group.members == agreement(6).parties


@pytest.mark.parametrize(
    ("n_parties", "changes", "found"),
    [
        (2, {}, []),
        (2, {"aggregator": "party"}, [TWO_PARTY_SUM, LABELLED_SUMS]),
        (3, {"aggregator": "party"}, [LABELLED_SUMS]),
        (3, {"aggregator": "party", "virtual_nodes": "local"}, [LABELLED_SUMS, LOCAL_MEANS]),
        (3, {"virtual_nodes": "local"}, []),
        (3, {"virtual_nodes": "local", "method": "basic"}, []),
        (4, {"aggregator": "party", "method": "tree"}, [TWO_PARTY_SUM, LABELLED_SUMS]),
        (5, {"aggregator": "party", "method": "tree"}, [LABELLED_SUMS]),
        (4, {"aggregator": "party", "method": "tree", "fan_in": 4}, [LABELLED_SUMS]),
        (2, {"aggregator": "party", "task": "predict"}, [TWO_PARTY_SUM, LABELLED_SUMS]),
    ],
)
def test_risks_follow_from_participants_and_parameters(n_parties, changes, found):
    assert risks(agreement(n_parties, **changes)) == found
