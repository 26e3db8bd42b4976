"""The nearest of several centres by comparisons of pairs, and the margin-9 test of Protocol 2.

In each sum, the candidates of a row form small groups, and all pairs of a group are compared. The winners of the groups
are the candidates of the next sum. The last sum also tests the margin of each finalist. Only the opponents that a
winner met need a test: all others are farther away than one of them.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from kcagc._types import Flags, IntArray
from kcagc.protocol.messages import Step
from kcagc.protocol.secure_sum import Comparisons, SecureSums

GROUP_SIZE = 4  # with 4, ⌈log₄ k⌉ sums; larger groups save sums and cost comparisons
MARGIN = 9  # Protocol 2, line 14
NONE = -1  # a place without a candidate


async def nearest(
    sums: SecureSums,
    step: Step,
    distances: IntArray,
    candidates: IntArray,
    *,
    margin: bool = False,
    group_size: int = GROUP_SIZE,
    senders: tuple[str, ...] = (),
) -> tuple[IntArray, Flags, IntArray]:
    """Return each row's nearest candidate, whether it wins by the margin, and how many comparisons the row took.

    Parameters
    ----------
    sums : SecureSums
        The secure sums of the group.
    step : Step
        Step of the run.
    distances : array of int, rows × k
        This party's encoded distances to all centres.
    candidates : array of int, rows × c
        Centres among which each row chooses, in ascending order; `NONE` fills the end of short rows.
    margin : bool
        Whether to test that the nearest is at most 1/9 of every other distance away.
    group_size : int
        Size of the groups in which all pairs are compared.
    senders : tuple of str
        Parties that have parts of the distances; empty for all.
    """
    rows = np.arange(len(candidates))
    opponents = np.full((len(rows), candidates.shape[1], 0), NONE)
    asked = np.zeros(len(rows), dtype=np.int64)
    clear: Flags = np.ones(len(rows), dtype=bool)
    while candidates.shape[1] > 1:
        count = candidates.shape[1]
        groups = np.array_split(np.arange(count), -(-count // group_size))
        first, second = np.array([pair for group in groups for pair in combinations(group.tolist(), 2)]).T
        real = candidates[:, second] != NONE  # then the first of the pair is real, too
        pairs = _differences(distances, candidates[:, first], candidates[:, second], real)
        rivals = np.zeros((len(rows), count, 0), dtype=np.int64)
        if margin and len(groups) == 1:
            others = np.array([[other for other in range(count) if other != one] for one in range(count)])
            rivals = np.concatenate([opponents, candidates[:, others]], axis=2)
        tested = (rivals != NONE) & (candidates != NONE)[:, :, None]
        margins = _margins(distances, candidates, rivals, tested)
        signs = await sums.signs(step, Comparisons.joined([pairs, margins]), senders)
        asked += np.count_nonzero(real, axis=1) + np.count_nonzero(tested, axis=(1, 2))
        second_wins = np.zeros(real.shape, dtype=bool)
        second_wins[real] = signs[: len(pairs)]
        places = _winning_places(sums, groups, first, second, second_wins)
        if margin and len(groups) == 1:
            has_margin = np.ones(tested.shape, dtype=bool)
            has_margin[tested] = signs[len(pairs) :]
            clear = np.asarray(has_margin[rows, places[:, 0]].all(axis=1))
        elif margin:
            opponents = _met(candidates, opponents, groups, places, group_size)
        candidates = candidates[rows[:, None], places]
    return candidates[:, 0], clear, asked


def _differences(distances: IntArray, first: IntArray, second: IntArray, real: Flags) -> Comparisons:
    """Compare the distances to two centres; of two equal distances the lower number, which is the first, wins."""
    rows = np.nonzero(real)[0]
    parts = distances[rows, first[real]] - distances[rows, second[real]]
    return Comparisons(parts, np.zeros(len(parts), dtype=bool))


def _margins(distances: IntArray, candidates: IntArray, rivals: IntArray, tested: Flags) -> Comparisons:
    """Compare the distance to a rival with nine times that to a candidate, to 22 fraction bits."""
    rows, places, _ = np.nonzero(tested)
    parts = (distances[rows, rivals[tested]] - MARGIN * distances[rows, candidates[rows, places]] + 2) >> 2
    return Comparisons(parts, np.ones(len(parts), dtype=bool))


def _winning_places(
    sums: SecureSums, groups: list[IntArray], first: IntArray, second: IntArray, second_wins: Flags
) -> IntArray:
    """Return the place of the winner of each group (rows × groups): the only one that lost no comparison."""
    lost = np.zeros((len(second_wins), int(groups[-1][-1]) + 1), dtype=bool)
    for pair, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        lost[:, one] |= second_wins[:, pair]
        lost[:, other] |= ~second_wins[:, pair]
    kept = [~lost[:, group] for group in groups]
    if any((np.count_nonzero(one, axis=1) != 1).any() for one in kept):
        raise sums.wrong_answer("answers contradict each other")
    return np.stack([group[one.argmax(axis=1)] for group, one in zip(groups, kept, strict=True)], axis=1)


def _met(
    candidates: IntArray, opponents: IntArray, groups: list[IntArray], places: IntArray, group_size: int
) -> IntArray:
    """Return the opponents that each winner has met: those from before, and the others of its group."""
    rows = np.arange(len(candidates))
    members = np.full((len(rows), len(groups), group_size), NONE)
    for number, group in enumerate(groups):
        among = candidates[:, group]
        members[:, number, : len(group)] = np.where(group == places[:, [number]], NONE, among)
    return np.concatenate([opponents[rows[:, None], places], members], axis=2)
