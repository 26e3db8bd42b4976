"""Frames between two roles: their types, long messages in bounded parts, and the ways in which a stream ends.

gRPC checks the size of a frame before it reads the frame. `Assembly` checks the announced size of a message before it
collects its parts. A message is complete when its last part has arrived and the digest of the whole matches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Protocol

import msgspec

from kcagc.errors import PeerError
from kcagc.text import printable

STREAM_PROTOCOL = "kcagc-stream/4"
PART_BYTES = 256 * 1024
MAX_FRAME_BYTES = PART_BYTES + 4096
MAX_REASON = 300
ANY_SESSION = b"any"  # in place of a session's name: all earlier ones

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
Name = Annotated[str, msgspec.Meta(max_length=64)]
Token = Annotated[bytes, msgspec.Meta(max_length=32)]
Reason = Annotated[str, msgspec.Meta(max_length=MAX_REASON)]
Signature = Annotated[bytes, msgspec.Meta(max_length=64)]


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="frame"):
    """The base of all frames."""


class Challenge(Frame, frozen=True, tag="challenge", forbid_unknown_fields=False):
    """First frame of the aggregator: its name, its stream protocol, and a nonce that the party signs.

    A party can read the challenge of every version, to tell its operator that the versions differ: it ignores further
    fields, and `protocol` is empty for version 0.5.0, which called it otherwise.
    """

    name: Name
    nonce: Token
    protocol: Name = ""


class Open(Frame, frozen=True, tag="open", omit_defaults=True):
    """First frame of a party, signed: its name, its session, its inputs, and its position in the session.

    `attempt` is the party's random name of the session; `bound` is the aggregator's, empty until the party knows it.
    The party has received the aggregator's messages up to `arrived`, and committed those up to `safe`. `sent` is the
    number of its own last message. `certificate` is the digest of the TLS certificate of this connection. `ended` is
    the party's name of its last session if it has ended that one, or all earlier ones: the aggregator need not wait
    for the party there. With `leaving`, the party does not join a session: it tells why it ends.
    """

    protocol: Name
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
    ended: Token = b""
    leaving: Reason = ""


class Welcome(Frame, frozen=True, tag="welcome"):
    """Answer of the aggregator, signed: its name of the session, and its position with this party."""

    attempt: Token
    safe: Count
    arrived: Count
    sent: Count
    signature: Signature


class MessagePart(Frame, frozen=True, tag="part"):
    """A part of a message; the last part carries the digest of the whole message."""

    number: Count
    length: Count
    offset: Count
    data: bytes
    digest: Token = b""


class Ack(Frame, frozen=True, tag="ack"):
    """The sender has committed every message up to this number."""

    number: Count


class Ping(Frame, frozen=True, tag="ping"):
    """Ask the other role whether it still runs."""


class Pong(Frame, frozen=True, tag="pong"):
    """Answer a ping."""


class WaitingFor(Frame, frozen=True, tag="waiting-for"):
    """The parties that the aggregator waits for; a party shows their names to its operator."""

    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=32)]


class Close(Frame, frozen=True, tag="close"):
    """The sender has finished its run and committed everything."""


class Request(Frame, frozen=True, tag="request"):
    """A question outside a session, for example for the proposals of a federation; its answer is plain bytes."""

    method: Name
    payload: bytes


AnyFrame = Challenge | Open | Welcome | MessagePart | Ack | Ping | Pong | WaitingFor | Close | Request
_decoder: msgspec.msgpack.Decoder[AnyFrame] = msgspec.msgpack.Decoder(AnyFrame)
_encoder = msgspec.msgpack.Encoder()


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of a frame."""
    return _encoder.encode(frame)


def decode_frame(payload: bytes, sender: str) -> AnyFrame:
    """Read a frame; raise `PeerError` about `sender` if it is not a frame."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The decoder's message may quote bytes of the sender.
        raise PeerError(f"sent a frame that cannot be read: {printable(str(error))}", peer=sender) from error


def split(number: int, payload: bytes) -> Iterator[MessagePart]:
    """Split a message into parts."""
    view, length = memoryview(payload), len(payload)
    for offset in range(0, max(length, 1), PART_BYTES):
        data = bytes(view[offset : offset + PART_BYTES])
        last = offset + len(data) == length
        yield MessagePart(number, length, offset, data, hashlib.sha256(payload).digest() if last else b"")


class Assembly:
    """Joins the parts of one sender's messages."""

    def __init__(self, sender: str, max_message_bytes: int) -> None:
        self._sender, self._max_bytes = sender, max_message_bytes
        self._number = self._length = 0
        self._data = bytearray()

    def add(self, part: MessagePart) -> tuple[int, bytes] | None:
        """Return (number, payload) if this part completes a message."""
        if part.offset == 0:
            if part.length > self._max_bytes:
                raise self._error(
                    f"announced a message of {part.length:,} bytes; at most {self._max_bytes:,} are allowed "
                    "(limits.max_message_bytes of the receiver)"
                )
            self._number, self._length, self._data = part.number, part.length, bytearray()
        if (part.number, part.length, part.offset) != (self._number, self._length, len(self._data)):
            raise self._error("sent a part of a message that does not follow the previous part")
        if part.offset + len(part.data) > self._length or (not part.data and self._length):
            raise self._error("sent a part that is empty or longer than its message")
        self._data += part.data
        if len(self._data) < self._length:
            return None
        payload = bytes(self._data)
        self._data = bytearray()
        if hashlib.sha256(payload).digest() != part.digest:
            raise self._error(f"sent message {part.number} with a wrong digest")
        return part.number, payload

    def _error(self, message: str) -> PeerError:
        return PeerError(message, peer=self._sender)


class ConnectionLost(Exception):  # noqa: N818 - an event of the network, not an error of a role
    """The stream has ended; the role may open another one."""


class RejectionReason(Enum):
    """Why an aggregator rejects a stream; the value travels with the rejection."""

    IDENTITY = "identity"  # certificate, name or signature are not those of an expected role
    AGREEMENT = "agreement"  # another version, other parameters or other participants
    SESSION = "session"  # an older state of this session, a session without its journal, or a second process
    OVER = "over"  # the aggregator takes part in another session than the party
    ENDED = "ended"  # the aggregator has ended that session, and all parties have its results
    MISBEHAVIOUR = "misbehaviour"  # frames that kcagc never sends
    RETRY = "retry"  # nothing is wrong, but the aggregator cannot accept a stream now
    STOPPED = "stopped"  # the process of the aggregator ends, and the message says why


class Rejected(Exception):  # noqa: N818 - an answer of the aggregator
    """The aggregator rejects a stream; `reason` is for programs, `message` for people."""

    def __init__(self, reason: RejectionReason, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class Stream(Protocol):
    """An open stream of frames to one peer."""

    async def send(self, frame: Frame) -> None:
        """Send a frame; raise `ConnectionLost` if the stream has ended."""

    async def receive(self) -> AnyFrame:
        """Return the next frame; raise `ConnectionLost`, `Rejected` or `PeerError`."""
