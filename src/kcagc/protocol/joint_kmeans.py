"""Collaborative k-means on rows that every party sees through its own columns (Protocol 2, lines 7 to 36).

Every decision is the sign of a comparison that the group computes together. One sum compares, for all active restarts,
each row's other centres with its last one, and the costs of the restarts with each other. Rows with several nearer
centres take part in one more sum. A restart stops if it cannot become the best, or if it reaches the partition of
another restart. Every party computes its own distances and its own means. Decisions that must be the same for all
parties come from the answers, or are drawn in integers from a common seed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.cluster.joint import refill_empty_clusters
from kcagc.cluster.lloyd import weighted_means
from kcagc.protocol.effects import Progress
from kcagc.protocol.messages import Step
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.secure_sum import Comparisons, SecureSums
from kcagc.protocol.tournament import NONE, nearest

_MAX_ROUND_VALUES = 1 << 18  # values in a round of all restarts of a merge of cells: 2 MiB from each party
_MIN_RESTARTS = 2
_MAX_KEPT_VALUES = 1 << 21  # distances of a restart that are kept for its next round: 16 MiB
_LOOKAHEAD = 3  # on the public graphs: a third fewer rounds, and the winning restart costs 0.1 % more on average
_ROUNDING = 4  # units that each party's cost may rise by rounding
_SETTLING_SIZE = 8  # few rows have several nearer centres, and hardly any has more than eight
_TILE_ROWS, _TILE_CENTERS = 1 << 12, 4  # a tile of distances stays in the cache of one core


@dataclass(frozen=True)
class SumCounts:
    """Comparisons for the winning restart; separately for other restarts, costs, checks of answers, and searches."""

    winning: int = 0
    other_restarts: int = 0
    costs: int = 0
    checks: int = 0
    search: int = 0


@dataclass(frozen=True, eq=False)
class JointClusters:
    """The winning restart: its clusters of the rows, how many nodes moved in each iteration, and the group's sums.

    `others` are the clusters of the rows in the other restarts that were not stopped early.
    """

    labels: IntArray
    n_iter: int
    converged: bool
    rounds: int
    sums: SumCounts
    moved: list[int]
    others: tuple[IntArray, ...] = ()


@dataclass(eq=False)
class _Restart:
    centers: FloatArray
    labels: IntArray  # of the last answer; -1 before the first
    base: IntArray  # the centre with which the others are compared: the label, unless the row fills a cluster
    members: IntArray  # the centre that each row is averaged into; -1 for none
    moved: Flags  # the centres that moved since the last answer
    n_iter: int = 0
    converged: bool = False
    joined: int | None = None  # the restart that has reached the same partition before
    stopped: bool = False
    comparisons: int = 0
    history: list[int] = field(default_factory=list)
    distances: FloatArray | None = None  # of the last answer (m × k)

    @classmethod
    def at(cls, rows: FloatArray, chosen: IntArray) -> _Restart:
        """Return a restart whose initial centres are the chosen rows."""
        members = np.full(len(rows), -1)
        members[chosen] = np.arange(len(chosen))
        unknown = np.full(len(rows), -1)
        return cls(rows[chosen], unknown, unknown, members, np.ones(len(chosen), dtype=bool))

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

    def open_comparisons(self) -> Flags:
        """Return the comparisons (m × k) that are not known: the row's centre or the other one has moved."""
        unknown = self.moved[self.base][:, None] | self.moved[None, :]
        unknown[np.arange(len(self.base)), self.base] = False
        return unknown


