"""A party's own work: its checked data, its projected rows, its local clusters, and its part of the fitted model.

Filter, singular vectors and local k-means may differ in the last bits with other numbers of threads or other versions.
Their result is therefore computed once, stored, and reloaded on replay. All later messages follow from it, and another
vector under the same mask would reveal both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, Flags, FloatArray, IntArray, Sparse
from kcagc.cluster.joint import random_for
from kcagc.cluster.kmeans import fit_kmeans, local_search, plus_plus
from kcagc.cluster.lloyd import blocks_of, weighted_means
from kcagc.cluster.local import Projection, Scaling
from kcagc.engines import LOCAL, Engine, Smoothed
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import Filter, FilteredOperator, StoredFilter, filter_columns
from kcagc.graph.graph import AttributedGraph, Graph
from kcagc.protocol.agreement import graph_digest, ids_digest
from kcagc.protocol.effects import StoreResult
from kcagc.protocol.label_policy import N_BLOCKS, LabelMeasurement, measure_labels, observed_nodes
from kcagc.protocol.messages import Stored, restore, store
from kcagc.protocol.parameters import Parameters
from kcagc.secagg.keys import digest
from kcagc.text import listed

LOCAL_RESTARTS = 10
NO_VARIATION = "features: all rows are the same once filtered and projected, so there is nothing to cluster"
# Parameters that local labels do not depend on, and those that only proposed starts depend on.
_JOINT = frozenset(
    {
        "task",
        "model",
        "virtual_nodes",
        "fan_in",
        "aggregator",
        "max_iter",
        "graph",
        "joint_rows",
        "orders",
        "most_clusters",
    }
)
_OF_STARTS = frozenset({"n_clusters", "n_init"})
_ROUNDING = 1e-18  # a squared distance that is only rounding, for rows of length one


@dataclass(frozen=True, eq=False)
class PartyData:
    """One party's table on the graph, and the filter that smooths it."""

    graph: Graph
    features: Features
    filter: Filter
    columns: tuple[str, ...] = ()  # names for messages; empty if there are none
    engine: Engine = LOCAL

    @classmethod
    def build(
        cls,
        name: str,
        graph: Graph | Sparse,
        features: Features,
        filter: Filter,  # noqa: A002 - the word the paper uses
        columns: Sequence[str] = (),
        engine: Engine = LOCAL,
    ) -> PartyData:
        """Check graph and features; an error names the party."""
        try:
            checked = AttributedGraph.build(graph, features)
        except DataError as error:
            raise DataError(str(error), party=name) from error
        return cls(checked.graph, checked.features, filter, tuple(columns), engine)

    @cached_property
    def digest(self) -> bytes:
        """A digest of table and graph; a large table is hashed once."""
        parts: list[tuple[str, Any]] = [("<f8", self.features)]
        if sparse.issparse(self.features):
            rows = self.features.tocsr()
            parts = [("<i8", rows.indptr), ("<i8", rows.indices), ("<f8", rows.data)]
        # Not `digest` for the values: it would copy them.
        values = [hashlib.sha256(np.ascontiguousarray(part, dtype=kind).data).digest() for kind, part in parts]
        return digest("data", ids_digest(self.graph), graph_digest(self.graph), *self.features.shape, *values)

    def check_values(self, name: str) -> None:
        """Refuse a table of zeros before anything is sent.

        Only tables of rank one can also have equal rows after the filter; `compute_local` finds those.
        """
        if not (self.features.count_nonzero() if sparse.issparse(self.features) else self.features.any()):
            raise DataError(NO_VARIATION, party=name)

    def check_filter(self, name: str, agreed: str) -> None:
        """Refuse a filter that is not the agreed one."""
        if repr(self.filter) != agreed:
            raise ParameterError(f"{name}: filter: {self.filter!r}, but the parties agreed on {agreed}")


