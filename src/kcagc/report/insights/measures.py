"""Measures of each cluster in one party's own data: top features and links between clusters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import Features, Flags, FloatArray, IntArray
from kcagc.cluster.lloyd import blocks_of
from kcagc.data.fitted_rules import FittedRules
from kcagc.errors import DataError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import membership

TOP = 8  # columns named for each cluster
_MOSTLY_ZERO = 0.5  # below this share of non-zero cells, the presence of a value says more than the mean
_ROUNDING = 1e-12  # of a variance, relative to the squared values it is computed from
_LAST_DIGIT = 1e-14  # of a value, relative to the shift subtracted from it


@dataclass(frozen=True)
class TopFeature:
    """One column that distinguishes a cluster from all other nodes.

        effect = (mean inside the cluster - mean outside) / standard deviation over all nodes

    The effect is 0 if the cluster is like the rest; a constant column has effect 0. Columns of 0 and 1 (levels of a
    category, flags) and sparse tables without negative values (words, purchases) also have the share of nodes with a
    non-zero value inside and outside the cluster. Sparse tables have the lift, too: the share inside divided by the
    share among all nodes. `by_logarithm` says that the means are those of the logarithms, converted back.
    """

    feature: str
    effect: float
    mean: float
    mean_outside: float
    present: float | None = None
    present_outside: float | None = None
    lift: float | None = None
    by_logarithm: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that have a value, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class Units:
    """How the numbers of a table become numbers in the units of the party's file.

    x becomes factor · x + offset, and exp of that minus 1 in the columns with `log`. So the mean of a column with the
    scale "log1p" is the mean of its logarithms, converted back.
    """

    factor: FloatArray
    offset: FloatArray
    log: Flags

    @classmethod
    def of(cls, rules: FittedRules) -> Units:
        """Return the units of the columns that these rules make; columns of categories have none and stay."""
        numbers, width = rules.numbers, len(rules.sources())
        found = cls(np.ones(width), np.zeros(width), np.zeros(width, dtype=bool))
        count = len(numbers.columns)
        found.factor[:count], found.offset[:count], found.log[:count] = numbers.divisor, numbers.centre, numbers.log
        return found

    def restore(self, values: FloatArray, columns: IntArray) -> FloatArray:
        """Return values of these columns in the units of the file."""
        linear = add_shift(values * self.factor[columns], self.offset[columns])
        with np.errstate(over="ignore"):
            found: FloatArray = np.where(self.log[columns], np.expm1(linear), linear)
        return found


@dataclass(frozen=True, eq=False)
class ClusterTotals:
    """Sums of values, squares and non-zero cells for each cluster (k × columns), after subtracting `shift`."""

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    present: FloatArray
    shift: FloatArray  # the mean of each column: keeps the squares exact
    negative: bool


def cluster_totals(table: Features, labels: IntArray, n_clusters: int) -> ClusterTotals:
    """Add up a table by cluster with three sparse products, without a copy of a sparse table."""
    if table.shape[0] != len(labels):
        raise DataError(f"top features: {len(labels)} labels for a table of {table.shape[0]} rows")
    counts = np.bincount(labels, minlength=n_clusters).astype(float)
    if sparse.issparse(table):
        rows = table.tocsr()
        within = membership(labels, n_clusters).T
        cells = (rows.data, rows.data**2, (rows.data != 0).astype(float))
        sums, squares, present = (
            (within @ sparse.csr_array((one, rows.indices, rows.indptr), shape=rows.shape)).toarray() for one in cells
        )
        return ClusterTotals(counts, sums, squares, present, np.zeros(rows.shape[1]), bool((rows.data < 0).any()))
    values = np.asarray(table)
    shift = values.mean(axis=0, dtype=float)
    sums, squares, present = (np.zeros((n_clusters, values.shape[1])) for _ in range(3))
    negative = False
    for block in blocks_of(values):
        within = membership(labels[block], n_clusters).T
        centred = values[block] - shift
        sums += within @ centred
        squares += within @ (centred * centred)
        present += within @ (values[block] != 0).astype(float)
        negative = negative or bool((values[block] < 0).any())
    return ClusterTotals(counts, sums, squares, present, shift, negative)


def is_mostly_zero(totals: ClusterTotals) -> bool:
    """Return whether the presence of a value distinguishes more than its mean: no negative values, mostly zeros."""
    cells = float(totals.counts.sum()) * totals.present.shape[1]
    return not totals.negative and float(totals.present.sum()) < _MOSTLY_ZERO * cells


def spread_of(totals: ClusterTotals) -> FloatArray:
    """Return the standard deviation of each column over all nodes; infinite for a constant column."""
    n = totals.counts.sum()
    power = totals.squares.sum(axis=0) / n
    variance = power - (totals.sums.sum(axis=0) / n) ** 2
    noise = _ROUNDING * power + (_LAST_DIGIT * totals.shift) ** 2
    spread: FloatArray = np.sqrt(np.where(variance > noise, variance, np.inf))
    return spread


def effects_of(totals: ClusterTotals) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return effects, means inside and means outside, each k × columns; an empty cluster has effect 0."""
    n, inside = totals.counts.sum(), totals.counts[:, None]
    whole = totals.sums.sum(axis=0)
    mean = totals.sums / np.maximum(inside, 1)
    outside = (whole - totals.sums) / np.maximum(n - inside, 1)
    effects = (mean - outside) / spread_of(totals)
    effects[(totals.counts == 0) | (totals.counts == n)] = 0.0
    return effects, add_shift(mean, totals.shift), add_shift(outside, totals.shift)


