"""k-means as the joint method runs it: its schedule, its choices from a common seed, and its steps on known rows.

The parties of the joint method run these steps on rows that no role knows (`protocol/shared_kmeans.py`). With the same
seed and the same rows, `fit_joint_kmeans` finds the same clusters in one process.

Several restarts start from the means of sets of nodes. In each round, every node moves to a better centre if there is
one: to any of them. In early rounds, a centre moves twice as far as the mean of its nodes did: that takes fewer rounds
and ends in better clusters. After a few rounds, the restarts with the lowest costs continue. In the last rounds,
centres are means, so that no cost can rise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import Flags, FloatArray, IntArray, check_count
from kcagc.cluster.lloyd import KMeansResult, blocks_of, squared_distances, weighted_means
from kcagc.errors import DataError
from kcagc.graph.graph import check_features

RandomState = np.random.RandomState  # its stream is the same in all versions of NumPy, which may differ among parties

START_NODES = 20  # a start is never a single node
FIRST_ROUNDS = 7  # all restarts run so many rounds, then the better half continues
LAST_ROUNDS = 4  # rounds at the end in which centres are means
MAX_ROUNDS = 18
FEW_CLUSTERS = 8
SAMPLE_VALUES, MIN_SAMPLE = 80_000, 5_000  # scores of one restart in a round, and the least number of nodes
LARGE_VALUES = 8_000_000  # scores of all nodes; their comparisons take about 64 megabytes of each party
CLUSTER_NODES = 150  # nodes for each cluster that half a sample must have
_TIE = 2.0**-24  # distances this near are equal, as the last bit of a compared score is


@dataclass(frozen=True)
class Schedule:
    """How many restarts begin, how many continue after the first rounds, and how many rounds there are at most."""

    restarts: int
    late_restarts: int
    rounds: int

    def centers_are_means(self, number: int) -> bool:
        """Return whether the centres of a round are means: when costs are compared, and in the last rounds."""
        return number == FIRST_ROUNDS or number > self.rounds - LAST_ROUNDS


def schedule(n_nodes: int, k: int, max_iter: int) -> Schedule:
    """Return the schedule for k clusters of a graph of so many nodes; more clusters need more rounds and more restarts.

    On large graphs, more restarts would take too many bytes.
    """
    if k <= FEW_CLUSTERS:
        return Schedule(8, 4, min(max_iter, 14))
    if n_nodes * k <= SAMPLE_VALUES:
        return Schedule(16, 8, min(max_iter, MAX_ROUNDS))
    return Schedule(8, 4, min(max_iter, MAX_ROUNDS))


# Choices that every party makes alike, in integers


def random_for(seed: int, *purpose: int) -> RandomState:
    """Return a random generator for choices that every party makes alike."""
    return RandomState(np.random.MT19937(np.random.SeedSequence([seed, *purpose])))


def draw(mass: IntArray, random: RandomState) -> int:
    """Draw a position with probability proportional to its mass, in integers."""
    cumulative = np.cumsum(mass, dtype=np.int64)
    return int(np.searchsorted(cumulative, random.randint(int(cumulative[-1]), dtype=np.int64), side="right"))


def draw_sample(n_nodes: int, size: int, seed: int, purpose: int) -> IntArray:
    """Return `size` different nodes in ascending order, the same for every party."""
    if size >= n_nodes:
        return np.arange(n_nodes)
    return np.sort(random_for(seed, purpose).choice(n_nodes, size, replace=False)).astype(np.int64)


def sample_size(n_nodes: int, k: int, *, in_shares: bool = True) -> int:
    """Return on how many nodes the clusters are found.

    On very large graphs, half as many if the rows are in shares: comparisons for all other nodes leave no room for more
    bytes. Samples of few nodes for each cluster are not halved.
    """
    size = max(MIN_SAMPLE, SAMPLE_VALUES // k)
    if in_shares and k > FEW_CLUSTERS and n_nodes * k > LARGE_VALUES and size // 2 >= CLUSTER_NODES * k:
        size //= 2
    return min(size, n_nodes)


def clustered_sample(n_nodes: int, k: int, seed: int, *, in_shares: bool = True) -> IntArray:
    """Return the nodes on which the clusters are found."""
    return draw_sample(n_nodes, sample_size(n_nodes, k, in_shares=in_shares), seed, 9)


def start_sets(n_nodes: int, k: int, seed: int, restart: int) -> IntArray:
    """Return the nodes whose means are the first centres of a restart (k × nodes of a set)."""
    random, size = random_for(seed, 5, restart), min(START_NODES, n_nodes)
    return np.stack([random.choice(n_nodes, size, replace=False) for _ in range(k)])


def choose_centers(better: Flags, labels: IntArray, seed: int, restart: int, number: int) -> IntArray:
    """Return the new label of each node in a round: one of its better centres (nodes × k), or the old label."""
    count = np.count_nonzero(better, axis=1)
    chosen = np.where(count > 0, better.argmax(axis=1), labels)
    several = np.flatnonzero(count > 1)
    if len(several):
        random = random_for(seed, 8, restart, number)
        rank = random.randint(1 << 30, size=len(several)) % count[several]
        chosen[several] = (np.cumsum(better[several], axis=1) > rank[:, None]).argmax(axis=1)
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


def order_by_first_node(labels: IntArray, k: int) -> IntArray:
    """Return the clusters in the order of their first nodes, empty ones last: the sets alone decide the numbers."""
    used, first = np.unique(labels, return_index=True)
    return np.concatenate([used[np.argsort(first)], np.setdiff1d(np.arange(k), used)])


# The same steps on rows that one process knows


@dataclass(eq=False)
class PooledRestart:
    """One restart: its centres, the label of each row, and its cost."""

    number: int
    centers: FloatArray
    labels: IntArray
    means: FloatArray | None = None
    cost: float = np.inf
    n_iter: int = 0
    converged: bool = False


def fit_joint_kmeans(rows: ArrayLike, k: int, *, seed: int, max_iter: int = MAX_ROUNDS) -> KMeansResult:
    """Cluster rows of unit length by the steps of the joint method.

    On large graphs the clusters are found on a sample of the rows. Each other row goes to the cluster whose centre has
    the most similar direction.

    Parameters
    ----------
    rows : array-like of shape (n, d)
        The rows, of length one or zero.
    k : int
        The number of clusters.
    seed : int
        The seed of all choices. In a run, all parties contribute to it.
    max_iter : int, default=18
        The largest number of rounds. The joint method never takes more than 18, and 14 up to 8 clusters.

    Returns
    -------
    KMeansResult
        The centres are those of the sample.

    Raises
    ------
    DataError
        If there are fewer than k rows, or a value is not finite.

    Examples
    --------
    >>> fit_joint_kmeans([[1.0, 0.0]] * 30 + [[0.0, 1.0]] * 30, 2, seed=0).centers.round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rows = np.asarray(check_features(rows, where="rows"), dtype=np.float64)
    check_count("n_clusters", k)
    check_count("max_iter", max_iter)
    if len(rows) < k:
        raise DataError(f"n_clusters: {k} clusters requested, but there are {len(rows)} rows")
    nodes = clustered_sample(len(rows), k, seed)
    found = run_restarts(rows[nodes], k, seed, schedule(len(rows), k, max_iter))[0]
    order = order_by_first_node(found.labels, k)
    labels, centers = np.empty(len(rows), dtype=np.intp), found.centers[order]
    length = np.linalg.norm(centers, axis=1)
    scored = np.flatnonzero(length > 0)
    if len(nodes) < len(rows):
        directions = (centers[scored] / length[scored, None]).T
        for block in blocks_of(rows):
            labels[block] = scored[(rows[block] @ directions).argmax(axis=1)]
    labels[nodes] = np.argsort(order)[found.labels]
    away = rows - centers[labels]
    return KMeansResult(labels, centers, float(np.sum(away * away)), found.n_iter, found.converged)


