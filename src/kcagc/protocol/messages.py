"""Messages between roles: their types, their bytes, and the compact arrays inside them.

Every message is a typed structure. The decoder refuses unknown types, unknown fields and wrong lengths, and names the
sender. Labels and answers travel in the fewest bits; arrays that a role stores for itself are written here as well.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kcagc._types import IntArray
from kcagc.errors import PeerError
from kcagc.secagg.masks import MAX_PARTIES, Group
from kcagc.text import printable

MAX_TEXT = 400
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]  # small enough that arithmetic on it cannot overflow
ShortText = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
# Lists are bounded, because a few bytes can announce a long list of objects.
_OnePerRole = msgspec.Meta(max_length=MAX_PARTIES + 1)
_Scale = Annotated[int, msgspec.Meta(ge=-1100, le=1100)]
_Fixed = Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]  # a number, whatever its size
_Inputs = Annotated[bytes, msgspec.Meta(max_length=1 << 16)]
_Ciphertexts = Annotated[tuple[tuple[ShortText, bytes], ...], _OnePerRole]


class Step(StrEnum):
    """Steps of a run; the labels and the sums after them belong to one group of parties."""

    HELLO = "hello"
    CONFIRMATION = "confirmation"
    RECEIPT = "receipt"
    SIZES = "sizes"  # joint method: sizes of components, after a search and for each search
    SUBSPACE = "subspace"  # joint method: covariances, and the top directions
    LABELS = "labels"
    MARGIN = "margin"  # first assignment with margin 9: Protocol 2, lines 7 to 20
    LLOYD = "lloyd"  # Protocol 2, lines 21 to 36
    ROWS = "rows"  # joint method: rows of blinded length and direction
    SHARES = "shares"  # joint method: padded unit rows
    SCORES = "scores"  # joint method: padded centres
    GEOMETRY = "geometry"  # joint method: rows that open to the coordinator without names
    WEIGHTS = "weights"  # joint method: weights of the components, for nodes outside the sample and new nodes
    ASSIGNMENT = "assignment"  # joint method: nodes outside the sample
    PREDICTION = "prediction"
    IDS = "ids"  # matching of ids: the hidden ids of two parties
    ANSWERS = "answers"  # matching of ids: hidden a second time
    KEPT = "kept"  # matching of ids: what the first party must go on with
    COMMON = "common"  # matching of ids: which of the ids of some parties all parties have
    FINISHED = "finished"
    OUTPUT = "output"
    ABORT = "abort"


class RunStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Position in a run: the step, the group (name and layer in the tree) and the number of the secure sum."""

    step: Step
    group: ShortText = ""
    layer: Count = 0
    number: Count | None = None

    @classmethod
    def of_group(cls, step: Step, group: Group, number: int | None = None) -> RunStage:
        """Return the stage of a step that one group carries out."""
        return cls(step, group.name, group.layer, number)

    @property
    def is_early(self) -> bool:
        """Whether a role that starts again repeats this stage without revealing anything more.

        Such a role computes the same local labels as before. Labels of higher layers depend on secure sums.
        """
        if self.step is Step.LABELS:
            return self.layer == 1
        return self.step in (Step.HELLO, Step.CONFIRMATION, Step.IDS, Step.ABORT)

    def __str__(self) -> str:
        if self.number is not None:
            return f"{self.group} {self.step} {self.number}"
        return f"{self.step} {self.group}" if self.group else str(self.step)


