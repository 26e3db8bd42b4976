"""The agreement of all roles, the signed hellos that open a session, and the digests that parties compare.

Two exchanges open a session. First, every role sends its inputs, a fresh nonce and a fresh public key in the clear,
signed with its identity key; every role checks the hellos of all others. Then each pair of parties compares the number
of nodes, their ids and (if the graph is shared) the graph, in messages that only the two can decrypt. A hello from an
earlier session, or different hellos for different roles, lead to different keys, and decryption fails.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from kcagc.errors import AgreementError, ParameterError, PeerError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.protocol.messages import Hello, read_bytes
from kcagc.protocol.parameters import NO_GRAPH, Parameters
from kcagc.secagg import keys
from kcagc.secagg.masks import MAX_PARTIES
from kcagc.text import printable

PROTOCOL = "kcagc/8"

RoleName = Literal["party", "coordinator"]


class Participant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One participant: its name, its role, and its pinned identity key."""

    name: str
    role: RoleName
    identity: bytes


def federation_digest(participants: tuple[Participant, ...]) -> bytes:
    """Return the digest of participants: their names, roles and identity keys, in their agreed order."""
    fields = [field for one in participants for field in (one.name, one.role, one.identity)]
    return keys.digest("kcagc federation", *fields)


class _Version(msgspec.Struct, frozen=True, kw_only=True):
    """The version of any inputs; those of another version may have other fields."""

    protocol: str = PROTOCOL


