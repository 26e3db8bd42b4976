"""k-means on rows that no role knows: all parties learn the answers to comparisons, and so all assignments.

From all answers together, a party can work out nearly how the rows lie relative to each other (docs/threat-model.md).

`cluster/joint.py` holds the schedule of the restarts, the choices that all parties make alike, and the same steps on
rows that one process knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from kcagc._types import Flags, IntArray
from kcagc.cluster.joint import (
    FIRST_ROUNDS,
    Schedule,
    choose_centers,
    refill_empty_clusters,
    start_sets,
)
from kcagc.protocol.effects import Progress
from kcagc.protocol.joint_kmeans import JointClusters, SumCounts
from kcagc.protocol.messages import Step
from kcagc.protocol.secure_sum import Comparisons, SecureSums
from kcagc.protocol.shared_rows import SharedRows
from kcagc.protocol.tournament import GROUP_SIZE, NONE, nearest

FIRST_GROUP = 8  # up to so many centres, the first assignment compares all pairs in one sum
_ROUNDING = 64  # units of 2^-24 that a cost may rise by rounding


@dataclass(eq=False)
class _SharedRestart:
    number: int
    centers: IntArray  # this party's shares, k × d
    means: IntArray | None = None  # this party's shares of the means of the clusters, at or before the centres
    labels: IntArray | None = None
    cost: int = 0  # this party's share of the mean cost, of the last round
    n_iter: int = 0
    converged: bool = False
    comparisons: int = 0
    moved: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class SharedClusters:
    """The winning restart, and this party's shares of its centres."""

    found: JointClusters
    centers: IntArray


async def shared_kmeans(rows: SharedRows, k: int, seed: int, plan: Schedule) -> SharedClusters:
    """Cluster shared rows; `seed` is that of the common choices."""
    run = _Run(rows, k, seed, plan)
    restarts = [_SharedRestart(number, run.first_centers(number)) for number in range(plan.restarts)]
    while run.rounds < plan.rounds and (active := [one for one in restarts if not one.converged]):
        restarts = await run.round(active, [one for one in restarts if one.converged])
        if run.rounds == FIRST_ROUNDS:
            restarts = restarts[: plan.late_restarts]
    winner = restarts[0]
    others = run.comparisons - winner.comparisons
    counts = SumCounts(winner.comparisons, others, run.about_costs, rows.sums.checks)
    ran = tuple(_labels(one) for one in restarts[1:])
    found = (winner.n_iter, winner.converged, rows.sums.number, counts, winner.moved, ran)
    return SharedClusters(JointClusters(_labels(winner), *found), winner.centers)


