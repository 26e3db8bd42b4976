"""What local labels would reveal about a party's own table, measured by the party before it sends them.

Each column is predicted from the label of a node and the labels of its neighbours, out of fold: the prediction for a
node comes from other nodes. The figure is the AUC, the probability that a node with the property gets a higher score
than a node without it: 0.5 is chance. There are three kinds of columns:

- yes or no: two values, or one value in more than half of the nodes and anything else in the others;
- category: up to ten values; the mean AUC of each value against all others;
- number: whether the value lies above the median.

In a wide table labels say something about some columns too, for example about the words of a topic, but most of that
follows from the other columns. So the same prediction is made from labels without the column: the columns are divided
into blocks, similar columns in the same block, and for each block the party clusters once more without it. In a narrow
table the labels repeat the columns: their mean gain over labels without the column is large. In public tables of
words, divided between two or three parties, it is 0.05 or less; in tables with up to 12 columns it is 0.12 or more.

A table is refused if both hold: it is narrow, and one of its columns is predicted well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import ndtri

from kcagc._types import Features, Flags, FloatArray, IntArray, Sparse
from kcagc.cluster.lloyd import one_blas_thread
from kcagc.disclosure import Policy
from kcagc.disclosure.texts import REVEALING_LABELS
from kcagc.errors import KcagcError, PolicyError
from kcagc.graph.graph import Graph
from kcagc.graph.laplacian import BLOCK_COLUMNS
from kcagc.text import quoted

Kind = Literal["yes or no", "category", "number"]

# The AUC above which a column counts as predicted. The half in which a number lies is less than a yes or no: AUC 0.85
# means that the labels explain about half of its variance.
LIMITS: dict[Kind, float] = {"yes or no": 0.6, "category": 0.6, "number": 0.85}
NARROW = 0.08  # mean gain over labels without the column, above which a table is narrow

MEASURED_NODES = 3_000  # drawn at random if there are more
MEASURED_COLUMNS = 500  # those with the largest variance if there are more
_FOLDS = 5
N_BLOCKS = 5  # of columns that are left out together
_VALUES = 10  # a column with more values is a number
_TESTED_VALUES = 4  # of a category: its most frequent values
_LEAST = 20  # nodes with and without a property: with fewer the AUC is too uncertain
_SIMILAR = 0.7  # correlation of two columns that are left out together
_SAFE = 1e100  # a magnitude whose square is a finite number
_RIDGE = 10.0
_SPARSE = 0.05  # share of values that are not zero, below which products of sparse columns are faster
# Probability that labels without information predict any column. It is small, because the folds depend on each other
# and the true probability is larger.
_CHANCE = 0.001
_KEPT = 5  # columns to report


class ColumnPrediction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How well labels predict one column: the AUC, and the AUC of labels that are made without the column."""

    column: int
    kind: Kind
    auc: float
    without: float
    significant: bool

    @property
    def limit(self) -> float:
        """The AUC above which the column counts as predicted."""
        return LIMITS[self.kind]

    @property
    def predicted(self) -> bool:
        """Whether the labels predict the column better than its limit, and not by chance."""
        return self.significant and self.auc > self.limit

    @property
    def excess(self) -> float:
        """The AUC minus the limit; a column that may be chance comes last."""
        return self.auc - self.limit if self.significant else self.auc - 2.0


class LabelMeasurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What labels reveal about a table: its most exposed columns, and the mean gain over labels without the column.

    `n_nodes` and `n_columns` say how much of the table was measured.
    """

    columns: tuple[ColumnPrediction, ...]
    gain: float
    n_nodes: int
    n_columns: int

    @property
    def narrow(self) -> bool:
        """Whether the labels repeat the columns of the table."""
        return self.gain > NARROW

    @property
    def revealed(self) -> tuple[ColumnPrediction, ...]:
        """The columns for which the labels must not be sent without acceptance."""
        return tuple(one for one in self.columns if one.predicted) if self.narrow else ()


Relabel = Callable[[Flags], IntArray | None]


def measured_nodes(n_nodes: int) -> IntArray:
    """Return the nodes whose columns are predicted: all, or on large graphs the same random ones every time."""
    if n_nodes <= MEASURED_NODES:
        return np.arange(n_nodes)
    return np.sort(np.random.default_rng(0).choice(n_nodes, MEASURED_NODES, replace=False)).astype(np.int64)


def observed_nodes(graph: Graph) -> IntArray:
    """Return the measured nodes and their neighbours, in ascending order: the nodes whose labels are needed."""
    measured = measured_nodes(graph.n_nodes)
    return np.union1d(measured, graph.adjacency[measured].indices).astype(np.int64)


def measure_labels(graph: Graph, features: Features, labels: IntArray, relabel: Relabel) -> LabelMeasurement:
    """Measure how well labels predict the columns of a table.

    `relabel` returns labels of the observed nodes, made without some columns, or None if nothing is left to cluster.
    """
    n, m = features.shape
    largest = max(float(features.max()), -float(features.min()))
    if not 1 / _SAFE < largest < _SAFE:  # squares would overflow or vanish
        features = features / largest
    nodes = measured_nodes(n)
    variance = _variances(features)
    chosen = np.sort(np.argsort(-variance, kind="stable")[:MEASURED_COLUMNS])
    chosen = chosen[variance[chosen] > 0]
    part = features[nodes][:, chosen]
    table = sparse.csc_array(part, dtype=np.float64) if sparse.issparse(part) else np.asarray(part, dtype=np.float64)
    tests = _Tests.of(table)
    if not tests.columns.size:
        return LabelMeasurement((), 0.0, len(nodes), 0)
    view = _View.of(graph, nodes)
    with one_blas_thread():
        auc = tests.auc(view.evidence(labels[view.nodes]), np.arange(len(tests.columns)))
        without = np.full(len(auc), 0.5)
        blocks = _blocks(table, chosen, m)
        for block in range(int(blocks.max()) + 1):
            inside = np.flatnonzero(blocks[chosen[tests.columns]] == block)
            made = relabel(blocks == block) if inside.size else None
            if made is not None:
                without[inside] = np.maximum(tests.auc(view.evidence(made), inside), 0.5)
    return tests.summary(auc, without, chosen, variance[chosen], len(nodes))


@dataclass(frozen=True, eq=False)
class _View:
    """What a receiver sees of the measured nodes: `nodes` are these and their neighbours, `own` the place of each."""

    nodes: IntArray
    own: IntArray
    near: Sparse  # takes the mean over the neighbours of each measured node

    @classmethod
    def of(cls, graph: Graph, measured: IntArray) -> _View:
        rows = sparse.csr_array(graph.adjacency[measured])
        nodes = observed_nodes(graph)
        degree = np.diff(rows.indptr)
        shares = 1.0 / np.repeat(degree, degree)
        places = np.searchsorted(nodes, rows.indices)
        near = sparse.csr_array((shares, places, rows.indptr), shape=(len(measured), len(nodes)))
        return cls(nodes, np.searchsorted(nodes, measured), near)

    def evidence(self, labels: IntArray) -> FloatArray:
        """Return the label of each measured node, and the share of each label among its neighbours."""
        every = np.eye(int(labels.max()) + 1)[labels]
        return np.hstack([every[self.own], self.near @ every])


def check_labels(party: str, found: LabelMeasurement, whole: bool, columns: Sequence[str], policy: Policy) -> str:
    """Return the kind of disclosure of local labels; raise `PolicyError` if the operator must accept it first.

    `whole`: every local cluster is one distinct row of the smoothed table. Other roles learn only that the run ended.
    """
    if not whole and not found.revealed:
        return "labels"
    if REVEALING_LABELS in policy.accept:
        return "labels.whole" if whole else "labels.revealing"
    if whole:
        reason = "would reveal the whole table: each local cluster is one distinct row of the smoothed table"
    else:
        listed_columns = "; ".join(describe_column(one, columns) for one in found.revealed[:2])
        reason = f"would reveal {listed_columns}. {describe_width(found)}"
    raise PolicyError(
        f'{party}: the local labels {reason}. No labels were sent. To send them, accept "{REVEALING_LABELS}" in your '
        "policy; otherwise use more columns, a larger psi, fewer local clusters (n_local_clusters), or a "
        'method that sends no local labels ("joint" or "basic")'
    ).with_public_message(KcagcError.public_message)


def describe_column(one: ColumnPrediction, columns: Sequence[str]) -> str:
    """Return the figures of a column in words."""
    name = columns[one.column] if one.column < len(columns) else str(one.column)
    return (
        f"column {quoted(name)} ({one.kind}): labels predict it with AUC {one.auc:.2f} (limit {one.limit:.2f}), labels "
        f"made without it with {one.without:.2f}"
    )


def describe_width(found: LabelMeasurement) -> str:
    """Return in words how much labels repeat the columns of a table."""
    return (
        f"The table is {'narrow' if found.narrow else 'wide'}: on average over its columns, the gain over labels made "
        f"without the column is {found.gain:.2f} (limit {NARROW:.2f})"
    )


class _Tests:
    """Properties of nodes to predict: which nodes have each, and the column that it belongs to.

    Nodes are in the order of the folds.
    """

    def __init__(self, positive: Flags, order: IntArray, columns: IntArray, kinds: list[Kind]) -> None:
        self.positive, self.order, self.columns, self.kinds = positive, order, columns, kinds

    @classmethod
    def of(cls, table: Any) -> _Tests:
        n, m = table.shape
        properties: list[Flags] = []
        columns: list[int] = []
        kinds: list[Kind] = []
        for column in range(m):
            kind, having = _properties(*_column(table, column))
            for one in having:
                if _LEAST <= np.count_nonzero(one) <= len(one) - _LEAST:
                    properties.append(one)
                    columns.append(column)
                    kinds.append(kind)
        order = np.random.default_rng(1).permutation(n)
        positive = np.array([one[order] for one in properties]).reshape(-1, n)
        return cls(positive, order, np.array(columns, dtype=np.int64), kinds)

    def auc(self, evidence: FloatArray, which: IntArray) -> FloatArray:
        """Return the AUC of these properties, predicted by ridge regression, out of fold."""
        spread = evidence.std(axis=0)
        inputs = ((evidence - evidence.mean(axis=0))[:, spread > 0] / spread[spread > 0])[self.order]
        marks = self.positive[which]
        wanted = marks.astype(np.float64)  # properties × nodes
        scores = np.empty_like(wanted)
        gram, answers = inputs.T @ inputs + _RIDGE * np.eye(inputs.shape[1]), wanted @ inputs
        sums, shares = inputs.sum(axis=0), wanted.sum(axis=1)
        for hidden in np.array_split(np.arange(len(inputs)), _FOLDS):  # all nodes without those of one fold
            part = slice(hidden[0], hidden[-1] + 1)
            n_known = len(inputs) - len(hidden)
            known_sums = sums - inputs[part].sum(axis=0)
            mean = (shares - wanted[:, part].sum(axis=1)) / n_known
            right = answers - wanted[:, part] @ inputs[part] - np.outer(mean, known_sums)
            left = gram - inputs[part].T @ inputs[part] - np.outer(known_sums, known_sums) / n_known
            scores[:, part] = np.linalg.solve(left, right.T).T @ (inputs[part] - known_sums / n_known).T
        return _areas(scores, marks)

    def summary(
        self, auc: FloatArray, without: FloatArray, chosen: IntArray, variance: FloatArray, n_nodes: int
    ) -> LabelMeasurement:
        """Return the figures of the columns: for a category, the mean of its values."""
        columns, first, of_test = np.unique(self.columns, return_index=True, return_inverse=True)
        count = np.bincount(of_test)
        mean_auc, mean_without = (np.bincount(of_test, one) / count for one in (auc, without))
        with_property = self.positive.sum(axis=1)
        by_chance = np.sqrt((n_nodes + 1) / (12 * with_property * (n_nodes - with_property)))
        sure = auc - 0.5 > -ndtri(_CHANCE / len(auc)) * by_chance
        significant = np.bincount(of_test, sure) > 0
        gain = float((mean_auc - mean_without) @ variance[columns] / variance[columns].sum())
        found = [
            ColumnPrediction(
                column=int(chosen[column]),
                kind=self.kinds[first[at]],
                auc=float(mean_auc[at]),
                without=float(mean_without[at]),
                significant=bool(significant[at]),
            )
            for at, column in enumerate(columns)
        ]
        found.sort(key=lambda one: (-one.excess, one.column))
        return LabelMeasurement(tuple(found[:_KEPT]), gain, n_nodes, len(columns))


def _column(table: Any, column: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the values of a column, its distinct values in ascending order, and how often each occurs."""
    if not sparse.issparse(table):
        return (table[:, column], *np.unique(table[:, column], return_counts=True))
    part = slice(*table.indptr[column : column + 2])
    values = np.zeros(table.shape[0])
    values[table.indices[part]] = table.data[part]
    stored = table.data[part]
    stored = stored if stored.all() else stored[stored != 0]
    if len(stored) and (stored == stored[0]).all():  # words of a text: sorting would take most of the time
        distinct, counts = stored[:1], np.array([len(stored)])
    else:
        distinct, counts = np.unique(stored, return_counts=True)
    if len(stored) < len(values):
        zero = int(np.searchsorted(distinct, 0.0))
        distinct, counts = np.insert(distinct, zero, 0.0), np.insert(counts, zero, len(values) - len(stored))
    return values, distinct, counts