def add_shift(values: FloatArray, shift: FloatArray) -> FloatArray:
    """Return values + shift; a sum that differs from zero by rounding only is zero."""
    found = values + shift
    return np.where(np.abs(found) <= _ROUNDING * np.abs(shift), 0.0, found)


def top_features(
    table: Features,
    labels: IntArray,
    n_clusters: int,
    columns: list[str] | None = None,
    *,
    weights: FloatArray | None = None,
    top: int = TOP,
    totals: ClusterTotals | None = None,
    units: Units | None = None,
) -> list[list[TopFeature]]:
    """Return for each cluster the columns with the largest effects, the largest first.

    `weights` are the weights of the columns of the table; means are those of the table without them. `totals` are those
    of the table, if they are known. `units` convert the means to the units of the party's file.

    For a sparse table without negative values, only columns that are more frequent inside the cluster count: columns
    that most nodes lack do not distinguish anything.
    """
    width = table.shape[1]
    names = [f"column {number}" for number in range(width)] if columns is None else columns
    if len(names) != width:
        raise DataError(f"top features: {len(names)} names for {width} columns")
    totals = cluster_totals(table, labels, n_clusters) if totals is None else totals
    effects, mean, outside = effects_of(totals)
    if weights is not None:
        mean, outside = mean / weights, outside / weights
    if units is not None:
        mean, outside = (units.restore(one, np.arange(width)) for one in (mean, outside))
    present = totals.present
    is_sparse = is_mostly_zero(totals)
    flags = _flags(totals, weights, units)
    strength = effects if is_sparse else np.abs(effects)
    found: list[list[TopFeature]] = []
    for cluster in range(n_clusters):
        order = np.argsort(-strength[cluster], kind="stable")[:top]
        found.append([])
        for column in (int(one) for one in order if strength[cluster, one] > 0):
            more: dict[str, Any] = {}
            if is_sparse or flags[column]:
                shares = _presence(present[:, column], totals.counts, cluster)[: 3 if is_sparse else 2]
                more = dict(zip(("present", "present_outside", "lift"), shares, strict=False))
            elif units is not None and units.log[column]:
                more = {"by_logarithm": True}
            effect, here, there = (float(one[cluster, column]) for one in (effects, mean, outside))
            found[-1].append(TopFeature(names[column], effect, here, there, **more))
    return found


def _flags(totals: ClusterTotals, weights: FloatArray | None, units: Units | None) -> Flags:
    """Return which columns have no values but 0 and 1, apart from their weights.

    If a share p of the values is not 0, the mean of all is p and their variance is p (1 - p), then the values that are
    not 0 have the mean 1 and the variance 0.
    """
    n = totals.counts.sum()
    share = totals.present.sum(axis=0) / n
    scale = np.ones(len(share)) if weights is None else 1.0 / weights
    mean = (totals.sums.sum(axis=0) / n + totals.shift) * scale
    as_it_is = np.ones(len(share), dtype=bool)
    if units is not None:
        as_it_is = (units.factor == 1) & (units.offset == 0) & ~units.log
    spread = spread_of(totals) * scale
    found: Flags = as_it_is & np.isclose(mean, share) & np.isclose(spread, np.sqrt(share * (1 - share)))
    return found


def _presence(present: FloatArray, counts: FloatArray, cluster: int) -> tuple[float, float, float]:
    """Return the share of nodes with a value inside and outside a cluster, and the lift."""
    n, size = float(counts.sum()), float(counts[cluster])
    share, overall = float(present[cluster]) / size, float(present.sum()) / n
    outside = float(present.sum() - present[cluster]) / max(n - size, 1.0)
    return share, outside, share / overall


@dataclass(frozen=True, eq=False)
class ClusterLinks:
    """Weights of links between clusters (k × k): row r, column s adds up the links from cluster r to cluster s.

    A link inside a cluster has both ends there and counts twice: a row adds up to the degrees of its nodes.
    """

    weights: FloatArray

    @property
    def shares(self) -> list[list[float | None]]:
        """Each row divided by its total; None for a cluster without links."""
        totals = self.weights.sum(axis=1)
        return [
            [float(value / total) if total else None for value in row]
            for row, total in zip(self.weights, totals, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return weights and shares, for JSON."""
        return {"weights": self.weights.tolist(), "shares": self.shares}

    @property
    def modularity(self) -> float:
        """The modularity of the clusters, as `metrics.modularity` defines it."""
        total = self.weights.sum()
        if total == 0:
            return 0.0
        return float(np.trace(self.weights) / total - ((self.weights.sum(axis=0) / total) ** 2).sum())


def links_between(graph: Graph, labels: IntArray, n_clusters: int) -> ClusterLinks:
    """Add up the links between clusters, one block of nodes at a time."""
    matrix, weights = graph.adjacency, np.zeros(n_clusters * n_clusters)
    for block in blocks_of(labels):
        ends = slice(int(matrix.indptr[block.start]), int(matrix.indptr[block.stop]))
        own = np.repeat(labels[block], np.diff(matrix.indptr[block.start : block.stop + 1]))
        cells = own * n_clusters + labels[matrix.indices[ends]]
        weights += np.bincount(cells, weights=matrix.data[ends], minlength=len(weights))
    return ClusterLinks(weights.reshape(n_clusters, n_clusters))
