"""Collaborative k-means on rows that every party sees through its own columns (Protocol 2, lines 7 to 36).

Each round sends one masked vector. It carries the distances of all active restarts and the cost of each. The answer
names the nearest centre of every row, the restart with the lowest current cost, and the restarts that stop because they
cannot become the best. A restart also stops if it reaches the partition of another restart. Every party computes its
own distances and its own means. Decisions that must be the same for all parties come from the aggregator, or are drawn
in integers from a common seed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.cells import draw, random_for
from kcagc.protocol.effects import Progress
from kcagc.protocol.messages import Step
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.secure_sum import SecureSums

_MAX_ROUND_VALUES = 1 << 18  # values in a round of all restarts of a merge of cells: 2 MiB from each party
_MIN_RESTARTS = 2
_MAX_KEPT_VALUES = 1 << 21  # distances of a restart that are kept for its next round: 16 MiB
_TILE_ROWS, _TILE_CENTERS = 1 << 12, 4  # a tile of distances stays in the cache of one core


@dataclass(frozen=True)
class SumCounts:
    """Values summed for the winning restart, and separately for other restarts, for seeding and for costs."""

    winning: int = 0
    other_restarts: int = 0
    seeding: int = 0
    inertia: int = 0


@dataclass(frozen=True)
class Iteration:
    """One iteration of the winning restart: the number of nodes that changed their cluster.

    `cost` is the joint mean squared distance at its beginning, of the restart with the lowest cost at that time.
    """

    moved: int
    cost: float | None


@dataclass(frozen=True, eq=False)
class JointClusters:
    """The winning restart: its clusters of the rows, its Lloyd iterations, and the values that the group summed."""

    labels: IntArray
    n_iter: int
    converged: bool
    rounds: int
    sums: SumCounts
    history: list[Iteration]


@dataclass(eq=False)
class _Restart:
    centers: FloatArray
    labels: IntArray  # of the last answer; -1 before the first
    members: IntArray  # the centre that each row is averaged into; -1 for none
    moved: Flags  # the centres that moved since the last answer
    n_iter: int = 0
    converged: bool = False
    joined: int | None = None  # the restart that has reached the same partition before
    stopped: bool = False
    values: int = 0
    history: list[Iteration] = field(default_factory=list)
    distances: FloatArray | None = None  # of the last answer (m × k)

    @classmethod
    def at(cls, rows: FloatArray, chosen: IntArray) -> _Restart:
        """Return a restart whose initial centres are the chosen rows."""
        members = np.full(len(rows), -1)
        members[chosen] = np.arange(len(chosen))
        return cls(rows[chosen], np.full(len(rows), -1), members, np.ones(len(chosen), dtype=bool))

    @property
    def done(self) -> bool:
        return self.converged or self.stopped or self.joined is not None

    def move_centers(self, rows: FloatArray, sizes: IntArray, members: IntArray) -> None:
        """Move each centre to the mean of its members; a centre that keeps its members stays exactly the same."""
        used = members >= 0
        means = weighted_means(rows[used], sizes[used].astype(float), members[used], self.centers)
        clusters = np.arange(len(means))[:, None]
        self.moved = ((members == clusters) != (self.members == clusters)).any(axis=1)
        self.centers = np.where(self.moved[:, None], means, self.centers)
        self.members = members

    def distances_to(self, rows: FloatArray) -> FloatArray:
        """Return the distances of rows to the centres; those to a centre that did not move are taken from before."""
        if self.distances is None:
            found = reproducible_distances(rows, self.centers)
        else:
            found, moved = self.distances, np.flatnonzero(self.moved)
            found[:, moved] = reproducible_distances(rows, self.centers[moved])
        self.distances = found if found.size <= _MAX_KEPT_VALUES else None
        return found

    def settled(self) -> Flags:
        """Return the comparisons (m × k) whose result is known: neither the row's centre nor the other one moved."""
        unmoved = ~self.moved
        settled = unmoved[self.labels][:, None] & unmoved[None, :]
        settled[np.arange(len(self.labels)), self.labels] = False
        return settled


