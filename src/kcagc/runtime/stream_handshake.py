"""How a stream begins: both ends say who they are and how far they are, and sign it with their pinned identity keys.

Three frames: the aggregator's challenge, the party's opening, the aggregator's welcome. A party is let in when its
certificate has the name that is expected of it, its signature is that of its pinned key and speaks of that certificate,
it agrees to the same inputs, it is in the same session, and its journal is the newest there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from kcagc.errors import AgreementError, PeerError, RejectedError, SessionError
from kcagc.net.frames import LINK, AnyFrame, Challenge, Open, Welcome, encode_frame
from kcagc.net.grpc_server import ServerWire
from kcagc.net.stream import Reason, Rejected, Wire
from kcagc.protocol.agreement import Agreement, compare_agreements, read_inputs
from kcagc.runtime.peer_queue import PeerQueue
from kcagc.secagg.keys import Identity, opening_statement, random_token, verify, welcome_statement
from kcagc.text import printable

_SECONDS = 20.0  # for a challenge, and for an opening


@dataclass(frozen=True, eq=False)
class Card:
    """What a role shows of itself, and what it expects of others: the name in each one's certificate."""

    name: str
    identity: Identity
    agreement: Agreement
    tls_names: Mapping[str, str]
    certificate: bytes  # the digest of its own


@dataclass(frozen=True)
class Place:
    """Where a role is in a session: its own random name of it, and the peers' names, as far as they are known."""

    attempt: bytes
    bound: dict[str, bytes]


@dataclass(frozen=True)
class Caller:
    """A party that proved who it is, and what it said."""

    name: str
    opened: Open
    signed: bytes


async def identify(wire: ServerWire, card: Card) -> Caller:
    """Find out, as the aggregator, who has opened a stream; refuse whoever is not expected."""
    nonce = random_token()
    await wire.send(Challenge(LINK, card.name, nonce))
    try:
        frame = await _next_frame(wire)
    except TimeoutError:
        raise Rejected(Reason.MISBEHAVIOUR, "says nothing") from None
    if not isinstance(frame, Open):
        raise PeerError("began with another frame than an opening", peer=wire.address)
    if frame.link != LINK:
        told = f"{card.name} speaks {LINK}, the other end {frame.link!r}: install the same version of kcagc"
        raise Rejected(Reason.AGREEMENT, told)
    if frame.name not in card.agreement.parties or frame.name == card.name:
        raise Rejected(Reason.IDENTITY, f"{frame.name!r} is not a party that {card.name} expects")
    if card.tls_names[frame.name] not in wire.names:
        shown = ", ".join(sorted(wire.names)) or "no name"
        told = f"the certificate is for {shown}, but {frame.name}'s must be for {card.tls_names[frame.name]}"
        raise Rejected(Reason.IDENTITY, told)
    signed = opening_statement(card.name, nonce, _unsigned(frame))
    if not verify(card.agreement.participant(frame.name).identity, signed, frame.signature):
        raise Rejected(Reason.IDENTITY, f"not signed by the identity key that {card.name} has pinned for {frame.name}")
    if frame.certificate != wire.certificate:
        told = f"{frame.name} speaks of another certificate than the one shown: something in between opens connections"
        raise Rejected(Reason.IDENTITY, told)
    try:
        compare_agreements(card.name, card.agreement, frame.name, read_inputs(frame.inputs, frame.name))
    except AgreementError as error:
        raise Rejected(Reason.AGREEMENT, str(error)) from error
    return Caller(frame.name, frame, signed)


def check_place(caller: Caller, aggregator: str, place: Place, letters: PeerQueue) -> None:
    """Refuse, as the aggregator, a party that is in another session, or in an older state of this one."""
    opened, name = caller.opened, caller.name
    known = place.bound.get(name)
    if opened.bound not in (b"", place.attempt):
        raise Rejected(Reason.SESSION, f"that session is over: {aggregator} has begun another")
    if known is not None and known != opened.attempt and letters.arrived:
        raise Rejected(
            Reason.SESSION,
            f"{aggregator} is in an earlier session with {name}: go on with that one, or start all roles with "
            "--new-session",
        )
    if known == opened.attempt and letters.arrived > opened.sent:
        raise Rejected(
            Reason.SESSION,
            f"{aggregator} has had {letters.arrived} messages of {name}, whose journal knows of {opened.sent}: "
            "this is an old copy, and resuming from it could reveal hidden data. Start all roles with --new-session",
        )
    had = max(opened.safe, opened.arrived)
    if known == opened.attempt and opened.safe < letters.acknowledged:
        raise Rejected(
            Reason.SESSION,
            f"{name} has said before that it has {letters.acknowledged} messages of {aggregator}, and now that it has "
            f"{opened.safe}: its journal is an older copy. Start all roles with --new-session",
        )
    if had > letters.sent:
        raise Rejected(
            Reason.SESSION,
            f"{name} has had {had} messages of {aggregator}, whose journal knows of {letters.sent}: it is an older "
            "copy. Start all roles with --new-session",
        )


