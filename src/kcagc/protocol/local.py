"""What a party does alone: its checked data, its filtered and projected rows, its local clusters.

Filter, singular vectors and local k-means do not come out the same to the last bit with other numbers of threads or
other versions. Their result is therefore computed once, stored, and reloaded ever after: all that is sent later follows
from it, and another vector under the same mask would give away both.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray, Sparse
from kcagc.cluster.kmeans import fit_kmeans, local_search, plus_plus
from kcagc.cluster.local import Projection, Scaling, fit_projection
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import Filter, FilteredOperator, StoredFilter, filter_for_projection
from kcagc.graph.graph import AttributedGraph, Graph
from kcagc.protocol.arrays import Stored, restore, store
from kcagc.protocol.parameters import Parameters
from kcagc.protocol.seeds import random_for

LOCAL_STARTS = 10
ALL_THE_SAME = "features: all rows are the same once filtered and projected, so there is nothing to cluster"
_NO_DISTANCE = 1e-18  # squared, beside rows of the order of one: rounding


@dataclass(frozen=True, eq=False)
class PartyData:
    """One party's table on the graph, and the filter that smooths it."""

    graph: Graph
    features: Features
    filter: Filter

    @classmethod
    def build(cls, name: str, graph: Graph | Sparse, features: Features, filter: Filter) -> PartyData:  # noqa: A002
        """Check both; an error names the party."""
        try:
            checked = AttributedGraph.build(graph, features)
        except DataError as error:
            raise DataError(str(error), party=name) from error
        return cls(checked.graph, checked.features, filter)

    def check_values(self, name: str) -> None:
        """Refuse a table of zeros before anybody sends anything: nothing else makes all filtered rows the same.

        (But for tables of rank one, which are found out when they are clustered.)
        """
        if not (self.features.count_nonzero() if sparse.issparse(self.features) else self.features.any()):
            raise DataError(ALL_THE_SAME, party=name)

    def check_filter(self, name: str, agreed: str) -> None:
        """Refuse a filter that is not the one agreed on."""
        if repr(self.filter) != agreed:
            raise ParameterError(f"{name}: filter: {self.filter!r}, but {agreed} is agreed on")


class Embedder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How filtered rows become points: kept after a fit, and never fitted again, so that new rows land beside old."""

    basis: Stored
    singular_values: Stored
    noise_floor: float
    scaling: Scaling
    divisor: float

    @classmethod
    def fit(cls, filtered: AnyFloatArray | FilteredOperator, parameters: Parameters) -> Embedder:
        """Find the projection, and what to divide by."""
        projection = fit_projection(filtered, parameters.n_components)
        scaling, divisor = parameters.scaling, 1.0
        if scaling == "US":
            divisor = parameters.unit
        elif scaling == "unit" and projection.n_components == 1:
            # In one dimension unit length would leave a sign and nothing else: keep lengths, at most 1.
            scaling = "US"
            divisor = float(np.abs(projection.transform(filtered, "US")).max()) or 1.0
        return cls(store(projection.basis), store(projection.singular_values), projection.noise_floor, scaling, divisor)

    def rows(self, filtered: AnyFloatArray | FilteredOperator) -> FloatArray:
        """Project rows with the kept basis."""
        projection = Projection(restore(self.basis), restore(self.singular_values), self.noise_floor)
        return projection.transform(filtered, self.scaling) / self.divisor


class LocalResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a party brings into the joint computation.

    `n_clusters` is 0 where it has no local clusters; the starts (nodes proposed as first centres, n_starts × k) are
    empty where starts are found otherwise.
    """

    filter: StoredFilter
    embedder: Embedder
    stored_rows: Stored
    stored_labels: Stored
    n_clusters: int
    whole: bool  # every local cluster is one row, so that its number tells the row
    stored_starts: Stored

    @property
    def rows(self) -> FloatArray:
        """The party's points, n × q."""
        return restore(self.stored_rows)

    @property
    def labels(self) -> IntArray:
        """The local cluster of each node."""
        return restore(self.stored_labels)


def compute_local(data: PartyData, parameters: Parameters, seed: int) -> LocalResult:
    """Filter, project and, for the optimized method, cluster (Protocol 3, lines 1 to 3).

    Where a table has fewer distinct rows than local clusters are asked for, each distinct row is a cluster. For the
    basic method the party proposes starts: nodes that lie far apart in its own rows (Protocol 2, line 6).
    """
    stored = data.filter.fixed_on(data.graph).stored()
    filtered = filter_for_projection(stored.restore(data.filter), data.graph, data.features, parameters.n_components)
    embedder = Embedder.fit(filtered, parameters)
    rows = embedder.rows(filtered)
    del filtered
    if (rows == rows[0]).all():
        raise DataError(ALL_THE_SAME)
    labels, n_clusters, whole = np.zeros(0, dtype=np.int64), 0, False
    starts = np.zeros((0, parameters.n_clusters), dtype=np.int64)
    if parameters.method == "basic":
        if parameters.seeding == "common":
            proposals = [_proposal(rows, parameters.n_clusters, [seed, start]) for start in range(parameters.n_init)]
            starts = np.stack(proposals)
    else:
        found = fit_kmeans(rows, parameters.n_local_clusters, n_init=LOCAL_STARTS, random_state=seed, fewer=True)
        labels, n_clusters = found.labels, len(found.centers)
        whole = found.inertia <= _NO_DISTANCE * len(rows)
    return LocalResult(stored, embedder, store(rows), store(labels), n_clusters, whole, store(starts))


def _proposal(rows: FloatArray, k: int, seed: list[int]) -> IntArray:
    """Draw k nodes that lie far apart in one's own rows."""
    random = random_for(*seed)
    weights = np.ones(len(rows))
    return local_search(rows, weights, plus_plus(rows, weights, k, random), k, random)


def encode_local(result: LocalResult) -> bytes:
    """Write it for the store."""
    return msgspec.msgpack.encode(result)


def decode_local(stored: bytes) -> LocalResult:
    """Read what was stored."""
    return msgspec.msgpack.decode(stored, type=LocalResult)
