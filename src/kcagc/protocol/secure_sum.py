"""One party's side of the secure sums of a group: blind, shuffle, mask, commit and send; then check the answer.

Every sum asks the aggregator for the signs of comparisons. All of them travel as one list in a secret order, with
probes, whose signs the parties know, and with copies of comparisons. An aggregator that answers otherwise than by the
signs is noticed, because it cannot tell probes and copies from the rest.

The sums of a group are numbered; group and number are the label of a vector. Its masks depend on a hash of all earlier
answers of the group. Parties that received different answers therefore have no masks in common, and nothing opens.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.errors import DataError, PeerError
from kcagc.protocol.agreement import Session
from kcagc.protocol.effects import Channel, CommitMask
from kcagc.protocol.messages import Answer, Finished, Masked, RunStage, Split, Step, unpack
from kcagc.secagg.blinding import Blinding, draw_positions, draw_probes
from kcagc.secagg.keys import digest, framed
from kcagc.secagg.masks import Group, RingVector, encode, mask, with_check_words
from kcagc.secagg.shares import RingMatrix
from kcagc.text import printable

MIN_PROBES = 64  # comparisons in each vector whose sign the parties know
MAX_COPIES = 64  # no comparison has more than one copy
MIN_LENGTH = 256  # one node looks like a few
_PLAIN_FRACTION_BITS = 40  # without factors there is room


@dataclass(frozen=True, eq=False)
class Comparisons:
    """One party's parts of differences, and for each whether a difference of zero counts as positive."""

    parts: IntArray
    ties: Flags

    def __len__(self) -> int:
        return len(self.parts)

    @classmethod
    def joined(cls, several: list[Comparisons]) -> Comparisons:
        """Return all comparisons of a list as one."""
        return cls(np.concatenate([one.parts for one in several]), np.concatenate([one.ties for one in several]))