def pair_stage(step: Step, first: str, other: str) -> RunStage:
    """Return the stage of a step that two parties carry out, the one that comes first in the list of parties first."""
    return RunStage(step, f"{first}+{other}")


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base class of all messages; the tag is also the name of the message in the disclosure ledger."""


class Hello(Message, frozen=True, tag="hello"):
    """A role's inputs (an `Agreement`), its fresh nonce and its fresh public key, signed with its identity key.

    The inputs are bytes, so that a role with another protocol version can still read the field `protocol`.
    """

    name: ShortText
    protocol: ShortText
    inputs: _Inputs
    nonce: bytes
    key: bytes
    signature: bytes


class Hellos(Message, frozen=True, tag="hellos"):
    """The hellos of all participants, in the agreed order."""

    hellos: Annotated[tuple[Hello, ...], _OnePerRole]


class EncryptedMessages(Message, frozen=True, tag="encrypted"):
    """From a party to the aggregator: one ciphertext for each named receiver."""

    stage: RunStage
    ciphertexts: _Ciphertexts


class RelayedMessages(Message, frozen=True, tag="relayed"):
    """From the aggregator to a party: one ciphertext from each named sender."""

    stage: RunStage
    ciphertexts: _Ciphertexts


class Masked(Message, frozen=True, tag="masked"):
    """One party's masked vector: one word for each comparison or value, and the check words.

    `draw` counts the shares that the second holder of shared rows has drawn before the one it uses; `seed` is the seed
    of its shares in a prediction.
    """

    group: ShortText
    step: Step
    number: Count
    words: bytes
    draw: Count = 0
    seed: bytes = b""


class Answer(Message, frozen=True, tag="answer"):
    """One bit for each comparison, in the order of the vectors: whether the sum is positive."""

    group: ShortText
    number: Count
    signs: bytes


class Padded(Message, frozen=True, tag="padded"):
    """A party's components under a pad, their own covariance, and the corrections of the products with all others.

    If the sample does not have all nodes, the rows of the covariances are sent too: all components, or mixtures.
    """

    sample: bytes
    n_components: Count
    words: bytes
    mixtures: bytes
    covariance: bytes
    corrections: Annotated[tuple[bytes, ...], _OnePerRole]
    share_seed: bytes
    draw: Count = 0


class Split(Message, frozen=True, tag="split"):
    """The share of the first holder: what is left of each number when the second holder has drawn its share."""

    group: ShortText
    number: Count
    words: bytes


class AnonymousClusters(Message, frozen=True, tag="clusters"):
    """The clusters that the coordinator has found in rows without names.

    The weights of all components for the scores of other nodes (components × k, float64) belong to turned components.
    """

    group: ShortText
    number: Count
    labels: bytes
    weights: bytes


class Finished(Message, frozen=True, tag="finished"):
    """The group needs no further sums."""

    group: ShortText


class Abort(Message, frozen=True, tag="abort"):
    """The run ends: the role that ended it, and its public reason.

    It is `final` if the aggregator has waited in vain for that role to come back.
    """

    origin: ShortText
    reason: ShortText
    final: bool = False


class Confirmation(Message, frozen=True, tag="confirmation"):
    """Encrypted: what two parties compare before they use each other's labels, and the keys and seed they share."""

    n_nodes: Count
    n_edges: _Fixed  # of a graph that all parties share; of fixed length, as the aggregator sees the length
    ids_kind: ShortText
    ids: bytes
    graph: bytes
    subject: bytes
    group_keys: Annotated[dict[str, bytes], _OnePerRole]
    seed: bytes
    starts: bytes
    scale: _Scale = 0  # joint method: size of the rows, as a power of two
    n_components: Count = 0


class ComponentSize(Message, frozen=True, tag="sizes"):
    """Encrypted: the power of two above the lengths of a party's rows, and the number of its components.

    `source` is a digest of what they follow from besides the table: the held-out edges, and the order of the filter.
    """

    scale: _Scale
    n_components: Count
    source: bytes


class PackedLabels(Message, frozen=True, tag="labels"):
    """Encrypted: the cluster of every node, found by one party or by one merge, and the transcript behind it."""

    n_clusters: Count
    packed: bytes
    transcript: bytes
    delays: Count  # one-way delays until these clusters were known


class WeightShares(Message, frozen=True, tag="weights"):
    """Encrypted: a holder's shares of the weights of one party's components, and of the squared lengths of centres."""

    weights: bytes
    lengths: bytes


class Receipt(Message, frozen=True, tag="receipt"):
    """Encrypted: a digest of all answers and of the result, and masked parts of sums such as the final cost."""

    digest: bytes
    totals: bytes = b""


class HiddenIds(Message, frozen=True, tag="ids"):
    """Encrypted: all ids of the sender as points that it has multiplied by a secret number, in a secret order.

    `ids_kind` says whether the ids are numbers or text.
    """

    ids_kind: ShortText
    points: bytes


class AnsweredIds(Message, frozen=True, tag="answers"):
    """Encrypted: the points of the receiver, multiplied by a secret number of the sender as well.

    They come in the order in which the receiver sent them or, if ids are only counted, sorted.
    """

    points: bytes


class CommonIds(Message, frozen=True, tag="common"):
    """Encrypted: one bit for each id, in sorted order, that the receiver and the sender have found in common.

    It says whether all parties have the id.
    """

    bits: bytes


class MatchReceipt(Message, frozen=True, tag="match"):
    """Encrypted: how many ids all parties, or those before the receiver, have in common, and a digest of these.

    Only the two can compare the digest.
    """

    count: Count
    digest: bytes


AnyMessage = (
    Hello
    | Hellos
    | EncryptedMessages
    | RelayedMessages
    | Masked
    | Answer
    | Padded
    | Split
    | AnonymousClusters
    | Finished
    | Abort
)
EncryptedContent = (
    Confirmation
    | ComponentSize
    | PackedLabels
    | WeightShares
    | Receipt
    | HiddenIds
    | AnsweredIds
    | CommonIds
    | MatchReceipt
)