async def welcome(wire: Wire, card: Card, place: Place, letters: PeerQueue, caller: Caller) -> None:
    """Let a party in."""
    answer = Welcome(place.attempt, letters.safe, letters.arrived, letters.sent, b"")
    signature = card.identity.sign(welcome_statement(card.name, caller.signed, _unsigned(answer)))
    await wire.send(msgspec.structs.replace(answer, signature=signature))


async def challenged(wire: Wire, card: Card, aggregator: str) -> Challenge:
    """Hear, as a party, who listens; nothing has been said so far."""
    challenge = await _next_frame(wire)
    if not isinstance(challenge, Challenge):
        raise PeerError("began with another frame than a challenge", peer=aggregator)
    if challenge.link != LINK:
        raise AgreementError(
            f"{aggregator} speaks {challenge.link!r}, {card.name} {LINK}: install the same version of kcagc"
        )
    if challenge.name != aggregator:
        raise RejectedError(f"{challenge.name!r} listens at its address", peer=aggregator)
    return challenge


async def introduce(
    wire: Wire, card: Card, challenge: Challenge, place: Place, letters: PeerQueue, patience: float
) -> Welcome:
    """Answer a challenge; give the welcome, once it is certain that the right aggregator said it.

    `patience` is how long the welcome may take, in seconds.
    """
    aggregator = letters.peer
    bound = place.bound.get(aggregator, b"")
    said = Open(
        link=LINK,
        name=card.name,
        nonce=random_token(),
        certificate=card.certificate,
        attempt=place.attempt,
        bound=bound,
        safe=letters.safe,
        arrived=letters.arrived,
        sent=letters.sent,
        inputs=card.agreement.inputs(),
        signature=b"",
    )
    signed = opening_statement(aggregator, challenge.nonce, _unsigned(said))
    await wire.send(msgspec.structs.replace(said, signature=card.identity.sign(signed)))
    answer = await _next_frame(wire, max(patience, _SECONDS))
    if not isinstance(answer, Welcome):
        raise PeerError("answered an opening with something else than a welcome", peer=aggregator)
    expected = welcome_statement(aggregator, signed, _unsigned(answer))
    if not verify(card.agreement.participant(aggregator).identity, expected, answer.signature):
        raise RejectedError(
            f"the server at its address does not have the identity key that {card.name} has pinned", peer=aggregator
        )
    if bound not in (b"", answer.attempt):
        raise SessionError(f"that session is over: {aggregator} has begun another")
    older = max(answer.safe, answer.arrived) > letters.sent or answer.safe < letters.acknowledged
    if older or max(letters.safe, letters.arrived) > answer.sent:
        raise SessionError(
            f"the journals of {card.name} and {aggregator} are not of the same age: one is an older copy. Start all "
            "roles with --new-session"
        )
    return answer


def refused(refusal: Rejected, aggregator: str) -> Exception:
    """Give the error of a party that was refused."""
    kinds: dict[Reason, Callable[[str], Exception]] = {
        Reason.IDENTITY: RejectedError,
        Reason.AGREEMENT: AgreementError,
        Reason.SESSION: SessionError,
        Reason.MISBEHAVIOUR: PeerError,
    }
    return kinds[refusal.reason](f"{aggregator} refuses: {printable(refusal.words)}")


async def _next_frame(wire: Wire, seconds: float | None = None) -> AnyFrame:
    async with asyncio.timeout(seconds or _SECONDS):  # `wait_for` may forget, before Python 3.12, that it was cancelled
        return await wire.receive()


def _unsigned(frame: Open | Welcome) -> bytes:
    return encode_frame(msgspec.structs.replace(frame, signature=b""))
