"""The aggregator: relays hellos and encrypted messages, adds masked vectors, and answers.

The coordinator is the aggregator, or the last party as in the paper. The aggregator computes from the agreement which
groups add vectors and in which order. It does not know how many rounds a group needs, because convergence shows in the
labels, and the aggregator has none.

Its answers come from integers alone. Two sums count as equal if rounding can explain their difference. The parties
decide which of several equal columns wins, because only they know which cluster a column is: the lowest number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from kcagc.errors import PeerError
from kcagc.protocol.agreement import Agreement, check_hello, id_of, own_hello
from kcagc.protocol.cells import random_for
from kcagc.protocol.effects import Channel, LoadResult, Progress, Role, StoreResult, run_concurrently
from kcagc.protocol.messages import (
    Answer,
    Choice,
    EncryptedMessages,
    Finished,
    Hello,
    Hellos,
    Masked,
    RelayedMessages,
    RunStage,
    Step,
    encode,
    expect,
    kind_of,
    pack,
)
from kcagc.protocol.plan import Merge, layers
from kcagc.secagg.keys import Identity, Secrets
from kcagc.secagg.masks import CHECK_WORDS, ONE, Group, RingVector, Sums, decode, open_sum
from kcagc.text import printable

# Each of 16 parties rounds by half a unit of 2^-44, and floating point adds a few: for distances of the order of one.
TIE_TOLERANCE = 64
MARGIN = 9  # Protocol 2, line 14
LOOKAHEAD = 3  # on the public graphs: a third fewer rounds, and the winning restart costs 0.1 % more on average


class StoredAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of one answered secure sum: its shape, the answer's bytes, and the costs of active restarts."""

    step: Step
    shape: tuple[int, ...]
    n_costs: int
    kind: str
    payload: bytes
    costs: dict[int, int]


@dataclass(frozen=True, eq=False)
class AggregatorResult:
    """The session id, and how many sums the aggregator opened."""

    session: bytes
    sums: int


async def coordinator(
    name: str, agreement: Agreement, identity: Identity, secrets: Secrets, *, seed: int
) -> AggregatorResult:
    """Run the coordinator: it signs a hello and holds no data; `seed` is for the choices that it makes."""
    agreement.check()
    agreement.check_identity(name, identity)
    return await Aggregator(name, agreement, seed).run(own_hello(name, agreement, identity, secrets))


def aggregator_of_party(name: str, agreement: Agreement, *, seed: int) -> Role[AggregatorResult]:
    """Return the aggregator half of a party; the member half sends the hello."""
    return Aggregator(name, agreement, seed).run(None)