async def joint_kmeans(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, k: int, starts: IntArray | None, seed: int, options: Parameters
) -> JointClusters:
    """Cluster the rows; `starts` are rows as initial centres (n_restarts × k), or None for joint D² sampling."""
    if starts is None:
        starts = await _d2_sampling(sums, rows, sizes, k, options.n_init, seed)
    restarts = [_Restart.at(rows, chosen) for chosen in starts]
    await _margin_step(sums, rows, sizes, restarts, starts)
    visited: dict[bytes, int] = {}
    for iteration in range(1, options.max_iter + 1):  # Protocol 2, line 21
        active = {number: restart for number, restart in enumerate(restarts) if not restart.done}
        if not active:
            break
        await Progress(f"{sums.group.title}: iteration", iteration, options.max_iter, limit=True)
        found = await _nearest_centers(sums, rows, sizes, active, len(restarts))
        for number in sums.stopped:
            restarts[number].stopped = True
        for (number, restart), labels in zip(active.items(), found, strict=True):
            restart.values += len(rows) * k
            restart.history.append(Iteration(int(sizes[labels != restart.labels].sum()), sums.cost))
            # The centres may have moved since the margin step assigned its labels: those cannot show convergence.
            restart.converged = restart.n_iter > 0 and np.array_equal(labels, restart.labels)
            restart.n_iter = iteration
            restart.labels = labels
            if not restart.done:  # Protocol 2, lines 31 to 35
                filled = refill_empty_clusters(labels, sizes, k, (seed, 1, number, iteration))
                restart.move_centers(rows, sizes, filled)
                # From the same partition two restarts continue in the same way (except for empty clusters).
                owner = visited.setdefault(_partition_digest(filled), number)
                if owner != number and restarts[owner].joined is None and not restarts[owner].stopped:
                    restart.joined = owner
    best = restarts[sums.best]
    while best.joined is not None:
        best = restarts[best.joined]
    counts = SumCounts(
        winning=best.values,
        other_restarts=sum(restart.values for restart in restarts) - best.values,
        seeding=sums.values_sent.get(Step.SEEDING, 0),
        inertia=sums.costs_sent,
    )
    return JointClusters(best.labels, best.n_iter, best.converged, sums.number, counts, best.history)


