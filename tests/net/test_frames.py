"""Frames: parts are joined to the original message, and invalid frames are refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import PeerError
from kcagc.net import frames
from kcagc.net.frames import (
    MAX_FRAME_BYTES,
    PART_BYTES,
    Ack,
    Assembly,
    Challenge,
    Close,
    MessagePart,
    Open,
    Ping,
    Pong,
    WaitingFor,
    Welcome,
    decode_frame,
    encode_frame,
    split,
)

EVERY_KIND = [
    Challenge("aggregator", bytes(32), "kcagc-stream/4"),
    Open("kcagc-stream/4", "alice", bytes(32), bytes(32), bytes(32), b"", 0, 0, 3, b"inputs", bytes(64)),
    Welcome(bytes(32), 1, 2, 3, bytes(64)),
    MessagePart(1, 3, 0, b"abc", bytes(32)),
    Ack(7),
    Ping(),
    Pong(),
    WaitingFor(("bob", "carol")),
    Close(),
]


def together(sent, longest=1 << 40):
    assembly = Assembly("alice", longest)
    return [done for part in sent if (done := assembly.add(part)) is not None]


@pytest.mark.parametrize("frame", EVERY_KIND, ids=lambda frame: type(frame).__name__)
def test_decoding_inverts_encoding_for_every_frame(frame):
    assert decode_frame(encode_frame(frame), "x") == frame


@given(size=st.integers(0, 3 * 64 + 5), number=st.integers(1, 1 << 40))
def test_joining_inverts_splitting_for_messages_of_any_length(size, number):
    payload = bytes(index % 251 for index in range(size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "PART_BYTES", 64)
        sent = list(split(number, payload))
    assert all(len(part.data) <= 64 for part in sent)
    assert together(sent) == [(number, payload)]


def test_no_part_exceeds_the_maximum_frame_size():
    for part in split(1 << 47, bytes(2 * PART_BYTES + 1)):
        assert len(encode_frame(part)) <= MAX_FRAME_BYTES


@given(changes=st.fixed_dictionaries({}, optional={
    "number": st.integers(0, 9), "length": st.integers(0, 400), "offset": st.integers(0, 400),
    "data": st.binary(max_size=90), "digest": st.binary(max_size=32),
}), at=st.integers(0, 3))  # fmt: skip
def test_a_changed_part_never_results_in_another_message(changes, at):
    payload = bytes(range(250))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "PART_BYTES", 64)
        sent = list(split(5, payload))
    changed = msgspec.structs.replace(sent[at], **changes)
    sent[at] = changed
    try:
        found = together(sent)
    except PeerError as error:
        assert error.peer == "alice"  # noqa: PT017 - either is right
    else:
        assert found in ([(5, payload)], [])


def test_an_announced_length_above_the_limit_is_refused_before_any_data():
    assembly = Assembly("alice", 1000)
    with pytest.raises(PeerError, match=r"announced a message of 1,001 bytes; at most 1,000"):
        assembly.add(MessagePart(1, 1001, 0, b"x"))
    assert together([MessagePart(1, 1000, 0, bytes(999))], longest=1000) == []


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ([MessagePart(1, 6, 3, b"abc")], "does not follow"),
        ([MessagePart(1, 6, 0, b"abc"), MessagePart(2, 6, 3, b"def")], "does not follow"),
        ([MessagePart(1, 6, 0, b"abc"), MessagePart(1, 7, 3, b"def")], "does not follow"),
        ([MessagePart(1, 6, 0, b"abc"), MessagePart(1, 6, 3, b"defg")], "longer than its message"),
        ([MessagePart(1, 6, 0, b"abc"), MessagePart(1, 6, 3, b"")], "empty or"),
        ([MessagePart(1, 3, 0, b"abc")], "wrong digest"),
        ([MessagePart(1, 3, 0, b"abc", bytes(32))], "wrong digest"),
    ],
)
def test_parts_that_do_not_fit_are_refused(sent, words):
    with pytest.raises(PeerError, match=words):
        together(sent)


@given(st.binary(max_size=200))
def test_garbage_raises_an_error_that_names_the_sender(garbage):
    try:
        frame = decode_frame(garbage, "alice")
    except PeerError as error:
        assert error.peer == "alice"  # noqa: PT017 - either is right
    else:
        assert isinstance(frame, Ping | Pong | Close | Ack | WaitingFor)


@pytest.mark.parametrize(
    "fields",
    [
        {"frame": "pickle"},
        {"frame": "ack"},
        {"frame": "ack", "number": -1},
        {"frame": "ack", "number": 1 << 48},
        {"frame": "ack", "number": True},
        {"frame": "ack", "number": 1, "more": 2},
        {"frame": "challenge", "protocol": "x" * 65, "name": "aggregator", "nonce": b""},
        {"frame": "challenge", "protocol": "x", "name": "aggregator", "nonce": bytes(33)},
        {"frame": "waiting-for", "names": ["x" * 65]},
    ],
)
def test_unknown_kinds_fields_and_sizes_are_refused(fields):
    with pytest.raises(PeerError, match="cannot be read"):
        decode_frame(msgspec.msgpack.encode(fields), "alice")
