"""How much closer a node lies to the mean of its own cluster than to another's: along the line, and straight.

The proximity condition (Definition 1) compares projections onto the line through two means; the restricted one
(Definition 2) compares distances as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kcagc._types import Flags, FloatArray, IntArray
from kcagc.analysis.clusters import Around

_NODES = 1 << 15  # nodes of one cluster compared at a time


@dataclass(frozen=True, eq=False)
class Margins:
    """Some nodes of cluster `own`: for each and every cluster s, how much closer it is to its own mean than to s.

    `along` the line through both means, and `straight`. Infinite for s = own; minus infinity where two means coincide,
    so that there is no line and no node is closer to either. `wrong` is ours, not the paper's: whether s is nearer
    than the mean of the *other* nodes of its own cluster. A node pulls its own mean towards itself, and in many columns
    a few nodes drawn at random would all seem to be nearest to their own.
    """

    own: int
    nodes: IntArray
    along: FloatArray
    straight: FloatArray
    wrong: Flags


def margins(around: Around) -> Iterator[Margins]:
    """Compare all nodes with all means, a block of one cluster's nodes at a time."""
    by_cluster = np.argsort(around.clusters.codes, kind="stable")
    ends = np.cumsum(around.clusters.sizes)
    for own, (size, end) in enumerate(zip(around.clusters.sizes, ends, strict=True)):
        for start in range(end - size, end, _NODES):
            nodes = by_cluster[start : min(start + _NODES, end)]
            yield _of_block(around, own, nodes)


def _of_block(around: Around, own: int, nodes: IntArray) -> Margins:
    """Work relative to the own mean, where no digits are lost to where the rows lie."""
    away = around.rows[nodes] - around.means[own]
    lines = around.means - around.means[own]
    squared = np.einsum("ij,ij->i", lines, lines)
    lengths = np.sqrt(squared)
    # ‖x - μ_s‖² - ‖x - μ_r‖² = ‖μ_s - μ_r‖² - 2 (x - μ_r)·(μ_s - μ_r)
    difference = squared - 2 * (away @ lines.T)
    to_own = np.einsum("ij,ij->i", away, away)
    to_others = np.sqrt(np.maximum(to_own[:, None] + difference, 0.0))
    total = to_others + np.sqrt(to_own)[:, None]
    apart = lengths > 0
    along = np.divide(difference, lengths, out=np.full_like(difference, -np.inf), where=apart)
    # Beyond either mean, both distances along the line grow alike.
    along = np.where(apart, np.clip(along, -lengths, lengths), along)
    straight = np.divide(difference, total, out=np.full_like(difference, -np.inf), where=apart)
    along[:, own] = straight[:, own] = np.inf
    size = around.clusters.sizes[own]
    stretch = size / (size - 1) if size > 1 else 0.0  # x - (n μ - x) / (n - 1) = (x - μ) n / (n - 1)
    wrong = to_others < stretch * np.sqrt(to_own)[:, None]
    wrong[:, own] = False
    return Margins(own, nodes, along, straight, wrong)


@dataclass(frozen=True, eq=False)
class Proximity:
    """Which nodes are 1-good; how many of cluster r fail against s, and how many are on the wrong side, nearer to s."""

    good: Flags
    bad: IntArray
    wrong: IntArray


def proximity(around: Around, norm: float) -> Proximity:
    """Check Definition 1: closer along the line by at least (1/√n_r + 1/√n_s) ‖X - C‖ for every s."""
    k, root = len(around.clusters), 1 / np.sqrt(around.clusters.sizes)
    needed = (root[:, None] + root[None, :]) * norm
    good = np.empty(around.clusters.n_nodes, dtype=bool)
    bad, wrong = np.zeros((2, k, k), dtype=np.int64)
    for one in margins(around):
        enough = one.along >= needed[one.own]
        good[one.nodes] = enough.all(axis=1)
        bad[one.own] += (~enough).sum(axis=0)
        wrong[one.own] += one.wrong.sum(axis=0)
    return Proximity(good, bad, wrong)
