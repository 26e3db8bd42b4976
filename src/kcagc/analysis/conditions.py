"""The paper's conditions on one partition, in the rows of one party or of all: separation and proximity.

Separation ("Theoretical analysis", `equation.delta`, `eq.local_center_separation`, `eq.center_separation`):

    ‖μ_r - μ_s‖ ≥ c (Δ_r + Δ_s)   with   Δ_r = √k ‖X - C‖ / √n_r

Proximity (Definition 1): projected on the line through two means, a node of cluster r is closer to μ_r than to μ_s by
at least (1/√n_r + 1/√n_s) ‖X - C‖. A node that satisfies it for every s is 1-good, otherwise 1-bad.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.analysis.clusters import ClusteredRows, Name, finite, spectral_norm
from kcagc.text import percent

_WORST = 10  # pairs in the JSON output: with a hundred local clusters there are thousands of pairs
_CONFUSED = 0.25  # not from the paper: with more of a cluster on the wrong side, two clusters are not separated
_BLOCK = 1 << 15  # nodes of one cluster that are compared at a time


@dataclass(frozen=True)
class ClusterPair:
    """Two clusters and how well they are separated.

    Attributes
    ----------
    first, second : int, float, str or bool
        Names of the clusters.
    c : float
        Largest separation constant that the pair allows.
    nodes : int
        Number of nodes of both clusters.
    bad : int
        Number of these nodes that violate the proximity condition for the pair.
    wrong_side : int
        Number of these nodes that are nearer to the other cluster's mean than to the mean of all other nodes of their
        own cluster.
    confused : float
        Share of the nodes of `more_in` that are on the wrong side.
    more_in : int, float, str or bool
        The one of the two clusters with the larger share of nodes on the wrong side.

    Examples
    --------
    >>> pair = ClusterPair("a", "b", c=2.0, nodes=20, bad=3, wrong_side=1, confused=0.1, more_in="a")
    >>> pair.separated
    True
    """

    first: Name
    second: Name
    c: float
    nodes: int
    bad: int
    wrong_side: int
    confused: float
    more_in: Name

    @property
    def separated(self) -> bool:
        """Whether most nodes of both clusters are on their own side; the theorem requires far more."""
        return self.c > 0 and self.confused <= _CONFUSED

    def as_dict(self) -> dict[str, Any]:
        """Return all values for JSON; an infinite c is None."""
        return {**asdict(self), "c": finite(self.c), "separated": self.separated}


@dataclass(frozen=True, repr=False)
class Conditions:
    """The paper's conditions, measured on one partition of some rows.

    Attributes
    ----------
    clusters : tuple of length k
        Names of the clusters.
    sizes : tuple of int, length k
        Number of nodes in each cluster.
    norm : float
        ‖X - C‖, the spectral norm of the rows minus their cluster means.
    deltas : tuple of float, length k
        Δ_r = √k ‖X - C‖ / √n_r.
    c : float
        Largest constant of the separation assumption; infinite for a single cluster.
    pair : tuple of two names, or None
        The two clusters that limit c.
    n_bad : int
        Number of 1-bad nodes, which violate the proximity condition.
    pairs : tuple of ClusterPair
        All pairs: those that are not separated first, then by c.

    Examples
    --------
    >>> from kcagc import KCAGC, diagnose
    >>> from kcagc.datasets import load
    >>> demo = load("demo")
    >>> model = KCAGC(n_clusters=5, random_state=0)
    >>> joint = diagnose(model, demo.parties(), demo.labels, adjacency=demo.adjacency).joint
    >>> joint.sizes, len(joint.pairs)
    ((120, 120, 120, 120, 120), 10)
    """

    clusters: tuple[Name, ...]
    sizes: tuple[int, ...]
    norm: float
    deltas: tuple[float, ...]
    c: float
    pair: tuple[Name, Name] | None
    n_bad: int
    pairs: tuple[ClusterPair, ...]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return sum(self.sizes)

    @property
    def good(self) -> float:
        """Share of 1-good nodes."""
        return 1 - self.n_bad / self.n_nodes

    @property
    def not_separated(self) -> tuple[ClusterPair, ...]:
        """Pairs that are not separated, those with the most nodes on the wrong side first."""
        return tuple(pair for pair in self.pairs if not pair.separated)

    def __repr__(self) -> str:
        limit = "" if self.pair is None else f" (pair {self.pair[0]!r}, {self.pair[1]!r})"
        return f"Conditions({len(self.sizes)} clusters, c={self.c:.3g}{limit}, {percent(self.good)} 1-good)"

    def as_dict(self) -> dict[str, Any]:
        """Return all values for JSON, with the ten worst pairs; an infinite c is None."""
        return {
            "clusters": list(self.clusters),
            "sizes": list(self.sizes),
            "norm": self.norm,
            "deltas": list(self.deltas),
            "c": finite(self.c),
            "pair": None if self.pair is None else list(self.pair),
            "bad": self.n_bad,
            "good": self.good,
            "pairs_not_separated": len(self.not_separated),
            "worst_pairs": [pair.as_dict() for pair in self.pairs[:_WORST]],
        }


def conditions(given: ClusteredRows) -> Conditions:
    """Measure the conditions on a partition."""
    names, sizes = given.clusters.names, given.clusters.sizes
    norm = spectral_norm([given])
    deltas = np.sqrt(len(sizes)) * norm / np.sqrt(sizes)
    allowed = allowed_constants(given, deltas)
    near = proximity(given, norm)
    confused = near.wrong_side / sizes[:, None]
    first, second = np.triu_indices(len(sizes), 1)
    pairs = [
        ClusterPair(
            names[r],
            names[s],
            float(allowed[r, s]),
            int(sizes[r] + sizes[s]),
            int(near.bad[r, s] + near.bad[s, r]),
            int(near.wrong_side[r, s] + near.wrong_side[s, r]),
            float(max(confused[r, s], confused[s, r])),
            names[r] if confused[r, s] >= confused[s, r] else names[s],
        )
        for r, s in zip(first.tolist(), second.tolist(), strict=True)
    ]
    limit = min(pairs, key=lambda one: one.c, default=None)
    # A person notices nodes on the wrong side first; c orders the pairs that have few of them.
    pairs.sort(key=lambda one: (one.separated, one.c if one.separated else -one.wrong_side, one.c))
    return Conditions(
        clusters=names,
        sizes=tuple(sizes.tolist()),
        norm=norm,
        deltas=tuple(deltas.tolist()),
        c=np.inf if limit is None else limit.c,
        pair=None if limit is None else (limit.first, limit.second),
        n_bad=int(np.count_nonzero(~near.good)),
        pairs=tuple(pairs),
    )


def allowed_constants(given: ClusteredRows, deltas: FloatArray) -> FloatArray:
    """Return the largest c that the separation of each pair of clusters allows (k × k, infinite on the diagonal).

    It is infinite if no node lies away from its mean. It is 0 if two means coincide, even if no node lies away from
    them and the inequality would allow every c: such clusters are not separated.
    """
    distances = np.stack([np.linalg.norm(given.means - mean, axis=1) for mean in given.means])
    needed = deltas[:, None] + deltas[None, :]
    allowed: FloatArray = np.divide(distances, needed, out=np.full_like(needed, np.inf), where=needed > 0)
    allowed[distances == 0] = 0.0
    np.fill_diagonal(allowed, np.inf)
    return allowed


@dataclass(frozen=True, eq=False)
class Margins:
    """How much closer some nodes of cluster `own` are to their own mean than to the mean of each cluster s.

    `along` measures on the line through both means (Definition 1), `straight` by distances (Definition 2). Both are
    infinite for s = own, and minus infinity if two means coincide. `wrong_side`, which is not from the paper, holds
    whether s is nearer than the mean of the *other* nodes of the own cluster: a node pulls its own mean towards itself,
    and in many columns a few random nodes would all seem nearest to their own mean.
    """

    own: int
    nodes: IntArray
    along: FloatArray
    straight: FloatArray
    wrong_side: Flags


def margins(given: ClusteredRows) -> Iterator[Margins]:
    """Compare all nodes with all means, a block of one cluster's nodes at a time."""
    by_cluster = np.argsort(given.clusters.codes, kind="stable")
    ends = np.cumsum(given.clusters.sizes)
    for own, (size, end) in enumerate(zip(given.clusters.sizes, ends, strict=True)):
        for start in range(end - size, end, _BLOCK):
            yield _block_margins(given, own, by_cluster[start : min(start + _BLOCK, end)])


