"""Groups decide whether a sum hides anything, and refuse where it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import ParameterError, PolicyError
from kcagc.secagg.masks import TWO_PARTY_SUM, Group
from secagg.parties import names


@given(names, st.data())
def test_an_aggregator_that_takes_part_sends_no_mask_and_knows_what_belongs_where(members, data):
    aggregator = data.draw(st.sampled_from(members))
    group = Group(tuple(members), aggregator)
    assert group.maskers == tuple(name for name in members if name != aggregator)
    assert group.aggregator_is_member
    assert group.exposes_one_party == (len(members) == 2)


@given(names)
def test_with_a_coordinator_all_members_mask_and_something_is_hidden(members):
    coordinator = "".join(members) + "+"
    group = Group(tuple(members), coordinator)
    assert group.maskers == group.members == tuple(members)
    assert not group.aggregator_is_member
    assert not group.exposes_one_party
    group.check(())


@given(names, st.lists(st.text(), max_size=3).filter(lambda accepted: TWO_PARTY_SUM not in accepted))
def test_a_sum_that_hides_nothing_needs_to_be_accepted_by_name(members, others):
    one, other = members[:2]
    for aggregator, shown in ((one, other), (other, one)):
        group = Group((one, other), aggregator, layer=2, index=1)
        assert group.exposes_one_party
        with pytest.raises(PolicyError) as caught:
            group.check(others)
        assert f"group 2.1: {aggregator} would learn the values of {shown} by" in str(caught.value)
        assert f'accept "{TWO_PARTY_SUM}"' in str(caught.value)
        group.check([*others, TWO_PARTY_SUM])


@pytest.mark.parametrize("accept", [(), "two-party", [], {"two-party"}, ["TWO-PARTY-SUM"], ["two-party-sum "]])
def test_nothing_but_the_exact_name_is_an_acceptance(accept):
    with pytest.raises(PolicyError):
        Group(("bank", "shop"), "shop").check(accept)


def test_the_name_to_accept_is_this():
    assert TWO_PARTY_SUM == "two-party-sum"


@given(names)
def test_three_or_more_need_no_acceptance(members):
    if len(members) > 2:
        for aggregator in members:
            Group(tuple(members), aggregator).check(())


@pytest.mark.parametrize("aggregator", ["bank", "coordinator"])
@pytest.mark.parametrize(
    "members", [(), ("bank",), ("bank", "bank"), ("bank", "shop", "bank"), ("shop", "bank", "bank")]
)
def test_a_group_of_one_or_with_a_member_twice_is_refused(members, aggregator):
    with pytest.raises(ParameterError, match=r"group all: a sum needs at least two different parties"):
        Group(members, aggregator)


@pytest.mark.parametrize("field", ["members", "aggregator", "layer", "index"])
def test_a_group_does_not_change_once_checked(field):
    with pytest.raises(AttributeError):
        setattr(Group(("bank", "shop", "telecom"), "shop"), field, ("bank",))
