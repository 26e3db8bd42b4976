"""The aggregator relays hellos and boxes, adds masked vectors and answers. It is the coordinator or the last party.

It holds no data. Which groups sum, and in what order, it computes from the roster and the parameters; how many rounds a
group needs it does not know, because convergence shows in labels, and it has none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from kcagc.errors import AgreementError, PeerError
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.answers import cheapest, hopeless, judge, sample
from kcagc.protocol.channel import Channel
from kcagc.protocol.effects import Role, load_result, progress, stored_result, together
from kcagc.protocol.handshake import check_hello, id_of, own_hello
from kcagc.protocol.messages import (
    Answer,
    Choice,
    EncryptedMessages,
    Finished,
    Hello,
    Hellos,
    Masked,
    Message,
    RelayedMessages,
    encode,
    expect,
    kind_of,
)
from kcagc.protocol.parameters import Seeding
from kcagc.protocol.plan import Merge, layers
from kcagc.secagg.keys import Identity, Secrets
from kcagc.secagg.masks import CHECK_WORDS, ONE, RingVector, Sums, open_sum
from kcagc.text import printable

_STAGES: dict[Seeding, frozenset[str]] = {
    "common": frozenset({"margin", "lloyd"}),
    "d2": frozenset({"margin", "lloyd", "seed"}),
}


class Answered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of one answered secure sum: its shape, the answer's bytes, and the costs of the open restarts."""

    stage: str
    shape: tuple[int, ...]
    n_costs: int
    kind: str
    payload: bytes
    costs: dict[int, int]


@dataclass(frozen=True, eq=False)
class AggregatorResult:
    """Which session it was, and how many sums the aggregator opened."""

    session: bytes
    sums: int


async def coordinator(
    name: str, agreement: Agreement, identity: Identity, secrets: Secrets, *, seed: int
) -> AggregatorResult:
    """Run the neutral role: it is on the roster, signs a hello, and holds no data; `seed` is for its own choices."""
    agreement.check()
    if agreement.participant(name).identity != identity.public:
        raise AgreementError(f"{name}: the roster has another identity key for {name} than its own")
    aggregator = Aggregator(name, agreement, seed)
    return await aggregator.run(own_hello(name, agreement, identity, secrets))


