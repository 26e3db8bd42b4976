"""Theorem 1 and the condition it needs of all parties' rows together, the restricted proximity condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kcagc._types import FloatArray
from kcagc.analysis.clusters import ClusteredRows, Clusters, finite, spectral_norm
from kcagc.analysis.conditions import Conditions, margins
from kcagc.protocol.cells import intersect
from kcagc.text import count, number, percent

ENOUGH = 100.0  # "c > 100 will be sufficient" (a footnote of the proof)


@dataclass(frozen=True, repr=False)
class RestrictedProximity:
    """The restricted proximity condition (Definition 2), checked for every node.

    Attributes
    ----------
    n_nodes : int
        Number of nodes.
    violate_a : int
        Number of nodes that violate part (a), which counts if some node is 1-bad at some party.
    violate_b : int
        Number of nodes that violate part (b), which counts if no node is 1-bad.
    norm : float
        ‖X - Ĉ‖, the spectral norm of all parties' rows minus their local cluster means.
    m0 : tuple of float, length k
        The paper's m_0 of each target cluster.

    Examples
    --------
    >>> RestrictedProximity(n_nodes=100, violate_a=5, violate_b=0, norm=1.5, m0=(1.0, 1.2))
    RestrictedProximity(a: 95.0 %, b: 100.0 % of nodes)
    """

    n_nodes: int
    violate_a: int
    violate_b: int
    norm: float
    m0: tuple[float, ...]

    @property
    def share_a(self) -> float:
        """Share of nodes that satisfy part (a)."""
        return 1 - self.violate_a / self.n_nodes

    @property
    def share_b(self) -> float:
        """Share of nodes that satisfy part (b)."""
        return 1 - self.violate_b / self.n_nodes

    def __repr__(self) -> str:
        return f"RestrictedProximity(a: {percent(self.share_a)}, b: {percent(self.share_b)} of nodes)"

    def as_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return {
            "satisfy_a": self.share_a,
            "satisfy_b": self.share_b,
            "violate_a": self.violate_a,
            "violate_b": self.violate_b,
            "norm_local": self.norm,
            "m0": [finite(value) for value in self.m0],
        }


def restricted_proximity(
    joint: ClusteredRows, norm: float, parties: Sequence[ClusteredRows], *, c: float, order_constant: float
) -> RestrictedProximity:
    """Check both parts of Definition 2 for every node i of T_q and every other T_p.

    Part (a) requires that ‖X_i - μ_p‖ - ‖X_i - μ_q‖ is at least

        (1/√n_p + 1/√n_q) ‖X - C‖ + 2 (1 + O(1/c) √L m_0) / √n_q ‖X - Ĉ‖,

    part (b) the same without O(1/c). `norm` is ‖X - C‖, `c` the constant of all separation assumptions, and
    `order_constant` / c stands for O(1/c).
    """
    local_norm = spectral_norm(parties)
    m0 = cell_ratio(joint.clusters, [party.clusters for party in parties])
    root = 1 / np.sqrt(joint.clusters.sizes)
    plain = (root[:, None] + root[None, :]) * norm
    needed_b = plain + 2 * root[:, None] * local_norm
    needed_a = np.full_like(plain, np.inf)  # without separation O(1/c) is infinite, and no node satisfies (a)
    if c > 0:
        wider = 1 + order_constant / c * np.sqrt(len(parties)) * m0
        needed_a = plain + 2 * (wider * root)[:, None] * local_norm
    violate_a = violate_b = 0
    for one in margins(joint):
        violate_a += int(np.count_nonzero((one.straight < needed_a[one.own]).any(axis=1)))
        violate_b += int(np.count_nonzero((one.straight < needed_b[one.own]).any(axis=1)))
    return RestrictedProximity(joint.clusters.n_nodes, violate_a, violate_b, local_norm, tuple(m0.tolist()))


def cell_ratio(target: Clusters, local: Sequence[Clusters]) -> FloatArray:
    """Return m_0 = √(|T_q| / min_l |T^l_q|) for every target cluster q.

    The proof speaks of *the* joint point of T_q, made of one local mean of each party (μ^l_q := μ^l_r), and of T^l_q
    as that local cluster. There may be several such points: the cells (intersections of local clusters) in which T_q
    has the most nodes. The bound has to hold for each of them, so the minimum goes over the local clusters of all
    parties that contain any of these cells. A cell with equally many nodes of two target clusters counts for both. If
    T_q has the most nodes in no cell, all cells with a node of T_q count.
    """
    cells = intersect([one.codes for one in local])
    inside, times = np.unique(cells.of_node * len(target) + target.codes, return_counts=True)
    cell, cluster = np.divmod(inside, len(target))
    most = np.zeros(len(cells), dtype=np.int64)
    np.maximum.at(most, cell, times)
    # For each cell the smallest of the local clusters that contain it.
    smallest = np.min([one.sizes[codes] for one, codes in zip(local, cells.codes.T, strict=True)], axis=0)
    least = np.full(len(target), np.iinfo(np.int64).max)
    leads = times == most[cell]
    np.minimum.at(least, cluster[leads], smallest[cell[leads]])
    for q in np.flatnonzero(least == np.iinfo(np.int64).max):
        least[q] = smallest[cell[cluster == q]].min()
    ratio: FloatArray = np.sqrt(target.sizes / least)
    return ratio


@dataclass(frozen=True, repr=False)
class Bound:
    """The guarantee of Theorem 1: at most `nodes` of `n_nodes` nodes are misclassified.

    The theorem also needs initial centres whose cost is within 10 times the optimum. This is assumed: the centres that
    KCAGC chooses are within a constant factor.

    Attributes
    ----------
    n_nodes : int
        Number of nodes.
    epsilon : float
        Largest share of 1-bad nodes at any party.
    c : float
        Constant that the joint clusters and all local clusters allow.
    formula : float
        (L ε + O(1) L c⁻⁴) n, at most n, whether or not the conditions hold.
    unmet : tuple of str
        The conditions that do not hold, in words.

    Examples
    --------
    >>> Bound(n_nodes=100, epsilon=0.0, c=120.0, formula=0.1, unmet=()).nodes
    0.0
    """

    n_nodes: int
    epsilon: float
    c: float
    formula: float
    unmet: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether all conditions hold."""
        return not self.unmet

    @property
    def nodes(self) -> float:
        """Largest number of misclassified nodes that the theorem allows: all nodes if a condition does not hold."""
        if not self.holds:
            return float(self.n_nodes)
        return self.formula if self.epsilon > 0 else 0.0

    def __repr__(self) -> str:
        promise = f"at most {number(self.nodes)} of {self.n_nodes:,} nodes" if self.holds else "no guarantee"
        return f"Bound({promise}, c={self.c:.3g}, epsilon={self.epsilon:.3g})"

    def as_dict(self) -> dict[str, Any]:
        """Return all values for JSON; an infinite c is None."""
        return {
            "holds": self.holds,
            "misclassified_at_most": self.nodes,
            "formula": self.formula,
            "epsilon": self.epsilon,
            "c": finite(self.c),
            "unmet": list(self.unmet),
        }


