"""Numbered queues: each message is delivered once and in order, for any losses and repetitions of a connection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import PeerError
from kcagc.runtime.durable import MAX_WAITING, PeerQueue


def handed_over(queue):
    return [queue.next_message().payload for _ in range(len(queue.inbox))]


@given(messages=st.lists(st.binary(max_size=20), max_size=12), data=st.data())
def test_lost_connections_lose_no_message_and_repeat_none(messages, data):
    sender, receiver, got = PeerQueue("b"), PeerQueue("a"), []
    for number, payload in enumerate(messages, start=1):
        sender.post(number, payload)
    while not sender.settled:
        # A new connection: all unacknowledged messages are sent until the connection is lost.
        due = sorted(sender.outbox)
        for number in due[: data.draw(st.integers(0, len(due)))]:
            receiver.receive(number, sender.outbox[number])
        got += handed_over(receiver)
        receiver.safe = data.draw(st.integers(receiver.safe, receiver.arrived))
        if data.draw(st.booleans()) or receiver.safe == len(messages):
            sender.acknowledge(receiver.safe)
    assert got == messages
    assert sender.outbox == {}


def test_a_repeated_message_is_dropped_and_a_different_one_under_its_number_is_equivocation():
    queue = PeerQueue("alice")
    assert queue.receive(1, b"one")
    assert not queue.receive(1, b"one")
    with pytest.raises(PeerError, match="alice: sent two different messages under number 1"):
        queue.receive(1, b"other")
    assert handed_over(queue) == [b"one"]


def test_a_repeated_message_is_recognised_after_a_restart():
    before, after = PeerQueue("alice"), PeerQueue("alice")
    before.receive(1, b"one")
    message = before.next_message()
    after.restore_arrived(message.number, message.digest)
    assert not after.receive(1, b"one")
    with pytest.raises(PeerError, match="two different messages"):
        after.receive(1, b"two")
    assert after.receive(2, b"two")


@pytest.mark.parametrize("number", [2, 3, 1 << 47])
def test_a_gap_in_the_numbers_is_an_error_of_the_peer(number):
    with pytest.raises(PeerError, match=f"alice: sent message {number} instead of 1"):
        PeerQueue("alice").receive(number, b"")


def test_an_acknowledgement_of_an_unsent_message_is_an_error_of_the_peer():
    queue = PeerQueue("alice")
    queue.post(1, b"one")
    with pytest.raises(PeerError, match="alice: acknowledged message 2, but only 1 were sent"):
        queue.acknowledge(2)
    queue.acknowledge(1)
    queue.acknowledge(0)  # a late acknowledgement changes nothing
    assert queue.acknowledged == 1


def test_a_peer_cannot_fill_the_memory_with_waiting_messages():
    many = PeerQueue("alice")
    for number in range(1, MAX_WAITING + 1):
        many.receive(number, b"")
    with pytest.raises(PeerError, match="more messages than the protocol asks for"):
        many.receive(MAX_WAITING + 1, b"")
    large = PeerQueue("alice", max_waiting_bytes=100)
    large.receive(1, bytes(90))
    with pytest.raises(PeerError, match="more messages"):
        large.receive(2, bytes(90))
    large = PeerQueue("alice", max_waiting_bytes=100)
    for number in range(1, 5):  # messages that the role takes do not count
        large.receive(number, bytes(90))
        large.next_message()


def test_repeated_messages_do_not_count_twice_in_the_traffic():
    sender, receiver = PeerQueue("b"), PeerQueue("a")
    for number, payload in enumerate([b"four", b"", b"seven!!"], start=1):
        sender.post(number, payload)
        for _ in range(3):
            receiver.receive(number, payload)
    assert (sender.bytes_sent, sender.bytes_arrived) == (11, 0)
    assert (receiver.bytes_sent, receiver.bytes_arrived) == (0, 11)