class Aggregator:
    """One run of the aggregator."""

    def __init__(self, name: str, agreement: Agreement, seed: int) -> None:
        self.agreement, self.parties = agreement, agreement.parties
        self.channel = Channel(name, is_aggregator=True)
        self._seed = seed
        self._sums = 0
        self._last_loaded: dict[str, int] = {}  # by group, the last sum whose answer an earlier process stored
        parameters = agreement.parameters
        fit_steps = {Step.MARGIN, Step.LLOYD} | ({Step.SEEDING} if parameters.seeding == "d2" else set())
        self._steps = {Step.PREDICTION} if parameters.task == "predict" else fit_steps

    async def run(self, own: Hello | None) -> AggregatorResult:
        """Relay and add from the first hello to the last receipt; `own` is the hello of a coordinator."""
        session = await self._exchange_hellos(own)
        to_all_others = {party: tuple(other for other in self.parties if other != party) for party in self.parties}
        await self._relay(RunStage(Step.CONFIRMATION), to_all_others)
        merges = {merge.group.members: merge for layer in layers(self.agreement) for merge in layer}
        await self._serve_from_below(merges[self.parties], merges)
        await self._relay(RunStage(Step.RECEIPT), to_all_others)
        return AggregatorResult(session, self._sums)

    async def _exchange_hellos(self, own: Hello | None) -> bytes:
        """Collect all hellos and send them to every party; return the session id."""
        hellos = []
        for done, party in enumerate(self.parties):
            await Progress("waiting for every party's hello", done, len(self.parties))
            hello = await self.channel.receive(party, Hello)
            check_hello(self.channel.me, self.agreement, hello, party)
            hellos.append(hello)
        collected = Hellos((*hellos, own) if own else tuple(hellos))
        for party in self.parties:
            await self.channel.send(party, collected, RunStage(Step.HELLO), shape=(len(collected.hellos),))
        return id_of(self.agreement, collected.hellos)

    async def _relay(self, stage: RunStage, routes: dict[str, tuple[str, ...]]) -> None:
        """Relay encrypted messages from each sender to its receivers, in the agreed order of senders."""
        pending: dict[str, list[tuple[str, bytes]]] = {}
        for sender, receivers in routes.items():
            message = await self.channel.receive(sender, EncryptedMessages)
            if message.stage != stage:
                got = printable(str(message.stage))
                raise PeerError(f"sent encrypted messages of {got!r} where {str(stage)!r} was expected", peer=sender)
            named = tuple(receiver for receiver, _ in message.ciphertexts)
            if named != receivers:
                got, wanted = printable(", ".join(named)), ", ".join(receivers)
                raise PeerError(f"sent encrypted messages to {got} where {wanted} were expected", peer=sender)
            for receiver, ciphertext in message.ciphertexts:
                pending.setdefault(receiver, []).append((sender, ciphertext))
        for receiver, ciphertexts in pending.items():
            relayed = RelayedMessages(stage, tuple(ciphertexts))
            await self.channel.send(receiver, relayed, stage, shape=(len(ciphertexts),))

    async def _serve_from_below(self, merge: Merge, merges: dict[tuple[str, ...], Merge]) -> None:
        """Serve a merge after those below it; merges of one layer do not wait for each other."""
        below = [merges[child] for child in merge.children if child in merges]
        await run_concurrently([self._serve_from_below(one, merges) for one in below])
        await self._serve(merge)

    async def _serve(self, merge: Merge) -> None:
        """Answer the sums of one group until its members are finished."""
        group, parameters = merge.group, self.agreement.parameters
        if parameters.task == "fit" and parameters.method != "basic":
            await self._relay(RunStage.of_group(Step.LABELS, group), merge.routes())
        number, costs = 0, dict[int, int]()
        while (stored := await self._next_answer(group, number, costs)) is not None:
            costs = stored.costs
            await self.channel.record_sum(group, stored.step, number, stored.shape, stored.n_costs)
            self._sums += 1
            stage = RunStage.of_group(stored.step, group, number)
            for member in group.members:
                await self.channel.send_bytes(member, stored.payload, stored.kind, stage)
            number += 1

    async def _next_answer(self, group: Group, number: int, costs: dict[int, int]) -> StoredAnswer | None:
        """Return the answer to a sum, or None when the group is finished.

        The stored answer is all that the aggregator keeps of a sum. After a crash it sends the answer again, and does
        not ask for the vectors a second time.
        """
        name = f"answer {group.name} {number}"
        kept = await LoadResult(name)
        if kept is not None:
            self._last_loaded[group.name] = number
            if group.aggregator_is_member:  # its member half is replayed as well, and sends its vector again
                await self._receive_vector(group.aggregator, group, number)
            return msgspec.msgpack.decode(kept, type=StoredAnswer)
        first = await self._receive_vector(group.members[0], group, number)
        if isinstance(first, Finished):
            for member in group.members[1:]:
                if not isinstance(await self._receive_vector(member, group, number), Finished):
                    raise _transcripts_differ(group, number, f"{group.members[0]} is finished, {member} is not")
            return None
        await Progress(f"{group.title}: adding vectors of sum", number + 1)
        sums, new_costs = await self._add(group, first, number)
        known = costs | new_costs
        best = best_restart(known)
        stopped = restarts_to_stop(costs, new_costs, known.get(best, 0))

        def compute() -> bytes:
            answer = self._answer(group, first, sums)
            if isinstance(answer, Answer) and new_costs:
                answer = msgspec.structs.replace(answer, best=best, cost=known[best] / ONE, stopped=stopped)
            active = {restart: cost for restart, cost in known.items() if restart not in stopped}
            return msgspec.msgpack.encode(
                StoredAnswer(first.step, first.shape, len(new_costs), kind_of(answer), encode(answer), active)
            )

        return msgspec.msgpack.decode(await StoreResult(name, compute), type=StoredAnswer)

    async def _receive_vector(self, member: str, group: Group, number: int) -> Masked | Finished:
        """Receive a member's vector for the sum of this number, or the message that it is finished."""
        message, _ = await self.channel.receive_any(member)
        while isinstance(message, Masked) and self._is_answered(message, group, number):
            message, _ = await self.channel.receive_any(member)
        if not isinstance(message, Finished):
            message = expect(message, Masked, member)
            if message.number != number:
                raise PeerError(f"sent a vector for sum {message.number} where sum {number} was expected", peer=member)
            if message.step not in self._steps:
                raise PeerError(f"requested a sum of {str(message.step)!r}, which was not agreed on", peer=member)
            n_values = math.prod(message.shape) + len(message.costs)
            if min(message.shape) < 1 or len(message.words) != 8 * (n_values + CHECK_WORDS):
                raise PeerError(f"sent {len(message.words)} bytes for a vector of shape {message.shape}", peer=member)
            if message.costs and message.step is not Step.LLOYD:
                raise PeerError(f"sent costs in a sum of {str(message.step)!r}", peer=member)
        if message.group != group.name:
            raise PeerError(f"sent a message of group {printable(message.group)}, not of {group.name}", peer=member)
        return message

    def _is_answered(self, message: Masked, group: Group, number: int) -> bool:
        """Return whether a party repeats, after a crash, a vector that was answered before."""
        last = self._last_loaded.get(group.name, -1)
        return message.group == group.name and message.number <= last and message.number != number

    async def _add(self, group: Group, first: Masked, number: int) -> tuple[Sums, dict[int, int]]:
        """Add the vectors of all members (Protocol 4, line 14); return the sums, and the cost of each restart."""
        total = _words(first).copy()
        for member in group.members[1:]:
            message = await self._receive_vector(member, group, number)
            if isinstance(message, Finished):
                raise _transcripts_differ(group, number, f"{member} is finished, {group.members[0]} is not")
            if (message.step, message.shape, message.costs) != (first.step, first.shape, first.costs):
                ours, theirs = f"{first.step} {first.shape}", f"{message.step} {message.shape}"
                raise _transcripts_differ(group, number, f"{group.members[0]} is at {ours}, {member} at {theirs}")
            total += _words(message)
        try:
            sums = open_sum(total, len(group.members))
        except PeerError as error:
            raise PeerError(f"group {group.name}, sum {number}: {error}") from error
        n_distances = math.prod(first.shape)
        costs = dict(zip(first.costs, sums[n_distances:].tolist(), strict=True))
        return sums[:n_distances].reshape(first.shape), costs

    def _answer(self, group: Group, asked: Masked, sums: Sums) -> Answer | Choice:
        if asked.step is Step.SEEDING:
            seed = [self._seed, group.layer, group.index, asked.number]
            return Choice(group.name, asked.number, draw_rows(sums, seed))
        return compare_columns(group.name, asked.number, sums, with_margin=asked.step is Step.MARGIN)