def bound(
    joint: Conditions, own: Mapping[str, Conditions], near: RestrictedProximity, *, enough: float, order_constant: float
) -> Bound:
    """Apply Theorem 1; `order_constant` stands for its O(1)."""
    n, c = joint.n_nodes, common_c(joint, own)
    epsilon = max(one.n_bad for one in own.values()) / n
    rest = order_constant**0.25 / c if c > 0 else 1.0  # O(1) c⁻⁴ is its fourth power, which says nothing from 1 on
    formula = len(own) * (epsilon + min(rest, 1.0) ** 4) * n
    measured = {"the joint clusters": joint} | {f"{name}'s own clusters": one for name, one in own.items()}
    unmet = [
        f"{whose} have c = {number(one.c)}, but the theorem needs more than {number(enough)}"
        for whose, one in sorted(measured.items(), key=lambda item: item[1].c)
        if not one.c > enough
    ]
    part, violate = ("b", near.violate_b) if epsilon == 0 else ("a", near.violate_a)
    if violate:
        unmet.append(f"the restricted proximity condition ({part}) fails for {count(violate, 'node')} of {n:,}")
    return Bound(n, epsilon, c, min(formula, float(n)), tuple(unmet))


def common_c(joint: Conditions, own: Mapping[str, Conditions]) -> float:
    """Return the one constant of all separation assumptions: the smallest that any of them allows."""
    return min(joint.c, *(one.c for one in own.values()))