class _Header(msgspec.Struct):
    kind: ShortText
    stage: RunStage | None = None


_headers: msgspec.msgpack.Decoder[_Header] = msgspec.msgpack.Decoder(_Header)
_messages: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)
_contents: msgspec.msgpack.Decoder[EncryptedContent] = msgspec.msgpack.Decoder(EncryptedContent)
_encoder = msgspec.msgpack.Encoder()

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    return _encoder.encode(message)


def decode(payload: bytes, sender: str) -> AnyMessage:
    """Read a message, or raise a `PeerError` that names the sender."""
    return read_bytes(_messages, payload, sender)


def decode_content(payload: bytes, sender: str) -> EncryptedContent:
    """Read the content of a decrypted message."""
    return read_bytes(_contents, payload, sender)


def tag_of(payload: bytes, sender: str) -> str:
    """Return the tag of a message without reading the rest."""
    return read_bytes(_headers, payload, sender).kind


def is_early(payload: bytes, sender: str) -> bool:
    """Return whether a message ends the run, or belongs to what a role repeats unchanged when it starts again."""
    header = read_bytes(_headers, payload, sender)
    return header.kind in ("hello", "hellos", "abort") or (header.stage is not None and header.stage.is_early)


def read_bytes(
    decoder: msgspec.msgpack.Decoder[T], data: bytes, sender: str, problem: str = "sent a message that cannot be read"
) -> T:
    """Decode bytes of a peer, or raise a `PeerError` that begins with `problem` and names the sender."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"{problem}: {printable(str(error))}", peer=sender) from error


def expect(message: Message, kind: type[M], sender: str) -> M:
    """Return the message if it has the expected type; otherwise raise a `PeerError`."""
    if not isinstance(message, kind):
        wanted, got = (one.__struct_config__.tag for one in (kind, type(message)))
        raise PeerError(f"sent {got!r} where {wanted!r} was expected", peer=sender)
    return message


def kind_of(message: Message) -> str:
    """Return the name of a message in the disclosure ledger."""
    return str(message.__struct_config__.tag)


def bits_for(count: int) -> int:
    """Return how many bits distinguish `count` values; one value needs none."""
    return (count - 1).bit_length()


def packed_size(n: int, count: int) -> int:
    """Return how many bytes `n` numbers below `count` take."""
    return (n * bits_for(count) + 7) // 8


def pack(values: IntArray, count: int) -> bytes:
    """Write each of `values`, all below `count`, in the fewest bits, low bit first."""
    width = bits_for(count)
    kind = np.dtype(next(f"<u{size}" for size in (1, 2, 4, 8) if width <= 8 * size))
    whole = np.ascontiguousarray(values, dtype=kind).view(np.uint8).reshape(len(values), kind.itemsize)
    bits = np.unpackbits(whole, axis=1, count=width, bitorder="little") if width else whole[:, :0]
    return np.packbits(bits.ravel(), bitorder="little").tobytes()


def unpack(data: bytes, n: int, count: int, sender: str, what: str) -> IntArray:
    """Read `n` numbers below `count`; raise a `PeerError` for a wrong length or a number out of range."""
    width = bits_for(count)
    if len(data) != packed_size(n, count):
        raise PeerError(f"{what}: {len(data)} bytes where {packed_size(n, count)} were expected", peer=sender)
    if width == 0:
        return np.zeros(n, dtype=np.int64)
    flat = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if flat[n * width :].any():
        raise PeerError(f"{what}: the unused last bits are not zero", peer=sender)
    values = flat[: n * width].reshape(n, width) @ (1 << np.arange(width, dtype=np.int64))
    if values.size and int(values.max()) >= count:
        raise PeerError(f"{what}: {int(values.max())} is out of range, there are {count}", peer=sender)
    return np.asarray(values, dtype=np.int64)


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array in a stored result: type, shape and content, never pickled."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        """Return type and shape; the content can be private."""
        return f"Stored({self.dtype}, {self.shape})"


def store(array: NDArray[Any]) -> Stored:
    """Write an array as little-endian float64 or int64."""
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    return Stored(kind, array.shape, np.ascontiguousarray(array, dtype=kind).tobytes())


def restore(stored: Stored) -> NDArray[Any]:
    """Return a read-only array, so that nothing recorded changes."""
    if stored.dtype not in ("<f8", "<i8"):
        raise ValueError(f"stored array: unsupported type {stored.dtype!r}")
    return np.frombuffer(stored.data, dtype=stored.dtype).reshape(stored.shape)