def _transcripts_differ(group: Group, number: int, how: str) -> PeerError:
    return PeerError(f"group {group.name}, sum {number}: transcripts differ: {how}")


def _words(message: Masked) -> RingVector:
    return np.frombuffer(message.words, dtype="<u8").astype(np.uint64, copy=False)


def compare_columns(group: str, number: int, sums: Sums, *, with_margin: bool) -> Answer:
    """Return for each row of restarts × rows × columns sums its first smallest column and the others that tie with it.

    With `with_margin`, also return whether the smallest is at most 1/9 of the second smallest (Protocol 2, line
    14).
    """
    columns = sums.shape[2]
    flat = sums.reshape(-1, columns)
    smallest = flat.min(axis=1)
    ties = flat <= (smallest + TIE_TOLERANCE)[:, None]
    first = ties.argmax(axis=1)
    ties[np.arange(len(flat)), first] = False
    rows, positions = np.nonzero(ties)
    clear = b""
    if with_margin:
        has_margin = np.ones(len(flat), bool)  # a single column has no rival
        if columns > 1:
            has_margin = smallest <= (np.partition(flat, 1, axis=1)[:, 1] + TIE_TOLERANCE) // MARGIN
        clear = pack(has_margin, 2)
    tied = rows.astype("<u8").tobytes(), positions.astype("<u4").tobytes()
    return Answer(group, number, pack(first, columns), *tied, clear)


def draw_rows(sums: Sums, seed: list[int]) -> tuple[int, ...]:
    """Draw for each restart a row with probability proportional to its smallest sum (D² sampling)."""
    random = random_for(*seed)
    drawn = []
    for smallest in np.maximum(sums.min(axis=2), 0):
        mass = np.cumsum(decode(smallest))
        at = np.searchsorted(mass, random.random_sample() * mass[-1], side="right")
        drawn.append(int(min(at, len(mass) - 1)))
    return tuple(drawn)


def best_restart(costs: dict[int, int]) -> int:
    """Return the first restart with the lowest cost; 0 if there are no costs."""
    lowest = min(costs.values(), default=0)
    return min((restart for restart, cost in costs.items() if cost <= lowest + TIE_TOLERANCE), default=0)


def restarts_to_stop(before: dict[int, int], now: dict[int, int], lowest: int) -> tuple[int, ...]:
    """Return the restarts that stay above the lowest cost even if they fall `LOOKAHEAD` times as far as last time.

    As a rule, each round of Lloyd's method lowers the cost less than the round before.
    """
    return tuple(
        restart
        for restart, cost in now.items()
        if restart in before and cost - LOOKAHEAD * max(before[restart] - cost, 0) > lowest + TIE_TOLERANCE
    )