def _properties(values: FloatArray, distinct: FloatArray, counts: IntArray) -> tuple[Kind, Sequence[Flags]]:
    """Return the kind of a column, and the properties of nodes that it has."""
    usual = distinct[counts.argmax()]
    if len(distinct) <= 2 or (2 * counts.max() > len(values) and len(distinct) > _VALUES):
        return "yes or no", [values != usual]
    if len(distinct) <= _VALUES:
        frequent = distinct[np.argsort(-counts, kind="stable")[:_TESTED_VALUES]]
        return "category", [values == one for one in frequent]
    return "number", [values > np.median(values)]


def _variances(features: Features) -> FloatArray:
    n = features.shape[0]
    if sparse.issparse(features):
        squares = np.asarray(features.multiply(features).sum(axis=0), dtype=np.float64).ravel()
        sums = np.asarray(features.sum(axis=0), dtype=np.float64).ravel()
        return np.asarray(np.maximum(squares / n - (sums / n) ** 2, 0.0))
    blocks = (features[:, start : start + BLOCK_COLUMNS] for start in range(0, features.shape[1], BLOCK_COLUMNS))
    return np.concatenate([block.var(axis=0, dtype=np.float64) for block in blocks])


def _areas(scores: FloatArray, positive: Flags) -> FloatArray:
    """Return the AUC of each row of scores; equal scores share their ranks."""
    found = np.empty(len(scores))
    for row, (values, marked) in enumerate(zip(scores, positive, strict=True)):
        low, high = np.sort(values[~marked]), values[marked]
        below = np.searchsorted(low, high, side="left").sum() + np.searchsorted(low, high, side="right").sum()
        found[row] = below / (2 * len(low) * len(high))
    return found


def _blocks(table: Any, chosen: IntArray, m: int) -> IntArray:
    """Divide all columns into blocks of about equal variance; columns that resemble each other share one."""
    given = table.toarray(order="C") if sparse.issparse(table) else table
    mean = given.mean(axis=0)
    centred = given - mean
    length = np.linalg.norm(centred, axis=0)
    divisor = np.where(length > 0, length, 1.0)
    if sparse.issparse(table) and table.nnz < _SPARSE * given.size:
        scaled = table @ sparse.diags_array(1.0 / divisor)
        mean = mean / divisor
        alike = (scaled.T @ scaled).toarray() - len(given) * np.outer(mean, mean)
    else:
        unit = centred / divisor
        alike = unit.T @ unit
    _, group = connected_components(sparse.csr_array(np.abs(alike) >= _SIMILAR), directed=False)
    weight = np.bincount(group, weights=length**2)
    found = np.arange(m) % N_BLOCKS
    filled = np.zeros(min(N_BLOCKS, len(weight)))
    for one in np.argsort(-weight, kind="stable"):
        block = int(filled.argmin())
        filled[block] += weight[one]
        found[chosen[group == one]] = block
    return found
