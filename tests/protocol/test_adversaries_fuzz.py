"""Any byte changed, any message lost, doubled or put in another's place: an error of ours, or no harm at all."""

from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adversaries import Scenario, parameters, prediction
from kcagc.errors import KcagcError, PeerError
from kcagc.protocol.messages import AnonymousClusters, Masked, Padded, Split, decode, decode_content

RUNS = {
    "flat": lambda: Scenario(parameters(n_init=2), 3),
    "flat, a party aggregates": lambda: Scenario(parameters(n_init=2, aggregator="party"), 3),
    "two parties": lambda: Scenario(parameters(n_init=2, aggregator="party"), 2),
    "basic": lambda: Scenario(parameters(n_init=2, method="basic", max_iter=3), 3),
    "tree": lambda: Scenario(parameters(n_init=2, method="tree", max_iter=2), 4),
    "one restart": lambda: Scenario(parameters(n_init=1, max_iter=2), 3),
    "prediction": prediction,
    "joint": lambda: Scenario(parameters(method="joint", max_iter=2), 3),
    "joint, rows without names": lambda: Scenario(parameters(method="joint", joint_rows="coordinator"), 3),
    "joint prediction": lambda: prediction(method="joint", max_iter=2),
}
# Messages with numbers that the sender may choose, as it may lie about its data or cluster badly.
CHOSEN = (Masked, Padded, Split, AnonymousClusters)


@cache
def honest(name):
    scenario = RUNS[name]()
    outcome = scenario.run()
    assert outcome.raised is None
    return scenario, outcome


def instead(number, replace):
    """Let `replace` say which payloads arrive in the place of the message with this number."""
    count = -1

    def adversary(sender, receiver, payload):
        nonlocal count
        count += 1
        return [(sender, receiver, one) for one in (replace(payload) if count == number else [payload])]

    return adversary


def harmless(name, number, replace):
    """Roles with one message replaced; all who end have the same labels, and those of the honest run."""
    scenario, before = honest(name)
    outcome = scenario.run(instead(number, replace))  # any error that is not ours goes through
    sender, _, payload = before.sent[number]
    chosen = isinstance(decode(payload, sender), CHOSEN)
    assert len({str(labels) for labels in outcome.labels.values()}) <= 1
    if not chosen:
        assert all(labels == before.labels[who] for who, labels in outcome.labels.items())
    if outcome.raised is None:
        assert set(outcome.labels) == set(before.labels)
    else:
        assert isinstance(outcome.raised, KcagcError)
    return outcome


def changed(data, position, mask):
    at = position % len(data)
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


names = st.sampled_from(sorted(RUNS))
numbers = st.integers(0, 10_000)
fuzz = settings(max_examples=40)


@fuzz
@given(names, numbers, st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_ends_the_run_or_does_no_harm(name, number, position, mask):
    number %= len(honest(name)[1].sent)
    harmless(name, number, lambda payload: [changed(payload, position, mask)])


@fuzz
@given(names, numbers, st.lists(st.tuples(st.integers(0, 40), st.integers(1, 255)), min_size=1, max_size=4))
def test_changed_heads_end_the_run_or_do_no_harm(name, number, changes):
    """The first bytes say what a message is: types, lengths, numbers."""
    number %= len(honest(name)[1].sent)

    def replace(payload):
        for position, mask in changes:
            payload = changed(payload, position, mask)
        return [payload]

    harmless(name, number, replace)


@fuzz
@given(names, numbers, st.sampled_from(["lost", "twice", "cut", "longer"]), st.integers(0, 10**6))
def test_any_message_lost_doubled_or_cut_ends_the_run_or_does_no_harm(name, number, how, where):
    number %= len(honest(name)[1].sent)
    replace = {
        "lost": lambda _: [],
        "twice": lambda payload: [payload, payload],
        "cut": lambda payload: [payload[: where % len(payload)]],
        "longer": lambda payload: [payload + bytes([where % 256])],
    }[how]
    outcome = harmless(name, number, replace)
    if how in ("cut", "longer"):
        assert type(outcome.raised) is PeerError
    if how == "lost":
        assert outcome.raised is not None or decode(outcome.sent[number][2], "").__class__.__name__ == "Finished"


@fuzz
@given(names, numbers, numbers)
def test_any_message_in_the_place_of_another_ends_the_run_or_does_no_harm(name, number, other):
    sent = honest(name)[1].sent
    number, other = number % len(sent), other % len(sent)
    harmless(name, number, lambda _: [sent[other][2]])


@fuzz
@given(names, numbers, numbers)
def test_two_messages_that_change_places_end_the_run_or_do_no_harm(name, number, other):
    """Both are known beforehand, because a run with the same keys sends the same bytes."""
    scenario, before = honest(name)
    number, other = number % len(before.sent), other % len(before.sent)
    count = -1

    def adversary(sender, receiver, payload):
        nonlocal count
        count += 1
        place = {number: other, other: number}.get(count, count)
        return [(sender, receiver, payload if place == count else before.sent[place][2])]

    outcome = scenario.run(adversary)
    assert len({str(labels) for labels in outcome.labels.values()}) <= 1


@fuzz
@given(names, numbers, st.binary(max_size=300))
def test_random_bytes_are_the_senders_fault(name, number, data):
    number %= len(honest(name)[1].sent)
    sender, receiver, _ = honest(name)[1].sent[number]
    outcome = harmless(name, number, lambda _: [data])
    assert outcome.raised is not None
    assert outcome.errors.get(receiver) is None or sender in str(outcome.errors[receiver])


@given(st.binary(max_size=200))
@example(b"\xc1")
@example(b"\x81\xa4kind\xa5hello")
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\xdb\x00\x00\x00\x02\xff\xff")
@pytest.mark.parametrize("read", [decode, decode_content])
def test_bytes_are_read_or_refused_with_their_sender(read, data):
    try:
        read(data, "party-9")
    except PeerError as error:
        assert error.peer == "party-9"  # noqa: PT017 - either is right


def test_a_run_with_the_same_keys_sends_the_same_bytes():
    """What makes the tests above repeatable, and a party able to continue from its journal."""
    for name in RUNS:
        scenario, before = honest(name)
        assert scenario.run().sent == before.sent
