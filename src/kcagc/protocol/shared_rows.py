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

from kcagc._types import Flags, IntArray
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

    `share` has zeros for a party that is no holder; such a party takes part by listening. A search has several blocks
    of rows, for example one for each order of the filter. A set of centres belongs to one block.
    """

    sums: SecureSums
    share: IntArray  # blocks · nodes × d
    seed: bytes  # of the shares that this party draws, if it is the second holder
    blocks: int = 1
    purpose: str = ""  # of a search, whose pads are not those of the fit
    checks: RingMatrix = field(default_factory=lambda: np.zeros((0, 0), dtype=np.uint64))  # blocks · check rows × d

    @property
    def n_nodes(self) -> int:
        """The number of rows in a block."""
        return len(self.share) // self.blocks

    def of_block(self, block: int) -> IntArray:
        """Return this party's shares of the rows of one block."""
        return self.share[block * self.n_nodes : (block + 1) * self.n_nodes]

    @property
    def holds(self) -> bool:
        """Whether this party is a holder."""
        return self.sums.channel.me in self.sums.holders

    @property
    def draws(self) -> bool:
        """Whether this party is the second holder, which draws its shares."""
        return self.sums.channel.me == self.sums.holders[1]

    @classmethod
    async def of(
        cls, sums: SecureSums, joint: IntArray, seed: bytes, *, blocks: int = 1, purpose: str = ""
    ) -> SharedRows:
        """Scale joint rows, of which this party has shares (blocks · nodes × d), to length one, and pad them."""
        count, size = joint.shape
        here = cls(sums, np.zeros((count, size), dtype=np.int64), seed, blocks, purpose)
        block = max(1, ROTATION_VALUES // size**2)
        for start in range(0, count, block):
            some = slice(start, start + block)
            here.share[some] = await here._scaled_to_length_one(joint[some])
        if not here.holds:
            await sums.skip(Step.SHARES, (count + blocks * CHECK_ROWS) * size)
            return here
        weights = here._check_weights()
        here.checks = np.concatenate(
            [ring_product(weights, here.of_block(block).view(np.uint64)) for block in range(blocks)]
        )
        padded = np.concatenate([here.share.view(np.uint64), here.checks])
        if here.draws:
            padded = padded + here._row_pad()
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

    def _row_pad(self) -> RingMatrix:
        """Return the pad of all rows and, behind them, of all check rows."""
        shape = (len(self.share) + len(self.checks), self.share.shape[1])
        return pad(self.sums.group_key, self.sums.session.id, f"rows{self.purpose}", shape=shape)

    def _check_weights(self) -> RingMatrix:
        """Return the secret weights of the rows of a block in its check rows (check rows × nodes)."""
        shape = (CHECK_ROWS, self.n_nodes)
        return pad(self.sums.group_key, self.sums.session.id, f"checks{self.purpose}", shape=shape)

    def _draw(
        self, label: bytes, shape: tuple[int, ...], own: Callable[[RingMatrix], RingMatrix]
    ) -> tuple[RingMatrix, int]:
        """Draw a share; return what `own` makes of it, and the number of the draw."""
        session = self.sums.session.id
        return draw_until(lambda draw: own(drawn_share(self.seed, session, label, draw, shape=shape)), SHARE_ROOM)

    async def scores(self, centers: list[IntArray], blocks: list[int] | None = None) -> list[IntArray]:
        """Return shares of the scores for several sets of centres: of all rows of the set's block (nodes × k).

        `centers` are this party's shares, k × d, with `ROW_BITS` fraction bits; scores have `SCORE_BITS`. `blocks` has
        the block of each set; None means the first. One sum is enough for all sets, unless there are very many scores.
        """
        of = blocks or [0] * len(centers)
        found: list[IntArray] = []
        for part in score_chunks([len(one) for one in centers], self.n_nodes):
            found += await self._scores(centers[part], of[part])
        return found

    async def _scores(self, centers: list[IntArray], blocks: list[int]) -> list[IntArray]:
        """Return shares of the scores for sets of centres in one sum."""
        sums, count = self.sums, self.n_nodes
        key, session, label = sums.group_key, sums.session.id, sums.label()
        words = np.concatenate(centers).view(np.uint64)  # all centres × d
        if not self.holds:
            await sums.skip(Step.SCORES, 2 * words.size)
            return [np.zeros((count, len(one)), dtype=np.int64) for one in centers]
        # Odd secret numbers: the coordinator must return the square of a centre, and of the centre times such a number.
        times = pad(key, session, "times", label, shape=words.shape[:1]) | np.uint64(1)
        multiples = words * times[:, None]
        center_pads = pad(key, session, "centers", label, shape=words.shape)
        multiple_pads = pad(key, session, "multiples", label, shape=words.shape)
        row_pad, every = self._row_pad(), np.concatenate([self.share.view(np.uint64), self.checks])
        sets = sets_of_centers([len(one) for one in centers])
        without_pads = []
        for some, block in zip(sets, blocks, strict=True):
            # 2(x + r)(y + s) - (y + s)² = 2xy - y² + 2(xs + ry + rs) - 2ys - s²
            own, hidden = words[some], center_pads[some]
            share, covering = (with_checks(one, block, self.blocks) for one in (every, row_pad))
            cross = ring_product(share, hidden.T) + ring_product(covering, own.T)
            if self.draws:
                cross += ring_product(covering, hidden.T)
            squares = self._square(own, hidden), self._square(multiples[some], multiple_pads[some])
            without_pads.append(np.concatenate([squares[0] - np.uint64(2) * cross, squares[1][None]]))
        added = np.concatenate([one.ravel() for one in without_pads])
        shapes = [one.shape for one in without_pads]
        if self.draws:
            rows = np.concatenate([_is_row(shape, count) for shape in shapes])
            _, draw = self._draw(label, added.shape, lambda drawn: (drawn + added)[rows])
            sent = np.concatenate([words + center_pads, multiples + multiple_pads])
            await sums.send_words(Step.SCORES, sent.ravel(), sums.holders, draw=draw)
            flat = drawn_share(self.seed, session, label, draw, shape=added.shape) + added
        else:
            number = await sums.send_words(Step.SCORES, np.concatenate([words, multiples]).ravel(), sums.holders)
            flat = await sums.receive_split(number, added.shape) + added
        ends = np.cumsum([rows * k for rows, k in shapes])[:-1]
        found = [one.reshape(shape) for one, shape in zip(np.split(flat, ends), shapes, strict=True)]
        self._check(found, [times[some] for some in sets])
        return [rounded_share(one[:count], 2 * ROW_BITS - SCORE_BITS) for one in found]

    def _square(self, own: RingMatrix, hidden: RingMatrix) -> RingVector:
        """Return what the pads have added to the squares of centres, as far as this party knows it."""
        found: RingVector = np.uint64(2) * (hidden * own).sum(axis=1)
        return found + (hidden * hidden).sum(axis=1) if self.draws else found

    def _check(self, found: list[RingMatrix], times: list[RingVector]) -> None:
        """Check that the coordinator has multiplied rightly: otherwise the next sum of the holders does not open.

        The score of a check row, less the weighted scores of all rows, is a multiple of the square of the centre. So is
        the last row. What is left is zero; each holder has a share of it, and the shares are opposite.
        """
        weights, count = self._check_weights(), self.n_nodes
        sums_of_weights = weights.sum(axis=1, dtype=np.uint64)
        left = []
        for one, odd in zip(found, times, strict=True):
            rest = (one[count:-1] - ring_product(weights, one[:count])) * (odd * odd)
            left.append((rest + (sums_of_weights - np.uint64(1))[:, None] * one[-1]).ravel())
        every = np.concatenate(left)
        self.sums.holders_agree_on(np.negative(every) if self.draws else every)


def score_chunks(sizes: list[int], n_nodes: int) -> list[slice]:
    """Return the sets of centres, whose numbers of centres are given, that one sum takes after another."""
    chunks, start, values = [], 0, 0
    for place, k in enumerate(sizes):
        if place > start and values + n_nodes * k > SCORE_VALUES:
            chunks.append(slice(start, place))
            start, values = place, 0
        values += n_nodes * k
    return [*chunks, slice(start, len(sizes))]


def sets_of_centers(sizes: list[int]) -> list[slice]:
    """Return the places of each set in the list of all centres."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - k, end) for end, k in zip(ends, sizes, strict=True)]


def with_checks(rows: RingMatrix, block: int, blocks: int) -> RingMatrix:
    """Return the rows of a block and its check rows, from the rows of all blocks and the check rows behind them."""
    count = len(rows) // blocks - CHECK_ROWS
    first, check = block * count, blocks * count + block * CHECK_ROWS
    return np.concatenate([rows[first : first + count], rows[check : check + CHECK_ROWS]])


def _is_row(shape: tuple[int, int], count: int) -> Flags:
    """Return which of the flat numbers of a set are scores of its first `count` rows."""
    return np.arange(shape[0] * shape[1]) < count * shape[1]


# The coordinator's side


def unit_rows(opened: IntArray) -> RingMatrix:
    """Scale rows of integers to length one, with `ROW_BITS` fraction bits; a row of zeros stays zero."""
    rows = opened.astype(np.float64)
    length = np.linalg.norm(rows, axis=1)
    length[length == 0.0] = 1.0
    rounded: IntArray = np.rint(np.ldexp(rows / length[:, None], ROW_BITS)).astype(np.int64)
    return rounded.view(np.uint64)


def padded_scores(rows: RingMatrix, centers: RingMatrix, sizes: list[int], blocks: list[int], n: int) -> RingVector:
    """Return the scores of padded rows for several sets of padded centres, and squares of multiples, one after another.

    `centers` has all centres and as many multiples of them (2 · all × d), `sizes` the number of centres in each set,
    `blocks` the block of rows that each set belongs to, and `n` is the number of blocks.
    """
    half = len(centers) // 2
    found = []
    for some, block in zip(sets_of_centers(sizes), blocks, strict=True):
        own, multiples = centers[:half][some], centers[half:][some]
        scores = np.uint64(2) * ring_product(with_checks(rows, block, n), own.T) - (own * own).sum(axis=1)
        found += [scores.ravel(), np.negative((multiples * multiples).sum(axis=1))]
    return np.concatenate(found)
