"""The first words: everybody shows inputs, nonce and key, signed; everybody checks everybody; pairs then compare data.

Two exchanges. In the first, hellos travel openly. In the second, each pair of parties compares, in boxes that only the
two can open, how many nodes they have, their ids and (where the graph is shared) the graph. A hello from an earlier
session, or one that was shown to some and not to others, gives other keys, and the boxes do not open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc.errors import AgreementError, PeerError
from kcagc.graph.graph import Graph
from kcagc.protocol.agreement import Agreement, compare, read_inputs
from kcagc.protocol.messages import Hello
from kcagc.secagg.keys import (
    KEY_BYTES,
    NONCE_BYTES,
    SIGNATURE_BYTES,
    Contribution,
    Identity,
    PairKeys,
    Secrets,
    digest,
    hello_statement,
    session_id,
    verify,
)
from kcagc.text import printable


@dataclass(frozen=True, eq=False)
class Session:
    """What holds for one run once all hellos are checked."""

    id: bytes
    pairs: dict[str, PairKeys]


def own_hello(name: str, agreement: Agreement, identity: Identity, secrets: Secrets) -> Hello:
    """Say who one is, what one agrees to, and show a fresh nonce and key; a coordinator shares no secrets."""
    seat = agreement.participant(name)
    fresh = Contribution(name, secrets.nonce, secrets.public if seat.role == "party" else b"")
    signature = identity.sign(hello_statement(seat.role, agreement.inputs(), fresh))
    return Hello(name, agreement.protocol, agreement.inputs(), fresh.nonce, fresh.key, signature)


def check_hello(me: str, mine: Agreement, hello: Hello, sender: str) -> None:
    """Compare inputs first, which has the clearer message, then the signature against the pinned key."""
    if hello.name != sender:
        raise PeerError(f"showed a hello of {printable(hello.name)}", peer=sender)
    if hello.protocol != mine.protocol:
        message = (
            f"{me} and {sender} do not agree: protocol: {me} has {mine.protocol!r}, {sender} has {hello.protocol!r}"
        )
        raise AgreementError(message).with_public_message(message)
    compare(me, mine, sender, read_inputs(hello.inputs, sender))
    seat = mine.participant(sender)
    wanted = KEY_BYTES if seat.role == "party" else 0
    if (len(hello.nonce), len(hello.key), len(hello.signature)) != (NONCE_BYTES, wanted, SIGNATURE_BYTES):
        raise PeerError("nonce, key or signature has the wrong length", peer=sender)
    fresh = Contribution(hello.name, hello.nonce, hello.key)
    if not verify(seat.identity, hello_statement(seat.role, mine.inputs(), fresh), hello.signature):
        raise PeerError(f"the hello is not signed by the identity key that {me} has pinned for {sender}", peer=sender)


def begin(me: str, mine: Agreement, secrets: Secrets, hellos: tuple[Hello, ...]) -> Session:
    """Check all hellos as one party, and derive the session id and the keys shared with every other party."""
    names = tuple(hello.name for hello in hellos)
    if names != tuple(seat.name for seat in mine.participants):
        raise PeerError(f"the hellos are of {', '.join(map(printable, names))}, which is not the roster")
    for hello in hellos:
        check_hello(me, mine, hello, hello.name)
    own = hellos[names.index(me)]
    if (own.nonce, own.key) != (secrets.nonce, secrets.public):
        raise PeerError(f"the hellos show another nonce or key for {me} than its own")
    keys = [hello.key for hello in hellos if hello.key]
    nonces = [hello.nonce for hello in hellos]
    if len(set(keys)) < len(keys) or len(set(nonces)) < len(nonces):
        raise PeerError("two roles showed the same key or nonce: one of them was reflected or copied")
    identifier = id_of(mine, hellos)
    pairs = {
        hello.name: PairKeys(secrets.shared_with(hello.key, hello.name), identifier, me, hello.name)
        for hello in hellos
        if hello.key and hello.name != me
    }
    return Session(identifier, pairs)


def id_of(agreement: Agreement, hellos: tuple[Hello, ...]) -> bytes:
    """Give the id of the session that these hellos make."""
    return session_id(agreement.inputs(), [Contribution(hello.name, hello.nonce, hello.key) for hello in hellos])


def ids_kind(graph: Graph) -> str:
    """Say what nodes are called by."""
    return "row numbers" if graph.ids is None else graph.ids.kind


def ids_digest(graph: Graph) -> bytes:
    """Hash the node ids in row order; without ids, rows are called 0, 1, 2, ..."""
    if graph.ids is None:
        return digest("numbered", graph.n_nodes)
    values = graph.ids.values
    if isinstance(values, list):
        return digest("names", *values)
    return digest("numbers", np.asarray(values, dtype="<i8").tobytes())


def graph_digest(graph: Graph) -> bytes:
    """Hash the weights of all edges; equal graphs have equal digests, whatever types they are stored in."""
    matrix = graph.adjacency
    parts = (("<i8", matrix.indptr), ("<i8", matrix.indices), ("<f8", matrix.data))
    return digest(*(np.asarray(values, dtype=kind).tobytes() for kind, values in parts))


def compare_data(me: str, other: str, field: str, mine: object, theirs: object) -> None:
    """Refuse to go on with a party whose data are about other nodes or another graph."""
    if mine == theirs:
        return
    told = f": {me} has {mine}, {other} has {theirs}" if isinstance(mine, int | str) else ""
    hint = {
        "node ids": " (other ids, or the same in another order)",
        "graph": ' (every party must hold the same edges, unless graph="own")',
    }.get(field, "")
    message = f"{me} and {other} do not have the same {field}"
    raise AgreementError(f"{message}{told}{hint}").with_public_message(message)