@dataclass(eq=False)
class _Costs:
    """Costs of the restarts: this party's parts of them, encoded, and which restart is the cheapest."""

    sums: SecureSums
    known: dict[int, int] = field(default_factory=dict)
    best: int = 0
    comparisons: int = 0
    _before: dict[int, int] = field(default_factory=dict)
    _new: dict[int, int] = field(default_factory=dict)
    _cheaper: dict[tuple[int, int], bool] = field(default_factory=dict)

    def compare(self, new: dict[int, int]) -> Comparisons:
        """Return the comparisons that new costs need: with all others, for stopping, and with the cost before."""
        self._new, self._before = new, {restart: self.known[restart] for restart in new if restart in self.known}
        self.known |= new
        known, before = self.known, self._before
        order = [known[one] - known[other] for one, other in self._pairs()]
        stops = [self._beyond(one, other) for one, other in self._rivals()]
        falls = [before[one] - known[one] + _ROUNDING for one in before]
        ties = np.repeat([False, True], [len(order) + len(stops), len(falls)])
        self.comparisons += len(ties)
        return Comparisons(np.array(order + stops + falls, dtype=np.int64), ties)

    def read(self, signs: Flags) -> set[int]:
        """Take the answers: find the best restart, and return the restarts that stop."""
        pairs, rivals = self._pairs(), self._rivals()
        dearer, beyond, falls = np.split(signs, [len(pairs), len(pairs) + len(rivals)])
        if not falls.all():
            raise self.sums.wrong_answer("the cost of a restart rose, which k-means cannot do")
        self._cheaper |= {pair: not one for pair, one in zip(pairs, dearer.tolist(), strict=True)}
        candidates = [one for one in self.known if all(self._is_cheaper(one, other) for other in self.known)]
        if len(candidates) != 1:
            raise self.sums.wrong_answer("answers about costs contradict each other")
        self.best = candidates[0]
        far = {pair for pair, one in zip(rivals, beyond.tolist(), strict=True) if one}
        stopped = {one for one in self._before if (one, self.best) in far}
        for one in stopped:
            del self.known[one]
        return stopped

    def _pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of restarts of which one has a new cost."""
        return [pair for pair in combinations(sorted(self.known), 2) if not self._new.keys().isdisjoint(pair)]

    def _rivals(self) -> list[tuple[int, int]]:
        return [(one, other) for one in self._before for other in self.known if other != one]

    def _beyond(self, one: int, other: int) -> int:
        """Return a quarter of the cost by which a restart stays above another, if it falls three times as far again.

        As a rule, each round of Lloyd's method lowers the cost less than the round before.
        """
        cost, fall = self.known[one], self._before[one] - self.known[one]
        return (cost - _LOOKAHEAD * fall - self.known[other] + 2) >> 2

    def _is_cheaper(self, one: int, other: int) -> bool:
        """Return whether a restart is cheaper than another, or it is the same; of equal costs the first is cheaper."""
        return one == other or (self._cheaper[one, other] if one < other else not self._cheaper[other, one])


async def joint_kmeans(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, k: int, starts: IntArray, seed: int, options: Parameters
) -> JointClusters:
    """Cluster the rows; `starts` are rows as initial centres (n_restarts × k)."""
    restarts = [_Restart.at(rows, chosen) for chosen in starts]
    await _margin_step(sums, rows, sizes, restarts, starts)
    visited: dict[bytes, int] = {}
    costs = _Costs(sums)
    for iteration in range(1, options.max_iter + 1):  # Protocol 2, line 21
        active = {number: restart for number, restart in enumerate(restarts) if not restart.done}
        if not active:
            break
        await Progress(f"{sums.group.title}: iteration", iteration, options.max_iter, limit=True)
        found, stopped = await _nearest_centers(sums, rows, sizes, active, costs)
        for number in stopped:
            restarts[number].stopped = True
        for (number, restart), labels in zip(active.items(), found, strict=True):
            restart.history.append(int(sizes[labels != restart.labels].sum()))
            # The centres may have moved since the margin step assigned its labels: those cannot show convergence.
            restart.converged = restart.n_iter > 0 and np.array_equal(labels, restart.labels)
            restart.n_iter = iteration
            restart.labels = labels
            if not restart.done:  # Protocol 2, lines 31 to 35
                filled = refill_empty_clusters(labels, sizes, k, (seed, 1, number, iteration))
                restart.base = filled
                restart.move_centers(rows, sizes, filled)
                # From the same partition two restarts continue in the same way (except for empty clusters).
                owner = visited.setdefault(_partition_digest(filled), number)
                if owner != number and restarts[owner].joined is None and not restarts[owner].stopped:
                    restart.joined = owner
    best = _end_of(restarts[costs.best], restarts)
    others = sum(restart.comparisons for restart in restarts) - best.comparisons
    counts = SumCounts(best.comparisons, others, costs.comparisons, sums.checks)
    ends = [_end_of(one, restarts) for number, one in enumerate(restarts) if number != costs.best]
    ran = tuple(one.labels for one in ends if not one.stopped)
    return JointClusters(best.labels, best.n_iter, best.converged, sums.number, counts, best.history, ran)


def _end_of(restart: _Restart, restarts: list[_Restart]) -> _Restart:
    """Return the restart that a restart has joined, or itself."""
    while restart.joined is not None:
        restart = restarts[restart.joined]
    return restart


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

    A starting row belongs to its own centre, at distance zero: it needs no comparison.
    """
    await Progress(f"{sums.group.title}: first assignment")
    n_restarts, k = starts.shape
    labels, clear, asked = np.full((n_restarts, len(rows)), -1), *np.ones((2, n_restarts, len(rows)), dtype=np.int64)
    labels[np.arange(n_restarts)[:, None], starts] = np.arange(k)
    others = labels < 0
    asked[~others] = 0
    distances = _distances(sums, rows, restarts)[others]
    candidates = np.tile(np.arange(k), (len(distances), 1))
    found = await nearest(sums, Step.MARGIN, distances, candidates, margin=True)
    labels[others], clear[others], asked[others] = found
    for restart, found_labels, has_margin, taken in zip(restarts, labels, clear, asked, strict=True):
        restart.comparisons += int(taken.sum())
        restart.labels = restart.base = found_labels
        restart.move_centers(rows, sizes, np.where(has_margin, found_labels, -1))


