"""The restricted proximity condition (Definition 2): what Theorem 1 asks of every node, in all parties' rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcagc._types import FloatArray
from kcagc.analysis.clusters import Around, Clusters, spectral_norm
from kcagc.analysis.proximity import margins
from kcagc.analysis.words import finite
from kcagc.protocol.cells import intersect
from kcagc.text import percent


@dataclass(frozen=True, repr=False)
class Restricted:
    """How many nodes violate part (a), for data with local 1-bad nodes, and part (b), for data without any.

    `norm` is ‖X - Ĉ‖ around the local means of all parties; `m0` has a value for each target cluster.
    """

    n_nodes: int
    violate_a: int
    violate_b: int
    norm: float
    m0: tuple[float, ...]

    @property
    def share_a(self) -> float:
        """The share of nodes that satisfy part (a)."""
        return 1 - self.violate_a / self.n_nodes

    @property
    def share_b(self) -> float:
        """The share of nodes that satisfy part (b)."""
        return 1 - self.violate_b / self.n_nodes

    def __repr__(self) -> str:
        return f"Restricted(a: {percent(self.share_a)}, b: {percent(self.share_b)} of nodes)"

    def as_dict(self) -> dict[str, Any]:
        """Give what a script reads."""
        return {
            "satisfy_a": self.share_a,
            "satisfy_b": self.share_b,
            "violate_a": self.violate_a,
            "violate_b": self.violate_b,
            "norm_local": self.norm,
            "m0": [finite(value) for value in self.m0],
        }


def restricted(joint: Around, norm: float, parties: Sequence[Around], *, c: float, order_constant: float) -> Restricted:
    """Check both parts for every node i of T_q and every other T_p.

    Part (a) asks that ‖X_i - μ_p‖ - ‖X_i - μ_q‖ is at least

        (1/√n_p + 1/√n_q) ‖X - C‖ + 2 (1 + O(1/c) √L m_0) / √n_q ‖X - Ĉ‖,

    part (b) the same without the O(1/c). `norm` is ‖X - C‖, `c` the constant that all separation assumptions share,
    and `order_constant` / c stands for O(1/c).
    """
    sizes = joint.clusters.sizes
    local_norm = spectral_norm(parties)
    m0 = cell_ratio(joint.clusters, [party.clusters for party in parties])
    root = 1 / np.sqrt(sizes)
    plain = (root[:, None] + root[None, :]) * norm
    needed_b = plain + 2 * root[:, None] * local_norm
    needed_a = np.full_like(plain, np.inf)  # without any separation O(1/c) is infinite, and (a) cannot be met
    if c > 0:
        wider = 1 + order_constant / c * np.sqrt(len(parties)) * m0
        needed_a = plain + 2 * (wider * root)[:, None] * local_norm
    violate_a = violate_b = 0
    for one in margins(joint):
        violate_a += int(np.count_nonzero((one.straight < needed_a[one.own]).any(axis=1)))
        violate_b += int(np.count_nonzero((one.straight < needed_b[one.own]).any(axis=1)))
    return Restricted(joint.clusters.n_nodes, violate_a, violate_b, local_norm, tuple(m0.tolist()))


def cell_ratio(target: Clusters, local: Sequence[Clusters]) -> FloatArray:
    """Give m_0 = √(|T_q| / min_l |T^l_q|) for every target cluster q.

    The proof speaks of *the* joint point of T_q, made of one local mean of each party (μ^l_q := μ^l_r), and of T^l_q
    as that local cluster. There may be several: the cells, intersections of local clusters, most of whose nodes are
    in T_q. The bound has to hold for each of them, so the minimum is taken over the local clusters of all parties that
    any of these cells lies in. Where a cell has as many nodes of two target clusters it counts for both; where T_q is
    the majority of no cell, all cells that hold a node of it count.
    """
    cells = intersect([one.codes for one in local])
    inside, times = np.unique(cells.of_node * len(target) + target.codes, return_counts=True)
    cell, cluster = np.divmod(inside, len(target))
    most = np.zeros(len(cells), dtype=np.int64)
    np.maximum.at(most, cell, times)
    # For each cell the smallest of the local clusters that it lies in.
    smallest = np.min([one.sizes[codes] for one, codes in zip(local, cells.codes.T, strict=True)], axis=0)
    least = np.full(len(target), np.iinfo(np.int64).max)
    leads = times == most[cell]
    np.minimum.at(least, cluster[leads], smallest[cell[leads]])
    for q in np.flatnonzero(least == np.iinfo(np.int64).max):
        least[q] = smallest[cell[cluster == q]].min()
    ratio: FloatArray = np.sqrt(target.sizes / least)
    return ratio
