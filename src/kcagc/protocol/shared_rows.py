"""Unit rows and scores that no role knows: two holders have shares of them, the coordinator computes on padded numbers.

The first two parties are the holders. Each multiplies its shares of a row by a secret factor and turns them by a secret
rotation; both know these, and every row has its own. The sum opens to the coordinator in a secret order: a vector of
random direction and of blinded length. The coordinator scales it to length one and returns it in shares, which the
holders turn back. From then on the coordinator has the unit rows under a pad, and the holders have shares.

In each round, the holders compute their shares of the centres, which are means of unit rows, and send them under a pad.
The coordinator multiplies padded rows and padded centres, and returns the products in shares. The holders remove what
the pads have added. The score of node i and centre r is 2·u_i·m_r - ‖m_r‖², the larger the nearer:
‖u_i - m_r‖² = 1 - score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kcagc._types import IntArray
from kcagc.protocol.messages import Step
from kcagc.protocol.secure_sum import SecureSums
from kcagc.secagg.blinding import secret_order
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
SHARE_ROOM = 2 * ROW_BITS + 5  # bits of a score: it lies between -15 and 1, as a centre is not longer than 3


@dataclass(eq=False)
class SharedRows:
    """Shares of the unit rows of some nodes, and what it takes to compute scores with the coordinator.

    `share` has zeros for a party that is no holder; such a party takes part by listening.
    """

    sums: SecureSums
    share: IntArray  # nodes × d
    seed: bytes  # of the shares that this party draws, if it is the second holder

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
        if not here.holds:
            await sums.skip(Step.ROWS, count * size)
            await sums.skip(Step.SHARES, count * size)
            return here
        key, session, label = sums.group_key, sums.session.id, sums.label()
        rotations = row_rotations(key, session, label, count=count, size=size)
        factors = row_factors(key, session, label, count=count)
        order = secret_order(key, session, label, count)
        turned = turned_and_scaled(rotations, factors, joint, JOINT_BITS)
        if here.draws:
            turned += row_offsets(key, session, label, factors=factors, size=size, fraction_bits=JOINT_BITS)
        words = turned[order].ravel()

        def turned_back(turned: RingMatrix) -> RingMatrix:
            back = np.empty_like(turned)
            back[order] = turned
            return turn_back(rotations, back)

        if here.draws:
            found, draw = here._draw(label, (count, size), turned_back)
            await sums.send_words(Step.ROWS, words, sums.holders, draw=draw)
        else:
            number = await sums.send_words(Step.ROWS, words, sums.holders)
            found = turned_back(await sums.receive_split(number, (count, size)))
        here.share = rounded_share(found, ROTATION_BITS)
        padded = here.share.view(np.uint64)
        if here.draws:
            padded = padded + pad(key, session, "rows", shape=padded.shape)
        await sums.send_words(Step.SHARES, padded.ravel(), sums.holders)
        return here

    def _draw(
        self, label: bytes, shape: tuple[int, ...], own: Callable[[RingMatrix], RingMatrix]
    ) -> tuple[RingMatrix, int]:
        """Draw a share; return what `own` makes of it, and the number of the draw."""
        session = self.sums.session.id
        return draw_until(lambda draw: own(drawn_share(self.seed, session, label, draw, shape=shape)), SHARE_ROOM)

    async def scores(self, centers: list[IntArray]) -> IntArray:
        """Return shares of the scores of all rows for several sets of centres (sets × nodes × k).

        `centers` are this party's shares, k × d, with `ROW_BITS` fraction bits; scores have `SCORE_BITS`.
        """
        sums, (count, size), k = self.sums, self.share.shape, len(centers[0])
        key, session, label = sums.group_key, sums.session.id, sums.label()
        shape = (len(centers), count, k)
        if not self.holds:
            await sums.skip(Step.SCORES, len(centers) * k * size)
            return np.zeros(shape, dtype=np.int64)
        row_pad = pad(key, session, "rows", shape=(count, size))
        center_pads = pad(key, session, "centers", label, shape=(len(centers), k, size))
        share, words = self.share.view(np.uint64), np.stack(centers).view(np.uint64)
        without_pads = np.empty(shape, dtype=np.uint64)
        for place, (own, hidden) in enumerate(zip(words, center_pads, strict=True)):
            # 2(x + r)(y + s) - (y + s)² = 2xy - y² + 2(xs + ry + rs) - 2ys - s²
            cross = ring_product(share, hidden.T) + ring_product(row_pad, own.T)
            square = np.uint64(2) * (hidden * own).sum(axis=1)
            if self.draws:
                cross += ring_product(row_pad, hidden.T)
                square += (hidden * hidden).sum(axis=1)
            without_pads[place] = square - np.uint64(2) * cross
        if self.draws:
            found, draw = self._draw(label, shape, lambda drawn: drawn + without_pads)
            await sums.send_words(Step.SCORES, (words + center_pads).ravel(), sums.holders, draw=draw)
        else:
            number = await sums.send_words(Step.SCORES, words.ravel(), sums.holders)
            found = await sums.receive_split(number, shape) + without_pads
        return rounded_share(found, 2 * ROW_BITS - SCORE_BITS)


# The coordinator's side


def unit_rows(opened: IntArray) -> RingMatrix:
    """Scale rows of integers to length one, with `ROW_BITS` fraction bits; a row of zeros stays zero."""
    rows = opened.astype(np.float64)
    length = np.linalg.norm(rows, axis=1)
    length[length == 0.0] = 1.0
    rounded: IntArray = np.rint(np.ldexp(rows / length[:, None], ROW_BITS)).astype(np.int64)
    return rounded.view(np.uint64)


def padded_scores(rows: RingMatrix, centers: RingMatrix) -> RingMatrix:
    """Return the scores of padded rows (count × size) for several sets of padded centres (sets × k × size)."""
    found = [np.uint64(2) * ring_product(rows, own.T) - (own * own).sum(axis=1) for own in centers]
    return np.stack(found)