def run_restarts(rows: FloatArray, k: int, seed: int, plan: Schedule) -> list[PooledRestart]:
    """Return the restarts that continue to the end, in the order of their costs when these were last compared."""
    none = np.zeros(len(rows), dtype=np.int64)
    restarts = [
        PooledRestart(one, rows[start_sets(len(rows), k, seed, one)].mean(axis=1), none) for one in range(plan.restarts)
    ]
    for number in range(1, plan.rounds + 1):
        active = [one for one in restarts if not one.converged]
        if not active:
            break
        for one in active:
            _move(one, rows, seed, number, plan)
        restarts = [*active, *(one for one in restarts if one not in active)]
        if number > 1 and plan.centers_are_means(number):
            restarts.sort(key=lambda one: one.cost)
        if number == FIRST_ROUNDS:
            restarts = restarts[: plan.late_restarts]
    return restarts


def _move(one: PooledRestart, rows: FloatArray, seed: int, number: int, plan: Schedule) -> None:
    """Move every node to a better centre, then move the centres."""
    k = len(one.centers)
    away = squared_distances(rows, one.centers)
    if one.means is None:
        labels = away.argmin(axis=1)
    else:
        own = np.take_along_axis(away, one.labels[:, None], axis=1)
        one.cost = float(own.mean())
        better = away < own - _TIE
        one.converged = plan.centers_are_means(number) and not better.any()
        labels = choose_centers(better, one.labels, seed, one.number, number)
    ones = np.ones(len(rows), dtype=np.int64)
    one.labels = refill_empty_clusters(labels, ones, k, (seed, 1, one.number, number))
    one.n_iter = number
    if not one.converged:
        means = weighted_means(rows, np.ones(len(rows)), one.labels, np.zeros_like(one.centers))
        last = means if one.means is None or plan.centers_are_means(number + 1) else one.means
        one.centers, one.means = 2 * means - last, means