def _block_margins(given: ClusteredRows, own: int, nodes: IntArray) -> Margins:
    """Compute relative to the own mean, so that no digits are lost if the rows lie far from zero."""
    away = given.rows[nodes] - given.means[own]
    lines = given.means - given.means[own]
    squared = np.einsum("ij,ij->i", lines, lines)
    lengths = np.sqrt(squared)
    # ‖x - μ_s‖² - ‖x - μ_r‖² = ‖μ_s - μ_r‖² - 2 (x - μ_r)·(μ_s - μ_r)
    difference = squared - 2 * (away @ lines.T)
    to_own = np.einsum("ij,ij->i", away, away)
    to_others = np.sqrt(np.maximum(to_own[:, None] + difference, 0.0))
    total = to_others + np.sqrt(to_own)[:, None]
    apart = lengths > 0
    along = np.divide(difference, lengths, out=np.full_like(difference, -np.inf), where=apart)
    # Beyond either mean, both distances along the line grow by the same amount.
    along = np.where(apart, np.clip(along, -lengths, lengths), along)
    straight = np.divide(difference, total, out=np.full_like(difference, -np.inf), where=apart)
    along[:, own] = straight[:, own] = np.inf
    size = given.clusters.sizes[own]
    stretch = size / (size - 1) if size > 1 else 0.0  # x - (n μ - x) / (n - 1) = (x - μ) n / (n - 1)
    wrong = to_others < stretch * np.sqrt(to_own)[:, None]
    wrong[:, own] = False
    return Margins(own, nodes, along, straight, wrong)


@dataclass(frozen=True, eq=False)
class Proximity:
    """Which nodes are 1-good, and for each pair (r, s) how many nodes of r are bad or on the wrong side (k × k)."""

    good: Flags
    bad: IntArray
    wrong_side: IntArray


def proximity(given: ClusteredRows, norm: float) -> Proximity:
    """Check the proximity condition (Definition 1) for every node."""
    k, root = len(given.clusters), 1 / np.sqrt(given.clusters.sizes)
    needed = (root[:, None] + root[None, :]) * norm
    good = np.empty(given.clusters.n_nodes, dtype=bool)
    bad, wrong_side = np.zeros((2, k, k), dtype=np.int64)
    for one in margins(given):
        enough = one.along >= needed[one.own]
        good[one.nodes] = enough.all(axis=1)
        bad[one.own] += (~enough).sum(axis=0)
        wrong_side[one.own] += one.wrong_side.sum(axis=0)
    return Proximity(good, bad, wrong_side)
