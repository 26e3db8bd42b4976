"""What travels on a stream between two roles: small frames, and long messages in bounded parts.

A frame is read only after its size was checked by gRPC; a message only after the size it announces was checked here. It
is complete when its last part has come and the digest of the whole matches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Annotated

import msgspec

from kcagc.errors import PeerError
from kcagc.text import printable

LINK = "kcagc-link/1"
PART_BYTES = 256 * 1024
LONGEST_FRAME = PART_BYTES + 4096

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
Name = Annotated[str, msgspec.Meta(max_length=64)]
Token = Annotated[bytes, msgspec.Meta(max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(max_length=64)]


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="frame"):
    """What both ends of a stream send."""


class Challenge(Frame, frozen=True, tag="challenge"):
    """The aggregator's first word: who it is, which link protocol it speaks, and a nonce to sign."""

    link: Name
    name: Name
    nonce: Token


class Open(Frame, frozen=True, tag="open"):
    """A party's first word: who it is, which session it is in, what it agrees to, and how far it is; signed.

    `attempt` is its own random name of the session, `bound` the aggregator's, once it has heard it. Of the aggregator's
    messages all up to `arrived` have come and all up to `safe` are committed; `sent` is the last of its own.
    `certificate` is the digest of the one that it shows in this connection.
    """

    link: Name
    name: Name
    nonce: Token
    certificate: Token
    attempt: Token
    bound: Token
    safe: Count
    arrived: Count
    sent: Count
    inputs: bytes
    signature: Signature


class Welcome(Frame, frozen=True, tag="welcome"):
    """The aggregator's answer: its name of the session, and how far it is with this party; signed."""

    attempt: Token
    safe: Count
    arrived: Count
    sent: Count
    signature: Signature


class Part(Frame, frozen=True, tag="part"):
    """A piece of a message; the last one carries the digest of the whole."""

    number: Count
    length: Count
    offset: Count
    data: bytes
    digest: Token = b""


class Ack(Frame, frozen=True, tag="ack"):
    """Everything up to this number is safe here."""

    number: Count


class Ping(Frame, frozen=True, tag="ping"):
    """Ask whether the other end is there."""


class Pong(Frame, frozen=True, tag="pong"):
    """Say so."""


class Missing(Frame, frozen=True, tag="missing"):
    """Who else is being waited for, so that a person can be told."""

    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=32)]


class Leave(Frame, frozen=True, tag="leave"):
    """All is done and safe on this side."""


AnyFrame = Challenge | Open | Welcome | Part | Ack | Ping | Pong | Missing | Leave
_frames: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)
_encoder = msgspec.msgpack.Encoder()


def encode_frame(frame: Frame) -> bytes:
    """Give a frame's bytes."""
    return _encoder.encode(frame)


def decode_frame(payload: bytes, sender: str) -> AnyFrame:
    """Read a frame, or say who sent what cannot be read."""
    try:
        return _frames.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"sent a frame that cannot be read: {printable(str(error))}", peer=sender) from error


def parts(number: int, payload: bytes) -> Iterator[Part]:
    """Cut a message into parts."""
    view, length = memoryview(payload), len(payload)
    for offset in range(0, max(length, 1), PART_BYTES):
        data = bytes(view[offset : offset + PART_BYTES])
        last = offset + len(data) == length
        yield Part(number, length, offset, data, hashlib.sha256(payload).digest() if last else b"")


class Assembly:
    """Puts the parts of one sender's messages together again."""

    def __init__(self, sender: str, longest: int) -> None:
        self._sender, self._longest = sender, longest
        self._number = self._length = 0
        self._data = bytearray()

    def add(self, part: Part) -> tuple[int, bytes] | None:
        """Give (number, payload) when a message is complete."""
        if part.offset == 0:
            if part.length > self._longest:
                raise PeerError(
                    f"announced a message of {part.length:,} bytes; at most {self._longest:,} are "
                    "allowed (limits.max_message_bytes)",
                    peer=self._sender,
                )
            self._number, self._length, self._data = part.number, part.length, bytearray()
        if (part.number, part.length, part.offset) != (self._number, self._length, len(self._data)):
            raise PeerError("sent a part of a message that does not follow the one before", peer=self._sender)
        if part.offset + len(part.data) > self._length or (not part.data and self._length):
            raise PeerError("sent a part that is longer than its message, or empty", peer=self._sender)
        self._data += part.data
        if len(self._data) < self._length:
            return None
        payload = bytes(self._data)
        self._data = bytearray()
        if hashlib.sha256(payload).digest() != part.digest:
            raise PeerError(f"message {part.number} does not have the digest it announced", peer=self._sender)
        return part.number, payload