class Embedder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The projection of filtered rows, fitted once, so that new rows get coordinates of the same space."""

    basis: Stored
    singular_values: Stored
    noise_floor: float
    scaling: Scaling
    divisor: float

    def __repr__(self) -> str:
        """Return the size of the projection, without private data."""
        return f"Embedder({' × '.join(map(str, self.basis.shape))}, scaling {self.scaling})"

    @classmethod
    def fit(cls, engine: Engine, smoothed: Smoothed, parameters: Parameters) -> Embedder:
        """Fit the projection (Protocol 1, line 4), and choose the divisor of the rows."""
        projection = engine.singular_vectors(smoothed, parameters.n_components)
        scaling, divisor = parameters.scaling, 1.0
        if scaling == "US":
            divisor = parameters.unit
        elif scaling == "unit" and projection.n_components == 1:
            # In one dimension, rows of unit length would keep only their sign: keep lengths up to 1 instead.
            scaling = "US"
            divisor = float(np.abs(engine.project(smoothed, projection, "US")).max()) or 1.0
        return cls(store(projection.basis), store(projection.singular_values), projection.noise_floor, scaling, divisor)

    def without(self, columns: Flags) -> Embedder:
        """Return the same projection with these columns left out."""
        return msgspec.structs.replace(self, basis=store(np.where(columns[:, None], 0.0, restore(self.basis))))

    def rows(self, engine: Engine, smoothed: Smoothed) -> FloatArray:
        """Project rows with the fitted basis."""
        projection = Projection(restore(self.basis), restore(self.singular_values), self.noise_floor)
        rows = engine.project(smoothed, projection, self.scaling)
        return rows if self.divisor == 1.0 else rows / self.divisor


class LocalRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The party's points, n × q, and how its table became them; they do not leave the party."""

    filter: StoredFilter
    embedder: Embedder
    stored_rows: Stored


class LocalLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party sends about its nodes; it is kept, so that later sessions with these data send the same.

    `n_clusters` is 0 if the method has no local clusters; then nothing is measured. The starts (nodes proposed as
    initial centres, n_init × k) are empty unless the party proposes some.
    """

    stored_labels: Stored
    n_clusters: int
    whole: bool  # every local cluster is one distinct row, so that a label identifies the row
    measurement: LabelMeasurement | None
    stored_starts: Stored


class LocalResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a party brings into the joint computation: what stays, and what leaves."""

    filter: StoredFilter
    embedder: Embedder
    stored_rows: Stored
    stored_labels: Stored
    n_clusters: int
    whole: bool
    measurement: LabelMeasurement | None
    stored_starts: Stored

    @classmethod
    def of(cls, rows: LocalRows, labels: LocalLabels) -> Self:
        """Join both parts."""
        return cls(*msgspec.structs.astuple(rows), *msgspec.structs.astuple(labels))

    @property
    def rows(self) -> FloatArray:
        """The party's points, n × q."""
        return restore(self.stored_rows)

    @property
    def labels(self) -> IntArray:
        """The local label of each node."""
        return restore(self.stored_labels)


class ObservedRows:
    """Smoothed rows of the nodes whose labels are measured; they stay in memory and are computed again after a crash.

    The filter smooths each column alone. The smoothed table without some columns is therefore that of all columns with
    these left out, and nothing is smoothed again for a measurement.
    """

    def __init__(self, data: PartyData) -> None:
        self._data = data
        self._smoothed: AnyFloatArray | FilteredOperator | None = None  # rows of the observed nodes, or all as operator

    def keep(self, smoothed: Smoothed) -> None:
        """Keep the rows of a smoothed table; smoothed features of another form have no rows to keep."""
        self._smoothed = self._data.engine.take(smoothed, observed_nodes(self._data.graph))

    def project(self, stored: StoredFilter, embedder: Embedder) -> FloatArray:
        """Return the projected rows of the observed nodes."""
        if self._smoothed is None:
            self._smoothed = self._smooth(stored.restore(self._data.filter), *embedder.basis.shape)
        rows = embedder.rows(LOCAL, self._smoothed)
        return rows if isinstance(self._smoothed, np.ndarray) else rows[observed_nodes(self._data.graph)]

    def _smooth(self, chosen: Filter, n_columns: int, n_components: int) -> AnyFloatArray | FilteredOperator:
        graph, features = self._data.graph, self._data.features
        if n_columns <= N_BLOCKS * n_components:  # the operator smooths one vector for each component and each block
            smooth = chosen.prepare(graph, features.dtype)
            return filter_columns(smooth, features, features.dtype, rows=observed_nodes(graph))
        return FilteredOperator(features, features.T, chosen.prepare(graph, np.float64), np.dtype(np.float64))


