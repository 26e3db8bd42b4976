"""k-means on rows that no role knows: all parties learn the assignments, and nothing else.

Several restarts run at the same time. A restart starts from sets of nodes that all parties draw alike. In each round,
every node moves to a better centre if there is one: to any of them, because the cost falls with each move. After a few
rounds, the restarts with the lowest costs continue, together with partitions in which many restarts agree. All parties
know the labels, so each of them computes these partitions alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from kcagc._types import Flags, IntArray
from kcagc.protocol.cells import RandomState, random_for
from kcagc.protocol.effects import Progress
from kcagc.protocol.joint_kmeans import JointClusters, SumCounts, refill_empty_clusters
from kcagc.protocol.messages import Step
from kcagc.protocol.secure_sum import Comparisons
from kcagc.protocol.shared_rows import SharedRows
from kcagc.protocol.tournament import GROUP_SIZE, nearest

START_NODES = 20  # a start is never a single node
_EARLY_RESTARTS, _EARLY_ROUNDS, _CONSENSUS, _CONSENSUS_ROUNDS, _LATE_RESTARTS = 8, 4, 4, 3, 3
_MODE_ROUNDS, _MODE_STARTS = 8, 16
_FIRST_GROUP = 8  # up to so many centres, the first assignment compares all pairs in one sum
_ROUNDING = 64  # units of 2^-24 that a cost may rise by rounding


@dataclass(eq=False)
class _Restart:
    number: int
    centers: IntArray  # this party's shares, k × d
    labels: IntArray | None = None
    cost: int | None = None  # this party's share of the mean cost, of the last round
    n_iter: int = 0
    converged: bool = False
    comparisons: int = 0
    moved: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class SharedClusters:
    """The winning restart, and this party's shares of its centres."""

    found: JointClusters
    centers: IntArray


async def shared_kmeans(rows: SharedRows, k: int, seed: int, max_iter: int) -> SharedClusters:
    """Cluster shared rows; `seed` is that of the common choices."""
    n_nodes = len(rows.share)
    run = _Run(rows, k, seed, max_iter)
    early = [_Restart(number, run.first_centers(number)) for number in range(_EARLY_RESTARTS)]
    for _ in range(min(_EARLY_ROUNDS, max_iter)):
        await run.round(early)
    codes = np.stack([_labels(one) for one in early], axis=1)
    agreed = []
    for number, labels in enumerate(consensus(codes, k, _CONSENSUS, random_for(seed, 6)), start=len(early)):
        filled = refill_empty_clusters(labels, np.ones(n_nodes, dtype=np.int64), k, (seed, 7, number))
        agreed.append(_Restart(number, run.means(filled), filled, n_iter=run.rounds))
    best = early + agreed
    for _ in range(min(_CONSENSUS_ROUNDS, max_iter - run.rounds)):
        best = await run.round(agreed, early)
    late = best[:_LATE_RESTARTS]
    while run.rounds < max_iter and (active := [one for one in late if not one.converged]):
        late = await run.round(active, [one for one in late if one.converged])
    winner = late[0]
    others = run.comparisons - winner.comparisons
    counts = SumCounts(winner.comparisons, others, run.about_costs, rows.sums.checks)
    found = (winner.n_iter, winner.converged, rows.sums.number, counts, winner.moved)
    return SharedClusters(JointClusters(_labels(winner), *found), winner.centers)


