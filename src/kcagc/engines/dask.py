"""The engine that works on a Dask cluster: the machines of one party, or worker processes on its own machine."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, svds

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray
from kcagc.cluster.local import Projection, Scaling, fit_projection, in_range, truncated, trusted, uses_gram
from kcagc.engines.cluster import Cluster, ClusterSettings, import_distributed
from kcagc.engines.engine import LocalEngine, Smoothed
from kcagc.engines.pieces import (
    Layout,
    digest_of_matrix,
    digest_of_table,
    filter_slice,
    gram_of,
    is_done,
    make_folder,
    rows_of,
    save,
    times_of,
    transposed_times_of,
    triangle,
    triangle_of,
    write_graph,
    write_slices,
)
from kcagc.errors import EngineError
from kcagc.graph.filters import Filter, HalfFilter, NormFilter, operator_is_cheaper
from kcagc.graph.graph import Graph
from kcagc.graph.laplacian import BLOCK_COLUMNS
from kcagc.text import size

_ENTRY = 12  # bytes of an entry of a graph: a neighbour and a weight
_GRAPH_SHARE = 16  # a block of a graph takes this part of the room of a task
_PIECE_SHARE = 6  # and some rows with all columns this part
_COPIES = 3  # of a slice that a filter holds: before and after a product, and room for a block of rows
_MORE_COPIES = 7  # those of a Chebyshev filter

FILTERING = "filtering columns on the cluster"  # the stage that takes longest
_VECTORS = "singular vectors on the cluster"

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class DaskTable:
    """Filtered features, n × m, as pieces in the folder of a cluster."""

    cluster: Cluster
    layout: Layout
    folder: Path
    largest: float
    report: Progress
    _numbers: Any = field(default_factory=count)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the table."""
        return self.layout.n, self.layout.m

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the features were filtered."""
        return np.dtype(self.layout.dtype)

    @property
    def divisor(self) -> float:
        """What values are divided by, so that squares stay in the range of float64."""
        return 1.0 if in_range(self.largest) or self.largest == 0 else self.largest

    def each(self, function: Callable[..., Any], *values: Any, stage: str, operand: Any = None) -> list[Any]:
        """Call a function with the folder, the layout, these values and the number of a piece, for every piece.

        `operand` is an array that all tasks need: they get its file, or "" without one.
        """
        path = self.folder / f"operand-{next(self._numbers)}.npy"
        if operand is not None:
            save(path, operand)
        name = "" if operand is None else str(path)
        items = [(str(self.folder), self.layout, *values, name, piece) for piece in range(len(self.layout.pieces))]
        try:
            return self.cluster.run(function, items, partial(self.report, stage))
        finally:
            path.unlink(missing_ok=True)

    def times(self, vectors: FloatArray, *, stage: str, divisor: float = 1.0) -> FloatArray:
        """Return X̄ times vectors; X̄ is divided by a number."""
        return np.concatenate(self.each(times_of, divisor, stage=stage, operand=vectors))

    def transposed_times(self, vectors: FloatArray, *, stage: str, divisor: float = 1.0) -> FloatArray:
        """Return X̄ᵀ times vectors; X̄ is divided by a number."""
        found: FloatArray = reduce(np.add, self.each(transposed_times_of, divisor, stage=stage, operand=vectors))
        return found

    def gram(self, *, stage: str) -> FloatArray:
        """Return X̄ᵀ X̄ of the divided table: the sum of those of all pieces."""
        found: FloatArray = reduce(np.add, self.each(gram_of, self.divisor, stage=stage))
        return found

    def triangle(self, basis: FloatArray | None, *, stage: str) -> FloatArray:
        """Return R of Q R = X̄ V, or of X̄, divided: each piece gives one, and those are reduced together."""
        return triangle(np.concatenate(self.each(triangle_of, self.divisor, stage=stage, operand=basis)))

    def take(self, nodes: IntArray) -> AnyFloatArray:
        """Return the rows of some nodes."""
        order = np.argsort(nodes, kind="stable")
        found = np.concatenate(self.each(rows_of, stage="reading filtered rows", operand=nodes[order]))
        rows: AnyFloatArray = np.empty_like(found)
        rows[order] = found
        return rows


class DaskEngine(LocalEngine):
    """Filter and project on a Dask cluster; cluster the projected rows in this process.

    The table and the graph lie in pieces in a folder that this process and all workers see. No worker holds the table
    or the graph: it filters some columns with one block of the graph after the other, and reads all columns of some
    rows only. One column must fit a worker three times. Projected rows come to this process, where they are clustered.

    A filter of a class of your own, and a sparse table that is cheaper to project without filtering its columns, are
    worked on in this process.

    Parameters
    ----------
    scheduler : str, default=""
        The address of a scheduler, such as ``tls://scheduler.bank.example:8786``. Empty starts a local cluster.
    ca, certificate, key : str, default=""
        The TLS files of this client, for a scheduler on another machine.
    folder : str, default=""
        The folder that this machine and all workers see. Needed with `scheduler`; otherwise empty takes a temporary
        folder. In a named folder, the pieces of an interrupted run stay, and the next run goes on from them.
    workers : int, default=None
        The number of processes of a local cluster. None takes the number of cores.
    memory : str or int, default=None
        The memory limit of each process of a local cluster, such as "2.5GiB". None divides the memory of the machine.
    worker_timeout : float, default=300
        The seconds to wait for a worker if there is none.
    client : distributed.Client, default=None
        A connected client, instead of `scheduler`; it stays open.

    Examples
    --------
    >>> from kcagc.engines.dask import DaskEngine
    >>> DaskEngine(workers=2, memory="2.5GiB")
    DaskEngine(workers=2, memory='2.5GiB')
    """

    name = "dask"

    def __init__(
        self,
        *,
        scheduler: str = "",
        ca: str = "",
        certificate: str = "",
        key: str = "",
        folder: str = "",
        workers: int | None = None,
        memory: str | int | None = None,
        worker_timeout: float = 300.0,
        client: Any = None,
    ) -> None:
        import_distributed()
        self._settings = ClusterSettings(scheduler, ca, certificate, key, folder, workers, memory, worker_timeout)
        self._client = client
        self._cluster: Cluster | None = None
        self._numbers = count()
        self._source: tuple[Features, Layout, Path] | None = None
        self._matrix: tuple[Graph, Filter, str, Path | None] | None = None
        self._tables: weakref.WeakValueDictionary[Path, DaskTable] = weakref.WeakValueDictionary()
        self.on_progress: Progress | None = None  # called with a stage, what is done of it, and its total

    def __repr__(self) -> str:
        """Return the settings that are not the default."""
        default = ClusterSettings()
        given = {name: value for name, value in vars(self._settings).items() if value != getattr(default, name)}
        return f"DaskEngine({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return an engine with the same settings and a connection of its own."""
        return type(self)(**vars(self._settings), client=self._client)

    def connect(self) -> Cluster:
        """Connect to the cluster, or start it, and check that its workers can do the work.

        After work that failed, connect again.
        """
        if self._cluster is not None and self._cluster.files.unfinished:
            self.close()
        if self._cluster is None:
            self._cluster = Cluster(self._settings, self._client)
        return self._cluster

    def close(self) -> None:
        """Disconnect, and end a local cluster; the next work connects again."""
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._source = self._matrix = None

    def _report(self, stage: str, done: int, total: int) -> None:
        if self.on_progress is not None:
            self.on_progress(stage, done, total)

    def smooth(self, chosen: Filter, graph: Graph, features: Features, n_components: int | None = None) -> Smoothed:
        """Smooth the features on the cluster."""
        fixed = chosen.fixed_on(graph)
        stored = fixed.stored()
        by_operator = n_components is not None and sparse.issparse(features)
        if stored.kind == "custom" or (by_operator and operator_is_cheaper(fixed, graph, features, n_components or 1)):
            return super().smooth(chosen, graph, features, n_components)
        cluster = self.connect()
        layout = self._layout(cluster, fixed, features)
        cluster.files.unfinished = True
        source = self._written_table(cluster, features, layout)
        matrix = self._written_graph(cluster, fixed, graph, layout.dtype)
        key = hashlib.sha256(repr((source.name, matrix, stored, layout)).encode()).hexdigest()[:32]
        folder = cluster.folder / f"filtered-{key if cluster.lasting else next(self._numbers)}"
        if (known := self._tables.get(folder)) is not None:
            cluster.files.unfinished = False
            return known
        make_folder(folder)
        values = (str(source), "" if matrix is None else str(matrix), str(folder), layout, stored)
        items = [(*values, number) for number in range(len(layout.slices))]
        largest = cluster.run(filter_slice, items, partial(self._report, FILTERING))
        table = DaskTable(cluster, layout, folder, max(largest), self._report)
        weakref.finalize(table, cluster.files.remove, folder)
        self._tables[folder] = table
        return table

    def _layout(self, cluster: Cluster, chosen: Filter, features: Features) -> Layout:
        """Return how the table is cut, so that every task fits a worker and all threads have work."""
        (n, m), dtype = features.shape, np.dtype(features.dtype)
        copies = _COPIES if isinstance(chosen, HalfFilter | NormFilter) else _MORE_COPIES
        column = copies * n * dtype.itemsize
        if column > cluster.room:
            raise EngineError(
                f"engine: to filter one column of {n:,} nodes, a task needs {size(column)}, but it may take "
                f"{size(cluster.room)}; give the workers more memory, or fewer threads each"
            )
        width = min(BLOCK_COLUMNS, m, cluster.room // column)
        rounds = -(-m // (width * cluster.threads))
        width = min(width, -(-m // (rounds * cluster.threads)))  # so that all threads end at the same time
        height = max(min(cluster.room // (_PIECE_SHARE * m * 8), -(-n // (2 * cluster.threads))), 1)
        if _squares_fit(cluster, m):
            height = max(height, min(n, m))  # less would only give more results of m rows
        return Layout(n, m, dtype.str, width, height)

    def _written_table(self, cluster: Cluster, features: Features, layout: Layout) -> Path:
        """Return the folder with the slices of a table; the last one stays, because a run filters it several times."""
        if self._source is not None:
            known, cut, folder = self._source
            if known is features and cut.width == layout.width:
                return folder
            self._source = None
            cluster.files.remove(folder)
        name = f"{digest_of_table(features)[:32]}-{layout.width}" if cluster.lasting else next(self._numbers)
        folder = cluster.owned(f"columns-{name}")
        if not is_done(folder):
            write_slices(folder, features, layout, partial(self._report, "writing columns for the cluster"))
        self._source = features, layout, folder
        return folder

    def _written_graph(self, cluster: Cluster, chosen: Filter, graph: Graph, dtype: str) -> Path | None:
        """Return the folder with the matrix of a filter; None for a filter that changes nothing."""
        if isinstance(chosen, HalfFilter | NormFilter) and chosen.psi == 0:
            return None
        if self._matrix is not None:
            known, of, kind, folder = self._matrix
            if known is graph and of.mix == chosen.mix and kind == dtype:
                return folder
            self._matrix = None
            if folder is not None:
                cluster.files.remove(folder)
        matrix, folder = chosen.step(graph, np.dtype(dtype)), None
        if matrix is not None:
            name = digest_of_matrix(matrix)[:32] if cluster.lasting else next(self._numbers)
            folder = cluster.owned(f"graph-{name}")
            if not is_done(folder):
                write_graph(folder, matrix, max(cluster.room // (_GRAPH_SHARE * _ENTRY), 1))
        self._matrix = graph, chosen, dtype, folder
        return folder

    def singular_vectors(self, smoothed: Smoothed, n_components: int) -> Projection:
        """Return the top right singular vectors of smoothed features, by reductions over pieces of rows."""
        if not isinstance(smoothed, DaskTable):
            return super().singular_vectors(smoothed, n_components)
        n, m = smoothed.shape
        wanted, scale = min(n_components, n, m), smoothed.divisor
        if smoothed.largest == 0:
            return Projection(np.eye(m, 1), np.zeros(1), 0.0)
        if m > n:  # fewer rows than columns: this process holds the unfiltered table, which is as large
            return fit_projection(smoothed.take(np.arange(n)), n_components)
        if uses_gram(smoothed.shape, wanted) and _squares_fit(smoothed.cluster, m):
            basis, values = _by_gram(smoothed, wanted)
        else:
            basis, values = _by_lanczos(smoothed, wanted)
        found = truncated(basis, values, smoothed)
        if scale == 1.0:
            return found
        return Projection(found.basis, found.singular_values * scale, found.noise_floor * scale)

    def project(self, smoothed: Smoothed, projection: Projection, scaling: Scaling) -> FloatArray:
        """Return the projected rows, n × q, in this process."""
        if not isinstance(smoothed, DaskTable):
            return super().project(smoothed, projection, scaling)
        return projection.scaled(smoothed.times(projection.basis, stage="projecting rows on the cluster"), scaling)

    def take(self, smoothed: Smoothed, nodes: IntArray) -> AnyFloatArray | None:
        """Return the rows of some nodes; None if the smoothed features are not a table."""
        return smoothed.take(nodes) if isinstance(smoothed, DaskTable) else super().take(smoothed, nodes)


def _squares_fit(cluster: Cluster, m: int) -> bool:
    """Return whether a task may hold three matrices of m rows and m columns."""
    return 3 * 8 * m * m <= cluster.room


def _by_gram(table: DaskTable, q: int) -> tuple[FloatArray, FloatArray]:
    """Add the Gram matrices of all pieces; use triangular factors instead if that loses digits."""
    m = table.shape[1]
    _, basis = linalg.eigh(table.gram(stage=_VECTORS), subset_by_index=(m - q, m - 1))
    basis = basis[:, ::-1]
    # Rayleigh-Ritz: singular vectors and values within this subspace, to working accuracy.
    _, values, turn = linalg.svd(table.triangle(basis, stage=_VECTORS))
    if trusted(values):
        return basis @ turn.T, values
    _, values, right = linalg.svd(table.triangle(None, stage=_VECTORS))
    return right[:q].T, values[:q]


def _by_lanczos(table: DaskTable, q: int) -> tuple[FloatArray, FloatArray]:
    """Find singular vectors with products of the table and one vector, each of which is a reduction over all pieces."""
    operator = LinearOperator(
        table.shape,
        matvec=lambda one: table.times(one.reshape(-1, 1), stage=_VECTORS, divisor=table.divisor).ravel(),
        rmatvec=lambda one: table.transposed_times(one.reshape(-1, 1), stage=_VECTORS, divisor=table.divisor).ravel(),
        dtype=np.float64,
    )
    start = np.random.default_rng(0).standard_normal(min(table.shape))  # fixed, so that the result is deterministic
    _, values, right = svds(operator, k=q, v0=start, return_singular_vectors="vh")
    order = np.argsort(values)[::-1]
    return right[order].T, values[order]