async def _nearest_centers(
    sums: SecureSums, rows: FloatArray, sizes: IntArray, active: dict[int, _Restart], costs: _Costs
) -> tuple[IntArray, set[int]]:
    """Return the nearest centre of every row in every active restart (Protocol 2, lines 22 to 30), and who stops."""
    restarts = list(active.values())
    base = np.stack([restart.base for restart in restarts])
    unknown = np.stack([restart.open_comparisons() for restart in restarts])
    distances = _distances(sums, rows, restarts)
    # A mean, so that the bound on values holds for any number of nodes. A matrix product would not be reproducible.
    to_own = np.take_along_axis(distances, base[:, :, None], axis=2)[:, :, 0]
    own_costs = np.rint(np.sum(to_own * (sizes / sizes.sum()), axis=1)).astype(np.int64)
    which, row, center = np.nonzero(unknown)
    own = base[which, row]
    parts = distances[which, row, center] - distances[which, row, own]
    asked = Comparisons(parts, center > own)  # of two equal distances the lower number wins
    about_costs = costs.compare(dict(zip(active, own_costs.tolist(), strict=True)))
    signs = await sums.signs(Step.LLOYD, Comparisons.joined([asked, about_costs]))
    stopped = costs.read(signs[len(asked) :])
    nearer = np.zeros(unknown.shape, dtype=bool)
    nearer[unknown] = ~signs[: len(asked)]
    count = np.count_nonzero(nearer, axis=2)
    labels = np.where(count > 0, nearer.argmax(axis=2), base)
    several = count > 1
    taken = np.count_nonzero(unknown, axis=(1, 2))
    if several.any():
        candidates = _in_columns(nearer[several])
        found, _, more = await nearest(sums, Step.LLOYD, distances[several], candidates, group_size=_SETTLING_SIZE)
        labels[several] = found
        np.add.at(taken, np.nonzero(several)[0], more)
    for restart, number in zip(restarts, taken.tolist(), strict=True):
        restart.comparisons += number
    return labels, stopped


def _in_columns(chosen: Flags) -> IntArray:
    """Return the chosen columns of each row in ascending order, filled with `NONE` to the same length."""
    counts = np.count_nonzero(chosen, axis=1)
    found = np.full((len(chosen), int(counts.max())), NONE)
    found[np.arange(found.shape[1]) < counts[:, None]] = np.nonzero(chosen)[1]
    return found


def _partition_digest(labels: IntArray) -> bytes:
    """Return a digest that is equal for labels that differ only in the numbers of the clusters."""
    _, first, clusters = np.unique(labels, return_index=True, return_inverse=True)
    renumbered = np.empty(len(first), dtype=np.int64)
    renumbered[np.argsort(first)] = np.arange(len(first))
    return hashlib.sha256(renumbered[clusters].tobytes()).digest()


def _distances(sums: SecureSums, rows: FloatArray, restarts: list[_Restart]) -> IntArray:
    return np.stack([sums.encode(restart.distances_to(rows)) for restart in restarts])


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
