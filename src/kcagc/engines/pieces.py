"""Tables and graphs as files of pieces, and the work on one piece that a worker of a cluster does.

A table is cut into slices of columns for the filter, which treats every column alone, and its filtered slices into
pieces of rows, so that all columns of some rows can be read together. A graph is cut into blocks of rows. Nothing here
holds a table, or a graph, as a whole: a worker holds one slice and one block of the graph, or the columns of some rows.

A file gets its name when it is complete, and a function writes the same bytes every time. A worker that is lost, or one
that does again what another has done, therefore changes no result.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray, Sparse
from kcagc.graph.filters import StoredFilter

_READ = 1 << 26  # bytes of a table that are read at a time
_DONE = "done"  # the file that says that a folder is complete

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Layout:
    """How a table of n rows and m columns is cut: slices of `width` columns, and pieces of `height` rows."""

    n: int
    m: int
    dtype: str
    width: int
    height: int

    @property
    def slices(self) -> list[slice]:
        """The columns of each slice."""
        return [slice(start, min(start + self.width, self.m)) for start in range(0, self.m, self.width)]

    @property
    def pieces(self) -> list[slice]:
        """The rows of each piece."""
        return [slice(start, min(start + self.height, self.n)) for start in range(0, self.n, self.height)]


def make_folder(folder: Path) -> Path:
    """Make a folder that only its owner can read, with those above it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def save(path: Path, values: AnyFloatArray | IntArray) -> None:
    """Write an array; the file gets its name when it is complete."""
    partial_file = path.with_name(f".{uuid.uuid4().hex}.part")
    with partial_file.open("xb") as file:
        np.save(file, values, allow_pickle=False)
    partial_file.replace(path)


def note_done(folder: Path, name: str = _DONE, text: str = "") -> None:
    """Note that what belongs to a name is complete."""
    partial_file = folder / f".{uuid.uuid4().hex}.part"
    partial_file.write_text(text, encoding="utf-8")
    partial_file.replace(folder / name)


def is_done(folder: Path) -> bool:
    """Return whether a folder is complete."""
    return (folder / _DONE).exists()


def digest_of_table(features: Features) -> str:
    """Return a digest of the values of a table, reading some rows at a time."""
    found = hashlib.sha256(repr((features.shape, str(features.dtype))).encode())
    if sparse.issparse(features):
        rows = features.tocsr()
        for part in (rows.indptr, rows.indices, rows.data):
            found.update(np.ascontiguousarray(part).data)
    else:
        for rows in _some_rows(features):
            found.update(np.ascontiguousarray(features[rows]).data)
    return found.hexdigest()


def digest_of_matrix(matrix: Sparse) -> str:
    """Return a digest of a sparse matrix."""
    found = hashlib.sha256(repr((matrix.shape, str(matrix.dtype))).encode())
    for part in (matrix.indptr, matrix.indices, matrix.data):
        found.update(np.ascontiguousarray(part).data)
    return found.hexdigest()


