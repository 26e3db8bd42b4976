"""What the receiver of a sum makes of it, on whole numbers alone: who wins, who ties, who wins by nine, what to draw.

Sums that differ by less than rounding can make them differ count as equal. Which of several equal columns wins is for
those to decide who know what the columns are: the lowest cluster number, as in `kcagc.cluster.lloyd`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kcagc._types import IntArray
from kcagc.protocol.packing import pack, pack_bits
from kcagc.protocol.seeds import random_for
from kcagc.secagg.masks import Sums, decode

# Each of 16 parties rounds by half a unit of 2^-44, and floating point adds a few: for distances of the order of one.
TIE = 64
NINE = 9  # Protocol 2, line 14
OUTLOOK = 3  # on the public graphs: a third fewer rounds, and the winning start costs 0.1 % more on average


@dataclass(frozen=True)
class Verdict:
    """An answer's fields, packed."""

    winners: bytes
    tied_rows: bytes
    tied_positions: bytes
    clear: bytes


def judge(sums: Sums, *, by_nine: bool) -> Verdict:
    """Give each row (of s × m × c sums) its first winning position and the others that tie with it.

    With `by_nine` also whether the best is at most a ninth of the second (Protocol 2, line 14).
    """
    columns = sums.shape[2]
    flat = sums.reshape(-1, columns)
    least = flat.min(axis=1)
    tying = flat <= (least + TIE)[:, None]
    first = tying.argmax(axis=1)
    tying[np.arange(len(flat)), first] = False
    rows, positions = np.nonzero(tying)
    clear = b""
    if by_nine:
        clear = pack_bits(
            least <= (np.partition(flat, 1, axis=1)[:, 1] + TIE) // NINE if columns > 1 else np.ones(len(flat), bool)
        )
    return Verdict(pack(first, columns), rows.astype("<u8").tobytes(), positions.astype("<u4").tobytes(), clear)


def sample(sums: Sums, seed: list[int]) -> tuple[int, ...]:
    """Draw for each start a row with probability proportional to its least sum (D² sampling)."""
    random = random_for(*seed)
    chosen = []
    for least in np.maximum(sums.min(axis=2), 0):
        mass = np.cumsum(decode(least))
        at = np.searchsorted(mass, random.random_sample() * mass[-1], side="right")
        chosen.append(int(min(at, len(mass) - 1)))
    return tuple(chosen)


def cheapest(costs: dict[int, int]) -> int:
    """Give the first start that costs least; without costs the first."""
    least = min(costs.values(), default=0)
    return min((start for start, cost in costs.items() if cost <= least + TIE), default=0)


def hopeless(before: dict[int, int], now: dict[int, int], least: int) -> tuple[int, ...]:
    """Give the starts that will not come down to the least cost even if they fall `OUTLOOK` times as far again.

    Each round of Lloyd's method takes off less than the one before, as a rule.
    """
    return tuple(
        start
        for start, cost in now.items()
        if start in before and cost - OUTLOOK * max(before[start] - cost, 0) > least + TIE
    )


def positions_of(rows: bytes, positions: bytes) -> tuple[IntArray, IntArray]:
    """Read the ties of an answer; the lengths are checked by who reads the answer."""
    return (
        np.frombuffer(rows, dtype="<u8").astype(np.int64),
        np.frombuffer(positions, dtype="<u4").astype(np.int64),
    )
