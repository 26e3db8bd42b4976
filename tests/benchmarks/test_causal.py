"""One-way delays are counted from the order of sent and received messages, not from clocks."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.causal import Delays, allowed, delays, sums_by_layer, topic_of
from experiments.paper.network.roles import MeasuredRole


def role(name, *events, party=True, merges=()):
    summary = {"merges": [{"group": group, "layer": layer} for group, layer in merges]}
    return MeasuredRole(name, summary, np.zeros(1) if party else None, list(events), 0, 0.0, None)


def sends(peer, words):
    return (0.0, "sends", [peer, words, 10])


def receives(peer, words):
    return (0.0, "receives", [peer, words, 10])


LABELS = (0.0, "labels", "")


def test_a_question_and_its_answer_are_two_delays():
    party = role("a", sends("aggregator", "hello"), receives("aggregator", "hellos"), LABELS)
    aggregator = role("aggregator", receives("a", "hello"), sends("a", "hellos"), party=False)
    assert delays([party, aggregator]) == Delays(2, 2)


def test_receipts_come_after_the_labels_are_known():
    party = role(
        "a",
        sends("aggregator", "hello"),
        receives("aggregator", "hellos"),
        sends("aggregator", "encrypted receipt"),
        receives("aggregator", "relayed receipt"),
        LABELS,
    )
    aggregator = role(
        "aggregator",
        receives("a", "hello"),
        sends("a", "hellos"),
        receives("a", "encrypted receipt"),
        sends("a", "relayed receipt"),
        LABELS,
        party=False,
    )
    assert delays([party, aggregator]) == Delays(2, 4)


def test_messages_side_by_side_count_once():
    one = role("a", sends("aggregator", "x"), sends("aggregator", "y"), receives("aggregator", "z"), LABELS)
    two = role("b", sends("aggregator", "x"), receives("aggregator", "z"), LABELS)
    aggregator = role(
        "aggregator",
        receives("a", "x"),
        receives("a", "y"),
        receives("b", "x"),
        sends("a", "z"),
        sends("b", "z"),
        party=False,
    )
    assert delays([one, two, aggregator]).confirmed == 2


def test_one_that_speaks_before_it_hears_does_not_lengthen_the_chain():
    early = role(
        "a",
        sends("aggregator", "1"),
        sends("aggregator", "2"),
        receives("aggregator", "r1"),
        receives("aggregator", "r2"),
        LABELS,
    )
    patient = role(
        "a",
        sends("aggregator", "1"),
        receives("aggregator", "r1"),
        sends("aggregator", "2"),
        receives("aggregator", "r2"),
        LABELS,
    )
    aggregator = role(
        "aggregator", receives("a", "1"), sends("a", "r1"), receives("a", "2"), sends("a", "r2"), party=False
    )
    assert delays([early, aggregator]).confirmed == 2
    assert delays([patient, aggregator]).confirmed == 4


def test_a_chain_through_another_party_is_followed():
    one = role("a", sends("aggregator", "to b"), receives("aggregator", "from b"), LABELS)
    two = role("b", receives("aggregator", "from a"), sends("aggregator", "to a"), LABELS)
    aggregator = role(
        "aggregator",
        receives("a", "to b"),
        sends("b", "from a"),
        receives("b", "to a"),
        sends("a", "from b"),
        party=False,
    )
    assert delays([one, two, aggregator]).confirmed == 4


def test_groups_that_sum_side_by_side_do_not_wait_for_each_other():
    def asked(group):
        return [
            e
            for n in range(3)
            for e in (sends("aggregator", f"masked {group} lloyd {n}"), receives("aggregator", f"answer {group} {n}"))
        ]

    def answered(name, group):
        return [
            e
            for n in range(3)
            for e in (receives(name, f"masked {group} lloyd {n}"), sends(name, f"answer {group} {n}"))
        ]

    one, two = role("a", *asked("1.0"), LABELS), role("b", *asked("1.1"), LABELS)
    aggregator = role("aggregator", *answered("a", "1.0"), *answered("b", "1.1"), party=False)
    assert delays([one, two, aggregator]).confirmed == 6
    same = role("aggregator", *answered("a", "1.0"), *answered("b", "1.0"), party=False)
    assert delays([one, role("b", *asked("1.0"), LABELS), same]).confirmed == 10  # one group: the second had to wait


def test_a_party_that_sums_brings_what_it_knows_from_one_of_its_groups_to_the_next():
    aggregator = role(
        "z", receives("a", "masked 1.0 margin 0"), sends("a", "answer 1.0 0"),
        receives("b", "encrypted labels root"), sends("b", "relayed labels root"), LABELS,
        merges=[("1.0", 1), ("root", 2)],
    )  # fmt: skip
    one = role("a", sends("z", "masked 1.0 margin 0"), receives("z", "answer 1.0 0"), LABELS)
    two = role("b", sends("z", "encrypted labels root"), receives("z", "relayed labels root"), LABELS)
    assert delays([one, two, aggregator]).confirmed == 2
    later = role(
        "b", receives("z", "hellos"), sends("z", "encrypted labels root"), receives("z", "relayed labels root"), LABELS
    )
    first = role("z", sends("b", "hellos"), *aggregator.events, merges=[("1.0", 1), ("root", 2)])
    assert delays([one, later, first]).confirmed == 3


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ("hellos", ""),
        ("encrypted confirmation", "confirmation"),
        ("relayed labels 1.0", "1.0"),
        ("masked 1.0 lloyd 3", "1.0"),
        ("answer root 12", "root"),
        ("finished root", "root"),
    ],
)
def test_what_a_message_is_about(words, about):
    assert topic_of(words) == about


def test_moments_that_do_not_fit_together_are_refused():
    with pytest.raises(RuntimeError, match="no labels for a"):
        delays([role("a", receives("aggregator", "never sent"), LABELS), role("aggregator", party=False)])


def test_sums_are_counted_by_layer_for_the_group_with_most():
    vectors = [sends("aggregator", f"masked {words}") for words in (
        "1.0 margin 0", "1.0 lloyd 1", "1.0 lloyd 2", "root margin 0", "root lloyd 1"
    )]  # fmt: skip
    one = role("a", *vectors, sends("aggregator", "finished root"), merges=[("1.0", 1), ("root", 2)])
    other = role("b", sends("aggregator", "masked 1.1 margin 0"), merges=[("1.1", 1)])
    assert sums_by_layer([one, other]) == {1: 3, 2: 2}
    assert allowed({1: 3, 2: 2}) == (4 + 6) + (4 + 4)
