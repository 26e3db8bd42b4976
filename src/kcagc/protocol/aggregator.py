"""The aggregator: relays hellos and encrypted messages, adds masked vectors, and answers.

The coordinator is the aggregator, or the last party as in the paper. The aggregator computes from the agreement which
groups add vectors and in which order. It does not know how many rounds a group needs, because convergence shows in the
labels, and the aggregator has none.

It answers each sum with one bit for each comparison: whether the sum is positive. What a comparison belongs to, and
whether its sign was flipped, only the parties know.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from kcagc.errors import PeerError
from kcagc.protocol.agreement import Agreement, check_hello, id_of, own_hello
from kcagc.protocol.effects import Channel, LoadResult, Progress, Role, StoreResult, run_concurrently
from kcagc.protocol.joint_coordinator import (
    ASSIGNING_STEPS,
    JOINT_STEPS,
    SEARCH_STEPS,
    JointCoordinator,
    answer_route,
    find_directions,
    senders_of,
    steps_of,
)
from kcagc.protocol.messages import (
    Answer,
    EncryptedMessages,
    Finished,
    Hello,
    Hellos,
    Masked,
    Message,
    Padded,
    RelayedMessages,
    RunStage,
    Step,
    encode,
    expect,
    pack,
    pair_stage,
)
from kcagc.protocol.parameters import MATCHING
from kcagc.protocol.plan import Merge, layers
from kcagc.protocol.search import FIT, search_plans
from kcagc.protocol.subspace import SubspacePlan
from kcagc.secagg.keys import Identity, Secrets
from kcagc.secagg.masks import CHECK_WORDS, Group, RingVector, Sums, open_sum
from kcagc.text import printable


class StoredAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored form of one answered secure sum: its step, its length, and the bytes of the answer.

    Of padded rows and centres, the bytes are the sum itself: rows have no answer, and the answer to centres is computed
    from it, with the second holder's `draw`. `phase` counts the searches before this sum.
    """

    step: Step
    length: int
    payload: bytes
    draw: int = 0
    phase: int = 0


@dataclass(frozen=True, eq=False)
class AggregatorResult:
    """The session id, and how many sums the aggregator opened."""

    session: bytes
    sums: int


async def coordinator(name: str, agreement: Agreement, identity: Identity, secrets: Secrets) -> AggregatorResult:
    """Run the coordinator: it signs a hello and holds no data."""
    agreement.check()
    agreement.check_identity(name, identity)
    return await Aggregator(name, agreement, secrets.shuffling).run(own_hello(name, agreement, identity, secrets))


def aggregator_of_party(name: str, agreement: Agreement) -> Role[AggregatorResult]:
    """Return the aggregator half of a party; the member half sends the hello."""
    return Aggregator(name, agreement).run(None)