@dataclass(eq=False)
class _Run:
    rows: SharedRows
    k: int
    seed: int
    max_iter: int
    rounds: int = 0
    comparisons: int = 0
    about_costs: int = 0

    def first_centers(self, restart: int) -> IntArray:
        """Return the means of sets of nodes that all parties draw alike."""
        n_nodes = len(self.rows.share)
        random, size = random_for(self.seed, 5, restart), min(START_NODES, n_nodes)
        drawn = np.stack([random.choice(n_nodes, size, replace=False) for _ in range(self.k)])
        return np.asarray(self.rows.share[drawn].sum(axis=1) // size)

    def means(self, labels: IntArray) -> IntArray:
        """Return this party's shares of the mean unit row of each cluster."""
        sizes = np.bincount(labels, minlength=self.k)
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(sizes)
        total = np.zeros((len(labels) + 1, self.rows.share.shape[1]), dtype=np.int64)
        np.cumsum(self.rows.share[order], axis=0, out=total[1:])  # wraps like the ring; differences are right
        return np.asarray((total[ends] - total[ends - sizes]) // np.maximum(sizes, 1)[:, None])

    async def round(self, active: list[_Restart], others: list[_Restart] | None = None) -> list[_Restart]:
        """Move every node to a better centre in the active restarts, then move the centres.

        With `others`, return all restarts from the lowest cost to the highest; their costs are those before the moves.
        """
        sums = self.rows.sums
        self.rounds += 1
        await Progress(f"{sums.group.title}: iteration", self.rounds, self.max_iter, limit=True)
        distances = -await self.rows.scores([one.centers for one in active])
        if active[0].labels is None:
            await self._first(active, distances)
            return active
        labels = np.stack([_labels(one) for one in active])
        own = np.take_along_axis(distances, labels[:, :, None], axis=2)
        before = [one.cost for one in active]
        for one, cost in zip(active, (own[:, :, 0].sum(axis=1) // labels.shape[1]).tolist(), strict=True):
            one.cost = cost
        elsewhere = np.ones(distances.shape, dtype=bool)
        np.put_along_axis(elsewhere, labels[:, :, None], values=False, axis=2)
        asked = Comparisons((distances - own)[elsewhere], np.ones(int(elsewhere.sum()), dtype=bool))
        falls = self._falls(active, before)
        ranked = [one for one in (*active, *(others or ())) if others is not None and one.cost is not None]
        pairs = list(combinations(ranked, 2))
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
            one.converged = not better.any()
            self._advance(one, self._chosen(one, better, last))
        return self._ranked(ranked, pairs, dearer)

    def _ranked(
        self, restarts: list[_Restart], pairs: list[tuple[_Restart, _Restart]], dearer: Flags
    ) -> list[_Restart]:
        """Return the restarts from the lowest cost to the highest."""
        lost = dict.fromkeys((one.number for one in restarts), 0)
        for (one, other), more in zip(pairs, dearer.tolist(), strict=True):
            lost[one.number if more else other.number] += 1
        if sorted(lost.values()) != list(range(len(restarts))):
            raise self.rows.sums.wrong_answer("answers about costs contradict each other")
        return sorted(restarts, key=lambda one: lost[one.number])

    async def _first(self, restarts: list[_Restart], distances: IntArray) -> None:
        """Assign each node to the nearest of the first centres."""
        sums = self.rows.sums
        flat = distances.reshape(-1, self.k)
        candidates = np.tile(np.arange(self.k), (len(flat), 1))
        size = _FIRST_GROUP if self.k <= _FIRST_GROUP else GROUP_SIZE
        found, _, asked = await nearest(sums, Step.LLOYD, flat, candidates, group_size=size, senders=sums.holders)
        self.comparisons += int(asked.sum())
        each = asked.reshape(len(restarts), -1).sum(axis=1).tolist()
        for one, labels, taken in zip(restarts, found.reshape(len(restarts), -1), each, strict=True):
            one.comparisons += taken
            self._advance(one, labels)

    def _advance(self, one: _Restart, labels: IntArray) -> None:
        sizes = np.ones(len(labels), dtype=np.int64)
        filled = refill_empty_clusters(labels, sizes, self.k, (self.seed, 1, one.number, self.rounds))
        one.moved.append(len(labels) if one.labels is None else int(np.count_nonzero(filled != one.labels)))
        one.labels, one.n_iter = filled, self.rounds
        if not one.converged:
            one.centers = self.means(filled)

    def _falls(self, active: list[_Restart], before: list[int | None]) -> Comparisons:
        """Return comparisons that show that no cost has risen."""
        rounding = _ROUNDING if self.rows.draws else 0
        parts = [
            last - one.cost + rounding
            for one, last in zip(active, before, strict=True)
            if last is not None and one.cost is not None
        ]
        return Comparisons(np.array(parts, dtype=np.int64), np.ones(len(parts), dtype=bool))

    def _chosen(self, one: _Restart, better: Flags, labels: IntArray) -> IntArray:
        """Return the new label of each node: one of its better centres, chosen by the common seed."""
        count = np.count_nonzero(better, axis=1)
        chosen = np.where(count > 0, better.argmax(axis=1), labels)
        several = np.flatnonzero(count > 1)
        if len(several):
            random = random_for(self.seed, 8, one.number, self.rounds)
            rank = random.randint(1 << 30, size=len(several)) % count[several]
            chosen[several] = (np.cumsum(better[several], axis=1) > rank[:, None]).argmax(axis=1)
        return chosen


def _labels(one: _Restart) -> IntArray:
    if one.labels is None:
        raise ValueError("a restart has no labels before its first round")
    return one.labels


def consensus(codes: IntArray, k: int, count: int, random: RandomState) -> list[IntArray]:
    """Return partitions in which several partitions (nodes × partitions) agree: k-modes from several starts."""
    found = sorted((_k_modes(codes, k, random) for _ in range(_MODE_STARTS)), key=lambda one: one[0])
    return [labels for _, labels in found[:count]]


def _k_modes(codes: IntArray, k: int, random: RandomState) -> tuple[int, IntArray]:
    """Return the number of differences to the modes, and the labels."""
    modes = codes[[random.randint(len(codes))]]
    nearest_mode = np.count_nonzero(codes != modes[0], axis=1)
    while len(modes) < k:
        mass = np.cumsum(np.square(nearest_mode, dtype=np.int64))
        place = int(np.searchsorted(mass, random.randint(max(int(mass[-1]), 1)), side="right")) % len(codes)
        modes = np.concatenate([modes, codes[[place]]])
        nearest_mode = np.minimum(nearest_mode, np.count_nonzero(codes != codes[place], axis=1))
    labels = np.zeros(len(codes), dtype=np.int64)
    for _ in range(_MODE_ROUNDS):
        labels = _to_modes(codes, modes).argmin(axis=1)
        for column in range(codes.shape[1]):
            votes = np.bincount(labels * k + codes[:, column], minlength=k * k).reshape(k, k)
            modes[:, column] = np.where(votes.any(axis=1), votes.argmax(axis=1), modes[:, column])
    away = _to_modes(codes, modes)
    return int(away.min(axis=1).sum()), np.asarray(away.argmin(axis=1), dtype=np.int64)


def _to_modes(codes: IntArray, modes: IntArray) -> IntArray:
    return np.stack([np.count_nonzero(codes != mode, axis=1) for mode in modes], axis=1)
