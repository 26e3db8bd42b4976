"""The interface of a party's own work, and the engine that does it in this process.

A run never looks at the features itself. It asks the engine of the party to smooth them, to find singular vectors, to
project rows, to cluster rows and to average them. Another engine may keep the features elsewhere, for example in the
partitions of a cluster of machines; what it returns must agree with the local engine within rounding.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray
from kcagc.cluster.kmeans import fit_kmeans
from kcagc.cluster.lloyd import KMeansResult, weighted_means
from kcagc.cluster.local import Projection, Scaling, fit_projection
from kcagc.graph.filters import Filter, FilteredOperator, filter_for_projection
from kcagc.graph.graph import Graph

Smoothed = Any  # smoothed features, in whatever form the engine holds them


class Engine(Protocol):
    """Where a party's own work runs."""

    name: str

    def smooth(self, chosen: Filter, graph: Graph, features: Features, n_components: int | None = None) -> Smoothed:
        """Smooth the features; with `n_components`, only as far as so many singular vectors need it."""

    def singular_vectors(self, smoothed: Smoothed, n_components: int) -> Projection:
        """Return the top right singular vectors of smoothed features."""

    def project(self, smoothed: Smoothed, projection: Projection, scaling: Scaling) -> FloatArray:
        """Return the projected rows, n × q."""

    def cluster(self, rows: FloatArray, n_clusters: int, *, n_init: int, seed: int) -> KMeansResult:
        """Cluster rows; fewer distinct rows than clusters give one cluster for each."""

    def means(self, rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
        """Return the mean row of each of `count` labels; zero for a label without rows."""

    def take(self, smoothed: Smoothed, nodes: IntArray) -> AnyFloatArray | None:
        """Return the smoothed rows of some nodes; None if the smoothed features are not a table."""


class LocalEngine:
    """Do everything in this process, with NumPy and SciPy."""

    name = "local"

    def smooth(self, chosen: Filter, graph: Graph, features: Features, n_components: int | None = None) -> Smoothed:
        """Smooth the features: as a table, or as an operator where that is cheaper."""
        if n_components is None:
            return chosen.apply(graph, features)
        return filter_for_projection(chosen, graph, features, n_components)

    def singular_vectors(self, smoothed: AnyFloatArray | FilteredOperator, n_components: int) -> Projection:
        """Return the top right singular vectors of smoothed features."""
        return fit_projection(smoothed, n_components)

    def project(
        self, smoothed: AnyFloatArray | FilteredOperator, projection: Projection, scaling: Scaling
    ) -> FloatArray:
        """Return the projected rows, n × q."""
        return projection.transform(smoothed, scaling)

    def cluster(self, rows: FloatArray, n_clusters: int, *, n_init: int, seed: int) -> KMeansResult:
        """Cluster rows; fewer distinct rows than clusters give one cluster for each."""
        return fit_kmeans(rows, n_clusters, n_init=n_init, random_state=seed, fewer=True)

    def means(self, rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
        """Return the mean row of each of `count` labels; zero for a label without rows."""
        return weighted_means(rows, np.ones(len(rows)), labels, np.zeros((count, rows.shape[1])))

    def take(self, smoothed: Smoothed, nodes: IntArray) -> AnyFloatArray | None:
        """Return the smoothed rows of some nodes; None if the smoothed features are not a table."""
        return smoothed[nodes] if isinstance(smoothed, np.ndarray) else None


LOCAL = LocalEngine()
