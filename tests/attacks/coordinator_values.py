"""Attacks of the coordinator on single entries: signs, magnitudes, what kind of entry it is, and how many there are.

Each function gets opened integers, or lengths, and returns a claim: a score for every entry, or one number.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from kcagc.protocol.secure_sum import MAX_COPIES, MIN_LENGTH, MIN_PROBES, padded_length
from kcagc.protocol.tournament import GROUP_SIZE


def sign_tests(vectors: list[np.ndarray]) -> dict[str, tuple[float, int]]:
    """Return how many standard deviations the signs of all sums are from coin flips, by three statistics."""
    positive = [vector > 0 for vector in vectors]
    flips = np.concatenate(positive)
    after = np.concatenate([one[1:] == one[:-1] for one in positive])
    size = np.concatenate([_normal_scores(np.abs(vector)) for vector in vectors])
    with_size = float(np.sum(np.where(flips, 1, -1) * size) / math.sqrt(float(np.sum(size**2))))
    return {
        "frequency": (_deviations(flips), len(flips)),
        "runs": (_deviations(after), len(after)),
        "correlation with the magnitude": (abs(with_size), len(flips)),
    }


def _deviations(flips: np.ndarray) -> float:
    return float(abs(flips.mean() - 0.5) * 2 * math.sqrt(len(flips)))


def _normal_scores(values: np.ndarray) -> np.ndarray:
    ranks = np.empty(len(values))
    ranks[np.argsort(values)] = (np.arange(len(values)) + 0.5) / len(values)
    return np.asarray(norm.ppf(ranks))


def magnitude(vector: np.ndarray) -> np.ndarray:
    """Return the best guess of the order of differences: the magnitudes, in octaves."""
    return np.log2(np.maximum(np.abs(vector.astype(np.float64)), 0.5))


def typical_difference(vector: np.ndarray, octaves: tuple[float, float]) -> float:
    """Return an estimate of the median |Δ| of a sum, in octaves; `octaves` are the public range of the factors.

    The sum of log|Δ| and a uniform number has the mean of both as its mean; the tails at both ends of the range hold
    the distribution of log|Δ| itself. The median of the upper tail is the robust form of it: above the largest factor
    times x, an entry occurs as often as a difference exceeds x.
    """
    sizes = np.sort(magnitude(vector))
    lowest, highest = octaves
    # The density at y is P(log Δ > y - highest) / width while y exceeds the smallest factor times every difference.
    width = highest - lowest
    grid = np.linspace(highest + 5, highest + 30, 400)
    above = len(sizes) - np.searchsorted(sizes, grid)
    per_octave = len(sizes) / width
    # The number of entries above y is the integral of the survival function from y - highest on.
    step = 1.0
    survival = (np.interp(grid, grid, above) - np.interp(grid + step, grid, above)) / (per_octave * step)
    return float(np.interp(-0.5, -survival, grid + step / 2 - highest))


def number_of_cells(length: int, k: int, n_restarts: int) -> float:
    """Return an estimate of the number of cells from the length of the first vector, which is padded."""
    per_row = pairs_of_first_sum(k) * n_restarts

    def padded(count: int) -> int:
        return padded_length(max(count + min(count, MAX_COPIES) + MIN_PROBES, MIN_LENGTH))

    fitting = [cells for cells in range(k + 1, length // per_row + k + 2) if padded((cells - k) * per_row) == length]
    if fitting:
        return float(np.mean(fitting))
    return k + max(length - MAX_COPIES - MIN_PROBES, per_row) / per_row


def pairs_of_first_sum(k: int) -> int:
    """Return how many comparisons a row has in the first sum of its tournament."""
    groups = [len(one) for one in np.array_split(np.arange(k), -(-k // GROUP_SIZE))]
    pairs = sum(size * (size - 1) // 2 for size in groups)
    return pairs + (k * (k - 1) if len(groups) == 1 else 0)  # the last sum has the margin tests, too