class Aggregator:
    """One run of the aggregator."""

    def __init__(self, name: str, agreement: Agreement, seed: int) -> None:
        self.agreement, self.parties = agreement, agreement.parties
        self.channel = Channel(name, hears_everybody=True)
        self._seed = seed
        self._sums = 0
        self._recalled: dict[str, int] = {}  # by group, the last sum whose answer was stored before this run
        predicting = agreement.parameters.task == "predict"
        self._stages = frozenset({"predict"}) if predicting else _STAGES[agreement.parameters.seeding]

    async def run(self, own: Hello | None) -> AggregatorResult:
        """Relay and sum from the first hello to the last receipt; `own` is a coordinator's hello."""
        session = await self._hellos(own)
        to_all_others = {party: tuple(other for other in self.parties if other != party) for party in self.parties}
        await self._relay("confirmation", to_all_others)
        merges = {merge.group.members: merge for layer in layers(self.agreement) for merge in layer}
        await self._serve_from_below(merges[self.parties], merges)
        await self._relay("receipt", to_all_others)
        return AggregatorResult(session, self._sums)

    async def _hellos(self, own: Hello | None) -> bytes:
        """Collect all hellos and show them to everybody; give the session's id, which they make."""
        hellos = []
        for done, party in enumerate(self.parties):
            await progress("waiting for every party's hello", done, len(self.parties))
            hello = await self.channel.receive(party, Hello)
            check_hello(self.channel.me, self.agreement, hello, party)
            hellos.append(hello)
        everybody = Hellos((*hellos, own) if own else tuple(hellos))
        for party in self.parties:
            await self.channel.send(party, everybody, stage="hello", shape=(len(everybody.hellos),))
        return id_of(self.agreement, everybody.hellos)

    async def _relay(self, stage: str, routes: dict[str, tuple[str, ...]]) -> None:
        """Pass boxes on, from each sender to its receivers; each gets them in the roster's order of senders."""
        pending: dict[str, list[tuple[str, bytes]]] = {}
        for sender, receivers in routes.items():
            message = await self.channel.receive(sender, EncryptedMessages)
            if message.stage != stage:
                raise PeerError(f"sent boxes of {message.stage!r} where those of {stage!r} were due", peer=sender)
            named = tuple(receiver for receiver, _ in message.boxes)
            if named != receivers:
                told, due = printable(", ".join(named)), ", ".join(receivers)
                raise PeerError(f"sent boxes for {told} where {due} were to get one each", peer=sender)
            for receiver, box in message.boxes:
                pending.setdefault(receiver, []).append((sender, box))
        for receiver, boxes in pending.items():
            shape = (len(boxes),)
            await self.channel.send(receiver, RelayedMessages(stage, tuple(boxes)), stage=stage, shape=shape)

    async def _serve_from_below(self, merge: Merge, merges: dict[tuple[str, ...], Merge]) -> None:
        """Serve a merge once those below it are done; merges side by side do not wait for each other."""
        below = [merges[child] for child in merge.children if child in merges]
        await together([self._serve_from_below(one, merges) for one in below])
        await self._serve(merge)

    async def _serve(self, merge: Merge) -> None:
        """Sum for one group until its members say that they are done."""
        group, parameters = merge.group, self.agreement.parameters
        if parameters.task == "fit" and parameters.method != "basic":
            await self._relay(f"labels {group.name}", merge.routes())
        number, costs = 0, dict[int, int]()
        while (answered := await self._answered(merge, number, costs)) is not None:
            costs = answered.costs
            stage = f"{group.name} {answered.stage} {number}"
            await self.channel.opened(group, answered.stage, stage, answered.shape, answered.n_costs)
            self._sums += 1
            for member in group.members:
                await self.channel.send_bytes(member, answered.payload, answered.kind, stage)
            number += 1

    async def _answered(self, merge: Merge, number: int, costs: dict[int, int]) -> Answered | None:
        """Give the answer to a sum, or None when the group is done.

        The answer is stored, and is the aggregator's only memory of a sum: after a crash it is sent again, and vectors
        that it came from are not asked for a second time.
        """
        group = merge.group
        name = f"answer {group.name} {number}"
        kept = await load_result(name)
        if kept is not None:
            self._recalled[group.name] = number
            if group.aggregator_is_member:  # one's own other half, replayed like this one, sends its vector again
                await self._next(group.aggregator, merge, number)
            return msgspec.msgpack.decode(kept, type=Answered)
        first = await self._next(group.members[0], merge, number)
        if isinstance(first, Finished):
            for member in group.members[1:]:
                if not isinstance(await self._next(member, merge, number), Finished):
                    raise _differ(merge, number, f"{group.members[0]} is done, {member} is not")
            return None
        await progress(f"{group.title}: adding up, sum", number + 1)
        sums, told = await self._sum(merge, first, number)
        known = costs | told
        best = cheapest(known)
        given_up = hopeless(costs, told, known.get(best, 0))
        going_on = {start: cost for start, cost in known.items() if start not in given_up}

        def compute() -> bytes:
            answer = self._answer(merge, first, sums)
            if isinstance(answer, Answer) and told:
                cost = known[best] / ONE
                answer = msgspec.structs.replace(answer, best=best, cost=cost, given_up=given_up)
            return msgspec.msgpack.encode(
                Answered(first.stage, first.shape, len(told), kind_of(answer), encode(answer), going_on)
            )

        return msgspec.msgpack.decode(await stored_result(name, compute), type=Answered)

    async def _next(self, member: str, merge: Merge, number: int) -> Masked | Finished:
        """Receive a vector for the sum of this number, or the word that there will be none."""
        message, _ = await self.channel.hear(member)
        while isinstance(message, Masked) and self._was_answered(message, merge, number):
            message, _ = await self.channel.hear(member)
        if not isinstance(message, Finished):
            message = expect(message, Masked, member)
            if message.number != number:
                raise PeerError(
                    f"sent a vector for sum {message.number} where that of sum {number} was due", peer=member
                )
            if message.stage not in self._stages:
                raise PeerError(f"asked for a sum of {message.stage!r}, which was not agreed on", peer=member)
            if min(message.shape) < 1 or len(message.words) != 8 * (_n_values(message) + CHECK_WORDS):
                raise PeerError(
                    f"a vector of {len(message.words)} bytes does not have shape {message.shape}", peer=member
                )
            if message.costs and message.stage != "lloyd":
                raise PeerError(f"told costs in a sum of {message.stage!r}", peer=member)
        if message.group != merge.group.name:
            raise PeerError(f"spoke of group {printable(message.group)}, where {merge.group.name} was due", peer=member)
        return message

    def _was_answered(self, message: Masked, merge: Merge, number: int) -> bool:
        """Say whether a party sends again, after a crash, what was answered before it."""
        last = self._recalled.get(merge.group.name, -1)
        return message.group == merge.group.name and message.number <= last and message.number != number

    async def _sum(self, merge: Merge, first: Masked, number: int) -> tuple[Sums, dict[int, int]]:
        """Add up what the members send; give the sums, and apart what each start costs."""
        group = merge.group
        total = _words(first).copy()
        for member in group.members[1:]:
            message = await self._next(member, merge, number)
            if isinstance(message, Finished):
                raise _differ(merge, number, f"{member} is done, {group.members[0]} is not")
            if (message.stage, message.shape, message.costs) != (first.stage, first.shape, first.costs):
                ours, theirs = f"{first.stage} {first.shape}", f"{message.stage} {message.shape}"
                raise _differ(merge, number, f"{group.members[0]} is at {ours}, {member} at {theirs}")
            total += _words(message)
        try:
            sums = open_sum(total, len(group.members))
        except PeerError as error:
            raise PeerError(f"group {group.name}, sum {number}: {error}") from error
        n_distances = math.prod(first.shape)
        told = dict(zip(first.costs, sums[n_distances:].tolist(), strict=True))
        return sums[:n_distances].reshape(first.shape), told

    def _answer(self, merge: Merge, asked: Masked, sums: Sums) -> Message:
        name = merge.group.name
        seed = [self._seed, merge.group.layer, merge.group.index, asked.number]
        if asked.stage == "seed":
            return Choice(name, asked.number, sample(sums, seed))
        verdict = judge(sums, by_nine=asked.stage == "margin")
        return Answer(name, asked.number, verdict.winners, verdict.tied_rows, verdict.tied_positions, verdict.clear)


def _differ(merge: Merge, number: int, how: str) -> PeerError:
    return PeerError(f"group {merge.group.name}, sum {number}: transcripts differ: {how}")


def _n_values(message: Masked) -> int:
    return math.prod(message.shape) + len(message.costs)


def _words(message: Masked) -> RingVector:
    return np.frombuffer(message.words, dtype="<u8").astype(np.uint64, copy=False)


def aggregator_of_party(name: str, agreement: Agreement, *, seed: int) -> Role[AggregatorResult]:
    """Give the other half of a party that sums: its hello is the member half's."""
    return Aggregator(name, agreement, seed).run(None)
