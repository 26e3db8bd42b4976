"""Numbered messages: whatever a connection loses or repeats, each message is handed over once and in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import PeerError
from kcagc.runtime.peer_queue import MOST_WAITING, PeerQueue


def handed_over(letters):
    return [letters.next_letter().payload for _ in iter(lambda: letters.has_letter, False)]


@given(messages=st.lists(st.binary(max_size=20), max_size=12), data=st.data())
def test_broken_connections_lose_nothing_and_repeat_nothing(messages, data):
    sender, receiver, got = PeerQueue("b"), PeerQueue("a"), []
    for number, payload in enumerate(messages, start=1):
        sender.post(number, payload)
    while not sender.settled:
        # A new connection: everything that is not acknowledged is sent, and the connection breaks somewhere.
        due = sorted(sender.outbox)
        for number in due[: data.draw(st.integers(0, len(due)))]:
            receiver.take_in(number, sender.outbox[number])
        got += handed_over(receiver)
        receiver.safe = data.draw(st.integers(receiver.safe, receiver.arrived))
        if data.draw(st.booleans()) or receiver.safe == len(messages):
            sender.note_acknowledged(receiver.safe)
    assert got == messages
    assert sender.outbox == {}


def test_the_same_message_again_is_dropped_and_another_under_its_number_is_misbehaviour():
    letters = PeerQueue("alice")
    assert letters.take_in(1, b"one")
    assert not letters.take_in(1, b"one")
    with pytest.raises(PeerError, match="alice: sent two different messages under number 1"):
        letters.take_in(1, b"other")
    assert handed_over(letters) == [b"one"]


def test_a_repeat_is_known_after_a_restart():
    before, after = PeerQueue("alice"), PeerQueue("alice")
    before.take_in(1, b"one")
    letter = before.next_letter()
    after.restore_arrived(letter.number, letter.digest)
    assert not after.take_in(1, b"one")
    with pytest.raises(PeerError, match="two different messages"):
        after.take_in(1, b"two")
    assert after.take_in(2, b"two")


@pytest.mark.parametrize("number", [2, 3, 1 << 47])
def test_a_gap_is_misbehaviour(number):
    with pytest.raises(PeerError, match=f"alice: sent message {number} where 1 was due"):
        PeerQueue("alice").take_in(number, b"")


def test_nobody_acknowledges_what_was_not_sent():
    letters = PeerQueue("alice")
    letters.post(1, b"one")
    with pytest.raises(PeerError, match="alice: says that message 2 has arrived, and only 1 were sent"):
        letters.note_acknowledged(2)
    letters.note_acknowledged(1)
    letters.note_acknowledged(0)  # an old word that comes late takes nothing back
    assert letters.acknowledged == 1


def test_a_peer_cannot_fill_the_memory_with_what_nobody_asked_for():
    many = PeerQueue("alice")
    for number in range(1, MOST_WAITING + 1):
        many.take_in(number, b"")
    with pytest.raises(PeerError, match="more messages than anybody asked for"):
        many.take_in(MOST_WAITING + 1, b"")
    large = PeerQueue("alice", most_waiting_bytes=100)
    large.take_in(1, bytes(90))
    with pytest.raises(PeerError, match="more messages"):
        large.take_in(2, bytes(90))
    large = PeerQueue("alice", most_waiting_bytes=100)
    for number in range(1, 5):  # as long as they are taken, there is no limit to how many
        large.take_in(number, bytes(90))
        large.next_letter()


def test_bytes_are_counted_once_however_often_a_message_comes():
    sender, receiver = PeerQueue("b"), PeerQueue("a")
    for number, payload in enumerate([b"four", b"", b"seven!!"], start=1):
        sender.post(number, payload)
        for _ in range(3):
            receiver.take_in(number, payload)
    assert (sender.bytes_sent, sender.bytes_arrived) == (11, 0)
    assert (receiver.bytes_sent, receiver.bytes_arrived) == (0, 11)
