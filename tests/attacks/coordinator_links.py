"""Attacks of the coordinator that link entries: two entries of one sum, or of two sums, that belong to the same cell.

Each function gets the opened integers of two sums (`second` is None for links inside one sum) and returns its claims:
positions in the first and in the second. It knows nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Claims = tuple[np.ndarray, np.ndarray]
Link = Callable[[np.ndarray, "np.ndarray | None"], Claims]

_NONE: Claims = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
MOST = 300  # claims of an attack that orders its claims: the ones that it trusts most
_SAMPLE = 900  # entries of each sum for attacks that look at all pairs


def by_nearest_value(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link entries that are each other's nearest by magnitude, in octaves."""
    return _mutual(_octaves(first), None if second is None else _octaves(second))


def by_rank(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link entries that are each other's nearest by their rank among all magnitudes of their sum."""
    if second is None:
        return _NONE
    return _mutual(_ranks(np.abs(first)), _ranks(np.abs(second)))


def by_position(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link entries in the same place of two vectors, or neighbours in one vector."""
    if second is None:
        return np.arange(len(first) - 1), np.arange(1, len(first))
    count = min(len(first), len(second))
    return np.arange(count), np.arange(count)


def by_equality(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link entries of equal magnitude."""
    return _equal(np.abs(first), None if second is None else np.abs(second))


def by_low_bits(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link entries whose lowest bits are equal: as many bits as leave about one partner by chance."""
    bits = np.int64((1 << max(len(first) if second is None else len(second), 2).bit_length()) - 1)
    return _equal(np.abs(first) & bits, None if second is None else np.abs(second) & bits)


def by_ratio(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link pairs of entries with equal ratios: a factor for a whole row or sum would leave them equal."""
    left = _some(first)
    right = left if second is None else _some(second)
    one, other = _octaves(first)[left], _octaves(first if second is None else second)[right]
    i, j = np.triu_indices(len(left), 1)
    a, b = np.triu_indices(len(right), 1)
    mine, theirs = np.abs(one[i] - one[j]), np.abs(other[a] - other[b])
    order = np.argsort(theirs)
    at = np.clip(np.searchsorted(theirs[order], mine), 1, len(order) - 1)
    at -= np.abs(theirs[order[at - 1]] - mine) < np.abs(theirs[order[at]] - mine)
    found = order[at]
    off = np.abs(theirs[found] - mine)
    if second is None:
        off = np.where((i == a[found]) & (j == b[found]), np.inf, off)
    best = np.argsort(off)[: MOST // 2]
    best, found = best[np.isfinite(off[best])], found[best[np.isfinite(off[best])]]
    swapped = (one[i[best]] > one[j[best]]) != (other[a[found]] > other[b[found]])
    ends = np.where(swapped, b[found], a[found]), np.where(swapped, a[found], b[found])
    return np.concatenate([left[i[best]], left[j[best]]]), np.concatenate([right[ends[0]], right[ends[1]]])


def by_gcd(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link entries with the largest greatest common divisors: two multiples of one number have it in common."""
    left = _some(first)
    right = left if second is None else _some(second)
    one, other = np.abs(first)[left], np.abs(first if second is None else second)[right]
    divisors = np.gcd(one[:, None], other[None, :])
    if second is None:
        divisors[np.tril_indices(len(left))] = 0
    best = np.argpartition(divisors.ravel(), -MOST)[-MOST:] if divisors.size > MOST else np.arange(divisors.size)
    i, j = np.unravel_index(best, divisors.shape)
    return left[i], right[j]


@dataclass(frozen=True)
class Divisor:
    """A number that several entries are nearly multiples of: the evidence for it, and these entries."""

    evidence: float
    value: int
    entries: np.ndarray


def common_divisors(values: np.ndarray, most: int = MOST) -> list[Divisor]:
    """Return the odd numbers Δ that most entries are near a multiple of, f·Δ + e with |e| < f, for small integers f.

    Every pair of an entry v and an integer f proposes the odd number within 1 of v / f. Entries of the same Δ propose
    it together. Another entry hits it by chance with probability 2f/Δ, so small f are the best evidence. If factors are
    not integers, nothing is found but coincidences.
    """
    lowest, highest, least, largest, budget = 64, 1 << 12, 1 << 14, 1 << 29, 3_000_000
    magnitudes = np.abs(values)
    order = np.argsort(magnitudes)
    low = np.maximum(magnitudes[order] // largest + 1, lowest)
    counts = np.maximum(np.minimum(magnitudes[order] // least, highest) - low + 1, 0)
    counts = np.where(np.cumsum(counts) <= budget, counts, 0)
    entry = np.repeat(order, counts)
    if not len(entry):
        return []
    within = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    factor = np.repeat(low, counts) + within
    proposed = (magnitudes[entry] // factor) | 1
    by_value = np.argsort(proposed, kind="stable")
    entry, factor, proposed = entry[by_value], factor[by_value], proposed[by_value]
    begin = np.concatenate([[0], np.flatnonzero(np.diff(proposed)) + 1])
    size = np.diff(np.concatenate([begin, [len(proposed)]]))
    evidence = np.add.reduceat(np.maximum(np.log(proposed / (2.0 * factor)), 0), begin)
    several = np.flatnonzero(size > 1)
    best = several[np.argsort(-evidence[several], kind="stable")][:most]
    return [
        Divisor(float(evidence[one]), int(proposed[begin[one]]), entry[begin[one] : begin[one] + size[one]])
        for one in best
    ]


def by_common_divisor(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Link entries that are nearly multiples of the same number, the strongest evidence first."""
    every = first if second is None else np.concatenate([first, second])
    pairs: list[tuple[int, int]] = []
    for one in common_divisors(every):
        entries = np.unique(one.entries)
        if second is None:
            pairs += list(zip(entries[:-1].tolist(), entries[1:].tolist(), strict=True))
        else:
            mine, theirs = entries[entries < len(first)], entries[entries >= len(first)] - len(first)
            pairs += [(int(i), int(j)) for i in mine[:3] for j in theirs[:3]]
        if len(pairs) >= MOST:
            break
    if not pairs:
        return _NONE
    left, right = np.array(pairs[:MOST]).T
    return left, right


LINKS: dict[str, Link] = {
    "nearest values": by_nearest_value,
    "nearest ranks": by_rank,
    "same position": by_position,
    "equal values": by_equality,
    "equal low bits": by_low_bits,
    "equal ratios": by_ratio,
    "greatest common divisor": by_gcd,
    "common divisor up to an offset": by_common_divisor,
}
CHEAP = ("nearest values", "nearest ranks", "same position", "equal values", "equal low bits")


def _octaves(values: np.ndarray) -> np.ndarray:
    return np.log2(np.maximum(np.abs(values.astype(np.float64)), 0.5))


def _ranks(values: np.ndarray) -> np.ndarray:
    ranks = np.empty(len(values))
    ranks[np.argsort(values)] = (np.arange(len(values)) + 0.5) / len(values)
    return ranks


def _mutual(first: np.ndarray, second: np.ndarray | None) -> Claims:
    """Return pairs that are each other's nearest number."""
    if second is None:
        order = np.argsort(first)
        gaps = np.diff(first[order])
        if len(gaps) < 2:
            return _NONE
        before, after = np.concatenate([[np.inf], gaps[:-1]]), np.concatenate([gaps[1:], [np.inf]])
        pairs = np.flatnonzero((gaps <= before) & (gaps <= after))
        return order[pairs], order[pairs + 1]
    to_second, to_first = _nearest(first, second), _nearest(second, first)
    left = np.flatnonzero(to_first[to_second] == np.arange(len(first)))
    return left, to_second[left]


def _nearest(wanted: np.ndarray, among: np.ndarray) -> np.ndarray:
    order = np.argsort(among)
    at = np.clip(np.searchsorted(among[order], wanted), 1, max(len(order) - 1, 1))
    at = np.minimum(at, len(order) - 1)
    before = np.maximum(at - 1, 0)
    nearer = np.abs(among[order[before]] - wanted) <= np.abs(among[order[at]] - wanted)
    return order[np.where(nearer, before, at)]


def _equal(first: np.ndarray, second: np.ndarray | None) -> Claims:
    if second is None:
        order = np.argsort(first, kind="stable")
        same = np.flatnonzero(np.diff(first[order]) == 0)
        return order[same], order[same + 1]
    _, left, right = np.intersect1d(first, second, return_indices=True)
    return left, right


def _some(values: np.ndarray) -> np.ndarray:
    """Return positions of a sample, spread over the vector, the same in every run."""
    if len(values) <= _SAMPLE:
        return np.arange(len(values))
    return np.sort(np.random.RandomState(0).choice(len(values), _SAMPLE, replace=False))
