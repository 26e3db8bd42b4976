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
from kcagc.protocol.tournament import nearest

START_NODES = 20  # a start is never a single node
_EARLY_RESTARTS, _EARLY_ROUNDS, _CONSENSUS, _CONSENSUS_ROUNDS, _LATE_RESTARTS = 8, 4, 4, 3, 3
_MODE_ROUNDS, _MODE_STARTS = 8, 16
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
    restarts = [_Restart(number, run.first_centers(number)) for number in range(_EARLY_RESTARTS)]
    for _ in range(min(_EARLY_ROUNDS, max_iter)):
        await run.round(restarts)
    if run.rounds < max_iter:
        codes = np.stack([_labels(one) for one in restarts], axis=1)
        agreed = consensus(codes, k, _CONSENSUS, random_for(seed, 6))
        for number, labels in enumerate(agreed, start=len(restarts)):
            filled = refill_empty_clusters(labels, np.ones(n_nodes, dtype=np.int64), k, (seed, 7, number))
            further = _Restart(number, run.means(filled), filled, n_iter=run.rounds)
            restarts.append(further)
        recent = restarts[-len(agreed) :]
        for _ in range(min(_CONSENSUS_ROUNDS, max_iter - run.rounds)):
            await run.round(recent)
        best = await run.order(restarts)
        restarts = best[:_LATE_RESTARTS]
        while run.rounds < max_iter and (active := [one for one in restarts if not one.converged]):
            await run.round(active)
    best = await run.order(restarts)
    winner = best[0]
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

    async def round(self, restarts: list[_Restart]) -> None:
        """Move every node to a better centre, in all of these restarts; then move the centres."""
        sums = self.rows.sums
        self.rounds += 1
        await Progress(f"{sums.group.title}: iteration", self.rounds, self.max_iter, limit=True)
        scores = await self.rows.scores([one.centers for one in restarts])
        distances = -scores
        if restarts[0].labels is None:
            await self._first(restarts, distances)
            return
        labels = np.stack([_labels(one) for one in restarts])
        own = np.take_along_axis(distances, labels[:, :, None], axis=2)
        costs = own[:, :, 0].sum(axis=1) // labels.shape[1]
        others = np.ones(distances.shape, dtype=bool)
        np.put_along_axis(others, labels[:, :, None], values=False, axis=2)
        asked = Comparisons((distances - own)[others], np.ones(int(others.sum()), dtype=bool))
        falls, before = self._falls(restarts, costs)
        signs = await sums.signs(Step.LLOYD, Comparisons.joined([asked, falls]), sums.holders)
        if not signs[len(asked) :].all():
            raise sums.wrong_answer("the cost of a restart rose, which k-means cannot do")
        nearer = np.zeros(distances.shape, dtype=bool)
        nearer[others] = ~signs[: len(asked)]
        self.comparisons += len(asked)
        self.about_costs += before
        for one, better, cost, last in zip(restarts, nearer, costs.tolist(), labels, strict=True):
            chosen = self._chosen(one, better, last)
            one.comparisons += len(asked) // len(restarts)
            one.cost, one.converged = cost, not better.any()
            self._advance(one, chosen)

    async def _first(self, restarts: list[_Restart], distances: IntArray) -> None:
        """Assign each node to the nearest of the first centres."""
        sums = self.rows.sums
        flat = distances.reshape(-1, self.k)
        candidates = np.tile(np.arange(self.k), (len(flat), 1))
        found, _, asked = await nearest(sums, Step.LLOYD, flat, candidates, senders=sums.holders)
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

    def _falls(self, restarts: list[_Restart], costs: IntArray) -> tuple[Comparisons, int]:
        """Return comparisons that show that no cost has risen."""
        parts = [one.cost - cost for one, cost in zip(restarts, costs.tolist(), strict=True) if one.cost is not None]
        if self.rows.draws:
            parts = [part + _ROUNDING for part in parts]
        return Comparisons(np.array(parts, dtype=np.int64), np.ones(len(parts), dtype=bool)), len(parts)

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

    async def order(self, restarts: list[_Restart]) -> list[_Restart]:
        """Return the restarts from the lowest cost to the highest, as of their last round."""
        if len(restarts) == 1:
            return restarts
        sums = self.rows.sums
        costs = [one.cost or 0 for one in restarts]
        pairs = list(combinations(range(len(restarts)), 2))
        parts = np.array([costs[one] - costs[other] for one, other in pairs], dtype=np.int64)
        asked = Comparisons(parts, np.zeros(len(parts), dtype=bool))
        dearer = await sums.signs(Step.LLOYD, asked, sums.holders)
        self.about_costs += len(pairs)
        lost = np.zeros(len(restarts), dtype=np.int64)
        for (one, other), more in zip(pairs, dearer.tolist(), strict=True):
            lost[one if more else other] += 1
        if sorted(lost.tolist()) != list(range(len(restarts))):
            raise sums.wrong_answer("answers about costs contradict each other")
        return [restarts[place] for place in np.argsort(lost)]


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
