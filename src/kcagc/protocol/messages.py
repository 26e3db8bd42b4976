"""Every message there is, typed; unknown types, unknown fields and wrong lengths are refused when they are read."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from kcagc.errors import PeerError
from kcagc.secagg.masks import MAX_PARTIES
from kcagc.text import printable

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]  # whatever it counts: no arithmetic on it overflows
MAX_TEXT = 400
Words = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
# What a message lists: lists are bounded, because a short list of bytes can stand for a long one of objects.
AFew = msgspec.Meta(max_length=MAX_PARTIES + 1)
Some = msgspec.Meta(max_length=1 << 16)
Inputs = Annotated[bytes, msgspec.Meta(max_length=1 << 16)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """What roles send; the tag is also its name in the ledger."""


class Hello(Message, frozen=True, tag="hello"):
    """A role's inputs (an `Agreement`) with its fresh nonce and key, signed by its identity.

    The inputs are bytes, so that a role of another version can say that it is one.
    """

    name: Words
    protocol: Words
    inputs: Inputs
    nonce: bytes
    key: bytes
    signature: bytes


class Hellos(Message, frozen=True, tag="hellos"):
    """All hellos, in the roster's order."""

    hellos: Annotated[tuple[Hello, ...], AFew]


class EncryptedMessages(Message, frozen=True, tag="encrypted"):
    """Closed boxes, each for the party named with it."""

    stage: Words
    boxes: Annotated[tuple[tuple[Words, bytes], ...], AFew]


class RelayedMessages(Message, frozen=True, tag="relayed"):
    """Closed boxes, each from the party named with it."""

    stage: Words
    boxes: Annotated[tuple[tuple[Words, bytes], ...], AFew]


class Masked(Message, frozen=True, tag="masked"):
    """One party's vector for a sum: starts × rows × columns words, a cost for each of `costs`, and the check words."""

    group: Words
    stage: Words
    number: Count
    shape: tuple[Count, Count, Count]
    words: bytes
    costs: Annotated[tuple[Count, ...], Some] = ()


class Answer(Message, frozen=True, tag="answer"):
    """Who wins each row: packed positions, further positions that tie, and (in the 1/9 step) who wins by nine.

    Where the sum had costs, also the cheapest start so far, what it costs, and the starts that are given up.
    """

    group: Words
    number: Count
    winners: bytes
    tied_rows: bytes = b""
    tied_positions: bytes = b""
    clear: bytes = b""
    best: Count = 0
    cost: float = 0.0
    given_up: Annotated[tuple[Count, ...], Some] = ()


class Choice(Message, frozen=True, tag="choice"):
    """A position chosen for each start."""

    group: Words
    number: Count
    positions: Annotated[tuple[Count, ...], Some]


class Finished(Message, frozen=True, tag="finished"):
    """This group needs no further sums."""

    group: Words


class Abort(Message, frozen=True, tag="abort"):
    """The run ends: which role ended it, and the kind of reason."""

    origin: Words
    reason: Words


class Confirmation(Message, frozen=True, tag="confirmation"):
    """In a box: what two parties compare once they share keys, and what they need from each other to begin."""

    n_nodes: Count
    ids_kind: Words
    ids: bytes
    graph: bytes
    subject: bytes
    group_keys: Annotated[dict[str, bytes], AFew]
    seed: bytes
    starts: bytes


class PackedLabels(Message, frozen=True, tag="labels"):
    """In a box: the clusters that a party, or a merge of parties, found, in the fewest bits; and what led there."""

    n_clusters: Count
    packed: bytes
    transcript: bytes
    delays: Count  # one after another, until these clusters were known


class Receipt(Message, frozen=True, tag="receipt"):
    """In a box: a digest of all answers and of the result, so that all parties end with the same."""

    digest: bytes


AnyMessage = Hello | Hellos | EncryptedMessages | RelayedMessages | Masked | Answer | Choice | Finished | Abort
EncryptedContent = Confirmation | PackedLabels | Receipt


class _Tag(msgspec.Struct):
    kind: Words
    stage: Words = ""


_tags: msgspec.msgpack.Decoder[_Tag] = msgspec.msgpack.Decoder(_Tag)
_messages: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)
_contents: msgspec.msgpack.Decoder[EncryptedContent] = msgspec.msgpack.Decoder(EncryptedContent)
_encoder = msgspec.msgpack.Encoder()

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def encode(message: Message) -> bytes:
    """Give a message's bytes."""
    return _encoder.encode(message)


def decode(payload: bytes, sender: str) -> AnyMessage:
    """Read a message, or say who sent what cannot be read."""
    return _read(_messages, payload, sender)


def tag_of(payload: bytes, sender: str) -> str:
    """Say what a message is, without reading the rest of it."""
    return _read(_tags, payload, sender).kind


def is_early(payload: bytes, sender: str) -> bool:
    """Say whether a message ends the run, or belongs to what is said again alike when it begins anew."""
    found = _read(_tags, payload, sender)
    return found.kind in ("hello", "hellos", "abort") or is_early_stage(found.stage)


def is_early_stage(stage: str) -> bool:
    """Say whether a stage belongs to hellos, comparisons and local clusters.

    A role that begins anew finds the same local clusters as before, and to tell them once more tells nothing more.
    """
    return stage in ("hello", "confirmation", "abort") or stage.startswith("labels 1.")


def decode_content(payload: bytes, sender: str) -> EncryptedContent:
    """Read what was in a box."""
    return _read(_contents, payload, sender)


def _read(decoder: msgspec.msgpack.Decoder[T], payload: bytes, sender: str) -> T:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"sent a message that cannot be read: {printable(str(error))}", peer=sender) from error


def expect(message: Message, kind: type[M], sender: str) -> M:
    """Refuse a message of another type than the protocol is waiting for."""
    if not isinstance(message, kind):
        wanted, got = (one.__struct_config__.tag for one in (kind, type(message)))
        raise PeerError(f"sent {got!r} where {wanted!r} was due", peer=sender)
    return message


def kind_of(message: Message) -> str:
    """Give a message's name in the ledger."""
    return str(message.__struct_config__.tag)
