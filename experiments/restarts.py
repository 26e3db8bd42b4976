"""How many Lloyd iterations honest runs need, and how many restarts: `python -m experiments.restarts [GRAPH...]`.

The decisions of a run follow from sums over the parties. One process can therefore take them on the columns of all
parties side by side, without masks and messages: each restart runs alone for `LIMIT` iterations, and what a run with
fewer restarts or iterations would have kept follows from the recorded costs and partitions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from experiments.paper.configurations import dataset, order_of, scores
from experiments.paper.experiment import PUBLIC, Config, Result
from experiments.paper.store import RESULTS, Records
from kcagc._types import FloatArray, IntArray
from kcagc.cluster.kmeans import fit_kmeans, local_search, plus_plus
from kcagc.cluster.lloyd import weighted_means
from kcagc.datasets import split_columns
from kcagc.engines import LOCAL
from kcagc.graph.filters import HalfFilter, filter_for_projection
from kcagc.protocol.cells import initial_cells, intersect, random_for, virtual_nodes, without_duplicates
from kcagc.protocol.joint_kmeans import affordable_restarts, refill_empty_clusters
from kcagc.protocol.local import LOCAL_RESTARTS, Embedder, PartyData
from kcagc.protocol.parameters import RunSettings, draw_seed

LIMIT = 100  # iterations of the longest runs
RESTARTS = (1, 2, 3, 4, 5, 6, 8, 10)
ITERATIONS = (10, 15, 20, 25, 30, 40, 50, LIMIT)
PARTIES = (2, 3, 4, 8, 16)
SPLITS = ("contiguous", "random")
SEEDS = {"wiki": 5, "pubmed": 5}  # of a graph; else 20
FAN_IN = 4
MARGIN, LOOKAHEAD, SAME = 9, 3, 2.0**-38  # of the protocol; costs and distances this near are the same


@dataclass
class Path:
    """One restart run alone: by iteration the cost at its beginning, the labels, and the partition it goes on from."""

    costs: list[float]
    labels: list[IntArray]
    partitions: list[bytes]


@dataclass
class Kept:
    """The winner of a run: its labels, cost and iterations, and the iterations until the last restart ended."""

    labels: IntArray
    cost: float
    winner: int
    end: int


def follow(rows: FloatArray, sizes: IntArray, start: IntArray, seeds: tuple[int, int]) -> Path:
    """Run one restart: the step with margin 9, then Lloyd until the labels stay."""
    k, norms, share = len(start), (rows**2).sum(axis=1)[:, None], sizes / sizes.sum()

    def nearest(centers: FloatArray) -> tuple[IntArray, FloatArray]:
        away = np.maximum(norms - 2 * (rows @ centers.T) + (centers**2).sum(axis=1), 0.0)
        return (away <= away.min(axis=1, keepdims=True) + SAME).argmax(axis=1), away

    centers = rows[start]
    labels, away = nearest(centers)
    two = np.sort(away, axis=1)[:, :2]
    clear = MARGIN * two[:, 0] <= two[:, -1] + SAME if k > 1 else np.ones(len(rows), dtype=bool)
    labels[start], clear[start] = np.arange(k), True
    centers = weighted_means(rows[clear], sizes[clear].astype(float), labels[clear], centers)
    path = Path([], [], [])
    for iteration in range(1, LIMIT + 1):
        found, away = nearest(centers)
        path.costs.append(float(away[np.arange(len(rows)), labels] @ share))
        path.labels.append(found)
        if iteration > 1 and np.array_equal(found, labels):
            break
        labels = found
        filled = refill_empty_clusters(labels, sizes, k, (seeds[0], 1, seeds[1], iteration))
        _, first, cluster = np.unique(filled, return_index=True, return_inverse=True)
        path.partitions.append(np.argsort(np.argsort(first))[cluster].astype(np.int16).tobytes())
        centers = weighted_means(rows, sizes.astype(float), filled, centers)
    return path


def kept(paths: list[Path], max_iter: int) -> Kept:
    """Return what a run of these restarts keeps: the worst restarts stop early, and restarts that meet go on as one."""
    known: dict[int, float] = {}
    done: set[int] = set()
    stopped: set[int] = set()
    joined: dict[int, int] = {}
    visited: dict[bytes, int] = {}
    ended = dict.fromkeys(range(len(paths)), 0)
    best = end = 0
    for iteration in range(1, max_iter + 1):
        active = [number for number in range(len(paths)) if number not in done]
        if not active:
            break
        end = iteration
        now = {number: paths[number].costs[iteration - 1] for number in active}
        before, known = known, known | now
        lowest = min(known.values())
        best = min(number for number, cost in known.items() if cost <= lowest + SAME)
        if len(paths) > 1:
            for number, cost in now.items():
                if number in before and cost - LOOKAHEAD * max(before[number] - cost, 0) > known[best] + SAME:
                    stopped.add(number)
                    del known[number]
        for number in active:
            ended[number] = iteration
            if number not in stopped and iteration <= len(paths[number].partitions):
                owner = visited.setdefault(paths[number].partitions[iteration - 1], number)
                if owner != number and owner not in joined and owner not in stopped:
                    joined[number] = owner
            if number in stopped or number in joined or iteration == len(paths[number].labels):
                done.add(number)
    while best in joined:
        best = joined[best]
    return Kept(paths[best].labels[ended[best] - 1], paths[best].costs[ended[best] - 1], ended[best], end)


@dataclass
class Cell:
    """A graph whose columns are split among parties: the rows of every party."""

    name: str
    parties: int
    split: str

    def __post_init__(self) -> None:
        data, features = dataset(self.name), dataset(self.name).features
        if self.split == "random":
            order = np.random.RandomState(self.parties).permutation(features.shape[1])
            features = sparse.csc_array(features)[:, order]
        filter_ = HalfFilter(order_of(self.name))
        settings = RunSettings(n_clusters=data.n_classes, psi=order_of(self.name), method="cells")
        self.k, self.k_local = data.n_classes, settings.local_clusters(self.parties)
        parameters = settings.resolve(self.parties, filter_)
        self.rows = []
        for table in split_columns(features, self.parties):
            one = PartyData.build("party", data.adjacency, table, filter_)
            filtered = filter_for_projection(filter_, one.graph, one.features, parameters.n_components)
            self.rows.append(Embedder.fit(LOCAL, filtered, parameters).rows(LOCAL, filtered))

    def starts_of_nodes(self, seed: int) -> IntArray:
        """Return the starting nodes that the parties propose in the basic method."""
        chosen = []
        for restart in range(max(RESTARTS)):
            proposals = []
            for rows in self.rows:
                random, weights = random_for(seed, restart), np.ones(len(rows))
                drawn = plus_plus(rows, weights, self.k, random)
                proposals.append(np.asarray(local_search(rows, weights, drawn, self.k, random)).tolist())
            picked = np.array(sorted(proposals)[restart % self.parties])
            ones = np.ones(len(self.rows[0]), dtype=np.int64)
            chosen.append(without_duplicates(picked, ones, random_for(seed, 3, restart)))
        return np.array(chosen)

    def run(self, method: str, seed: int, local: list[IntArray], options: list[tuple[int, int]]) -> list[Result]:
        """Return the result of a run for each pair of restarts and iterations."""
        n, found = len(self.rows[0]), []
        if method == "basic":
            ones = np.ones(n, dtype=np.int64)
            merged = [self._merge(range(self.parties), ones, self.starts_of_nodes(seed), seed, options)]
            labels = [one.labels for one in merged[0]]
        else:
            fan_in = self.parties if method == "cells" else FAN_IN
            below = [
                self._cells(range(f, f + fan_in), local[f : f + fan_in], seed, options, root=fan_in == self.parties)
                for f in range(0, self.parties, fan_in)
            ]
            merged = [one for one, _ in below]
            labels = below[0][1]
            if len(below) > 1:
                merged.append([])
                labels = []
                roots: dict[bytes, tuple[list[Kept], list[IntArray]]] = {}  # most options have the same children
                for number in range(len(options)):
                    children = [each[number] for _, each in below]
                    key = np.concatenate(children).tobytes()
                    if key not in roots:
                        roots[key] = self._cells(range(self.parties), children, seed, options, root=True)
                    merged[-1].append(roots[key][0][number])
                    labels.append(roots[key][1][number])
        columns = np.concatenate(self.rows, axis=1)
        for number, ((n_init, max_iter), one) in enumerate(zip(options, labels, strict=True)):
            centers = weighted_means(columns, np.ones(n), one, np.zeros((self.k, columns.shape[1])))
            found.append(
                {"n_init": n_init, "max_iter": max_iter}
                | {key: value for key, value in scores(dataset(self.name), one).items() if key != "f1"}
                | {"cost": float(((columns - centers[one]) ** 2).sum() / n)}
                | {"winner": [each[number].winner for each in merged], "end": [each[number].end for each in merged]}
            )
        return found

    def _cells(
        self, members: range, children: list[IntArray], seed: int, options: list[tuple[int, int]], *, root: bool
    ) -> tuple[list[Kept], list[IntArray]]:
        cells, wanted = intersect(children), self.k if root else self.k_local
        if len(cells) <= wanted:
            nothing = Kept(np.arange(len(cells)), 0.0, 0, 0)
            return [nothing] * len(options), [cells.of_node] * len(options)
        self._virtual = [virtual_nodes(self.rows[one], cells, "cell", children[0]) for one in members]
        n_restarts = affordable_restarts(max(RESTARTS), len(cells), wanted)
        starts = initial_cells(cells.codes, cells.sizes, wanted, n_restarts, seed)
        every = self._merge(members, cells.sizes, starts, seed, options, self._virtual)
        return every, [one.labels[cells.of_node] for one in every]

    def _merge(
        self,
        members: range,
        sizes: IntArray,
        starts: IntArray,
        seed: int,
        options: list[tuple[int, int]],
        points: list[FloatArray] | None = None,
    ) -> list[Kept]:
        rows = np.concatenate(points or [self.rows[one] for one in members], axis=1)
        most = max(n_init for n_init, _ in options)
        paths = [follow(rows, sizes, start, (seed, number)) for number, start in enumerate(starts[:most])]
        return [kept(paths[:n_init], max_iter) for n_init, max_iter in options]


def results(name: str, parties: int, split: str) -> Iterator[tuple[Config, Result, float]]:
    """Yield a result for each method: for each number of restarts and limit of iterations a summary over the seeds."""
    cell = Cell(name, parties, split)
    pairs = [(n_init, LIMIT) for n_init in RESTARTS]
    pairs += [(n_init, most) for n_init in (4, max(RESTARTS)) for most in ITERATIONS if most != LIMIT]
    seeds = [draw_seed(random_state) for random_state in range(SEEDS.get(name, 20))]
    local = [
        [
            fit_kmeans(rows, cell.k_local, n_init=LOCAL_RESTARTS, random_state=seed, fewer=True).labels
            for rows in cell.rows
        ]
        for seed in seeds
    ]
    for method in ("cells", "basic", "tree") if parties > FAN_IN else ("cells", "basic"):
        begin = time.perf_counter()
        found = [cell.run(method, seed, labels, pairs) for seed, labels in zip(seeds, local, strict=True)]
        config = {"dataset": name, "parties": parties, "split": split, "method": method}
        yield config, {"runs": [_over_seeds(runs) for runs in zip(*found, strict=True)]}, time.perf_counter() - begin


def _over_seeds(runs: tuple[Result, ...]) -> Result:
    """Return means over the seeds; of runs without a limit also the iterations of every merge."""
    found = {key: runs[0][key] for key in ("n_init", "max_iter")}
    found |= {key: round(float(np.mean([one[key] for one in runs])), 5) for key in ("accuracy", "nmi", "cost")}
    if found["max_iter"] == LIMIT:
        found |= {key: [count for one in runs for count in one[key]] for key in ("winner", "end")}
    return found


def main(names: tuple[str, ...] = ("demo", *PUBLIC)) -> None:
    """Compute what is missing."""
    records = Records(RESULTS / "restarts.json")
    for name in names:
        for parties in PARTIES:
            for split in SPLITS:
                if {"dataset": name, "parties": parties, "split": split, "method": "basic"} not in records:
                    for config, result, seconds in results(name, parties, split):
                        records.add(config, result, seconds)
                        sys.stderr.write(f"{' '.join(map(str, config.values()))}: {seconds:.1f} s\n")


if __name__ == "__main__":
    main(*[tuple(sys.argv[1:])] if sys.argv[1:] else [])
