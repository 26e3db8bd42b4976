"""Protocol 1: a party filters its features, projects them and clusters the rows, without any message.

The projection uses the top q right singular vectors (line 4). With X̄ = U S Vᵀ, a party keeps V and the singular values,
so that new rows can be projected in the same way. Projected rows have one of three scalings:

- "U": X̄ V S⁻¹ = U, the unscaled left singular vectors; the figures of the paper need this;
- "US": X̄ V = U S, the projection itself, with the distances of the features;
- "unit": rows of U S divided by their length; the most accurate on the public graphs, and insensitive to q.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, svds

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray, Labels, Sparse, check_choice, check_count
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.lloyd import ROUNDING, KMeansResult, blocks_of, one_blas_thread, squared_distances, squared_norms
from kcagc.errors import DataError, ParameterError
from kcagc.graph.filters import Filter, FilteredOperator, filter_for_projection
from kcagc.graph.graph import AttributedGraph, Graph

Scaling = Literal["unit", "U", "US"]

_ROWS = 1 << 16  # rows of a float64 copy held at a time
_GRAM_LARGEST = 10_000  # a larger Gram matrix is never formed
_GRAM_ALWAYS = 1_000  # one up to this size always; between both, if more than 1/50 of the spectrum is wanted
_GRAM_FLOOR = 1e-4  # below this share of the largest singular value, the vectors of a Gram matrix are noise
_NOISE = 1e-12  # a projected row this much shorter than typical is a rounding error (in float64)
_MANY = 4e9  # multiplications of a Gram matrix (some tenths of a second) from which on threads pay off
_SAFE = 1e100  # squares of larger numbers, and of numbers below its inverse, may leave the range of float64


@dataclass(frozen=True, eq=False)
class Projection:
    """The map X̄ ↦ X̄ V onto q singular vectors.

    Attributes
    ----------
    basis : ndarray of shape (m, q)
        The right singular vectors V.
    singular_values : ndarray of shape (q,)
        The singular values, in falling order.
    noise_floor : float
        The length below which a projected row counts as zero.
    n_components : int
        q, the number of singular vectors.

    Examples
    --------
    >>> fit_projection(np.diag([3.0, 2.0, 1.0]), 2).transform(np.array([[0.0, 5.0, 5.0]]), "US")
    array([[0., 5.]])
    """

    basis: FloatArray
    singular_values: FloatArray
    noise_floor: float

    @property
    def n_components(self) -> int:
        """The number of singular vectors: as many as requested, or the rank if that is smaller."""
        return int(self.basis.shape[1])

    def transform(self, filtered: AnyFloatArray | FilteredOperator, scaling: Scaling = "unit") -> FloatArray:
        """Project rows; a zero row stays zero.

        Parameters
        ----------
        filtered : ndarray or FilteredOperator of shape (n, m)
            Filtered features.
        scaling : {"unit", "U", "US"}, default="unit"
            The scaling of the projected rows.

        Returns
        -------
        ndarray of shape (n, q)
        """
        return self.scaled(_times(filtered, self.basis), scaling)

    def scaled(self, projected: FloatArray, scaling: Scaling) -> FloatArray:
        """Scale the rows X̄ V, in place where possible."""
        check_choice("scaling", scaling, get_args(Scaling))
        if scaling == "U":
            used = self.singular_values > 0
            return projected * np.divide(1.0, self.singular_values, out=np.zeros_like(self.singular_values), where=used)
        if scaling == "unit":
            unit = max(float(np.abs(projected).max(initial=0.0)) / _SAFE, 1.0)  # squares of larger numbers overflow
            projected /= unit
            length = np.linalg.norm(projected, axis=1)
            short = length <= self.noise_floor / unit
            projected[short], length[short] = 0.0, 1.0
            projected /= length[:, None]  # a division, so that one column gives exactly ±1
        return projected


def fit_projection(filtered: AnyFloatArray | FilteredOperator, n_components: int) -> Projection:
    """X̄ = U S Vᵀ: compute the top q right singular vectors V.

    The computation is deterministic, and the sign of each vector is fixed: its largest entry is positive. Vectors with
    equal singular values are only determined up to a rotation among themselves.

    Parameters
    ----------
    filtered : ndarray or FilteredOperator of shape (n, m)
        Filtered features X̄.
    n_components : int
        q. The result has fewer vectors where the rank is smaller, but at least one.

    Returns
    -------
    Projection

    Examples
    --------
    >>> fit_projection(np.diag([3.0, 2.0, 1.0]), 2).singular_values
    array([3., 2.])
    """
    check_count("n_components", n_components)
    n, m = filtered.shape
    small = isinstance(filtered, FilteredOperator) or n * m * min(n, m) < _MANY
    with one_blas_thread() if small else nullcontext():
        if isinstance(filtered, FilteredOperator):
            wanted = _by_operator(filtered, n_components)
            return _fit_table(filtered.to_dense(), n_components) if wanted is None else truncated(*wanted, filtered)
        return _fit_table(filtered, n_components)


def _fit_table(filtered: AnyFloatArray, n_components: int) -> Projection:
    largest = max(float(filtered.max()), -float(filtered.min()))
    if largest == 0:
        return Projection(np.eye(filtered.shape[1], 1), np.zeros(1), 0.0)
    if not in_range(largest):
        scaled = _fit_table(filtered / largest, n_components)
        return Projection(scaled.basis, scaled.singular_values * largest, scaled.noise_floor * largest)
    wanted = min(n_components, *filtered.shape)
    if not uses_gram(filtered.shape, wanted):
        basis, values = _by_lanczos(filtered, wanted)
    else:
        basis, values = _by_gram(filtered, wanted)
        if not trusted(values):
            basis, values = _by_qr(filtered, wanted)
    return truncated(basis, values, filtered)


def uses_gram(shape: tuple[int, int], wanted: int) -> bool:
    """Return whether the smaller Gram matrix of a table is the way to so many singular vectors."""
    side = min(shape)
    return side <= _GRAM_ALWAYS or (side <= _GRAM_LARGEST and wanted > side // 50)


def in_range(largest: float) -> bool:
    """Return whether squares of numbers of this magnitude stay in the range of float64."""
    return 1 / _SAFE < largest < _SAFE


def trusted(values: FloatArray) -> bool:
    """Return whether singular values that a Gram matrix gave are large enough to be exact."""
    return bool(values[-1] >= _GRAM_FLOOR * values[0])


def truncated(basis: FloatArray, values: FloatArray, filtered: Any) -> Projection:
    """Return the projection on as many vectors as the rank allows, with fixed signs.

    `filtered` is anything with a shape and a dtype. Rounding errors of the features, which are large in float32, look
    like additional rank.
    """
    rounding = 64 * float(np.finfo(filtered.dtype).eps)
    rank = int(np.count_nonzero(values > values[0] * max(max(filtered.shape) * np.finfo(np.float64).eps, rounding)))
    basis, values = _sign_fixed(basis[:, :rank]), values[:rank]
    typical = float(np.linalg.norm(values)) / filtered.shape[0] ** 0.5  # root mean square length of a projected row
    return Projection(basis, values, max(_NOISE, rounding) * typical)


def _by_gram(filtered: AnyFloatArray, q: int) -> tuple[FloatArray, FloatArray]:
    """Diagonalise the smaller of X̄ᵀX̄ and X̄X̄ᵀ, then compute the singular values from the projected rows."""
    n, m = filtered.shape
    if m <= n:
        gram = np.zeros((m, m))
        for start in range(0, n, _ROWS):
            rows = filtered[start : start + _ROWS].astype(np.float64, copy=False)
            gram += rows.T @ rows
        _, basis = linalg.eigh(gram, subset_by_index=(m - q, m - 1))
        basis = basis[:, ::-1]
    else:
        rows = filtered.astype(np.float64, copy=False)
        _, left = linalg.eigh(rows @ rows.T, subset_by_index=(n - q, n - 1))
        basis, _ = np.linalg.qr(rows.T @ left[:, ::-1])
    # Rayleigh-Ritz: singular vectors and values within this subspace, to working accuracy.
    _, values, turn = linalg.svd(np.linalg.qr(_times(filtered, basis), mode="r"))
    return basis @ turn.T, values


def _by_qr(filtered: AnyFloatArray, q: int) -> tuple[FloatArray, FloatArray]:
    """Compute the SVD of the triangular factor: twice the work of a Gram matrix, accurate for small values too."""
    rows = filtered.astype(np.float64, copy=False)
    if rows.shape[0] >= rows.shape[1]:
        _, values, right = linalg.svd(np.linalg.qr(rows, mode="r"))
        return right[:q].T, values[:q]
    turned, triangle = np.linalg.qr(rows.T)
    left, values, _ = linalg.svd(triangle, full_matrices=False)
    return turned @ left[:, :q], values[:q]


def _by_lanczos(filtered: AnyFloatArray, q: int) -> tuple[FloatArray, FloatArray]:
    rows = filtered.astype(np.float64, copy=False)
    start = np.random.default_rng(0).standard_normal(min(rows.shape))  # fixed, so that the result is deterministic
    _, values, right = svds(rows, k=q, v0=start, return_singular_vectors="vh")
    order = np.argsort(values)[::-1]
    return right[order].T, values[order]


def _by_operator(filtered: FilteredOperator, q: int) -> tuple[FloatArray, FloatArray] | None:
    """Compute eigenvectors of X̄ᵀX̄ without X̄; return None if that loses digits or does not converge."""
    m = filtered.shape[1]
    largest = float(np.abs(filtered.features.data).max(initial=0.0))
    if not in_range(largest):
        return None
    start = np.random.default_rng(0).standard_normal(m)
    operator = LinearOperator((m, m), matvec=filtered.normal, dtype=np.float64)
    try:
        squares, basis = eigsh(operator, k=q, v0=start)
    except ArpackNoConvergence:
        return None
    order = np.argsort(squares)[::-1]
    values = np.sqrt(np.maximum(squares[order], 0.0))
    return (basis[:, order], values) if trusted(values) else None


def _times(filtered: AnyFloatArray | FilteredOperator, basis: FloatArray) -> FloatArray:
    """Multiply in float64, one block of rows at a time, so that float32 features are not copied as a whole."""
    if isinstance(filtered, FilteredOperator):
        return filtered.times(basis)
    if filtered.dtype == np.float64:
        return np.asarray(filtered @ basis, dtype=np.float64)
    result = np.empty((filtered.shape[0], basis.shape[1]))
    for start in range(0, filtered.shape[0], _ROWS):
        result[start : start + _ROWS] = filtered[start : start + _ROWS].astype(np.float64) @ basis
    return result


def _sign_fixed(basis: FloatArray) -> FloatArray:
    """Return the columns with signs such that the first entry of largest magnitude is positive."""
    magnitude = np.abs(basis)
    first = (magnitude >= magnitude.max(axis=0) * (1 - 1e-8)).argmax(axis=0)
    largest = np.take_along_axis(basis, first[None, :], axis=0)
    return np.ascontiguousarray(basis * np.where(largest < 0, -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class LocalClusters:
    """The result of Protocol 1.

    Attributes
    ----------
    projection : Projection
        The singular vectors, for further rows.
    embedding : ndarray of shape (n_nodes, q)
        The projected rows.
    clusters : KMeansResult
        The clusters of the projected rows.
    labels : ndarray of shape (n_nodes,)
        The local label of each node.

    Examples
    --------
    >>> from kcagc.graph import HalfFilter
    >>> cluster_locally(np.eye(9), np.eye(9), 2, filter=HalfFilter(0), random_state=0)
    LocalClusters(2 clusters of 9 nodes in 2 dimensions)
    """

    projection: Projection
    embedding: FloatArray
    clusters: KMeansResult

    @property
    def labels(self) -> Labels:
        """The local label of each node, from 0."""
        return self.clusters.labels

    def __repr__(self) -> str:
        n, q = self.embedding.shape
        return f"LocalClusters({len(self.clusters.centers)} clusters of {n:,} nodes in {q} dimensions)"


def cluster_locally(
    graph: Graph | Sparse,
    features: Features,
    n_clusters: int,
    *,
    filter: Filter,  # noqa: A002 - the name in the paper and in the estimators
    n_components: int | None = None,
    scaling: Scaling = "unit",
    margin: bool = True,
    n_init: int = 10,
    max_iter: int = 100,
    random_state: Any = None,
    n_threads: int | None = None,
) -> LocalClusters:
    """Run Protocol 1 on the features of one party: filter, project, cluster.

    Lloyd runs on projected rows. The paper prints it on unprojected features, but its figures need the projection.

    Parameters
    ----------
    graph : Graph or sparse matrix of shape (n_nodes, n_nodes)
        The graph.
    features : array-like or sparse matrix of shape (n_nodes, n_features)
        The features of the party.
    n_clusters : int
        The number of local clusters.
    filter : Filter
        The filter, such as ``HalfFilter(2)``.
    n_components : int, default=None
        The number of singular vectors. None means `n_clusters`.
    scaling : {"unit", "U", "US"}, default="unit"
        The scaling of the projected rows.
    margin : bool, default=True
        Whether to run the initial assignment with margin 9 (lines 5 to 13).
    n_init : int, default=10
        The number of restarts of k-means.
    max_iter : int, default=100
        The largest number of Lloyd iterations of a restart.
    random_state : int, RandomState or None, default=None
        The seed. None draws a fresh one.
    n_threads : int, default=None
        The number of threads of the filter. None takes the number of cores.

    Returns
    -------
    LocalClusters

    Raises
    ------
    DataError
        If the graph or the features are unusable, or there are fewer distinct rows than clusters.

    Examples
    --------
    >>> from kcagc.graph import HalfFilter
    >>> cluster_locally(np.eye(4), [[1.0], [1.1], [9.0], [9.1]], 2, filter=HalfFilter(1), scaling="US").labels.shape
    (4,)
    """
    if not isinstance(filter, Filter):
        raise ParameterError(f"filter: must be a filter such as HalfFilter(2), not {filter!r}")
    check_count("n_clusters", n_clusters)
    check_count("n_threads", n_threads, optional=True)
    n_components = n_clusters if n_components is None else n_components
    data = AttributedGraph.build(graph, features)
    filtered = filter_for_projection(filter, data.graph, data.features, n_components, n_threads=n_threads)
    projection = fit_projection(filtered, n_components)
    embedding = projection.transform(filtered, scaling)
    del filtered  # the largest array, no longer needed
    options: dict[str, Any] = {"margin": margin, "n_init": n_init, "max_iter": max_iter, "random_state": random_state}
    return cluster_rows(projection, embedding, n_clusters, scaling=scaling, **options)


def cluster_rows(
    projection: Projection, embedding: FloatArray, n_clusters: int, *, scaling: Scaling, **options: Any
) -> LocalClusters:
    """Run `fit_kmeans` with these options on projected rows."""
    try:
        found = fit_kmeans(embedding, n_clusters, **options)
    except DataError as error:
        if scaling == "unit" and projection.n_components == 1:
            hint = 'in one dimension all rows of unit length are 1, -1 or 0; use scaling="US"'
            raise DataError(f"{error}; {hint}") from error
        raise
    return LocalClusters(projection, embedding, found)


@dataclass(frozen=True, eq=False)
class CenterDistances:
    """Squared distances of each row to the centre of its cluster and to the nearest other one, free of rounding errors.

    `other` is the cluster of the nearest other centre. With a single centre there is none: it is -1, at an infinite
    distance. Equal distances (up to rounding) are exactly equal.
    """

    to_own: FloatArray
    to_other: FloatArray
    other: IntArray


def center_distances(
    rows: FloatArray, centers: FloatArray, clusters: Sequence[int], labels: IntArray
) -> CenterDistances:
    """Compare the distances of rows to the centres of clusters; `clusters` holds the label of each centre."""
    known = np.asarray(clusters, dtype=np.int64)
    if len(known) != len(centers) or len(labels) != len(rows):
        raise DataError(
            f"confidence: {len(known)} clusters for {len(centers)} centres, {len(labels)} labels for {len(rows)} rows"
        )
    order = np.argsort(known)
    own = order[np.minimum(np.searchsorted(known[order], labels), len(known) - 1)]
    if len(labels) and (known[own] != labels).any():
        raise DataError(f"confidence: cluster {int(labels[known[own] != labels][0])} has no centre")
    n = len(rows)
    found = CenterDistances(np.zeros(n), np.full(n, np.inf), np.full(n, -1, dtype=np.int64))
    scale = float(squared_norms(centers).max())
    for block in blocks_of(rows):
        squared = squared_distances(rows[block], centers)
        each = np.arange(len(squared))
        to_own = squared[each, own[block]].copy()
        # A distance, or a difference of two, below this is a rounding error.
        exact = ROUNDING * (squared_norms(rows[block]) + scale)
        to_own = np.where(to_own <= exact, 0.0, to_own)
        found.to_own[block] = to_own
        if len(centers) > 1:
            squared[each, own[block]] = np.inf
            other = squared.argmin(axis=1)
            to_other = squared[each, other]
            found.to_other[block] = np.where(np.abs(to_other - to_own) <= exact, to_own, to_other)
            found.other[block] = known[other]
    return found


def confidence(rows: FloatArray, centers: FloatArray, clusters: Sequence[int], labels: IntArray) -> FloatArray:
    """Return how clearly each row belongs to its cluster in one party's coordinates, from 0 to 1.

        confidence = max(0, 1 - d(own centre) / d(nearest other centre))

    with Euclidean distances between the party's filtered and projected rows and the mean of these rows in each cluster.
    1 means that the node lies on the centre of its cluster, 0 that another centre is equally near or nearer. The
    joint clusters were chosen from the distances of all parties, so a node with 0 can be in the right cluster.
    `clusters` holds the label of each centre. With a single centre every row has confidence 1.
    """
    return confidence_of(center_distances(rows, centers, clusters, labels))


def confidence_of(distances: CenterDistances) -> FloatArray:
    """Return the confidence of rows whose distances are known; see `confidence`."""
    further = distances.to_own < distances.to_other
    ratio = np.divide(distances.to_own, distances.to_other, out=np.ones(len(further)), where=further)
    return 1.0 - np.sqrt(ratio)
