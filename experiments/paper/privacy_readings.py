"""Possible readings of the sum Y and the features X in the paper's privacy measures, and both measures of each.

The paper defines the measures (Appendix B), but neither their estimator nor Y and X in numbers. Three readings of Y:
the *term* that one party adds to the sum ("the sum of the top k projection of the features"), the *sum* of these terms
over the parties, and the summed *distances* of the first round, which the aggregator sees in kcagc.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from experiments.paper.configurations import order_of
from experiments.paper.experiment import Result
from kcagc._types import Features, FloatArray
from kcagc.analysis.privacy import DIGITS, Privacy, distinct_rows, nearest, plug_in_by_column
from kcagc.cluster.kmeans import local_search, plus_plus
from kcagc.cluster.lloyd import squared_distances
from kcagc.cluster.local import Scaling, fit_projection
from kcagc.datasets import Dataset
from kcagc.datasets.dataset import split_columns
from kcagc.graph.filters import HalfFilter

SCALINGS: dict[str, Scaling] = {"paper": "U", "default": "unit"}


def measured(data: Dataset, configuration: str, n_parties: int, seed: int) -> Result:
    """Measure all readings for a number of parties."""
    wanted, scaling = weighted(data.features), SCALINGS[configuration]
    rows = [_rows(data, part, scaling) for part in split_columns(data.features, n_parties)]
    given = main_directions(data.features, data.n_classes)
    dealt = np.random.default_rng(seed).permutation(data.features.shape[1])
    rows_dealt = [_rows(data, part, scaling) for part in split_columns(data.features[:, dealt], n_parties)]
    found = _terms("term", rows, wanted)
    found |= _terms("term_bits", rows, wanted, digits=None)
    found |= _terms("term_counted", rows, data.features)
    found |= _terms("term_dealt", rows_dealt, wanted[:, dealt])
    for name, shared in (("sum", _summed(rows)), ("distances", _first_distances(rows, data.n_classes, seed))):
        found |= _named(name, plug_in_by_column(shared, wanted)) | _nearest(f"{name}_nearest", shared, given)
    return found


def control(data: Dataset, shared: str) -> Result:
    """Measure the controls: the features themselves (reveals everything) or a random number for each node (nothing)."""
    given = main_directions(data.features, data.n_classes)
    if shared == "features":
        table = data.features.toarray() if sparse.issparse(data.features) else data.features
        return _named("plug_in", plug_in_by_column(table, weighted(data.features))) | _nearest("nearest", given, given)
    numbers = np.random.default_rng(0).permutation(data.n_nodes)
    plug_in = plug_in_by_column(numbers, weighted(data.features))
    return _named("plug_in", plug_in) | _nearest("nearest", numbers[:, None].astype(float), given)


def weighted(features: Features) -> Features:
    """Weigh binary words: x log (n / nodes with the word), rows of unit length.

    Almost all non-zero values of a column then differ. Features that are not binary are not changed.
    """
    table = sparse.csr_array(features).astype(np.float64)
    table.eliminate_zeros()
    if not (table.data == 1).all():
        return features
    nodes = np.bincount(table.indices, minlength=table.shape[1])
    table = table @ sparse.diags_array(np.log(table.shape[0]) - np.log(np.maximum(nodes, 1)))
    length = np.sqrt(table.multiply(table).sum(axis=1))
    return sparse.csr_array(sparse.diags_array(1 / np.where(length > 0, length, 1.0)) @ table)


def main_directions(features: Features, q: int) -> FloatArray:
    """Return the unfiltered features in their q main directions: a thousand dimensions have no near neighbours."""
    table = features.toarray() if sparse.issparse(features) else np.asarray(features)
    table = table.astype(np.float64)
    return fit_projection(table, q).transform(table, "US")


def _terms(name: str, rows: list[FloatArray], wanted: Features, digits: int | None = DIGITS) -> Result:
    """Measure the term of each party, given its own features one by one, and average over the parties."""
    parts = split_columns(wanted, len(rows))
    each = (plug_in_by_column(own, part, digits=digits) for own, part in zip(rows, parts, strict=True))
    return _named(name, Privacy.mean(each))


def _rows(data: Dataset, table: Features, scaling: Scaling) -> FloatArray:
    """Return a party's filtered and projected rows (Protocol 2, lines 1 to 4)."""
    filtered = HalfFilter(order_of(data.name)).apply(data.adjacency, table)
    return fit_projection(filtered, data.n_classes).transform(filtered, scaling)


def _summed(rows: list[FloatArray]) -> FloatArray:
    """Add the rows of all parties, component by component; a party of lower rank lacks the last components."""
    widest = max(own.shape[1] for own in rows)
    return np.sum([np.pad(own, ((0, 0), (0, widest - own.shape[1]))) for own in rows], axis=0)


def _first_distances(rows: list[FloatArray], k: int, seed: int) -> FloatArray:
    """Sum each node's squared distances to k nodes that one party proposed (Protocol 2, lines 6 and 12)."""
    random, every = np.random.RandomState(seed), np.ones(len(rows[0]))
    chosen = local_search(rows[0], every, plus_plus(rows[0], every, k, random), k, random)
    return np.sum([squared_distances(own, own[chosen]) for own in rows], axis=0)


def _nearest(name: str, shared: FloatArray, given: FloatArray) -> Result:
    """Measure with nearest neighbours, without repeated rows; add the side of a cube with the level's volume."""
    kept = distinct_rows(shared)
    found = nearest(shared[kept], given[kept])
    return _named(name, found) | {f"{name}_side": float(found.level ** (1 / shared.shape[1]))}


def _named(name: str, found: Privacy) -> Result:
    return {f"{name}_level": found.level, f"{name}_leakage": round(found.leakage, 6)}