class Agreement(_Version, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The inputs of a session. All roles must hold the same inputs; otherwise the run ends before data are used.

    `approval` is the digest of the proposal that all participants have approved; empty if none is needed.
    """

    participants: tuple[Participant, ...]
    parameters: Parameters
    approval: bytes = b""

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of the parties, in the agreed order."""
        return tuple(one.name for one in self.participants if one.role == "party")

    @property
    def aggregator(self) -> str:
        """Name of the role that relays and adds: the coordinator, or the last party as in the paper."""
        return self.participants[-1].name

    @property
    def federation(self) -> bytes:
        """Digest of the participants: their names, roles and identity keys, in their agreed order."""
        return federation_digest(self.participants)

    def participant(self, name: str) -> Participant:
        """Return the participant of this name."""
        for one in self.participants:
            if one.name == name:
                return one
        raise ParameterError(f"participants: there is no {name!r}")

    def check_identity(self, name: str, identity: keys.Identity) -> None:
        """Refuse a role whose own identity key is not the agreed one."""
        if self.participant(name).identity != identity.public:
            raise AgreementError(f"{name}: the participants list an identity key for {name} that is not its own")

    def inputs(self) -> bytes:
        """Return the bytes that every role signs and hashes."""
        return msgspec.msgpack.encode(self)

    def check(self) -> None:
        """Refuse participants or parameters that cannot make a session."""
        for what, values in (
            ("name", [one.name for one in self.participants]),
            ("identity key", [one.identity.hex() for one in self.participants]),
        ):
            repeated = [value for value, count in Counter(values).items() if count > 1]
            if repeated:
                raise ParameterError(f"participants: two participants have the same {what}, {repeated[0]!r}")
        for one in self.participants:
            if not one.name or len(one.name) > 64 or not one.name.isprintable():
                raise ParameterError(f"participants: invalid name {one.name!r}: use 1 to 64 printable characters")
            if not keys.is_identity_key(one.identity):
                raise ParameterError(f"participants: {one.name}: invalid identity key {one.identity.hex()[:16]}…")
        if not 2 <= len(self.parties) <= MAX_PARTIES:
            raise ParameterError(f"participants: {len(self.parties)} parties; there must be 2 to {MAX_PARTIES}")
        coordinators = ["coordinator"] if self.parameters.aggregator == "coordinator" else []
        if [one.role for one in self.participants] != ["party"] * len(self.parties) + coordinators:
            raise ParameterError(
                f"participants: with aggregator={self.parameters.aggregator!r} there must be {len(coordinators)} "
                "coordinator, after all parties"
            )
        self.parameters.check()


_agreements: msgspec.msgpack.Decoder[Agreement] = msgspec.msgpack.Decoder(Agreement)
_versions: msgspec.msgpack.Decoder[_Version] = msgspec.msgpack.Decoder(_Version)


def compare_inputs(me: str, mine: Agreement, other: str, inputs: bytes) -> None:
    """Read the inputs of another role, and raise an `AgreementError` if they are not the same."""
    problem = "the inputs of its hello cannot be read"
    _compare_versions(me, mine.protocol, other, read_bytes(_versions, inputs, other, problem).protocol)
    compare_agreements(me, mine, other, read_bytes(_agreements, inputs, other, problem))


def compare_agreements(me: str, mine: Agreement, other: str, theirs: Agreement) -> None:
    """Raise an `AgreementError` that names every field in which the inputs of two roles differ."""
    ours, yours = msgspec.structs.asdict(mine.parameters), msgspec.structs.asdict(theirs.parameters)
    different = [(field, ours[field], yours[field]) for field in ours if ours[field] != yours[field]]
    without = [name for name, one in ((me, ours), (other, yours)) if one["graph"] == NO_GRAPH]
    if len(without) == 1:  # other differences, such as that of the filter, follow from this one
        having = other if without == [me] else me
        message = (
            f'{me} and {other} do not agree: {without[0]} takes part without a graph (graph = "none"), {having} with '
            "one; all participants must set the same graph"
        )
        raise AgreementError(message).with_public_message(message)
    if mine.participants != theirs.participants:
        different.append(("participants", _not_shared(mine, theirs), _not_shared(theirs, mine)))
    if mine.approval != theirs.approval:
        different.append(("approved proposal", _short(mine.approval), _short(theirs.approval)))
    if different:
        listed = "; ".join(f"{field}: {me} has {ours!r}, {other} has {yours!r}" for field, ours, yours in different)
        message = f"{me} and {other} do not agree: {listed}"
        raise AgreementError(message).with_public_message(message)


def _compare_versions(me: str, mine: str, other: str, theirs: str) -> None:
    if theirs != mine:
        message = f"{me} uses protocol {mine}, {other} uses {printable(theirs)}: install the same version of kcagc"
        raise AgreementError(message).with_public_message(message)


def _short(approval: bytes) -> str:
    return f"{approval.hex()[:8]}..." if approval else "none"


def _not_shared(one: Agreement, other: Agreement) -> str:
    """List the participants that another agreement does not have, or all if only the order differs.

    A key is cut to eight digits unless the other agreement has another key with the same first digits.
    """
    others = {two.identity.hex() for two in other.participants}

    def short(key: str) -> str:
        return key if any(two[:8] == key[:8] and two != key for two in others) else f"{key[:8]}…"

    listed = [two for two in one.participants if two not in other.participants] or one.participants
    return ", ".join(f"{two.role} {two.name} ({short(two.identity.hex())})" for two in listed)


@dataclass(frozen=True, eq=False)
class Session:
    """The id of a session, and the keys that this party shares with every other party."""

    id: bytes
    pairs: dict[str, keys.PairKeys]


def own_hello(name: str, agreement: Agreement, identity: keys.Identity, secrets: keys.Secrets) -> Hello:
    """Return the signed hello of a role; a coordinator sends no session key, because it shares no secrets."""
    role = agreement.participant(name).role
    fresh = keys.Contribution(name, secrets.nonce, secrets.public if role == "party" else b"")
    signature = identity.sign(keys.hello_statement(role, agreement.inputs(), fresh))
    return Hello(name, agreement.protocol, agreement.inputs(), fresh.nonce, fresh.key, signature)


def check_hello(me: str, mine: Agreement, hello: Hello, sender: str) -> None:
    """Compare the inputs of a hello, then check its signature against the pinned identity key."""
    if hello.name != sender:
        raise PeerError(f"sent a hello of {printable(hello.name)}", peer=sender)
    _compare_versions(me, mine.protocol, sender, hello.protocol)
    compare_inputs(me, mine, sender, hello.inputs)
    participant = mine.participant(sender)
    key_bytes = keys.KEY_BYTES if participant.role == "party" else 0
    if (len(hello.nonce), len(hello.key), len(hello.signature)) != (keys.NONCE_BYTES, key_bytes, keys.SIGNATURE_BYTES):
        raise PeerError("nonce, key or signature has the wrong length", peer=sender)
    signed = keys.hello_statement(participant.role, mine.inputs(), _contribution(hello))
    if not keys.verify(participant.identity, signed, hello.signature):
        raise PeerError(f"the hello is not signed by the identity key that {me} has pinned for {sender}", peer=sender)


def open_session(me: str, mine: Agreement, secrets: keys.Secrets, hellos: tuple[Hello, ...]) -> Session:
    """Check all hellos as one party; derive the session id and the keys shared with every other party."""
    names = tuple(hello.name for hello in hellos)
    if names != tuple(one.name for one in mine.participants):
        raise PeerError(f"the hellos are of {', '.join(map(printable, names))}, not of the agreed participants")
    for hello in hellos:
        check_hello(me, mine, hello, hello.name)
    own = hellos[names.index(me)]
    if (own.nonce, own.key) != (secrets.nonce, secrets.public):
        raise PeerError(f"the hellos show another nonce or key for {me} than its own")
    public = [hello.key for hello in hellos if hello.key]
    nonces = [hello.nonce for hello in hellos]
    if len(set(public)) < len(public) or len(set(nonces)) < len(nonces):
        raise PeerError("two participants have the same key or nonce: one of them was copied")
    identifier = id_of(mine, hellos)
    pairs = {
        hello.name: keys.PairKeys(secrets.shared_with(hello.key, hello.name), identifier, me, hello.name)
        for hello in hellos
        if hello.key and hello.name != me
    }
    return Session(identifier, pairs)


def id_of(agreement: Agreement, hellos: tuple[Hello, ...]) -> bytes:
    """Return the id of the session that these hellos open."""
    return keys.session_id(agreement.inputs(), [_contribution(hello) for hello in hellos])


def _contribution(hello: Hello) -> keys.Contribution:
    return keys.Contribution(hello.name, hello.nonce, hello.key)


def ids_kind(graph: Graph) -> str:
    """Return what kind of ids the nodes have."""
    return "row numbers" if graph.ids is None else graph.ids.kind


def ids_digest(graph: Graph) -> bytes:
    """Hash the node ids in row order; nodes without ids are numbered from 0."""
    return keys.digest("numbered", graph.n_nodes) if graph.ids is None else digest_of_ids(graph.ids)


def digest_of_ids(ids: NodeIds) -> bytes:
    """Hash ids in their order."""
    values = ids.values
    if isinstance(values, list):
        return keys.digest("names", *values)
    return keys.digest("numbers", np.asarray(values, dtype="<i8").tobytes())


def graph_digest(graph: Graph) -> bytes:
    """Hash the weights of all edges; equal graphs have equal digests, whatever types store them."""
    matrix = graph.adjacency
    parts = (("<i8", matrix.indptr), ("<i8", matrix.indices), ("<f8", matrix.data))
    return keys.digest(*(np.asarray(values, dtype=kind).tobytes() for kind, values in parts))