def _some_rows(features: AnyFloatArray) -> list[slice]:
    n, m = features.shape
    step = max(_READ // (m * features.dtype.itemsize), 1)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def write_slices(folder: Path, features: Features, layout: Layout, report: Report) -> None:
    """Write the slices of a table, reading it once; `features` may be mapped from a file."""
    make_folder(folder)
    slices = layout.slices
    if sparse.issparse(features):
        columns = sparse.csc_array(features)
        for number, part in enumerate(slices):
            save(folder / f"{number}.npy", columns[:, part].toarray())
            report(number + 1, len(slices))
    else:
        blocks = _some_rows(features)
        with ExitStack() as stack:
            files = [stack.enter_context((folder / f"{number}.npy").open("wb")) for number in range(len(slices))]
            for file, part in zip(files, slices, strict=True):
                shape = (layout.n, part.stop - part.start)
                header = {"descr": np.dtype(layout.dtype).str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            for done, rows in enumerate(blocks, start=1):
                block = np.asarray(features[rows])
                for file, part in zip(files, slices, strict=True):
                    file.write(np.ascontiguousarray(block[:, part]).data)
                report(done, len(blocks))
    note_done(folder)


def write_graph(folder: Path, matrix: Sparse, most_entries: int) -> None:
    """Write the matrix of a filter in blocks of rows, each with at most so many entries unless one row has more."""
    make_folder(folder)
    n, starts = matrix.shape[0], matrix.indptr
    edges = [0]
    while edges[-1] < n:
        last = int(np.searchsorted(starts, int(starts[edges[-1]]) + most_entries, side="right")) - 1
        edges.append(min(max(last, edges[-1] + 1), n))
    for number, (first, last) in enumerate(pairwise(edges)):
        inside = slice(int(starts[first]), int(starts[last]))
        pointers = (starts[first : last + 1] - starts[first]).astype(matrix.indices.dtype)
        for name, values in (("data", matrix.data[inside]), ("indices", matrix.indices[inside]), ("starts", pointers)):
            save(folder / f"{number}-{name}.npy", values)
    note_done(folder)


def _product(folder: Path, block: AnyFloatArray) -> AnyFloatArray:
    """Multiply a block of columns by the matrix of a filter, one block of its rows after the other."""
    result, first = np.empty_like(block), 0
    for number in count():
        if first == len(block):
            return result
        parts = (np.load(folder / f"{number}-{name}.npy", mmap_mode="r") for name in ("data", "indices", "starts"))
        data, indices, starts = (np.asarray(part) for part in parts)
        rows = sparse.csr_array((data, indices, starts), shape=(len(starts) - 1, len(block)))
        result[first : first + len(starts) - 1] = rows @ block
        first += len(starts) - 1
    raise AssertionError  # `count` has no end


def filter_slice(source: str, graph: str, target: str, layout: Layout, stored: StoredFilter, number: int) -> float:
    """Filter one slice of columns and write it in pieces of rows; return the largest magnitude of a value.

    `graph` is empty for a filter that changes nothing.
    """
    done = Path(target) / f"{number}.{_DONE}"
    if done.exists():
        return float(done.read_text(encoding="utf-8"))
    found: AnyFloatArray = np.load(Path(source) / f"{number}.npy")
    if graph:
        found = stored.restore().run(partial(_product, Path(graph)), found)
    for piece, rows in enumerate(layout.pieces):
        save(Path(target) / f"{piece}-{number}.npy", found[rows])
    largest = max(float(found.max()), -float(found.min()))
    note_done(Path(target), done.name, repr(largest))
    return largest


def read_piece(folder: str, layout: Layout, piece: int, divisor: float = 1.0) -> FloatArray:
    """Return some rows of a filtered table with all columns, in float64, divided by a number."""
    rows = layout.pieces[piece]
    found = np.empty((rows.stop - rows.start, layout.m))
    for number, part in enumerate(layout.slices):
        found[:, part] = np.load(Path(folder) / f"{piece}-{number}.npy")
    if divisor != 1.0:
        found /= divisor
    return found


def gram_of(folder: str, layout: Layout, divisor: float, _: str, piece: int) -> FloatArray:
    """Return X̄ᵀ X̄ of some rows."""
    rows = read_piece(folder, layout, piece, divisor)
    found: FloatArray = rows.T @ rows
    return found


def triangle(rows: FloatArray) -> FloatArray:
    """Return R of Q R = rows."""
    found: FloatArray = np.asarray(np.linalg.qr(rows, mode="r"))
    return found


def triangle_of(folder: str, layout: Layout, divisor: float, basis: str, piece: int) -> FloatArray:
    """Return R of Q R = X̄ V for some rows; without a basis, that of X̄."""
    rows = read_piece(folder, layout, piece, divisor)
    if basis:
        rows = rows @ np.load(basis)
    return triangle(rows)


def times_of(folder: str, layout: Layout, divisor: float, vectors: str, piece: int) -> FloatArray:
    """Return X̄ V for some rows."""
    found: FloatArray = read_piece(folder, layout, piece, divisor) @ np.load(vectors)
    return found


def transposed_times_of(folder: str, layout: Layout, divisor: float, vectors: str, piece: int) -> FloatArray:
    """Return the part of X̄ᵀ V that some rows have in it."""
    found: FloatArray = read_piece(folder, layout, piece, divisor).T @ np.load(vectors)[layout.pieces[piece]]
    return found


def rows_of(folder: str, layout: Layout, nodes: str, piece: int) -> AnyFloatArray:
    """Return the filtered rows of the nodes of a file that lie in one piece, in the type of the table."""
    rows, chosen = layout.pieces[piece], np.load(nodes)
    inside = chosen[(chosen >= rows.start) & (chosen < rows.stop)] - rows.start
    found = np.empty((len(inside), layout.m), dtype=layout.dtype)
    for number, part in enumerate(layout.slices):
        found[:, part] = np.load(Path(folder) / f"{piece}-{number}.npy", mmap_mode="r")[inside]
    return found


def read_probe(path: str) -> str:
    """Return the content of a file; empty if there is no such file here."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