async def local_result(name: str, data: PartyData, parameters: Parameters, seed: int) -> LocalResult:
    """Return the result of this session, with the labels of an earlier session with these data if there was one."""
    observed = ObservedRows(data)

    def project() -> bytes:
        try:
            return msgspec.msgpack.encode(compute_rows(data, parameters, observed))
        except DataError as error:
            raise DataError(str(error), party=name) from error

    rows = msgspec.msgpack.decode(await StoreResult("local rows", project), type=LocalRows)

    def cluster() -> bytes:
        try:
            return msgspec.msgpack.encode(compute_labels(data, rows, parameters, seed, observed))
        except DataError as error:
            raise DataError(str(error), party=name) from error

    kept = await StoreResult("local labels", cluster, keep=labels_key(data, parameters))
    return LocalResult.of(rows, msgspec.msgpack.decode(kept, type=LocalLabels))


def compute_local(data: PartyData, parameters: Parameters, seed: int) -> LocalResult:
    """Filter, project and, unless the method is basic, cluster (Protocol 3, lines 1 to 3, which run Protocol 1)."""
    observed = ObservedRows(data)
    rows = compute_rows(data, parameters, observed)
    return LocalResult.of(rows, compute_labels(data, rows, parameters, seed, observed))


def compute_rows(data: PartyData, parameters: Parameters, observed: ObservedRows | None = None) -> LocalRows:
    """Filter and project; keep in `observed` what the measurement of labels needs."""
    stored = data.filter.fixed_on(data.graph).stored()
    chosen = stored.restore(data.filter)
    smoothed = data.engine.smooth(chosen, data.graph, data.features, parameters.n_components)
    embedder = Embedder.fit(data.engine, smoothed, parameters)
    if observed is not None and parameters.method != "basic":
        observed.keep(smoothed)
    rows = embedder.rows(data.engine, smoothed)
    del smoothed  # the largest array
    if (rows == rows[0]).all():
        raise DataError(NO_VARIATION)
    return LocalRows(stored, embedder, store(rows))


def compute_labels(
    data: PartyData, own: LocalRows, parameters: Parameters, seed: int, observed: ObservedRows | None = None
) -> LocalLabels:
    """Cluster a party's rows, join small clusters with others, and measure what the labels reveal.

    A table with fewer distinct rows than local clusters gets one cluster for each distinct row. In the basic method a
    party proposes initial centres instead: nodes that are far apart in its own rows (Protocol 2, line 6).
    """
    rows: FloatArray = restore(own.stored_rows)
    if parameters.method == "basic":
        starts = np.stack([_proposal(rows, parameters.n_clusters, seed, one) for one in range(parameters.n_init)])
        return LocalLabels(store(np.zeros(0, dtype=np.int64)), 0, False, None, store(starts))
    found = data.engine.cluster(rows, parameters.n_local_clusters, n_init=LOCAL_RESTARTS, seed=seed)
    labels = join_small_clusters(rows, found.labels, parameters.min_local_size)
    n_clusters = int(labels.max()) + 1
    if n_clusters < min(2, len(found.centers)):
        raise DataError(
            f"min_local_size: {len(rows)} nodes do not form two local clusters of {parameters.min_local_size} nodes; "
            "use a smaller min_local_size, or more nodes"
        )
    whole = found.inertia <= _ROUNDING * len(rows) and n_clusters == len(found.centers)
    seen = observed or ObservedRows(data)

    def relabel(left_out: Flags) -> IntArray | None:
        some = seen.project(own.filter, own.embedder.without(left_out))
        if (some == some[0]).all():
            return None
        return fit_kmeans(some, n_clusters, n_init=1, random_state=seed, fewer=True).labels

    measurement = measure_labels(data.graph, data.features, labels, relabel)
    no_starts = store(np.zeros((0, parameters.n_clusters), dtype=np.int64))
    return LocalLabels(store(labels), n_clusters, whole, measurement, no_starts)


