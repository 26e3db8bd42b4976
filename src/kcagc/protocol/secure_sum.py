"""One party's side of a group's sums: blind, encode, shuffle, mask, commit, send; then read the answer.

Every sum of a group has a number; the label of a vector is the group and the number. Its masks depend on a hash of
every answer the group has had so far, so parties that were told different things do not open anything together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.errors import DataError, PeerError
from kcagc.protocol.answers import positions_of
from kcagc.protocol.channel import Channel
from kcagc.protocol.effects import CommitMask, perform
from kcagc.protocol.handshake import Session
from kcagc.protocol.messages import Answer, Choice, Finished, Masked
from kcagc.protocol.packing import unpack, unpack_bits
from kcagc.secagg.blinding import Shuffle, draw_mixtures, mix_values, row_factors, row_shifts
from kcagc.secagg.keys import digest, framed
from kcagc.secagg.masks import Group, RingVector, check_bound, encode, encode_scaled, mask, with_check_words
from kcagc.text import printable

R = TypeVar("R", Answer, Choice)
_NONE: Mapping[int, float] = {}


@dataclass(eq=False)
class SecureSums:
    """What one member keeps while its group sums."""

    channel: Channel
    session: Session
    group: Group
    group_key: bytes
    transcript: bytes = b""
    number: int = 0
    values_sent: dict[str, int] = field(default_factory=dict)
    best: int = 0  # the start that costs least, as the last answer says
    cost: float | None = None  # what it costs
    given_up: frozenset[int] = frozenset()  # the starts that cannot win any more, by the last answer
    _costed: set[int] = field(default_factory=set)  # the starts whose costs were told

    async def winners(
        self, stage: str, values: FloatArray, costs: Mapping[int, float] = _NONE
    ) -> tuple[IntArray, Flags]:
        """Sum s × m × c values; give each row's winning column, and whether it wins by nine (in the 1/9 step).

        The rows of all starts travel as one pool, so that the receiver cannot even tell which belong together. What
        each start costs travels with them, masked but in its place: the answer says which start is the cheapest so far.
        """
        starts, rows, columns = values.shape
        n_rows, sender = starts * rows, self.group.aggregator
        shuffle = await self._send(stage, values.reshape(1, n_rows, columns), costs)
        answer = await self._receive(Answer)
        if costs:
            self._costed |= costs.keys()
            if answer.best not in self._costed or not math.isfinite(answer.cost):
                raise PeerError("names a cheapest start that is none", peer=sender)
            if answer.best in answer.given_up or not costs.keys() >= set(answer.given_up):
                raise PeerError("gives up starts that do not go on, or the cheapest", peer=sender)
            self.best, self.cost = answer.best, answer.cost
            self.given_up = frozenset(answer.given_up)
        winning = unpack(answer.winners, n_rows, columns, sender, "winners")
        tied, position = self._ties(answer, n_rows, columns)
        if (len(answer.clear) > 0) != (stage == "margin"):
            raise PeerError(f"an answer of another step than {stage}", peer=sender)
        clear: Flags = np.ones(n_rows, dtype=bool)
        if stage == "margin":
            clear = unpack_bits(answer.clear, n_rows, sender, "clear winners")
        if shuffle is not None:
            names = shuffle.columns[0]
            winning, position = names[np.arange(n_rows), winning], names[tied, position]
        np.minimum.at(winning, tied, position)  # of equal columns the lowest number wins
        if shuffle is not None:
            winning, clear = shuffle.restore_rows(winning[None])[0], shuffle.restore_rows(clear[None])[0]
        return winning.reshape(starts, rows), clear.reshape(starts, rows)

    async def drawn_rows(self, stage: str, values: FloatArray) -> IntArray:
        """Sum s × m × c values; give for each start the row that the receiver chose."""
        shuffle = await self._send(stage, values)
        positions = await self._positions(values.shape[0], values.shape[1])
        if shuffle is not None:
            positions = np.take_along_axis(shuffle.rows, positions[:, None], axis=1)[:, 0]
        return positions

    async def finish(self) -> None:
        """Tell the receiver that this group is done."""
        await self.channel.send(self.group.aggregator, Finished(self.group.name), stage=self.group.name)

    async def _send(self, stage: str, values: FloatArray, costs: Mapping[int, float] = _NONE) -> Shuffle | None:
        starts, rows, columns = values.shape
        shape = (starts, rows, columns)
        label, me = self._label(), self.channel.me
        shuffle = None
        try:
            if not self.group.aggregator_is_member:
                shuffle = Shuffle.from_key(self.group_key, self.session.id, label, shape)
                words = shuffle.apply(self._blinded(stage, values)).ravel()
            else:
                words = encode(values).ravel()
            if costs:
                words = np.concatenate([words, encode(np.array(list(costs.values())))])
        except DataError as error:  # how large a value is says something about data: others are not told
            raise DataError(str(error), party=me).with_public_message("aborted") from error
        # Committed before anything under this label may leave: two vectors under one mask give away both.
        await perform(CommitMask(framed(self.session.id, label), hashlib.sha256(words.data).digest()))
        if me == self.group.aggregator:
            covered = with_check_words(words)
        else:
            pairs = [self.session.pairs[other] for other in self.group.maskers if other != me]
            covered = mask(words, pairs, self.group.maskers, label, self.transcript)
        content = covered.astype("<u8", copy=False).tobytes()
        message = Masked(self.group.name, stage, self.number, shape, content, tuple(costs))
        kind = "plain" if self.group.exposes_one_party else "masked"
        await self.channel.send(self.group.aggregator, message, stage=self._stage(stage), shape=shape, kind=kind)
        if me != self.group.aggregator:  # whose other half records it
            await self.channel.opened(self.group, stage, self._stage(stage), shape, len(costs))
        self.values_sent[stage] = self.values_sent.get(stage, 0) + values.size
        self.values_sent["costs"] = self.values_sent.get("costs", 0) + len(costs)
        return shuffle

    def _blinded(self, stage: str, values: FloatArray) -> RingVector:
        """Multiply and shift what the receiver compares only within a row; when it draws rows, it compares all."""
        key, session, label = self.group_key, self.session.id, self._label()
        check_bound(values)  # the bound is the same with factors and without
        starts, rows, _ = values.shape
        shape = (starts, 1, 1) if stage == "seed" else (starts, rows, 1)
        words = encode_scaled(values, row_factors(key, session, label, shape))
        if stage in ("lloyd", "predict") and self.channel.me == self.group.members[0]:  # the 1/9 step compares ratios
            words += row_shifts(key, session, label, shape)
        return words

    def with_decoys(self, values: FloatArray, places: IntArray) -> FloatArray:
        """Replace rows that would give themselves away by mixtures of others; `places` are (start, row) pairs.

        Every party mixes alike, so the sums are mixtures of sums. A labelled group has nothing to hide.
        """
        starts, rows, columns = values.shape
        flat = values.reshape(-1, columns)
        ordinary = np.setdiff1d(np.arange(starts * rows), places[:, 0] * rows + places[:, 1])
        if self.group.aggregator_is_member or len(ordinary) == 0:
            return values
        key, session = self.group_key, self.session.id
        first, second, share = draw_mixtures(key, session, self._label(), len(places), len(ordinary))
        mixed = values.copy()
        mixed[places[:, 0], places[:, 1]] = (
            share[:, None] * flat[ordinary[first]] + (1 - share)[:, None] * flat[ordinary[second]]
        )
        return mixed

    def with_fillers(self, values: FloatArray, winners: IntArray, settled: Flags) -> FloatArray:
        """Replace settled comparisons (s × m × c) by others that also lose to the row's winner (s × m).

        A filler lies above its row's winner by a mixture of what other settled columns lie above theirs: as likely as
        the truth, and never the same twice. Every party mixes alike, so the sums are mixtures of sums.
        """
        if self.group.aggregator_is_member or not settled.any():
            return values
        least = np.take_along_axis(values, winners[:, :, None], axis=2)
        own = np.broadcast_to(least, values.shape)[settled]
        above = values[settled]
        above -= own
        fillers = mix_values(self.group_key, self.session.id, self._label(), above)
        fillers += own
        filled = values.copy()
        filled[settled] = fillers
        return filled

    async def _positions(self, count: int, below: int) -> IntArray:
        choice = await self._receive(Choice)
        positions = np.array(choice.positions, dtype=np.int64)
        if len(positions) != count or (positions < 0).any() or (positions >= below).any():
            raise PeerError("a choice that is out of range", peer=self.group.aggregator)
        return positions

    async def _receive(self, kind: type[R]) -> R:
        answer, payload = await self.channel.receive_with_bytes(self.group.aggregator, kind)
        where = (answer.group, answer.number)
        if where != (self.group.name, self.number):
            got = f"an answer to sum {where[1]} of group {printable(where[0])}"
            asked = f"sum {self.number} of group {self.group.name}"
            raise PeerError(f"{got}, where {asked} was asked", peer=self.group.aggregator)
        self.transcript = digest(self.transcript, payload)
        self.number += 1
        return answer

    def _ties(self, answer: Answer, n_rows: int, columns: int) -> tuple[IntArray, IntArray]:
        if len(answer.tied_rows) % 8 or len(answer.tied_rows) != 2 * len(answer.tied_positions):
            raise PeerError("the ties of an answer have the wrong length", peer=self.group.aggregator)
        rows, positions = positions_of(answer.tied_rows, answer.tied_positions)
        if rows.size and (rows.min() < 0 or rows.max() >= n_rows or positions.max() >= columns):
            raise PeerError("a tie that is out of range", peer=self.group.aggregator)
        return rows, positions

    def _label(self) -> bytes:
        return framed(self.group.name, self.number)

    def _stage(self, stage: str) -> str:
        return f"{self.group.name} {stage} {self.number}"
