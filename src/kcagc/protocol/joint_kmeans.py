"""Collaborative k-means on rows that every party sees through its own columns (Protocol 2 from line 7 on).

One masked vector a round carries the distances of all starts that have neither converged nor come to where another
start has been, and what each of them costs: answers give up starts that cannot win any more, and the last one names
the cheapest. Every party computes its own distances and its own means; what must be the same for all is decided by the
receiver of the sums, or drawn in whole numbers from a seed that all parties know.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.distances import reproducible_distances
from kcagc.protocol.effects import progress
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.secure_sum import SecureSums
from kcagc.protocol.seeds import draw, random_for

STARTS_LARGEST = 1 << 18  # values in a round of all starts of a merge of cells: 2 MiB from each party
FEWEST_STARTS = 2
KEPT_LARGEST = 1 << 21  # distances of a start that are kept for its next round: 16 MiB


@dataclass(frozen=True)
class Counted:
    """Values summed for the winning start, and apart: for other starts, for seeding, for comparing starts."""

    winning: int = 0
    other_starts: int = 0
    seeding: int = 0
    inertia: int = 0


@dataclass(frozen=True)
class Round:
    """One iteration of the winning start: nodes that changed their cluster in it.

    `cost` is the joint mean squared distance that it began with, of the start that was the cheapest then.
    """

    moved: int
    cost: float | None


@dataclass(frozen=True, eq=False)
class Joint:
    """The winning start: its clusters of the rows, its Lloyd iterations, and what the group summed."""

    labels: IntArray
    n_iter: int
    converged: bool
    rounds: int
    sums: Counted
    history: list[Round]


@dataclass(eq=False)
class _Start:
    centers: FloatArray
    labels: IntArray  # as the last answer gave them; -1 before the first
    members: IntArray  # the rows that each centre is the mean of; -1 for none
    moved: Flags  # the centres that are not where the last answer found them
    n_iter: int = 0
    converged: bool = False
    joined: int | None = None  # the start that had been where this one came to
    given_up: bool = False
    values: int = 0
    history: list[Round] = field(default_factory=list)
    distances: FloatArray | None = None  # of the last answer, to the centres as they were (m × k)

    @property
    def done(self) -> bool:
        return self.converged or self.given_up or self.joined is not None

    def move(self, rows: FloatArray, sizes: IntArray, members: IntArray) -> None:
        """Put each centre at the mean of its members; one that keeps its members stays exactly where it is."""
        used = members >= 0
        means = weighted_means(rows[used], sizes[used].astype(float), members[used], self.centers)
        clusters = np.arange(len(means))[:, None]
        self.moved = ((members == clusters) != (self.members == clusters)).any(axis=1)
        self.centers = np.where(self.moved[:, None], means, self.centers)
        self.members = members

    def distances_of(self, rows: FloatArray) -> FloatArray:
        """Give the distances to its centres; those to a centre that has not moved are the same to the last bit."""
        if self.distances is None:
            found = reproducible_distances(rows, self.centers)
        else:
            found, moved = self.distances, np.flatnonzero(self.moved)
            found[:, moved] = reproducible_distances(rows, self.centers[moved])
        self.distances = found if found.size <= KEPT_LARGEST else None
        return found

    def settled(self) -> Flags:
        """Say for which rows and columns (m × k) the comparison is settled: neither the winner nor the column moved."""
        unmoved = ~self.moved
        settled = unmoved[self.labels][:, None] & unmoved[None, :]
        settled[np.arange(len(self.labels)), self.labels] = False
        return settled


async def joint_kmeans(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, k: int, starts: IntArray | None, seed: int, how: Parameters
) -> Joint:
    """Cluster the rows; `starts` are row numbers (n_starts × k), or None where seeding takes rounds of its own."""
    if starts is None:
        starts = await _d2_sampling(sums, rows, sizes, k, how.n_init, seed)
    every = [_begun(rows, chosen) for chosen in starts]
    await _ninth_step(sums, rows, sizes, every, starts)
    visited: dict[bytes, int] = {}
    for iteration in range(1, how.max_iter + 1):
        active = [number for number, start in enumerate(every) if not start.done]
        if not active:
            break
        await progress(f"{sums.group.title}: iteration", iteration, how.max_iter, limit=True)
        found = await _assigned(sums, rows, sizes, {number: every[number] for number in active}, len(every))
        for number in sums.given_up:
            every[number].given_up = True
        for number, labels in zip(active, found, strict=True):
            start = every[number]
            start.values += len(rows) * k
            start.history.append(Round(int(sizes[labels != start.labels].sum()), sums.cost))
            # The 1/9 step's labels are of centres that may have moved since: they end nothing.
            start.converged = start.n_iter > 0 and np.array_equal(labels, start.labels)
            start.n_iter = iteration
            start.labels = labels
            if not start.done:
                filled = refilled(labels, sizes, k, (seed, 1, number, iteration))
                start.move(rows, sizes, filled)
                # Where another start has been before, it would go on as that one did (but for empty clusters).
                owner = visited.setdefault(partition_of(filled), number)
                if owner != number and every[owner].joined is None and not every[owner].given_up:
                    start.joined = owner
    best = every[sums.best]
    while best.joined is not None:
        best = every[best.joined]
    counted = Counted(
        winning=best.values,
        other_starts=sum(start.values for start in every) - best.values,
        seeding=sums.values_sent.get("seed", 0),
        inertia=sums.values_sent.get("costs", 0),
    )
    return Joint(best.labels, best.n_iter, best.converged, sums.number, counted, best.history)


def affordable(n_init: int, n_cells: int, k: int) -> int:
    """Give how many starts a merge has: all that were asked for, unless their distances make a very long vector.

    Many cells and many clusters make many local optima that are all nearly as good, so that restarts gain little just
    where they cost most.
    """
    return max(min(n_init, FEWEST_STARTS), min(n_init, STARTS_LARGEST // (n_cells * k)))


def _begun(rows: FloatArray, chosen: IntArray) -> _Start:
    """Begin at the chosen rows."""
    members = np.full(len(rows), -1)
    members[chosen] = np.arange(len(chosen))
    return _Start(rows[chosen], np.full(len(rows), -1), members, np.ones(len(chosen), dtype=bool))


async def _ninth_step(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, every: list[_Start], starts: IntArray
) -> None:
    """Move each centre to the mean of the rows that it wins by nine (Protocol 2, lines 7 to 20).

    A starting row is at distance zero from its own centre, which everybody knows and the receiver need not see.
    """
    await progress(f"{sums.group.title}: first assignment")
    n_starts, k = starts.shape
    places = np.stack([np.repeat(np.arange(n_starts), k), starts.ravel()], axis=1)
    found, clear = await sums.winners("margin", sums.with_decoys(_distances(rows, every), places))
    found[places[:, 0], places[:, 1]] = np.tile(np.arange(k), n_starts)
    clear[places[:, 0], places[:, 1]] = True
    for start, labels, sure in zip(every, found, clear, strict=True):
        start.values += labels.size * len(start.centers)
        start.labels = labels
        start.move(rows, sizes, np.where(sure, labels, -1))


async def _assigned(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, active: dict[int, _Start], n_starts: int
) -> IntArray:
    """Give every row of every start its nearest centre (Protocol 2, lines 22 to 29).

    Where neither a row's winner nor another centre has moved, the winner still wins against that other, and what the
    receiver sees in that place need not be true: it would only tell it which row this is.
    """
    starts = list(active.values())
    settled = np.stack([start.settled() for start in starts])
    before = np.stack([start.labels for start in starts])
    distances = _distances(rows, starts)
    # A mean, not a sum, so that the bound on values holds for any number of nodes. One start needs no comparison.
    to_own = np.take_along_axis(distances, before[:, :, None], axis=2)[:, :, 0]
    own = np.sum(to_own * (sizes / sizes.sum()), axis=1)  # not a matrix product: the same to the last bit every time
    costs = dict(zip(active, own.tolist(), strict=True)) if n_starts > 1 else {}
    found, _ = await sums.winners("lloyd", sums.with_fillers(distances, before, settled), costs)
    beaten = np.take_along_axis(settled, found[:, :, None], axis=2)[:, :, 0]
    return np.where(beaten, before, found)


async def _d2_sampling(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, k: int, n_starts: int, seed: int
) -> IntArray:
    """Draw starts by joint distances: the receiver draws, from weighted sums whose rows it cannot tell apart."""
    chosen = np.array([[draw(sizes, random_for(seed, 2, start))] for start in range(n_starts)], dtype=np.int64)
    shares = sizes / sizes.max()
    while chosen.shape[1] < k:
        await progress(f"{sums.group.title}: drawing starting centres", chosen.shape[1], k)
        weighted = np.stack([shares[:, None] * reproducible_distances(rows, rows[start]) for start in chosen])
        drawn = await sums.drawn_rows("seed", weighted)
        chosen = np.concatenate([chosen, drawn[:, None]], axis=1)
    return chosen


def partition_of(labels: IntArray) -> bytes:
    """Give what two labellings have in common when they differ only in the clusters' numbers."""
    _, first, clusters = np.unique(labels, return_index=True, return_inverse=True)
    renumbered = np.empty(len(first), dtype=np.int64)
    renumbered[np.argsort(first)] = np.arange(len(first))
    return hashlib.sha256(renumbered[clusters].tobytes()).digest()


def refilled(labels: IntArray, sizes: IntArray, k: int, seeds: tuple[int, ...]) -> IntArray:
    """Give each empty cluster a row drawn from those that are not alone in their cluster.

    An empty cluster's centre serves no row, so wherever it goes the cost can only fall.
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


def _distances(rows: FloatArray, starts: list[_Start]) -> FloatArray:
    return np.stack([start.distances_of(rows) for start in starts])
