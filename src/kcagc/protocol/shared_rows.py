"""Unit rows and scores that no role knows: two holders have shares of them, the coordinator computes on padded numbers.

The first two parties are the holders. Each multiplies its shares of a row by a secret factor and turns them by a secret
rotation; both know these, and every row has its own. The sum opens to the coordinator in a secret order: a vector of
random direction and of blinded length. The coordinator scales it to length one and returns it in shares, which the
holders turn back. From then on the coordinator has the unit rows under a pad, and the holders have shares.

In each round, the holders compute their shares of the centres, which are means of unit rows, and send them under a pad.
The coordinator multiplies padded rows and padded centres, and returns the products in shares. The holders remove what
the pads have added. The score of node i and centre r is 2·u_i·m_r - ‖m_r‖², the larger the nearer:
‖u_i - m_r‖² = 1 - score. Check rows, which are secret mixtures of all rows, and centres times secret numbers show
whether the coordinator multiplied rightly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kcagc._types import IntArray
from kcagc.protocol.messages import Step
from kcagc.protocol.secure_sum import SecureSums
from kcagc.secagg.blinding import secret_order
from kcagc.secagg.masks import RingVector
from kcagc.secagg.shares import (
    JOINT_BITS,
    ROTATION_BITS,
    ROW_BITS,
    RingMatrix,
    draw_until,
    drawn_share,
    pad,
    ring_product,
    rounded_share,
    row_factors,
    row_offsets,
    row_rotations,
    turn_back,
    turned_and_scaled,
)

SCORE_BITS = 24  # fraction bits of the scores that are compared
CHECK_ROWS = 8  # an error of the coordinator that is 2^v times an odd number passes one of them with 2^(v - 64)
ROTATION_VALUES = 1 << 24  # entries of secret rotations in one sum of rows, which a holder has in memory
SCORE_VALUES = 1 << 22  # scores in one sum: of many more, one or another would wrap in nearly every draw
SHARE_ROOM = 2 * ROW_BITS + 5  # bits of a score: it lies between -15 and 1, as a centre is not longer than 3


@dataclass(eq=False)
class SharedRows:
    """Shares of the unit rows of some nodes, and what it takes to compute scores with the coordinator.

    `share` has zeros for a party that is no holder; such a party takes part by listening.
    """

    sums: SecureSums
    share: IntArray  # nodes × d
    seed: bytes  # of the shares that this party draws, if it is the second holder
    checks: RingMatrix = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint64))  # check rows × d

    @property
    def holds(self) -> bool:
        """Whether this party is a holder."""
        return self.sums.channel.me in self.sums.holders

    @property
    def draws(self) -> bool:
        """Whether this party is the second holder, which draws its shares."""
        return self.sums.channel.me == self.sums.holders[1]

    @classmethod
    async def of(cls, sums: SecureSums, joint: IntArray, seed: bytes) -> SharedRows:
        """Scale joint rows, of which this party has shares (nodes × d), to length one, and pad them."""
        count, size = joint.shape
        here = cls(sums, np.zeros((count, size), dtype=np.int64), seed)
        block = max(1, ROTATION_VALUES // size**2)
        for start in range(0, count, block):
            some = slice(start, start + block)
            here.share[some] = await here._scaled_to_length_one(joint[some])
        if not here.holds:
            await sums.skip(Step.SHARES, (count + CHECK_ROWS) * size)
            return here
        here.checks = ring_product(here._check_weights(), here.share.view(np.uint64))
        padded = here._with_checks()
        if here.draws:
            padded = padded + pad(sums.group_key, sums.session.id, "rows", shape=padded.shape)
        await sums.send_words(Step.SHARES, padded.ravel(), sums.holders)
        return here

    async def _scaled_to_length_one(self, joint: IntArray) -> IntArray:
        """Return this party's shares of the unit rows of some joint rows, all of them in one sum."""
        sums, (count, size) = self.sums, joint.shape
        if not self.holds:
            await sums.skip(Step.ROWS, count * size)
            return np.zeros((count, size), dtype=np.int64)
        key, session, label = sums.group_key, sums.session.id, sums.label()
        rotations = row_rotations(key, session, label, count=count, size=size)
        factors = row_factors(key, session, label, count=count)
        order = secret_order(key, session, label, count)
        turned = turned_and_scaled(rotations, factors, joint, JOINT_BITS)
        if self.draws:
            turned += row_offsets(key, session, label, factors=factors, size=size, fraction_bits=JOINT_BITS)
        words = turned[order].ravel()

        def turned_back(turned: RingMatrix) -> RingMatrix:
            back = np.empty_like(turned)
            back[order] = turned
            return turn_back(rotations, back)

        if self.draws:
            found, draw = self._draw(label, (count, size), turned_back)
            await sums.send_words(Step.ROWS, words, sums.holders, draw=draw)
        else:
            number = await sums.send_words(Step.ROWS, words, sums.holders)
            found = turned_back(await sums.receive_split(number, (count, size)))
        return rounded_share(found, ROTATION_BITS)

    def _with_checks(self) -> RingMatrix:
        """Return this party's share of the unit rows, and of the check rows behind them."""
        return np.concatenate([self.share.view(np.uint64), self.checks])

    def _check_weights(self) -> RingMatrix:
        """Return the secret weights of all rows in the check rows (check rows × nodes)."""
        return pad(self.sums.group_key, self.sums.session.id, "checks", shape=(CHECK_ROWS, len(self.share)))

    def _draw(
        self, label: bytes, shape: tuple[int, ...], own: Callable[[RingMatrix], RingMatrix]
    ) -> tuple[RingMatrix, int]:
        """Draw a share; return what `own` makes of it, and the number of the draw."""
        session = self.sums.session.id
        return draw_until(lambda draw: own(drawn_share(self.seed, session, label, draw, shape=shape)), SHARE_ROOM)

    async def scores(self, centers: list[IntArray]) -> IntArray:
        """Return shares of the scores of all rows for several sets of centres (sets × nodes × k).

        `centers` are this party's shares, k × d, with `ROW_BITS` fraction bits; scores have `SCORE_BITS`. One sum is
        enough for all sets, unless there are very many scores.
        """
        at_once = max(1, SCORE_VALUES // (len(self.share) * len(centers[0])))
        parts = [await self._scores(centers[start : start + at_once]) for start in range(0, len(centers), at_once)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    async def _scores(self, centers: list[IntArray]) -> IntArray:
        """Return shares of the scores for sets of centres in one sum."""
        sums, (count, size), k = self.sums, self.share.shape, len(centers[0])
        key, session, label = sums.group_key, sums.session.id, sums.label()
        if not self.holds:
            await sums.skip(Step.SCORES, 2 * len(centers) * k * size)
            return np.zeros((len(centers), count, k), dtype=np.int64)
        share, words = self._with_checks(), np.stack(centers).view(np.uint64)
        # Odd secret numbers: the coordinator must return the square of a centre, and of the centre times such a number.
        times = pad(key, session, "times", label, shape=words.shape[:2]) | np.uint64(1)
        multiples = words * times[:, :, None]
        shape = (len(centers), len(share) + 1, k)
        row_pad = pad(key, session, "rows", shape=share.shape)
        center_pads = pad(key, session, "centers", label, shape=words.shape)
        multiple_pads = pad(key, session, "multiples", label, shape=words.shape)
        without_pads = np.empty(shape, dtype=np.uint64)
        for place, (own, hidden) in enumerate(zip(words, center_pads, strict=True)):
            # 2(x + r)(y + s) - (y + s)² = 2xy - y² + 2(xs + ry + rs) - 2ys - s²
            cross = ring_product(share, hidden.T) + ring_product(row_pad, own.T)
            if self.draws:
                cross += ring_product(row_pad, hidden.T)
            without_pads[place, :-1] = self._square(own, hidden) - np.uint64(2) * cross
            without_pads[place, -1] = self._square(multiples[place], multiple_pads[place])
        if self.draws:
            _, draw = self._draw(label, shape, lambda drawn: (drawn + without_pads)[:, :count])
            sent = np.concatenate([words + center_pads, multiples + multiple_pads])
            await sums.send_words(Step.SCORES, sent.ravel(), sums.holders, draw=draw)
            found = drawn_share(self.seed, session, label, draw, shape=shape) + without_pads
        else:
            number = await sums.send_words(Step.SCORES, np.concatenate([words, multiples]).ravel(), sums.holders)
            found = await sums.receive_split(number, shape) + without_pads
        self._check(found, times)
        return rounded_share(found[:, :count], 2 * ROW_BITS - SCORE_BITS)

    def _square(self, own: RingMatrix, hidden: RingMatrix) -> RingVector:
        """Return what the pads have added to the squares of centres, as far as this party knows it."""
        found: RingVector = np.uint64(2) * (hidden * own).sum(axis=1)
        return found + (hidden * hidden).sum(axis=1) if self.draws else found

    def _check(self, found: RingMatrix, times: RingMatrix) -> None:
        """Check that the coordinator has multiplied rightly: otherwise the next sum of the holders does not open.

        The score of a check row, less the weighted scores of all rows, is a multiple of the square of the centre. So is
        the last row. What is left is zero; each holder has a share of it, and the shares are opposite.
        """
        weights, count = self._check_weights(), len(self.share)
        sums_of_weights = weights.sum(axis=1, dtype=np.uint64)
        left = np.stack([one[count:-1] - ring_product(weights, one[:count]) for one in found])
        left *= (times * times)[:, None, :]
        left += (sums_of_weights - np.uint64(1))[None, :, None] * found[:, -1:, :]
        self.sums.holders_agree_on(np.negative(left) if self.draws else left)


# The coordinator's side


def unit_rows(opened: IntArray) -> RingMatrix:
    """Scale rows of integers to length one, with `ROW_BITS` fraction bits; a row of zeros stays zero."""
    rows = opened.astype(np.float64)
    length = np.linalg.norm(rows, axis=1)
    length[length == 0.0] = 1.0
    rounded: IntArray = np.rint(np.ldexp(rows / length[:, None], ROW_BITS)).astype(np.int64)
    return rounded.view(np.uint64)


def padded_scores(rows: RingMatrix, centers: RingMatrix) -> RingMatrix:
    """Return the scores of padded rows (count × size) for several sets of padded centres, and squares of multiples.

    `centers` has sets of centres and as many sets of their multiples (2·sets × k × size).
    """
    half = len(centers) // 2
    found = [
        np.concatenate(
            [
                np.uint64(2) * ring_product(rows, own.T) - (own * own).sum(axis=1),
                np.negative((multiples * multiples).sum(axis=1))[None],
            ]
        )
        for own, multiples in zip(centers[:half], centers[half:], strict=True)
    ]
    return np.stack(found)