def join_small_clusters(rows: FloatArray, labels: IntArray, least: int) -> IntArray:
    """Join each cluster of fewer than `least` rows with the cluster of the nearest centre, the smallest first.

    Returns labels from 0 without gaps, in the order of the given ones. One cluster may be left.
    """
    sizes = np.bincount(labels)
    centers = weighted_means(rows, np.ones(len(rows)), labels, np.zeros((len(sizes), rows.shape[1])))
    into = np.arange(len(sizes))
    present = sizes > 0
    while np.count_nonzero(present) > 1:
        small = int(np.where(present, sizes, len(rows) + 1).argmin())
        if sizes[small] >= least:
            break
        present[small] = False
        distances = ((centers - centers[small]) ** 2).sum(axis=1)
        nearest = int(np.where(present, distances, np.inf).argmin())
        total = sizes[small] + sizes[nearest]
        centers[nearest] = (sizes[small] * centers[small] + sizes[nearest] * centers[nearest]) / total
        sizes[nearest], sizes[small] = total, 0
        into[into == small] = nearest
    return (np.cumsum(present) - 1)[into[labels]]


def labels_key(data: PartyData, parameters: Parameters) -> bytes:
    """Return a digest of everything that `LocalLabels` depend on, except for the seed."""
    basic = parameters.method == "basic"
    ignored = _JOINT if basic else _JOINT | _OF_STARTS
    used = {name: value for name, value in msgspec.structs.asdict(parameters).items() if name not in ignored}
    used["method"] = "basic" if basic else "local clusters"
    return digest("local labels", data.digest, msgspec.json.encode(used, order="sorted"))


def _proposal(rows: FloatArray, k: int, seed: int, restart: int) -> IntArray:
    """Draw k nodes that are far apart in the party's own rows."""
    random = random_for(seed, restart)
    weights = np.ones(len(rows))
    return local_search(rows, weights, plus_plus(rows, weights, k, random), k, random)


class JointModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party keeps of the joint method: the clusters with enough nodes, and what scores of new nodes need.

    `weights` (components × these clusters) are those of a run in which the coordinator saw rows. Otherwise the holders
    keep shares of the directions and centres, from which a prediction opens weights; other parties keep zeros.
    """

    scored: tuple[int, ...]
    widths: tuple[int, ...]
    weights: Stored | None
    directions: Stored
    centers: Stored

    def __repr__(self) -> str:
        """Return the sizes, without private data."""
        return f"JointModel({len(self.scored)} clusters, {listed([str(one) for one in self.widths])} components)"


class PartyModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One party's part of a fitted model, for new nodes; it holds private data of that party."""

    session: str
    party: str
    parameters: Parameters
    n_nodes: int
    filter: StoredFilter
    embedder: Embedder
    clusters: tuple[int, ...]
    stored_centers: Stored
    joint: JointModel | None = None

    def __repr__(self) -> str:
        """Return what kind of model this is, without private data."""
        found = f"{len(self.clusters)} clusters of {self.n_nodes:,} nodes, method {self.parameters.method}"
        return f"PartyModel({self.party}: {found}, session {self.session[:8]}…)"

    @classmethod
    def of(cls, session: bytes, party: str, parameters: Parameters, local: LocalResult, labels: IntArray) -> Self:
        """Keep the mean of the party's rows in every cluster that has nodes."""
        used, among = np.unique(labels, return_inverse=True)
        rows = local.rows
        centers = weighted_means(rows, np.ones(len(rows)), among, np.zeros((len(used), rows.shape[1])))
        clusters = tuple(int(cluster) for cluster in used)
        fitted = (local.filter, local.embedder, clusters, store(centers))
        return cls(session.hex(), party, parameters, len(labels), *fitted)

    @property
    def centers(self) -> FloatArray:
        """The centres in this party's coordinates, one row for each of `clusters`."""
        return restore(self.stored_centers)

    def mean_distance(self, rows: FloatArray, labels: IntArray) -> float:
        """Return the mean squared distance of rows to the centres of their clusters, in this party's coordinates."""
        centers, squares = self.centers, np.empty(len(rows))
        for block in blocks_of(rows):
            away = rows[block] - centers[np.searchsorted(self.clusters, labels[block])]
            squares[block] = np.sum(away * away, axis=1)
        return float(np.mean(squares))
