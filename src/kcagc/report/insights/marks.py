"""Which columns of a table mark each cluster.

    effect = (mean in the cluster - mean of all other nodes) / standard deviation over all nodes

a standardised mean difference: 0 where the cluster is like the rest, and always finite, because a column that is
constant has no effect. For a sparse table without negative values (words, purchases, flags) the share of nodes that
have the column at all is given too, and its lift: how many times more frequent it is in the cluster than among all.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray
from kcagc.cluster.lloyd import blocks_of
from kcagc.errors import DataError
from kcagc.graph.ids import membership

TOP = 8  # columns that are named for a cluster
_MOSTLY_ZERO = 0.5  # share of non-zero cells below which a column's presence tells more than its mean
_ROUNDING = 1e-12  # of a variance, beside the squared values that it comes from
_LAST_DIGIT = 1e-14  # of a value, beside the shift that was taken from it


@dataclass(frozen=True)
class Mark:
    """One column in one cluster; `present`, `present_elsewhere` and `lift` are for sparse tables without negatives."""

    feature: str
    effect: float
    mean: float
    elsewhere: float
    present: float | None = None
    present_elsewhere: float | None = None
    lift: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Give what there is, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over clusters (k × columns) of values, squares and presences, about a shift that keeps squares exact."""

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    present: FloatArray
    shift: FloatArray
    negative: bool


def totals_of(table: Features, labels: IntArray, n_clusters: int) -> Totals:
    """Add up a table by cluster: three sparse products, and no copy of a table that is sparse."""
    if table.shape[0] != len(labels):
        raise DataError(f"marks: {len(labels)} labels for a table of {table.shape[0]} rows")
    counts = np.bincount(labels, minlength=n_clusters).astype(float)
    if sparse.issparse(table):
        rows = table.tocsr()
        within = membership(labels, n_clusters).T
        cells = (rows.data, rows.data**2, (rows.data != 0).astype(float))
        sums, squares, there = (
            (within @ sparse.csr_array((one, rows.indices, rows.indptr), shape=rows.shape)).toarray() for one in cells
        )
        return Totals(counts, sums, squares, there, np.zeros(rows.shape[1]), bool((rows.data < 0).any()))
    values = np.asarray(table)
    shift = values.mean(axis=0, dtype=float)
    sums, squares, there = (np.zeros((n_clusters, values.shape[1])) for _ in range(3))
    negative = False
    for block in blocks_of(values):
        within = membership(labels[block], n_clusters).T
        centred = values[block] - shift
        sums += within @ centred
        squares += within @ (centred * centred)
        there += within @ (values[block] != 0).astype(float)
        negative = negative or bool((values[block] < 0).any())
    return Totals(counts, sums, squares, there, shift, negative)


def effects_of(totals: Totals) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give effects, means in the cluster and means elsewhere, each k × columns; those of an empty cluster are 0."""
    n, inside = totals.counts.sum(), totals.counts[:, None]
    whole = totals.sums.sum(axis=0)
    mean = totals.sums / np.maximum(inside, 1)
    elsewhere = (whole - totals.sums) / np.maximum(n - inside, 1)
    power = totals.squares.sum(axis=0) / n
    variance = power - (whole / n) ** 2
    noise = _ROUNDING * power + (_LAST_DIGIT * totals.shift) ** 2
    spread = np.sqrt(np.where(variance > noise, variance, np.inf))
    effects = (mean - elsewhere) / spread
    effects[(totals.counts == 0) | (totals.counts == n)] = 0.0
    return effects, mean + totals.shift, elsewhere + totals.shift


def marks_of_clusters(
    table: Features, labels: IntArray, n_clusters: int, columns: list[str] | None = None, *, top: int = TOP
) -> list[list[Mark]]:
    """Name, for each cluster, the columns that differ most from the rest, the largest effect first.

    In a sparse table without negatives only columns that are more frequent in the cluster count: the many that most
    nodes lack mark nothing.
    """
    width = table.shape[1]
    names = [f"column {number}" for number in range(width)] if columns is None else columns
    if len(names) != width:
        raise DataError(f"marks: {len(names)} names for {width} columns")
    totals = totals_of(table, labels, n_clusters)
    effects, mean, elsewhere = effects_of(totals)
    n, found_in = totals.counts.sum(), totals.present
    terms = not totals.negative and float(found_in.sum()) < _MOSTLY_ZERO * n * width
    strength = effects if terms else np.abs(effects)
    found: list[list[Mark]] = []
    for cluster in range(n_clusters):
        order = np.argsort(-strength[cluster], kind="stable")[:top]
        chosen = [int(column) for column in order if strength[cluster, column] > 0]
        found.append([])
        for column in chosen:
            mark = Mark(names[column], *(float(one[cluster, column]) for one in (effects, mean, elsewhere)))
            if terms:
                mark = _with_presence(mark, found_in[:, column], totals.counts, cluster)
            found[-1].append(mark)
    return found


def _with_presence(mark: Mark, present: FloatArray, counts: FloatArray, cluster: int) -> Mark:
    n, size = float(counts.sum()), float(counts[cluster])
    share, overall = float(present[cluster]) / size, float(present.sum()) / n
    outside = float(present.sum() - present[cluster]) / max(n - size, 1.0)
    return Mark(mark.feature, mark.effect, mark.mean, mark.elsewhere, share, outside, share / overall)
