"""Matrices in `.npz` (as SciPy saves sparse matrices, or one dense array) and in the Matrix Market format `.mtx`."""

from __future__ import annotations

import zipfile
import zlib
from typing import IO, Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from kcagc.data.files import InputFile, PathLike
from kcagc.data.interop import table_of
from kcagc.data.node_lists import read_ids
from kcagc.data.party_files import ExpectedNodes
from kcagc.data.table import Schema, Table
from kcagc.errors import DataError
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds, canonical_csr, numbers
from kcagc.text import size

# The errors that NumPy and SciPy raise for a file of another format, or for a part of a file.
_DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError, RuntimeError, EOFError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip

_SHOWN = 200  # characters of an error of NumPy or SciPy
_MANY = 1_000_000  # rows or columns that a sparse matrix may have without entries
_PER_ENTRY = 1000  # rows or columns that it may have beyond these for each entry
_LONGEST_LINE = 1 << 20  # bytes of a line of the header
_COMPRESSION = 1100  # gzip makes a file at most 1032 times smaller
_EXPANDED = 1 << 27  # bytes that every .npz file may expand to


def read_matrix(file: InputFile) -> Any:
    """Return the sparse matrix or dense array of a file; the indices of a sparse matrix have been checked."""
    with file.opened() as stream:
        try:
            matrix = _npz(file, stream) if file.kind == "npz" else _matrix_market(file, stream)
        except DataError:
            raise
        except _DAMAGE as error:
            if file.compressed and isinstance(error, EOFError | zlib.error):
                raise  # the compression is damaged, not its content
            raise file.error(f"not a matrix, or a damaged one ({str(error)[:_SHOWN]})") from error
    if sparse.issparse(matrix):
        _check_announced(file, matrix.shape, matrix.nnz)
    return numbers(matrix, f"{file.party}: {file.path}")


def matrix_table(file: InputFile, schema: Schema) -> Table:
    """Read the columns of a matrix, which are called "0", "1", ..."""
    given = read_matrix(file)
    rows, width = given.shape
    if rows == 0 or width == 0:
        raise file.error(f"there are no {'columns' if rows else 'rows'}: the shape is {rows} × {width}")
    exact = given.astype(np.float64, copy=False)
    values = canonical_csr(exact) if sparse.issparse(exact) else np.ascontiguousarray(exact)
    return table_of(values, schema, file.origin("row", 0, " (counted from 0)"))


def row_ids(path: PathLike, matrix: InputFile, n_rows: int) -> NodeIds:
    """Read the ids of the rows of a matrix."""
    ids = read_ids(path, party=matrix.party)
    if len(ids) != n_rows:
        raise DataError(f"{path}: there are {len(ids)} ids, but {matrix.path} has {n_rows} rows", party=matrix.party)
    return ids


def matrix_graph(file: InputFile, ids: PathLike | None, nodes: ExpectedNodes) -> tuple[Graph, int]:
    """Read a matrix of edge weights with a row for each node, and count the edges that were left out."""
    matrix = read_matrix(file)
    try:
        graph = Graph.from_matrix(matrix)
    except DataError as error:
        raise file.error(str(error)) from error
    if ids is None and nodes.ids.are_text:
        numbered = f"rows are called 0 to {graph.n_nodes - 1}"
        raise file.error(f"{numbered}, but {nodes.described}; give the ids of the rows as a file (graph_ids)")
    names = NodeIds.numbered(graph.n_nodes) if ids is None else row_ids(ids, file, graph.n_nodes)
    where = f"{file.party}: {file.path if ids is None else ids}"
    try:
        order = nodes.ids.alignment(names, where=where, whose=nodes.whose, extra=nodes.only)
    except DataError as error:
        raise DataError(f"{error} ({nodes.described})") from error
    found = graph.selected(order, None)
    return found, graph.n_edges + graph.n_self_loops - found.n_edges - found.n_self_loops


def _npz(file: InputFile, stream: IO[bytes]) -> Any:
    if not zipfile.is_zipfile(stream):
        raise file.error("not an .npz archive, or a damaged one")
    stream.seek(0)
    with zipfile.ZipFile(stream) as members:
        expanded, limit = sum(one.file_size for one in members.infolist()), file.expansion_limit(_EXPANDED)
    if expanded > limit:
        raise file.error(
            f"expands to {size(expanded)}, more than the {size(limit)} that a file of its size may; if you trust it, "
            "save it without compression (numpy.savez, or scipy.sparse.save_npz with compressed=False)"
        )
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as archive:
        if "format" in archive.files:
            stream.seek(0)
            return sparse.load_npz(stream)
        if len(archive.files) != 1:
            listed = ", ".join(map(repr, archive.files[:10])) or "none"
            raise file.error(f"must hold one array, or what scipy.sparse.save_npz writes, but its arrays are {listed}")
        return archive[archive.files[0]]


def _matrix_market(file: InputFile, stream: IO[bytes]) -> Any:
    """Read the matrix after a check of its header: SciPy allocates what a header announces, and may end the process."""
    header = line = stream.readline(_LONGEST_LINE)
    while line.startswith(b"%") or line.isspace():
        line = stream.readline(_LONGEST_LINE)
    rows, columns, *more = map(int, line.split())
    if more:
        _check_announced(file, (rows, columns), more[0])
    entries = more[0] if more else rows * columns if b"general" in header.lower() else rows * (columns - 1) // 2
    most = file.path.stat().st_size * (_COMPRESSION if file.compressed else 1)
    if 2 * entries > most:  # an entry takes at least a digit and a line end
        raise file.error(f"damaged: it announces {entries:,} entries ({rows:,} × {columns:,}), but is too short")
    stream.seek(0)
    return scipy_io.mmread(stream, spmatrix=False)


def _check_announced(file: InputFile, shape: tuple[int, ...], entries: int) -> None:
    """Raise an error for a sparse matrix that is nearly all empty rows or columns: its index would fill the memory."""
    if max(shape) > _MANY + _PER_ENTRY * entries:
        raise file.error(f"announces {shape[0]:,} × {shape[1]:,} with only {entries:,} entries; remove empty rows")