class Aggregator:
    """One run of the aggregator."""

    def __init__(self, name: str, agreement: Agreement, secret: bytes = b"") -> None:
        self.agreement, self.parties, self._secret = agreement, agreement.parties, secret
        self.channel = Channel(name, is_aggregator=True)
        self._sums = 0
        self._last_loaded: dict[str, int] = {}  # by group, the last sum whose answer an earlier process stored
        self._may_repeat_components: set[str] = set()  # parties, if an earlier process stored the joint directions
        self._steps = steps_of(agreement.parameters)
        self._joint: JointCoordinator | None = None
        self._phase = 0  # searches that are finished: those of a session and its fit have the same steps

    async def run(self, own: Hello | None) -> AggregatorResult:
        """Relay and add from the first hello to the last receipt; `own` is the hello of a coordinator."""
        session = await self._exchange_hellos(own)
        to_all_others = {party: tuple(other for other in self.parties if other != party) for party in self.parties}
        if self.agreement.parameters.task in MATCHING:
            await self._serve_match()
            await self._relay(RunStage(Step.RECEIPT), to_all_others)
            return AggregatorResult(session, 0)
        await self._relay(RunStage(Step.CONFIRMATION), to_all_others)
        merges = {merge.group.members: merge for layer in layers(self.agreement) for merge in layer}
        parameters = self.agreement.parameters
        if parameters.method == "joint":
            await self._serve_joint(merges[self.parties].group, session, to_all_others)
        else:
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

    async def _serve_match(self) -> None:
        """Relay the messages of a matching of ids, which add nothing."""
        first, *others = self.parties
        for previous, other in zip(self.parties, others, strict=False):
            if previous != first:
                await self._relay(pair_stage(Step.KEPT, previous, other), {previous: (other,)})
            for step in (Step.IDS, Step.ANSWERS):
                await self._relay(pair_stage(step, first, other), {first: (other,), other: (first,)})
        if len(others) > 1:
            await self._relay(RunStage(Step.COMMON), {first: tuple(others[:-1])})

    async def _serve_from_below(self, merge: Merge, merges: dict[tuple[str, ...], Merge]) -> None:
        """Serve a merge after those below it; merges of one layer do not wait for each other."""
        below = [merges[child] for child in merge.children if child in merges]
        await run_concurrently([self._serve_from_below(one, merges) for one in below])
        await self._serve(merge)

    async def _serve(self, merge: Merge) -> None:
        """Answer the sums of one group until its members are finished."""
        group, parameters = merge.group, self.agreement.parameters
        if parameters.task == "fit" and parameters.has_local_clusters:
            await self._relay(RunStage.of_group(Step.LABELS, group), merge.routes())
        await self._answer_sums(group, self._steps)

    async def _answer_sums(self, group: Group, steps: frozenset[Step], number: int = 0) -> int:
        """Answer sums of these steps, the first of which has this number, until the group is finished.

        Returns the next number.
        """
        while (stored := await self._next_answer(group, steps, number)) is not None:
            await self.channel.record_sum(group, stored.step, number, stored.length)
            self._sums += 1
            stage = RunStage.of_group(stored.step, group, number)
            payload = stored.payload
            if self._joint is not None:
                self._joint.take(stored.step, payload)
                payload = self._joint.reply(group, stored.step, number, payload, stored.draw)
            kind, receivers = answer_route(group, stored.step)
            for member in receivers:
                await self.channel.send_bytes(member, payload, kind, stage)
            number += 1
        return number

    async def _serve_joint(self, group: Group, session: bytes, to_all_others: dict[str, tuple[str, ...]]) -> None:
        """Find the joint subspace, answer the sums of the joint method, and relay the weights."""
        parameters, number = self.agreement.parameters, 0
        in_shares, is_fit = parameters.joint_rows == "shares", parameters.task == "fit"
        plans = search_plans(parameters)
        for plan in plans:
            await self._relay(RunStage(Step.SIZES, group=plan.purpose.strip()), to_all_others)
            stored = await self._directions(plan.subspace, session)
            self._joint = JointCoordinator(parameters, session, stored, plan)
            await self._send_shares_of_rows(group)
            number = await self._answer_sums(group, SEARCH_STEPS, number)
            self._phase += 1
        if parameters.most_clusters and is_fit:
            return
        stored = b""
        if plans:
            await self._relay(RunStage(Step.SIZES, group=FIT), to_all_others)
        if in_shares and is_fit:
            stored = await self._directions(SubspacePlan(parameters.n_clusters), session)
        self._joint = JointCoordinator(parameters, session, stored)
        if stored:
            await self._send_shares_of_rows(group)
        number = await self._answer_sums(group, self._steps - ASSIGNING_STEPS, number)
        if in_shares and self._joint.opens_weights:
            await self._relay(RunStage(Step.WEIGHTS), {holder: to_all_others[holder] for holder in group.members[:2]})
        await self._answer_sums(group, self._steps & ASSIGNING_STEPS, number)

    async def _directions(self, plan: SubspacePlan, session: bytes) -> bytes:
        """Receive the padded components of all parties; return the stored joint directions."""
        name = f"directions{plan.purpose}"
        kept = await LoadResult(name)
        if kept is None:
            messages = {party: await self.channel.receive(party, Padded) for party in self.parties}
            await Progress("joint subspace: directions")
            return await StoreResult(name, lambda: find_directions(plan, session, self._secret, messages))
        self._may_repeat_components.update(self.parties)  # the earlier process may have ended before it acknowledged
        return kept

    async def _send_shares_of_rows(self, group: Group) -> None:
        """Send the first holder its shares of the directions and of the joint rows."""
        if self._joint is not None:
            split, shape = self._joint.shares_of_rows()
            await self.channel.send(group.members[0], split, RunStage(Step.SUBSPACE), shape=shape)

    async def _next_answer(self, group: Group, steps: frozenset[Step], number: int) -> StoredAnswer | None:
        """Return the answer to a sum of one of these steps, or None when the group is finished with them.

        The stored answer is all that the aggregator keeps of a sum. After a crash it sends the answer again, and does
        not ask for the vectors a second time. A stored answer of a later step or phase shows that the group was
        finished.
        """
        name = f"answer {group.name} {number}"
        kept = await LoadResult(name)
        stored = None if kept is None else msgspec.msgpack.decode(kept, type=StoredAnswer)
        if stored is not None and stored.step in steps and stored.phase == self._phase:
            self._last_loaded[group.name] = number
            if group.aggregator_is_member:  # its member half is replayed as well, and sends its vector again
                await self._receive_vector(group.aggregator, group, steps, number)
            return stored
        first = await self._receive_vector(group.members[0], group, steps, number)
        if isinstance(first, Finished):
            for member in group.members[1:]:
                if not isinstance(await self._receive_vector(member, group, steps, number), Finished):
                    raise _transcripts_differ(group, number, f"{group.members[0]} is finished, {member} is not")
            return None
        await Progress(f"{group.title}: adding vectors of sum", number + 1)
        sums, draw, seed = await self._add(group, steps, first, number)

        def compute() -> bytes:
            if self._joint is not None and first.step in JOINT_STEPS:
                payload = self._joint.answer(group, first.step, number, sums, draw, seed)
            else:
                payload = encode(Answer(group.name, number, pack((sums > 0).astype(np.int64), 2)))
            return msgspec.msgpack.encode(StoredAnswer(first.step, len(sums), payload, draw, self._phase))

        return msgspec.msgpack.decode(await StoreResult(name, compute), type=StoredAnswer)

    async def _receive_vector(
        self, member: str, group: Group, steps: frozenset[Step], number: int
    ) -> Masked | Finished:
        """Receive a member's vector for the sum of this number, or the message that it is finished."""
        message, _ = await self.channel.receive_any(member)
        while self._is_repeated(message, member, group, number):
            message, _ = await self.channel.receive_any(member)
        if not isinstance(message, Finished):
            message = expect(message, Masked, member)
            if message.number != number:
                raise PeerError(f"sent a vector for sum {message.number} where sum {number} was expected", peer=member)
            if message.step not in steps:
                raise PeerError(f"requested a sum of {str(message.step)!r}, which was not agreed on", peer=member)
            if len(message.words) % 8 or len(message.words) <= 8 * CHECK_WORDS:
                raise PeerError(f"sent a vector of {len(message.words)} bytes", peer=member)
        if message.group != group.name:
            raise PeerError(f"sent a message of group {printable(message.group)}, not of {group.name}", peer=member)
        return message

    def _is_repeated(self, message: Message, member: str, group: Group, number: int) -> bool:
        """Return whether a party repeats, after a crash, components or a vector that were used before."""
        if isinstance(message, Padded) and member in self._may_repeat_components:
            self._may_repeat_components.remove(member)
            return True
        if not isinstance(message, Masked):
            return False
        last = self._last_loaded.get(group.name, -1)
        return message.group == group.name and message.number <= last and message.number != number

    async def _add(self, group: Group, steps: frozenset[Step], first: Masked, number: int) -> tuple[Sums, int, bytes]:
        """Return the sum of the vectors of all senders (Protocol 4, line 14), and the second holder's draw and seed."""
        total, draw, seed = _words(first).copy(), 0, b""
        senders = senders_of(group, first.step, self.agreement.parameters)
        for member in senders[1:]:
            message = await self._receive_vector(member, group, steps, number)
            if isinstance(message, Finished):
                raise _transcripts_differ(group, number, f"{member} is finished, {group.members[0]} is not")
            if (message.step, len(message.words)) != (first.step, len(first.words)):
                ours, theirs = (f"{one.step} with {len(one.words)} bytes" for one in (first, message))
                raise _transcripts_differ(group, number, f"{group.members[0]} is at {ours}, {member} at {theirs}")
            total += _words(message)
            if member == senders[1]:
                draw, seed = message.draw, message.seed
        try:
            return open_sum(total, len(senders)), draw, seed
        except PeerError as error:
            raise PeerError(f"group {group.name}, sum {number}: {error}") from error


def _transcripts_differ(group: Group, number: int, how: str) -> PeerError:
    return PeerError(f"group {group.name}, sum {number}: transcripts differ: {how}")


def _words(message: Masked) -> RingVector:
    return np.frombuffer(message.words, dtype="<u8").astype(np.uint64, copy=False)
