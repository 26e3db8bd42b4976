"""What all roles must agree on before anything else: the protocol's version, who takes part, and every parameter."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from kcagc.errors import AgreementError, ParameterError, PeerError
from kcagc.protocol.parameters import Parameters
from kcagc.secagg.keys import is_identity_key
from kcagc.secagg.masks import MAX_PARTIES

PROTOCOL = "kcagc/2"

RoleName = Literal["party", "coordinator"]


class Participant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One role of the participants: its name, what it is, and its pinned identity key."""

    name: str
    role: RoleName
    identity: bytes


class Agreement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The session's inputs: all roles hold the same, or the run ends before it begins."""

    protocol: str = PROTOCOL
    participants: tuple[Participant, ...]
    parameters: Parameters

    @property
    def parties(self) -> tuple[str, ...]:
        """The data parties, in the order of the roster."""
        return tuple(seat.name for seat in self.participants if seat.role == "party")

    @property
    def aggregator(self) -> str:
        """The role that relays and sums: the coordinator, or the last party as in the paper."""
        return self.participants[-1].name

    def participant(self, name: str) -> Participant:
        """Give the seat of a role."""
        for seat in self.participants:
            if seat.name == name:
                return seat
        raise ParameterError(f"roles: there is no {name!r}")

    def inputs(self) -> bytes:
        """Give the bytes that are signed and hashed: the same for all who agree."""
        return msgspec.msgpack.encode(self)

    def check(self) -> None:
        """Refuse a roster or parameters that make no session."""
        names = [seat.name for seat in self.participants]
        keys = [seat.identity for seat in self.participants]
        for what, values in (("name", names), ("identity key", [key.hex() for key in keys])):
            again = [value for value, count in Counter(values).items() if count > 1]
            if again:
                raise ParameterError(f"roles: two roles have the same {what}, {again[0]!r}")
        for seat in self.participants:
            if not seat.name or len(seat.name) > 64 or not seat.name.isprintable():
                raise ParameterError(f"roles: {seat.name!r} is no name; 1 to 64 printable letters make one")
            if not is_identity_key(seat.identity):
                raise ParameterError(f"roles: {seat.name}: {seat.identity.hex()[:16]}… is no identity key")
        if not 2 <= len(self.parties) <= MAX_PARTIES:
            raise ParameterError(f"roles: {len(self.parties)} data parties; there must be 2 to {MAX_PARTIES}")
        roles = [seat.role for seat in self.participants]
        wanted = ["coordinator"] if self.parameters.aggregator == "coordinator" else []
        if roles != ["party"] * len(self.parties) + wanted:
            raise ParameterError(
                f"roles: with aggregator={self.parameters.aggregator!r} there must be {len(wanted)} coordinator, "
                "after all parties"
            )
        self.parameters.check()


def read_inputs(inputs: bytes, sender: str) -> Agreement:
    """Read what another role agrees to."""
    try:
        return msgspec.msgpack.decode(inputs, type=Agreement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(f"the inputs of its hello cannot be read: {error}", peer=sender) from error


def compare(me: str, mine: Agreement, other: str, theirs: Agreement) -> None:
    """Name every field in which another role's inputs differ from one's own."""
    different = []
    if mine.protocol != theirs.protocol:
        different.append(("protocol", mine.protocol, theirs.protocol))
    ours, yours = msgspec.structs.asdict(mine.parameters), msgspec.structs.asdict(theirs.parameters)
    different += [(field, ours[field], yours[field]) for field in ours if ours[field] != yours[field]]
    if mine.participants != theirs.participants:
        different.append(("roles", _listed(mine, theirs), _listed(theirs, mine)))
    if different:
        listed = "; ".join(f"{field}: {me} has {ours!r}, {other} has {yours!r}" for field, ours, yours in different)
        message = f"{me} and {other} do not agree: {listed}"
        raise AgreementError(message).with_public_message(message)


def _listed(one: Agreement, other: Agreement) -> str:
    """List the seats that another roster does not have, or all if only the order differs."""
    seats = [seat for seat in one.participants if seat not in other.participants] or one.participants
    return ", ".join(f"{seat.role} {seat.name} ({_short(seat.identity.hex(), other)})" for seat in seats)


def _short(key: str, other: Agreement) -> str:
    """Write a key's first digits, or all where another key begins like it."""
    alike = [seat for seat in other.participants if seat.identity.hex()[:8] == key[:8] and seat.identity.hex() != key]
    return key if alike else f"{key[:8]}…"