@dataclass(eq=False)
class _Run:
    rows: SharedRows
    k: int
    seed: int
    plan: Schedule
    rounds: int = 0
    comparisons: int = 0
    about_costs: int = 0

    def first_centers(self, restart: int) -> IntArray:
        """Return the means of sets of nodes that all parties draw alike."""
        drawn = start_sets(len(self.rows.share), self.k, self.seed, restart)
        return np.asarray(self.rows.share[drawn].sum(axis=1) // drawn.shape[1])

    async def round(self, active: list[_SharedRestart], others: list[_SharedRestart]) -> list[_SharedRestart]:
        """Move every node to a better centre in the active restarts, then move the centres.

        Return these and the other restarts from the lowest cost to the highest; the costs are those before the moves.
        """
        sums = self.rows.sums
        self.rounds += 1
        await Progress(f"{sums.group.title}: iteration", self.rounds, self.plan.rounds, limit=True)
        distances = -np.stack(await self.rows.scores([one.centers for one in active]))
        if active[0].labels is None:
            await self._first(active, distances)
            return active
        labels = np.stack([_labels(one) for one in active])
        own = np.take_along_axis(distances, labels[:, :, None], axis=2)
        falls = self._new_costs(active, own[:, :, 0].sum(axis=1) // labels.shape[1])
        elsewhere = np.ones(distances.shape, dtype=bool)
        np.put_along_axis(elsewhere, labels[:, :, None], values=False, axis=2)
        asked = Comparisons((distances - own)[elsewhere], np.ones(int(elsewhere.sum()), dtype=bool))
        restarts = [*active, *others]
        pairs = list(combinations(restarts, 2)) if self.plan.centers_are_means(self.rounds) else []
        order = np.array([one.cost - other.cost for one, other in pairs], dtype=np.int64)
        about_costs = [falls, Comparisons(order, np.zeros(len(order), dtype=bool))]
        signs = await sums.signs(Step.LLOYD, Comparisons.joined([asked, *about_costs]), sums.holders)
        moves, fell, dearer = np.split(signs, [len(asked), len(asked) + len(falls)])
        if not fell.all():
            raise sums.wrong_answer("the cost of a restart rose, which k-means cannot do")
        self.comparisons += len(asked)
        self.about_costs += len(falls) + len(pairs)
        nearer = np.zeros(distances.shape, dtype=bool)
        nearer[elsewhere] = ~moves
        for one, better, last in zip(active, nearer, labels, strict=True):
            one.comparisons += len(asked) // len(active)
            one.converged = self.plan.centers_are_means(self.rounds) and not better.any()
            self._advance(one, choose_centers(better, last, self.seed, one.number, self.rounds))
        return self._ranked(restarts, pairs, dearer) if pairs else restarts

    def _ranked(
        self, restarts: list[_SharedRestart], pairs: list[tuple[_SharedRestart, _SharedRestart]], dearer: Flags
    ) -> list[_SharedRestart]:
        """Return the restarts from the lowest cost to the highest."""
        lost = dict.fromkeys((one.number for one in restarts), 0)
        for (one, other), more in zip(pairs, dearer.tolist(), strict=True):
            lost[one.number if more else other.number] += 1
        if sorted(lost.values()) != list(range(len(restarts))):
            raise self.rows.sums.wrong_answer("answers about costs contradict each other")
        return sorted(restarts, key=lambda one: lost[one.number])

    async def _first(self, restarts: list[_SharedRestart], distances: IntArray) -> None:
        """Assign each node to the nearest of the first centres."""
        found, each = await place_among_first(self.rows.sums, list(distances))
        self.comparisons += sum(each)
        for one, labels, taken in zip(restarts, found, each, strict=True):
            one.comparisons += taken
            self._advance(one, labels)

    def _advance(self, one: _SharedRestart, labels: IntArray) -> None:
        sizes = np.ones(len(labels), dtype=np.int64)
        filled = refill_empty_clusters(labels, sizes, self.k, (self.seed, 1, one.number, self.rounds))
        one.moved.append(len(labels) if one.labels is None else int(np.count_nonzero(filled != one.labels)))
        one.labels, one.n_iter = filled, self.rounds
        if not one.converged:
            means = means_of(self.rows.share, filled, self.k)
            last = means if one.means is None or self.plan.centers_are_means(self.rounds + 1) else one.means
            one.centers, one.means = 2 * means - last, means

    def _new_costs(self, active: list[_SharedRestart], costs: IntArray) -> Comparisons:
        """Note the costs of this round; return comparisons that show that none has risen, while centres are means."""
        before = [one.cost for one in active]
        for one, cost in zip(active, costs.tolist(), strict=True):
            one.cost = cost
        comparable = self.plan.centers_are_means(self.rounds) and self.plan.centers_are_means(self.rounds - 1)
        rounding = _ROUNDING if self.rows.draws else 0
        parts = [last - cost + rounding for last, cost in zip(before, costs.tolist(), strict=True) if comparable]
        return Comparisons(np.array(parts, dtype=np.int64), np.ones(len(parts), dtype=bool))


def _labels(one: _SharedRestart) -> IntArray:
    if one.labels is None:
        raise ValueError("a restart has no labels before its first round")
    return one.labels


def means_of(rows: IntArray, labels: IntArray, k: int) -> IntArray:
    """Return this party's shares of the mean unit row of each cluster, from its shares of the rows."""
    sizes = np.bincount(labels, minlength=k)
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(sizes)
    total = np.zeros((len(labels) + 1, rows.shape[1]), dtype=np.int64)
    np.cumsum(rows[order], axis=0, out=total[1:])  # wraps like the ring; differences are right
    return np.asarray((total[ends] - total[ends - sizes]) // np.maximum(sizes, 1)[:, None])


async def place_among_first(sums: SecureSums, distances: list[IntArray]) -> tuple[list[IntArray], list[int]]:
    """Assign each node to the nearest of the first centres, in all restarts (nodes × k each, k may differ).

    Return the labels and the number of comparisons of each restart.
    """
    most, n_nodes = max(one.shape[1] for one in distances), len(distances[0])
    candidates = np.full((len(distances), n_nodes, most), NONE)
    flat = np.zeros(candidates.shape, dtype=np.int64)
    for place, one in enumerate(distances):
        candidates[place, :, : one.shape[1]] = np.arange(one.shape[1])
        flat[place, :, : one.shape[1]] = one
    size = FIRST_GROUP if most <= FIRST_GROUP else GROUP_SIZE
    found, _, asked = await nearest(
        sums, Step.LLOYD, flat.reshape(-1, most), candidates.reshape(-1, most), group_size=size, senders=sums.holders
    )
    each = asked.reshape(len(distances), -1).sum(axis=1).tolist()
    return list(found.reshape(len(distances), -1)), each
