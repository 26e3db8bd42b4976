"""Matching of ids: before a run, the parties find the ids that all of them have, or count them.

Two parties send each other their ids as hidden points (see `secagg.matching`). Each multiplies the points of the other
by its own secret number and sends them back. Then both hold both lists, hidden twice, in which equal ids are equal
points, and each finds the common ids alone. If ids are only counted, the points come back sorted, so that no party can
tell which of its ids are common.

With more parties, the first one compares its ids with those of the second, then the common ones with those of the
third, and so on. Each party tells the next one what the first party must go on with, as a digest of points. In the end
the first party tells the parties between itself and the last which of the ids in common with them all parties have.

Every two parties compare how many ids they have found, and a digest of them. So a result that one role has shortened or
changed is noticed. That a party comes with fewer ids than it has, or with ids that it made up, no matching can notice.

No role draws anything at random here: from the same secrets and messages, a role computes the same bytes, so a journal
can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from kcagc.errors import AgreementError, DataError, ParameterError, PeerError
from kcagc.graph.ids import NodeIds
from kcagc.protocol.agreement import digest_of_ids
from kcagc.protocol.effects import Progress
from kcagc.protocol.messages import (
    AnsweredIds,
    CommonIds,
    HiddenIds,
    MatchReceipt,
    Message,
    RunStage,
    Step,
    pack,
    pair_stage,
    unpack,
)
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.party import Party, PartyContext
from kcagc.secagg.keys import digest
from kcagc.secagg.matching import IdCipher, join_points, psi_library, split_points
from kcagc.text import listed, printable

MAX_IDS = 1 << 24  # of one party: a journal stores messages of at most 900 million bytes
_CHUNK = 500  # ids of one call of the library; in between, the role can be stopped


@dataclass(frozen=True, eq=False)
class MatchResult:
    """The common ids.

    Attributes
    ----------
    session : str
        Name of the session.
    ids : NodeIds or None
        The ids that all parties have, sorted; None if they were only counted.
    n_common, n_own : int
        Number of ids that all parties have, and that this party has.
    n_other : int or None
        Number of ids of the other party; None if there are more than two.
    """

    session: str
    ids: NodeIds | None
    n_common: int
    n_own: int
    n_other: int | None


@dataclass(frozen=True, eq=False)
class _Points:
    """The ids of two parties as points: the own ones multiplied by both, those of the other by itself, and by both.

    The own ones are in the secret order or, if ids are only counted, sorted.
    """

    own_twice: list[bytes]
    theirs: list[bytes]
    theirs_twice: list[bytes]


def match_parameters(parameters: Parameters, *, counts_only: bool = False) -> Parameters:
    """Return the parameters of a matching by the participants of a fit with these parameters."""
    return msgspec.structs.replace(parameters, task="count" if counts_only else "match")


def check_match(context: PartyContext, ids: NodeIds) -> None:
    """Refuse, before anything is sent, a matching that is impossible or that the operator did not accept."""
    context.check()
    psi_library()
    counts_only, n_parties = context.agreement.parameters.task == "count", len(context.agreement.parties)
    if counts_only and n_parties > 2:
        raise ParameterError(f"count: ids can be counted by two parties, but there are {n_parties}; match them instead")
    if not 0 < len(ids) <= MAX_IDS:
        message = f"ids: there are {len(ids):,}; a matching needs at least one and at most {MAX_IDS:,}"
        raise DataError(message, party=context.name)


async def match_party(context: PartyContext, ids: NodeIds) -> MatchResult:
    """Match the ids of this party with those of all others."""
    check_match(context, ids)
    party = Party(context)
    await party.open()
    own, matching = ids.take(ids.sorted_rows()), _Matching(party)
    if party.agreement.parameters.task == "count":
        return await matching.count(own)
    found = await matching.match(own)
    if not found.n_common:
        message = "no id is in the lists of all parties; compare how the ids are written"
        raise DataError(message, party=party.name).with_public_message("no id is in the lists of all parties")
    return found


class _Matching:
    """The part of one party."""

    def __init__(self, party: Party) -> None:
        self._party, self._me, self._parties = party, party.name, party.agreement.parties
        self._first = self._parties[0]
        self._counts_only = party.agreement.parameters.task == "count"
        self._cipher = IdCipher(party.secret, party.session.id)
        self._n_other = 0  # ids of the party that this one was last compared with

    async def count(self, own: NodeIds) -> MatchResult:
        """Count the ids that both parties have."""
        (other,) = self._party.others
        points = await self._hide_twice(other, own)
        common = sorted(set(points.own_twice) & set(points.theirs_twice))
        await self._compare(len(common), digest("common points", *common))
        return await self._result("count", own, None, len(common))

    async def match(self, own: NodeIds) -> MatchResult:
        """Find the ids that all parties have."""
        steps = [own]  # the first party: its common ids with the second, then also with the third, and so on
        for other in self._parties[1:] if self._me == self._first else [self._first]:
            steps.append(await self._common_with(other, steps[-1]))
        found = steps[-1]
        if self._me == self._first:
            await self._send_common(dict(zip(self._parties[1:-1], steps[1:-1], strict=True)), found)
        elif self._me != self._parties[-1]:
            found = await self._receive_common(found)
        await self._compare(len(found), digest_of_ids(found))
        return await self._result("match", own, found, len(found))

    async def _common_with(self, other: str, ids: NodeIds) -> NodeIds:
        """Return those of these ids that another party has, too."""
        points = await self._hide_twice(other, ids)
        order, theirs = self._cipher.order(other, len(ids)), set(points.theirs_twice)
        place = self._parties.index(self._me)
        if self._me != self._first and self._me != self._parties[-1]:
            await self._announce(self._parties[place + 1], points)
        return ids.take(np.sort(order[[point in theirs for point in points.own_twice]]))

    async def _hide_twice(self, other: str, ids: NodeIds) -> _Points:
        """Exchange these ids and those of another party until both are points that both have multiplied."""
        party, pair = self._party, (self._first, other if self._me == self._first else self._me)
        values = ids.tolist()
        ordered = [str(values[row]) for row in self._cipher.order(other, len(ids))]
        own = await _in_chunks(self._cipher.hide, ordered, "hiding own ids")
        stage = pair_stage(Step.IDS, *pair)
        await party.send_encrypted(stage, {other: HiddenIds(ids.kind, join_points(own))}, "ids")
        kept = await self._receive_kept()
        theirs = (await party.receive_encrypted(stage, (other,), HiddenIds))[other]
        if theirs.ids_kind != ids.kind:
            text = f"the ids of {self._me} are {ids.kind}, those of {other} are {printable(theirs.ids_kind)}"
            raise AgreementError(f"{text}; write them the same way in both", peer=other).with_public_message(text)
        received = split_points(theirs.points, other)
        self._n_other = len(received)
        self._check_kept(kept, received)
        again = partial(self._cipher.hide_again, other=other)
        hidden = await _in_chunks(again, received, f"hiding the ids of {other}")
        last = pair[1] == self._parties[-1]
        kind = "answers.counted" if self._counts_only else "answers" if last else "answers.partial"
        stage = pair_stage(Step.ANSWERS, *pair)
        sent = AnsweredIds(join_points(sorted(hidden) if self._counts_only else hidden))
        await party.send_encrypted(stage, {other: sent}, kind)
        answer = (await party.receive_encrypted(stage, (other,), AnsweredIds))[other]
        answered = split_points(answer.points, other)
        if len(answered) != len(own):
            raise PeerError(f"answered {len(answered):,} hidden ids, but received {len(own):,}", peer=other)
        return _Points(answered, received, hidden)

    # With three or more parties, what the first one goes on with.

    async def _announce(self, following: str, points: _Points) -> None:
        """Send the next party the number and the digest of the points that the first party must send to it."""
        mine = set(points.own_twice)
        kept = [once for once, twice in zip(points.theirs, points.theirs_twice, strict=True) if twice in mine]
        stage = pair_stage(Step.KEPT, self._me, following)
        await self._party.send_encrypted(stage, {following: self._receipt_of_points(following, kept)}, "match.kept")

    async def _receive_kept(self) -> MatchReceipt | None:
        """Return what the party before this one says of the points of the first party; None if there is no such one."""
        place = self._parties.index(self._me)
        if place < 2:
            return None
        previous = self._parties[place - 1]
        stage = pair_stage(Step.KEPT, previous, self._me)
        return (await self._party.receive_encrypted(stage, (previous,), MatchReceipt))[previous]

    def _check_kept(self, kept: MatchReceipt | None, received: list[bytes]) -> None:
        if kept is None:
            return
        previous = self._parties[self._parties.index(self._me) - 1]
        if kept != self._receipt_of_points(previous, received):
            message = (
                f"{self._first} does not go on with the ids in common with {previous}: these are {kept.count:,}, and "
                f"it sent {len(received):,}"
            )
            raise PeerError(message, peer=self._first)

    def _receipt_of_points(self, other: str, points: list[bytes]) -> MatchReceipt:
        found = self._party.session.pairs[other].fingerprint("kept points", digest("points", *sorted(points)))
        return MatchReceipt(len(points), found)

    async def _send_common(self, steps: dict[str, NodeIds], found: NodeIds) -> None:
        """Send each party between the first and the last which of the ids in common with it all parties have."""
        contents: dict[str, Message] = {
            other: CommonIds(pack((found.find(ids.values) >= 0).astype(np.int64), 2)) for other, ids in steps.items()
        }
        await self._party.send_encrypted(RunStage(Step.COMMON), contents, "common")

    async def _receive_common(self, ids: NodeIds) -> NodeIds:
        """Return those of the ids in common with the first party that all parties have."""
        told = (await self._party.receive_encrypted(RunStage(Step.COMMON), (self._first,), CommonIds))[self._first]
        return ids.take(np.flatnonzero(unpack(told.bits, len(ids), 2, self._first, "common ids")))

    async def _compare(self, count: int, found: bytes) -> None:
        """Compare the number of common ids, and a digest of them, with all other parties."""
        party, stage = self._party, RunStage(Step.RECEIPT)
        sent = {
            other: MatchReceipt(count, pair.fingerprint("common ids", found))
            for other, pair in party.session.pairs.items()
        }
        await party.send_encrypted(stage, dict(sent), "match")
        received = await party.receive_encrypted(stage, party.others, MatchReceipt)
        different = [other for other, theirs in received.items() if theirs != sent[other]]
        if different:
            counts = listed([f"{other} {received[other].count:,}" for other in different])
            raise AgreementError(
                f"the common ids that the parties found are not the same: {self._me} found {count:,}, {counts}. A "
                "party has changed or shortened its answers, or has used other ids in between; nothing was written",
                peer=different[0] if 2 * len(different) <= len(received) else self._me,
            ).with_public_message("the parties did not find the same common ids")

    async def _result(self, kind: str, own: NodeIds, ids: NodeIds | None, n_common: int) -> MatchResult:
        await self._party.channel.record(self._me, f"output/{kind}", RunStage(Step.OUTPUT), (n_common,))
        n_other = self._n_other if len(self._parties) == 2 else None
        return MatchResult(self._party.session.id.hex(), ids, n_common, len(own), n_other)


async def _in_chunks(hide: Callable[[Sequence[Any]], list[bytes]], values: Sequence[Any], stage: str) -> list[bytes]:
    """Call the library for a few values at a time, and report the progress."""
    found: list[bytes] = []
    for start in range(0, len(values), _CHUNK):
        await Progress(stage, start, len(values))
        found += hide(values[start : start + _CHUNK])
    return found
