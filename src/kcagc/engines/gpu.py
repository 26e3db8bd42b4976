"""The engine that works on a GPU, with CuPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy import linalg

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray
from kcagc.cluster.lloyd import KMeansResult
from kcagc.cluster.local import Projection, Scaling, in_range, truncated, trusted, uses_gram
from kcagc.engines.device_kmeans import MANY, cluster_on_device
from kcagc.engines.device_table import DeviceGraph, DeviceTable, scaled_rows, smooth_on_device, to_host
from kcagc.engines.engine import LOCAL, LocalEngine, Smoothed
from kcagc.errors import ParameterError
from kcagc.graph.filters import Filter
from kcagc.graph.graph import Graph

_SHARE = 0.8  # of the free memory of the GPU that a table may take


@lru_cache(maxsize=1)
def _cupy() -> Any:
    """Return CuPy, or raise an error that says what is missing."""
    try:
        import cupy  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ParameterError(
            f"engine: 'gpu' needs CuPy, which cannot be imported here ({error}). Install kcagc[gpu] on a machine with "
            'an NVIDIA GPU, or use engine = "local"'
        ) from error
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise ParameterError(f"engine: 'gpu' found no GPU ({error}); use engine = \"local\"") from error
    if not count:
        raise ParameterError("engine: 'gpu' found no GPU; use engine = \"local\"")
    return cupy


class GpuEngine(LocalEngine):
    """Filter, project and cluster on one GPU; what it cannot do there, it does in this process.

    A filter of a class of your own runs in this process. A table that does not fit beside the graph is filtered in
    slices of columns, and held in the memory of the host.

    Parameters
    ----------
    memory : int, default=None
        The memory of the GPU in bytes that a table may take. None takes four fifths of what is free.
    xp : module, default=None
        The array library. None imports CuPy.
    """

    name = "gpu"

    def __init__(self, *, memory: int | None = None, xp: Any = None) -> None:
        self._xp = _cupy() if xp is None else xp
        self._memory = memory
        self._last: tuple[Graph, DeviceGraph] | None = None

    def smooth(self, chosen: Filter, graph: Graph, features: Features, n_components: int | None = None) -> Smoothed:
        """Smooth the features on the GPU."""
        fixed = chosen.fixed_on(graph)
        if fixed.mix is None:
            return super().smooth(chosen, graph, features, n_components)
        return smooth_on_device(self._xp, fixed, self._held(graph, features.dtype), features, room=self._room())

    def _held(self, graph: Graph, dtype: Any) -> DeviceGraph:
        """Return the graph on the GPU; the last one stays there, because a run filters on it several times."""
        if self._last is None or self._last[0] is not graph or self._last[1].dtype != np.dtype(dtype):
            self._last = None  # frees the memory first
            self._last = graph, DeviceGraph(self._xp, graph, dtype)
        return self._last[1]

    def _room(self) -> int | None:
        if self._memory is not None or self._xp is np:
            return self._memory
        self._xp.get_default_memory_pool().free_all_blocks()
        return int(_SHARE * self._xp.cuda.runtime.memGetInfo()[0])

    def singular_vectors(self, smoothed: Smoothed, n_components: int) -> Projection:
        """Return the top right singular vectors of smoothed features."""
        if not isinstance(smoothed, DeviceTable):
            return super().singular_vectors(smoothed, n_components)
        (n, m), xp = smoothed.shape, self._xp
        wanted = min(n_components, n, m)
        if m > n or not uses_gram((n, m), wanted) or not in_range(smoothed.largest()):
            return super().singular_vectors(smoothed.to_host(), n_components)
        _, vectors = xp.linalg.eigh(smoothed.gram())
        basis = vectors[:, ::-1][:, :wanted]
        # Rayleigh-Ritz: singular vectors and values within this subspace, to working accuracy.
        triangle = _triangle(xp, smoothed.times(basis))
        if triangle is None:
            return super().singular_vectors(smoothed.to_host(), n_components)
        _, values, turn = linalg.svd(triangle)
        if not trusted(values):
            return super().singular_vectors(smoothed.to_host(), n_components)
        return truncated(to_host(basis) @ turn.T, values, smoothed)

    def project(self, smoothed: Smoothed, projection: Projection, scaling: Scaling) -> FloatArray:
        """Return the projected rows, n × q."""
        if not isinstance(smoothed, DeviceTable):
            return super().project(smoothed, projection, scaling)
        projected = smoothed.times(projection.basis)
        found: FloatArray = to_host(
            scaled_rows(self._xp, projected, projection.singular_values, projection.noise_floor, scaling)
        )
        return found

    def cluster(self, rows: FloatArray, n_clusters: int, *, n_init: int, seed: int) -> KMeansResult:
        """Cluster rows; fewer distinct rows than clusters give one cluster for each."""
        found = None
        if len(rows) > MANY:
            found = cluster_on_device(self._xp, rows, n_clusters, n_init=n_init, seed=seed)
        return found or LOCAL.cluster(rows, n_clusters, n_init=n_init, seed=seed)

    def take(self, smoothed: Smoothed, nodes: IntArray) -> AnyFloatArray | None:
        """Return the rows of some nodes; None if the smoothed features are not a table."""
        return smoothed.take(nodes) if isinstance(smoothed, DeviceTable) else super().take(smoothed, nodes)


def _triangle(xp: Any, columns: Any) -> FloatArray | None:
    """Return R of columns = Q R, by two Cholesky factorisations; None if the columns nearly depend on each other.

    The second factorisation restores the digits that the first one loses. On a GPU both take a fraction of the time of
    Householder reflections.
    """
    whole = np.eye(columns.shape[1])
    for _ in range(2):
        try:
            factor = linalg.cholesky(to_host(columns.T @ columns))
        except linalg.LinAlgError:
            return None
        whole = factor @ whole
        columns = columns @ xp.asarray(linalg.solve_triangular(factor, np.eye(len(factor))))
    return whole
