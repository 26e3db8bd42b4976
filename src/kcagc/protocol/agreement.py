"""What all roles must agree on before anything else: the protocol's version, who takes part, and every parameter."""

from __future__ import annotations

from collections import Counter
from typing import Literal, get_args

import msgspec

from kcagc.cluster.local import Scaling
from kcagc.errors import AgreementError, ParameterError, PeerError
from kcagc.parameters import check_choice, check_count
from kcagc.secagg.fixed_point import MAX_PARTIES
from kcagc.secagg.identity import sound

PROTOCOL = "kcagc/2"

Task = Literal["fit", "predict"]
Method = Literal["basic", "kcagc", "tree"]
VirtualNodes = Literal["cell", "local"]
Seeding = Literal["common", "d2"]
AggregatorKind = Literal["coordinator", "party"]
GraphSharing = Literal["shared", "own"]
RoleName = Literal["party", "coordinator"]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every parameter of a run; `model` names the fit that a prediction continues."""

    task: Task = "fit"
    method: Method = "kcagc"
    n_clusters: int
    n_local_clusters: int = 0  # 0 for the basic method, which has none
    filter: str
    n_components: int
    scaling: Scaling = "unit"
    unit: float = 1.0
    virtual_nodes: VirtualNodes = "cell"
    seeding: Seeding = "common"
    fan_in: int = 2
    aggregator: AggregatorKind = "coordinator"
    max_iter: int = 100
    n_init: int = 10
    graph: GraphSharing = "shared"
    model: str = ""

    def check(self) -> None:
        """Refuse what means nothing, before anything is sent."""
        for name, kinds in _CHOICES.items():
            check_choice(name, getattr(self, name), get_args(kinds))
        check_count("n_clusters", self.n_clusters)
        check_count("n_components", self.n_components)
        check_count("max_iter", self.max_iter)
        check_count("n_init", self.n_init)
        check_count("fan_in", self.fan_in, least=2)
        if not (isinstance(self.unit, int | float) and 0 < self.unit < float("inf")):
            raise ParameterError(f"unit: must be a positive number, not {self.unit!r}")
        if self.task == "fit" and self.method != "basic":
            check_count("n_local_clusters", self.n_local_clusters, least=2)


_CHOICES = {
    "task": Task,
    "method": Method,
    "scaling": Scaling,
    "virtual_nodes": VirtualNodes,
    "seeding": Seeding,
    "aggregator": AggregatorKind,
    "graph": GraphSharing,
}


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
            if not sound(seat.identity):
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
