"""k-means of many rows on a device: the steps of `fit_kmeans`, with restarts on a sample and Lloyd on all rows.

The steps are those of `kcagc.cluster.kmeans`: k-means++, swaps, the step with margin 9, Lloyd. Unlike there, equal rows
are not joined first, so labels of rows that are equally near to two centres may differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kcagc._types import FloatArray
from kcagc.cluster.lloyd import MARGIN, KMeansResult
from kcagc.cluster.local import in_range
from kcagc.engines.device_table import to_device, to_host

MANY = 1 << 16  # rows from which on the device is faster than one core
_SAMPLE = 1 << 14  # rows on which restarts compete
_TOLERANCE = 1e-3  # share of rows that may still change at the end
_MAX_ITER = 100
_VALUES = 1 << 27  # distances held at a time


def cluster_on_device(xp: Any, rows: FloatArray, n_clusters: int, *, n_init: int, seed: int) -> KMeansResult | None:
    """Cluster rows; return None where a sample has too few distinct rows to choose centres from."""
    random = np.random.RandomState(seed)
    sample = rows[np.unique(random.randint(len(rows), size=_SAMPLE))]
    if _count_distinct(sample) < 4 * n_clusters:
        return None
    everything = to_device(xp, rows)
    if not in_range(max(float(everything.max()), -float(everything.min()))):
        return None
    middle = everything.mean(axis=0)
    everything = everything - middle
    winner = _winner(xp, xp.asarray(sample) - middle, n_clusters, n_init, random)
    labels, centers, cost, n_iter, converged = _lloyd(xp, everything, winner)
    return KMeansResult(to_host(labels).astype(np.intp), to_host(centers + middle), cost, n_iter, converged)


def _count_distinct(rows: FloatArray) -> int:
    """Count the different rows by a sum of their bits with random factors."""
    factors = np.asarray(np.random.RandomState(0).randint(1 << 62, size=rows.shape[1]), dtype=np.uint64) * 2 + 1
    return len(np.unique((np.ascontiguousarray(rows).view(np.uint64) * factors).sum(axis=1, dtype=np.uint64)))


def _winner(xp: Any, rows: Any, k: int, n_init: int, random: np.random.RandomState) -> Any:
    """Run all restarts on a sample together, and return the centres of the cheapest; an empty cluster stays empty."""
    chosen = _seeded(xp, rows, k, n_init, random)
    centers = rows[chosen]
    if k > 1:
        away = _squares(xp, rows, centers)
        first, second, owner = _two_least(xp, away)
        won = first * MARGIN <= second
        centers = _means(xp, rows, xp.where(won, owner, k), centers)
    labels: Any = None
    for _ in range(_MAX_ITER):
        before, labels = labels, _squares(xp, rows, centers).argmin(axis=2)
        changed = len(rows) if before is None else int((labels != before).sum(axis=1).max())
        centers = _means(xp, rows, labels, centers)
        if changed <= _TOLERANCE * len(rows):
            break
    costs = to_host(xp.take_along_axis(_squares(xp, rows, centers), labels[..., None], axis=2).sum(axis=(1, 2)))
    best = 0
    for restart in range(1, n_init):  # among restarts that differ by rounding only, the first
        best = restart if costs[restart] < costs[best] * (1 - 1e-10) else best
    return centers[best]


def _squares(xp: Any, rows: Any, centers: Any) -> Any:
    """Return the squared distances of all rows to the centres of each restart: restarts × rows × k."""
    found = xp.matmul(rows[None], -2.0 * centers.swapaxes(1, 2))
    found += (rows * rows).sum(axis=1)[None, :, None]
    found += (centers * centers).sum(axis=2)[:, None, :]
    return xp.maximum(found, 0.0)


def _two_least(xp: Any, away: Any) -> tuple[Any, Any, Any]:
    """Return the least and the second least distance, and the centre of the least one."""
    owner = away.argmin(axis=2)
    first = away.min(axis=2)
    rest = xp.where(xp.arange(away.shape[2])[None, None, :] == owner[..., None], np.inf, away)
    return first, rest.min(axis=2), owner


def _drawn(xp: Any, mass: Any, random: np.random.RandomState) -> Any:
    """Draw a row of each restart with probability proportional to its mass."""
    running = xp.cumsum(mass, axis=1)
    wanted = xp.asarray(random.random_sample(len(mass)))[:, None] * running[:, -1:]
    return xp.minimum((running <= wanted).sum(axis=1), mass.shape[1] - 1)


def _seeded(xp: Any, rows: Any, k: int, n_init: int, random: np.random.RandomState) -> Any:
    """Draw k rows of each restart by k-means++, then try k swaps; return their numbers."""
    every = xp.arange(n_init)
    chosen = xp.zeros((n_init, k), dtype=np.int64)
    chosen[:, 0] = xp.asarray(random.randint(len(rows), size=n_init))
    away = xp.full((n_init, len(rows), k), np.inf)
    away[:, :, 0] = _squares(xp, rows, rows[chosen[:, :1]])[:, :, 0]
    for number in range(1, k):
        chosen[:, number] = _drawn(xp, away[:, :, :number].min(axis=2), random)
        away[:, :, number] = _squares(xp, rows, rows[chosen[:, number : number + 1]])[:, :, 0]
    for _ in range(k if k > 1 else 0):
        first, second, owner = _two_least(xp, away)
        candidate = _drawn(xp, first, random)
        to_new = _squares(xp, rows, rows[candidate[:, None]])[:, :, 0]
        kept = xp.minimum(first, to_new)
        lost = xp.minimum(second, to_new) - kept
        cells = (owner + k * every[:, None]).ravel()
        without = kept.sum(axis=1)[:, None] + xp.bincount(cells, weights=lost.ravel(), minlength=n_init * k).reshape(
            n_init, k
        )
        removed = without.argmin(axis=1)
        better = without[every, removed] < first.sum(axis=1) * (1 - 1e-12)
        chosen[every, removed] = xp.where(better, candidate, chosen[every, removed])
        away[every, :, removed] = xp.where(better[:, None], to_new, away[every, :, removed])
    return chosen


def _means(xp: Any, rows: Any, labels: Any, centers: Any) -> Any:
    """Return the means of the labels of each restart; a centre without rows stays, and label k counts for none."""
    k = centers.shape[1]
    member = (labels[:, None, :] == xp.arange(k)[None, :, None]).astype(np.float64)
    sizes = member.sum(axis=2)[..., None]
    return xp.where(sizes > 0, xp.matmul(member, rows[None]) / xp.maximum(sizes, 1.0), centers)


def _lloyd(xp: Any, rows: Any, centers: Any) -> tuple[Any, Any, float, int, bool]:
    """Run Lloyd; return labels, centres, cost, iterations, and whether at most one row in a thousand still changed."""
    k, n_iter, converged = len(centers), 0, False
    labels = xp.full(len(rows), -1)
    while n_iter < _MAX_ITER and not converged:
        before = labels
        labels, costs, sums, sizes = _assigned(xp, rows, centers)
        for empty in np.flatnonzero(to_host(sizes) == 0):  # takes the row with the largest cost, as `fill_empty` does
            row = int(costs.argmax())
            sums[int(labels[row])] -= rows[row]
            sizes[int(labels[row])] -= 1
            labels[row], costs[row], sums[int(empty)], sizes[int(empty)] = int(empty), 0.0, rows[row], 1.0
        centers = xp.where(sizes[:, None] > 0, sums / xp.maximum(sizes, 1.0)[:, None], centers)
        n_iter += 1
        converged = int((labels != before).sum()) <= _TOLERANCE * len(rows)
    cost = 0.0
    for part in _parts(rows, k):
        away = rows[part] - centers[labels[part]]
        cost += float((away * away).sum())
    return labels, centers, cost, n_iter, converged


def _assigned(xp: Any, rows: Any, centers: Any) -> tuple[Any, Any, Any, Any]:
    """Return the nearest centre of each row, the squared distance to it, and the sums and sizes of the clusters."""
    k = len(centers)
    labels, costs = xp.empty(len(rows), dtype=np.int64), xp.empty(len(rows))
    sums, sizes = xp.zeros((k, rows.shape[1])), xp.zeros(k)
    for part in _parts(rows, k):
        away = _squares(xp, rows[part], centers[None])[0]
        labels[part], costs[part] = away.argmin(axis=1), away.min(axis=1)
        member = (labels[part][None, :] == xp.arange(k)[:, None]).astype(np.float64)
        sums += member @ rows[part]
        sizes += member.sum(axis=1)
    return labels, costs, sums, sizes


def _parts(rows: Any, k: int) -> list[slice]:
    step = max(_VALUES // k, 1)
    return [slice(start, min(start + step, len(rows))) for start in range(0, len(rows), step)]
