"""From the original public files to a `Dataset`: Matlab files, and Planetoid's pickles read without trusting them."""

from __future__ import annotations

import collections
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from kcagc.datasets.catalog import Entry
from kcagc.datasets.model import Dataset
from kcagc.errors import DataError
from kcagc.graph.attributed import check_features
from kcagc.graph.structure import Graph


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
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DataError(f"{path}: not a Matlab file with W, fea and gnd ({error})") from error


def _from_planetoid(folder: Path, prefix: str) -> tuple[Any, Any, Any]:
    """Join training and test rows; the test rows are stored in the order of `test.index`, not of their numbers."""
    part = {name: _load(folder / f"{prefix}.{name}") for name in ("tx", "ty", "allx", "ally", "graph")}
    stored_order = np.loadtxt(folder / f"{prefix}.test.index", dtype=np.int64)
    features = sparse.lil_array(sparse.vstack([part["allx"].matrix(), part["tx"].matrix()]))
    classes = np.vstack([part["ally"], part["ty"]])
    features[stored_order], classes[stored_order] = features[np.sort(stored_order)], classes[np.sort(stored_order)]
    neighbours: dict[int, list[int]] = part["graph"]
    sources = np.repeat(np.fromiter(neighbours, np.int64), [len(listed) for listed in neighbours.values()])
    targets = np.fromiter((node for listed in neighbours.values() for node in listed), np.int64)
    graph = Graph.from_edges(sources, targets, n_nodes=features.shape[0])
    return graph.adjacency, sparse.csr_array(features), classes.argmax(axis=1)


class _CsrParts:
    """Stands in for SciPy's class while unpickling: it only receives the parts."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.parts = state

    def matrix(self) -> Any:
        parts = self.parts
        return sparse.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=parts["_shape"])


class _InertUnpickler(pickle.Unpickler):
    """Knows the five names that Planetoid's files use; anything else ends the reading before it is looked up."""

    _allowed: dict[tuple[str, str], Any] = {  # noqa: RUF012 - never changed
        ("scipy.sparse.csr", "csr_matrix"): _CsrParts,
        ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("collections", "defaultdict"): collections.defaultdict,
        ("__builtin__", "list"): list,
        ("builtins", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which a dataset has no use for") from None


def _load(path: Path) -> Any:
    try:
        return _InertUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise DataError(f"{path}: not a file of the Planetoid collection ({error})") from error
