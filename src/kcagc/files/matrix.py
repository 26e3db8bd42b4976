"""Matrices in `.npz` (as SciPy saves sparse ones, or one dense array) and in the Matrix Market form `.mtx`."""

from __future__ import annotations

import zipfile
import zlib
from typing import IO, Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from kcagc.files.opening import InputFile
from kcagc.graph.ids import numbers

# What the two libraries raise when they are given a file that is none of theirs, or half of one.
_DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError, RuntimeError, EOFError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def read_matrix(file: InputFile) -> Any:
    """Give a sparse matrix or a dense array of real numbers; a sparse one has been checked for wild indices."""
    with file.opened() as stream:
        try:
            matrix = _npz(file, stream) if file.kind == "npz" else scipy_io.mmread(stream, spmatrix=False)
        except _DAMAGE as error:
            if file.packed and isinstance(error, EOFError | zlib.error):
                raise  # the packing is damaged, not what is in it
            raise file.error(f"not a matrix, or a damaged one ({error})") from error
    return numbers(matrix, f"{file.party}: {file.path}")


def _npz(file: InputFile, stream: IO[bytes]) -> Any:
    if not zipfile.is_zipfile(stream):
        raise file.error("not an .npz archive, or a damaged one")
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as archive:
        if "format" in archive.files:
            stream.seek(0)
            return sparse.load_npz(stream)
        if len(archive.files) != 1:
            listed = ", ".join(map(repr, archive.files[:10])) or "none"
            raise file.error(f"must hold one array, or what scipy.sparse.save_npz writes, but its arrays are {listed}")
        return archive[archive.files[0]]
