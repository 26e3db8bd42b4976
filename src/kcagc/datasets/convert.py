"""From the original public files to a `Dataset`: Matlab files, and Planetoid's pickles read without trusting them."""

from __future__ import annotations

import collections
import io
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from kcagc.datasets.catalog import Entry
from kcagc.datasets.model import Dataset
from kcagc.errors import DataError
from kcagc.graph.graph import Graph, check_features

# What reading a damaged or hostile file can raise, in our own code and in the libraries below it.
_BROKEN = (
    pickle.UnpicklingError,
    scipy_io.matlab.MatReadError,
    zlib.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
)


def convert(entry: Entry, folder: Path) -> Dataset:
    """Read the original files of `entry`, which lie in `folder`, and check what comes out of them."""
    if entry.files[0].name.endswith(".mat"):
        adjacency, features, labels = _from_matlab(folder / entry.files[0].name)
    else:
        adjacency, features, labels = _from_planetoid(folder, entry.files[0].name.rpartition(".")[0])
    dataset = Dataset(
        entry.name,
        Graph.from_matrix(adjacency).adjacency,
        check_features(sparse.csr_array(features)),
        labels.astype(np.int64),
        len(np.unique(labels)),
        about={"source": [url for file in entry.files for url in file.urls[:1]]},
    )
    entry.check(dataset, where=str(folder))
    return dataset


def _from_matlab(path: Path) -> tuple[Any, Any, Any]:
    """Read `W` (adjacency), `fea` (features) and `gnd` (classes, from 1)."""
    try:
        content = scipy_io.loadmat(path, variable_names=("W", "fea", "gnd"))
        return sparse.csr_array(content["W"]), content["fea"], content["gnd"].ravel() - 1
    except _BROKEN as error:
        raise DataError(f"{path}: not a Matlab file with W, fea and gnd ({error})") from error


def _from_planetoid(folder: Path, prefix: str) -> tuple[Any, Any, Any]:
    """Join training and test rows; the test rows are stored in the order of `test.index`, not of their numbers."""
    part = {name: _load(folder / f"{prefix}.{name}") for name in ("tx", "ty", "allx", "ally", "graph")}
    try:
        return _joined(part, np.loadtxt(folder / f"{prefix}.test.index", dtype=np.int64))
    except _BROKEN as error:
        raise DataError(f"{folder}: the {prefix} files do not fit together ({error})") from error


def _joined(part: dict[str, Any], stored_order: Any) -> tuple[Any, Any, Any]:
    features = sparse.lil_array(sparse.vstack([part["allx"].matrix(), part["tx"].matrix()]))
    classes = np.vstack([part["ally"].array(), part["ty"].array()])
    features[stored_order], classes[stored_order] = features[np.sort(stored_order)], classes[np.sort(stored_order)]
    neighbours: dict[int, list[int]] = part["graph"]
    sources = np.repeat(np.fromiter(neighbours, np.int64), [len(listed) for listed in neighbours.values()])
    targets = np.fromiter((node for listed in neighbours.values() for node in listed), np.int64)
    graph = Graph.from_edges(sources, targets, n_nodes=features.shape[0])
    return graph.adjacency, sparse.csr_array(features), classes.argmax(axis=1)


# Stand-ins for NumPy's and SciPy's classes while unpickling. They only receive the parts, and what is made of those is
# checked: NumPy's own classes would take a forged description of their memory at its word.


class _NumberType:
    """For numpy.dtype: the name of a plain number type and its byte order."""

    _plain = ("f4", "f8", "i4", "i8")

    def __init__(self, name: str, *_flags: Any) -> None:
        if name not in self._plain:
            raise pickle.UnpicklingError(f"the file has values of type {name!r}, not plain numbers")
        self.name, self.order = name, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"


class _ArrayParts:
    """For numpy.ndarray: a shape, a number type and the bytes."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.type, self.by_column, self.content = state

    def array(self) -> Any:
        if not isinstance(self.type, _NumberType):
            raise pickle.UnpicklingError("an array in the file has no number type")
        flat = np.frombuffer(self.content.encode("latin1"), dtype=self.type.order + self.type.name)
        return flat.reshape(self.shape, order="F" if self.by_column else "C")


class _CsrParts:
    """For scipy.sparse.csr_matrix: the three arrays and the shape."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.parts = state

    def matrix(self) -> Any:
        arrays = tuple(self.parts[name].array() for name in ("data", "indices", "indptr"))
        matrix = sparse.csr_array(arrays, shape=self.parts["_shape"])
        matrix.check_format(full_check=True)
        return matrix


def _new_array(*_hints: Any) -> _ArrayParts:
    return _ArrayParts()


class _InertUnpickler(pickle.Unpickler):
    """Knows the names that Planetoid's files use; any other ends the reading before it is looked up."""

    _allowed: dict[tuple[str, str], Any] = {  # noqa: RUF012 - never changed
        ("scipy.sparse.csr", "csr_matrix"): _CsrParts,
        ("numpy.core.multiarray", "_reconstruct"): _new_array,
        ("numpy", "ndarray"): _ArrayParts,
        ("numpy", "dtype"): _NumberType,
        ("collections", "defaultdict"): collections.defaultdict,
        ("__builtin__", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which a dataset has no use for") from None


def _load(path: Path) -> Any:
    try:
        return _InertUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except _BROKEN as error:
        raise DataError(f"{path}: not a file of the Planetoid collection ({error})") from error