@dataclass(eq=False)
class SecureSums:
    """State of one member while its group computes secure sums.

    `bound` is the largest squared distance of one party, `fraction_bits` how finely distances are compared.
    """

    channel: Channel
    session: Session
    group: Group
    group_key: bytes
    bound: float
    fraction_bits: int
    transcript: bytes = b""
    number: int = 0
    checks: int = 0  # probes and copies that were sent
    compared: int = 0  # comparisons without these
    agreed: bytes = b""  # digest of what the holders must have in common in their next sum

    def encode(self, distances: FloatArray) -> IntArray:
        """Return squared distances as integers; a distance beyond the bound ends the run before it is sent."""
        try:
            hidden = not self.group.aggregator_is_member
            return encode(distances, self.bound, self.fraction_bits if hidden else _PLAIN_FRACTION_BITS)
        except DataError as error:  # the size of a value says something about data: other roles must not read it
            raise DataError(str(error), party=self.channel.me).with_public_message("aborted") from error

    @property
    def holders(self) -> tuple[str, ...]:
        """The two parties that hold shares of numbers that no party knows."""
        return self.group.members[:2]

    async def signs(self, step: Step, asked: Comparisons, senders: tuple[str, ...] = ()) -> Flags:
        """Return which of the differences are positive; only the `senders` have parts of them (default: all)."""
        if not len(asked):
            return np.zeros(0, dtype=bool)
        self.compared += len(asked)
        senders = senders or self.group.members
        first = self.channel.me == senders[0]
        odd = 2 * asked.parts  # twice a difference is even; one party makes it odd, so that no sum is zero
        if first:
            odd += np.where(asked.ties, 1, -1)
        if self.group.aggregator_is_member:  # it knows what each comparison is: nothing can be hidden from it
            await self._send(step, odd.view(np.uint64), senders)
            return await self._receive(len(odd))
        key, session, label = self.group_key, self.session.id, self.label()
        copied = draw_positions(key, session, label, MAX_COPIES, len(odd))
        n_copies = len(copied)
        n_probes = padded_length(max(len(odd) + n_copies + MIN_PROBES, MIN_LENGTH)) - len(odd) - n_copies
        probes = draw_probes(key, session, label, n_probes) if first else np.zeros(n_probes, dtype=np.int64)
        parts = np.concatenate([odd, odd[copied], probes])
        blinding = Blinding.from_key(key, session, label, len(parts), len(senders))
        if self.channel.me in senders:
            await self._send(step, blinding.apply(parts, with_offsets=first), senders)
        else:  # the shares of the senders come from the data of all parties
            await self.channel.record_sum(self.group, step, self.number, len(parts))
        positive = blinding.restore(await self._receive(len(parts)))
        found, of_copies, of_probes = np.split(positive, [len(odd), len(odd) + n_copies])
        wrong = n_probes - np.count_nonzero(of_probes) + np.count_nonzero(of_copies != found[copied])
        if wrong:
            raise self.wrong_answer(f"{wrong} of {n_probes + n_copies} checks of the comparisons failed")
        self.checks += n_probes + n_copies
        return found

    async def send_words(
        self, step: Step, words: RingVector, senders: tuple[str, ...], *, draw: int = 0, seed: bytes = b""
    ) -> int:
        """Send words of a sum that has no signs for an answer; return the number of the sum."""
        number = self.number
        await self._send(step, words, senders, draw, seed)
        self.number += 1
        return number

    async def skip(self, step: Step, length: int) -> None:
        """Count and record a sum that only the holders send, and whose answer does not go to this party."""
        await self.channel.record_sum(self.group, step, self.number, length)
        self.number += 1

    async def receive_split(self, number: int, shape: tuple[int, ...]) -> RingMatrix:
        """Receive the first holder's share of the numbers of a sum."""
        found = await self.channel.receive(self.group.aggregator, Split)
        wanted = 8 * math.prod(shape)
        if (found.group, found.number, len(found.words)) != (self.group.name, number, wanted):
            got = f"{len(found.words)} bytes of sum {found.number} of group {printable(found.group)}"
            message = f"sent shares of {got} where {wanted} bytes of sum {number} were expected"
            raise PeerError(message, peer=self.group.aggregator)
        return np.frombuffer(found.words, dtype="<u8").astype(np.uint64).reshape(shape)

    def holders_agree_on(self, values: RingMatrix) -> None:
        """Add values to the masks of the holders' next sum: it opens only if both holders have the same."""
        self.agreed = digest("holders", values.astype("<u8", copy=False).tobytes())

    async def finish(self) -> None:
        """Inform the aggregator that this group needs no further sums."""
        stage = RunStage.of_group(Step.FINISHED, self.group)
        await self.channel.send(self.group.aggregator, Finished(self.group.name), stage)

    def wrong_answer(self, how: str) -> PeerError:
        """Return the error for answers that no honest aggregator gives if all parties send their distances."""
        number = max(self.number - 1, 0)
        message = f"{how} (group {self.group.name}, sum {number}): {self.group.aggregator} answered wrongly, or a party"
        return PeerError(f"{message} sent numbers that are not its distances", peer=self.group.aggregator)

    async def _send(
        self, step: Step, words: RingVector, senders: tuple[str, ...], draw: int = 0, seed: bytes = b""
    ) -> None:
        label, me, aggregator = self.label(), self.channel.me, self.group.aggregator
        # Commit before anything is sent under this label: two vectors under one mask would reveal both.
        await CommitMask(framed(self.session.id, label), hashlib.sha256(words.data).digest())
        if me == aggregator:  # Protocol 4, line 14: the aggregator adds its own vector without a mask
            covered = with_check_words(words)
        else:  # Protocol 4, lines 8 to 13
            maskers = tuple(other for other in senders if other != aggregator)
            pairs = [self.session.pairs[other] for other in maskers if other != me]
            common = digest(self.transcript, self.agreed) if self.agreed else self.transcript
            covered, self.agreed = mask(words, pairs, maskers, label, common), b""
        message = Masked(self.group.name, step, self.number, covered.astype("<u8", copy=False).tobytes(), draw, seed)
        kind = "plain" if self.group.exposes_one_party else "masked"
        stage = RunStage.of_group(step, self.group, self.number)
        await self.channel.send(aggregator, message, stage, shape=(len(words),), kind=kind)
        if me != aggregator:  # the aggregator half of that party records it
            await self.channel.record_sum(self.group, step, self.number, len(words))

    async def _receive(self, length: int) -> Flags:
        answer, payload = await self.channel.receive_with_bytes(self.group.aggregator, Answer)
        if (answer.group, answer.number) != (self.group.name, self.number):
            got = f"sum {answer.number} of group {printable(answer.group)}"
            expected = f"where sum {self.number} of group {self.group.name} was expected"
            raise PeerError(f"answered {got} {expected}", peer=self.group.aggregator)
        self.transcript = digest(self.transcript, payload)
        self.number += 1
        return unpack(answer.signs, length, 2, self.group.aggregator, "signs").astype(bool)

    def label(self) -> bytes:
        """Return the label of the next vector."""
        return framed(self.group.name, self.number)


def padded_length(length: int) -> int:
    """Return the length of a vector that has room for `length` entries: 4, 5, 6 or 7 times a power of two.

    The aggregator sees this length, and from it only roughly how many comparisons there are.
    """
    unit = 1 << max((length - 1).bit_length() - 3, 0)
    return -(-length // unit) * unit