def affordable_restarts(n_init: int, n_cells: int, k: int) -> int:
    """Return how many restarts a merge has: all that were requested, unless their vector would be very long.

    Many cells and many clusters have many local optima of nearly equal cost, so restarts gain little where they cost
    most.
    """
    return max(min(n_init, _MIN_RESTARTS), min(n_init, _MAX_ROUND_VALUES // (n_cells * k)))


async def _margin_step(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, restarts: list[_Restart], starts: IntArray
) -> None:
    """Assign rows with margin 9, and move each centre to the mean of its rows (Protocol 2, lines 7 to 20).

    The distance of a starting row to its own centre is zero. All parties know that, and the aggregator must not see it.
    """
    await Progress(f"{sums.group.title}: first assignment")
    n_restarts, k = starts.shape
    places = np.stack([np.repeat(np.arange(n_restarts), k), starts.ravel()], axis=1)
    found, clear = await sums.winners(Step.MARGIN, sums.with_decoys(_distances(rows, restarts), places))
    found[places[:, 0], places[:, 1]] = np.tile(np.arange(k), n_restarts)
    clear[places[:, 0], places[:, 1]] = True
    for restart, labels, has_margin in zip(restarts, found, clear, strict=True):
        restart.values += labels.size * len(restart.centers)
        restart.labels = labels
        restart.move_centers(rows, sizes, np.where(has_margin, labels, -1))


async def _nearest_centers(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, active: dict[int, _Restart], n_restarts: int
) -> IntArray:
    """Return the nearest centre of every row in every active restart (Protocol 2, lines 22 to 30).

    If neither a row's centre nor another centre moved, the row stays nearer to its own. The aggregator gets a made-up
    value for such a comparison, because the true value would help it to recognise the row.
    """
    restarts = list(active.values())
    settled = np.stack([restart.settled() for restart in restarts])
    before = np.stack([restart.labels for restart in restarts])
    distances = _distances(rows, restarts)
    to_own = np.take_along_axis(distances, before[:, :, None], axis=2)[:, :, 0]
    # A mean, so that the bound on values holds for any number of nodes. A matrix product would not be reproducible.
    own = np.sum(to_own * (sizes / sizes.sum()), axis=1)
    costs = dict(zip(active, own.tolist(), strict=True)) if n_restarts > 1 else {}
    found, _ = await sums.winners(Step.LLOYD, sums.with_fillers(distances, before, settled), costs)
    was_settled = np.take_along_axis(settled, found[:, :, None], axis=2)[:, :, 0]
    return np.where(was_settled, before, found)


async def _d2_sampling(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, k: int, n_restarts: int, seed: int
) -> IntArray:
    """Draw initial centres by joint distances: the aggregator draws from weighted sums of unnamed rows."""
    chosen = np.array([[draw(sizes, random_for(seed, 2, restart))] for restart in range(n_restarts)], dtype=np.int64)
    shares = sizes / sizes.max()
    while chosen.shape[1] < k:
        await Progress(f"{sums.group.title}: drawing initial centres", chosen.shape[1], k)
        weighted = np.stack([shares[:, None] * reproducible_distances(rows, rows[start]) for start in chosen])
        drawn = await sums.drawn_rows(weighted)
        chosen = np.concatenate([chosen, drawn[:, None]], axis=1)
    return chosen


def refill_empty_clusters(labels: IntArray, sizes: IntArray, k: int, seeds: tuple[int, ...]) -> IntArray:
    """Move into each empty cluster a row drawn from the clusters with more than one row.

    The centre of an empty cluster serves no row, so the cost can only fall.
    """
    counts = np.bincount(labels, minlength=k)
    if counts.all():
        return labels
    filled, random = labels, random_for(*seeds)
    for cluster in np.flatnonzero(counts == 0):
        mass = np.where(np.bincount(filled, minlength=k)[filled] > 1, sizes, 0)
        if not mass.any():
            break
        filled = filled.copy()
        filled[draw(mass, random)] = cluster
    return filled


def _partition_digest(labels: IntArray) -> bytes:
    """Return a digest that is equal for labels that differ only in the numbers of the clusters."""
    _, first, clusters = np.unique(labels, return_index=True, return_inverse=True)
    renumbered = np.empty(len(first), dtype=np.int64)
    renumbered[np.argsort(first)] = np.arange(len(first))
    return hashlib.sha256(renumbered[clusters].tobytes()).digest()


def _distances(rows: FloatArray, restarts: list[_Restart]) -> FloatArray:
    return np.stack([restart.distances_to(rows) for restart in restarts])


def reproducible_distances(rows: FloatArray, centers: FloatArray) -> FloatArray:
    """Return ‖x_i - c_r‖² for all i and r, equal to the last bit every time and on every machine.

    A vector under a mask must be the same when it is computed again. A matrix product may add in another order with
    another number of threads; this loop adds the squares of one coordinate after the other.
    """
    n, k = len(rows), len(centers)
    found = np.empty((n, k))
    by_row, by_center = np.ascontiguousarray(rows.T), np.ascontiguousarray(centers.T)[:, :, None]
    total, away = np.empty((2, min(k, _TILE_CENTERS), min(n, _TILE_ROWS)))
    with np.errstate(over="ignore"):  # an overflow exceeds the protocol's bound too, and is refused there
        for start in range(0, n, _TILE_ROWS):
            some = slice(start, min(start + _TILE_ROWS, n))
            for first in range(0, k, _TILE_CENTERS):
                few = slice(first, min(first + _TILE_CENTERS, k))
                tile = (slice(0, few.stop - first), slice(0, some.stop - start))
                into, square = total[tile], away[tile]
                into[:] = 0.0
                for x, c in zip(by_row, by_center, strict=True):
                    np.subtract(x[some], c[few], out=square)
                    np.multiply(square, square, out=square)
                    np.add(into, square, out=into)
                found[some, few] = into.T
    return found
