"""One party's side of the secure sums of a group: blind, encode, shuffle, mask, commit and send; then read the answer.

The sums of a group are numbered; group and number are the label of a vector. Its masks depend on a hash of all earlier
answers of the group. Parties that received different answers therefore have no masks in common, and nothing opens.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.errors import DataError, PeerError
from kcagc.protocol.agreement import Session
from kcagc.protocol.effects import Channel, CommitMask
from kcagc.protocol.messages import Answer, Choice, Finished, Masked, RunStage, Step, unpack
from kcagc.secagg.blinding import Shuffle, draw_mixtures, mix_values, row_factors, row_shifts
from kcagc.secagg.keys import digest, framed
from kcagc.secagg.masks import Group, RingVector, check_bound, encode, encode_scaled, mask, with_check_words
from kcagc.text import printable

R = TypeVar("R", Answer, Choice)
_NO_COSTS: Mapping[int, float] = {}


@dataclass(eq=False)
class SecureSums:
    """State of one member while its group computes secure sums."""

    channel: Channel
    session: Session
    group: Group
    group_key: bytes
    transcript: bytes = b""
    number: int = 0
    values_sent: Counter[Step] = field(default_factory=Counter)
    costs_sent: int = 0
    best: int = 0  # the restart with the lowest cost, by the last answer
    cost: float | None = None  # the cost of that restart
    stopped: frozenset[int] = frozenset()  # the restarts that the last answer stopped
    _with_cost: set[int] = field(default_factory=set)  # the restarts whose costs were sent

    async def winners(
        self, step: Step, values: FloatArray, costs: Mapping[int, float] = _NO_COSTS
    ) -> tuple[IntArray, Flags]:
        """Sum restarts × rows × columns values; return the smallest column of each row, and the margin-9 flags.

        The rows of all restarts travel as one list, so that the aggregator cannot tell which belong together. The cost
        of each restart travels with them, masked but not shuffled.
        """
        restarts, rows, columns = values.shape
        n_rows = restarts * rows
        shuffle = await self._send(step, values.reshape(1, n_rows, columns), costs)
        answer = await self._receive(Answer)
        if costs:
            self._read_costs(answer, costs)
        winning = unpack(answer.winners, n_rows, columns, self.group.aggregator, "winners")
        tied, position = self._read_ties(answer, n_rows, columns)
        if (len(answer.clear) > 0) != (step is Step.MARGIN):
            raise self._wrong(f"the answer belongs to another step than {step}")
        clear: Flags = np.ones(n_rows, dtype=bool)
        if step is Step.MARGIN:
            clear = unpack(answer.clear, n_rows, 2, self.group.aggregator, "margin flags").astype(bool)
        if shuffle is not None:
            names = shuffle.columns[0]
            winning, position = names[np.arange(n_rows), winning], names[tied, position]
        np.minimum.at(winning, tied, position)  # of equal columns the lowest number wins
        if shuffle is not None:
            winning, clear = shuffle.restore_rows(winning[None])[0], shuffle.restore_rows(clear[None])[0]
        return winning.reshape(restarts, rows), clear.reshape(restarts, rows)

    async def drawn_rows(self, values: FloatArray) -> IntArray:
        """Sum restarts × rows × columns values; return the row that the aggregator drew for each restart."""
        shuffle = await self._send(Step.SEEDING, values)
        choice = await self._receive(Choice)
        positions = np.array(choice.positions, dtype=np.int64)
        if len(positions) != len(values) or (positions < 0).any() or (positions >= values.shape[1]).any():
            raise self._wrong("a choice is out of range")
        if shuffle is not None:
            positions = np.take_along_axis(shuffle.rows, positions[:, None], axis=1)[:, 0]
        return positions

    async def finish(self) -> None:
        """Inform the aggregator that this group needs no further sums."""
        stage = RunStage.of_group(Step.FINISHED, self.group)
        await self.channel.send(self.group.aggregator, Finished(self.group.name), stage)

    async def _send(self, step: Step, values: FloatArray, costs: Mapping[int, float] = _NO_COSTS) -> Shuffle | None:
        """Send one vector; return its shuffle, or None if the aggregator is a member and knows the order."""
        restarts, rows, columns = values.shape
        shape = (restarts, rows, columns)
        label, me, aggregator = self._label(), self.channel.me, self.group.aggregator
        shuffle = None
        try:
            if self.group.aggregator_is_member:
                words = encode(values).ravel()
            else:
                shuffle = Shuffle.from_key(self.group_key, self.session.id, label, shape)
                words = shuffle.apply(self._blinded(step, values)).ravel()
            if costs:
                words = np.concatenate([words, encode(np.array(list(costs.values())))])
        except DataError as error:  # the size of a value says something about data: other roles must not read it
            raise DataError(str(error), party=me).with_public_message("aborted") from error
        # Commit before anything is sent under this label: two vectors under one mask would reveal both.
        await CommitMask(framed(self.session.id, label), hashlib.sha256(words.data).digest())
        if me == aggregator:  # Protocol 4, line 14: the aggregator adds its own vector without a mask
            covered = with_check_words(words)
        else:  # Protocol 4, lines 8 to 13
            pairs = [self.session.pairs[other] for other in self.group.maskers if other != me]
            covered = mask(words, pairs, self.group.maskers, label, self.transcript)
        content = covered.astype("<u8", copy=False).tobytes()
        message = Masked(self.group.name, step, self.number, shape, content, tuple(costs))
        kind = "plain" if self.group.exposes_one_party else "masked"
        stage = RunStage.of_group(step, self.group, self.number)
        await self.channel.send(aggregator, message, stage, shape=shape, kind=kind)
        if me != aggregator:  # the aggregator half of that party records it
            await self.channel.record_sum(self.group, step, self.number, shape, len(costs))
        self.values_sent[step] += values.size
        self.costs_sent += len(costs)
        return shuffle

    def _blinded(self, step: Step, values: FloatArray) -> RingVector:
        """Encode values with secret factors and shifts.

        The aggregator compares values within a row only, so each row has its own factor. It draws rows by comparing all
        of them, so in seeding all rows of a restart share one factor. The margin step compares ratios and has no shift.
        """
        key, session, label = self.group_key, self.session.id, self._label()
        check_bound(values)  # the bound is the same with and without factors
        restarts, rows, _ = values.shape
        shape = (restarts, 1, 1) if step is Step.SEEDING else (restarts, rows, 1)
        words = encode_scaled(values, row_factors(key, session, label, shape))
        if step in (Step.LLOYD, Step.PREDICTION) and self.channel.me == self.group.members[0]:
            words += row_shifts(key, session, label, shape)
        return words

    def with_decoys(self, values: FloatArray, places: IntArray) -> FloatArray:
        """Replace rows that the aggregator could recognise by mixtures of others; `places` are (restart, row) pairs.

        Every party mixes alike, so the sums are mixtures of sums. A member that aggregates knows all rows anyway.
        """
        restarts, rows, columns = values.shape
        flat = values.reshape(-1, columns)
        ordinary = np.setdiff1d(np.arange(restarts * rows), places[:, 0] * rows + places[:, 1])
        if self.group.aggregator_is_member or len(ordinary) == 0:
            return values
        key, session = self.group_key, self.session.id
        first, second, share = draw_mixtures(key, session, self._label(), len(places), len(ordinary))
        mixtures = share[:, None] * flat[ordinary[first]] + (1 - share)[:, None] * flat[ordinary[second]]
        replaced = values.copy()
        replaced[places[:, 0], places[:, 1]] = mixtures
        return replaced

    def with_fillers(self, values: FloatArray, winners: IntArray, settled: Flags) -> FloatArray:
        """Replace settled comparisons (restarts × rows × columns) by other values above the row's winner.

        A filler exceeds the winner of its row by a mixture of what other settled columns exceed theirs by: as likely as
        the true value, and never the same twice. Every party mixes alike, so the sums are mixtures of sums.
        """
        if self.group.aggregator_is_member or not settled.any():
            return values
        smallest = np.take_along_axis(values, winners[:, :, None], axis=2)
        own = np.broadcast_to(smallest, values.shape)[settled]
        above = values[settled]
        above -= own
        fillers = mix_values(self.group_key, self.session.id, self._label(), above)
        fillers += own
        filled = values.copy()
        filled[settled] = fillers
        return filled

    async def _receive(self, kind: type[R]) -> R:
        answer, payload = await self.channel.receive_with_bytes(self.group.aggregator, kind)
        if (answer.group, answer.number) != (self.group.name, self.number):
            got = f"sum {answer.number} of group {printable(answer.group)}"
            raise self._wrong(f"answered {got} where sum {self.number} of group {self.group.name} was expected")
        self.transcript = digest(self.transcript, payload)
        self.number += 1
        return answer

    def _read_costs(self, answer: Answer, costs: Mapping[int, float]) -> None:
        self._with_cost |= costs.keys()
        if answer.best not in self._with_cost or not math.isfinite(answer.cost):
            raise self._wrong("names a best restart that does not exist")
        if answer.best in answer.stopped or not costs.keys() >= set(answer.stopped):
            raise self._wrong("stops the best restart, or restarts that are not active")
        self.best, self.cost = answer.best, answer.cost
        self.stopped = frozenset(answer.stopped)

    def _read_ties(self, answer: Answer, n_rows: int, columns: int) -> tuple[IntArray, IntArray]:
        """Return rows and positions of the columns that tie with the first winner of their row."""
        if len(answer.tied_rows) % 8 or len(answer.tied_rows) != 2 * len(answer.tied_positions):
            raise self._wrong("the ties of an answer have the wrong length")
        rows = np.frombuffer(answer.tied_rows, dtype="<u8").astype(np.int64)
        positions = np.frombuffer(answer.tied_positions, dtype="<u4").astype(np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= n_rows or positions.max() >= columns):
            raise self._wrong("a tie is out of range")
        return rows, positions

    def _wrong(self, message: str) -> PeerError:
        return PeerError(message, peer=self.group.aggregator)

    def _label(self) -> bytes:
        return framed(self.group.name, self.number)
