"""Downloads of the original public files, and their conversion to a `Dataset`.

Each file is checked by its SHA-256 before it is read. Planetoid's pickles are read without running any code in them.
"""

from __future__ import annotations

import collections
import io
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as scipy_io
from scipy import sparse

from kcagc.datasets.catalog import CatalogEntry, SourceFile
from kcagc.datasets.dataset import Dataset, write
from kcagc.errors import DataError, DownloadError
from kcagc.graph.graph import Graph, check_features
from kcagc.text import size

# The address of a folder with copies of all original files, used instead of the public addresses. For organisations
# whose machines can only reach their own server.
MIRROR = "KCAGC_DATA_URL"

_SILENCE = 30.0  # seconds without a byte
_DEADLINE = 600.0  # seconds for one file


def fetch(entry: CatalogEntry, target: Path, *, progress: Callable[[str], None] | None = None) -> Dataset:
    """Download, check and convert one public graph, and store it at `target`.

    Original files go to a temporary folder, and `target` is written last: after a failure no file remains.
    """
    try:  # check the folder before the download
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise DownloadError(
            f"{target.parent}: cannot be written to ({error.strerror}); set KCAGC_CACHE to another folder"
        ) from error
    with tempfile.TemporaryDirectory(prefix="kcagc-") as folder:
        for file in entry.files:
            if progress is not None:
                progress(f"{file.name} ({size(file.bytes)})")
            _download(file, Path(folder))
        dataset = convert(entry, Path(folder))
    write(dataset, target)
    return dataset


def _download(file: SourceFile, folder: Path) -> None:
    """Try each address in turn; an error lists the failure of each address."""
    try:
        import pooch  # noqa: PLC0415 - only downloads need it
    except ImportError:
        raise DownloadError(
            "downloading needs the package pooch: pip install pooch (or point KCAGC_DATA at a folder with the graphs)"
        ) from None
    pooch.get_logger().setLevel("ERROR")
    failures = []
    for url in _addresses(file):
        try:
            pooch.retrieve(
                url, known_hash=f"sha256:{file.sha256}", fname=file.name, path=folder, downloader=_bounded(file.bytes)
            )
        except OSError as error:  # the base class of all errors of requests
            failures.append(f"{url}: {_reason(error)}")
        except ValueError:  # a wrong hash; pooch has deleted the file
            failures.append(f"{url}: the received file is not the original (its SHA-256 is not {file.sha256})")
        else:
            return
    raise DownloadError(
        f"{file.name} could not be downloaded, and no file was stored:\n  "
        + "\n  ".join(failures)
        + f"\nIf you have the graph as .npz, set KCAGC_DATA to its folder. If your own web server has copies of the "
        f"original files, set {MIRROR} to its address."
    )


def _addresses(file: SourceFile) -> tuple[str, ...]:
    mirror = os.environ.get(MIRROR)
    if not mirror:
        return file.urls
    if not mirror.startswith(("http://", "https://")):
        raise DownloadError(f"{MIRROR}: must begin with http:// or https://, not {mirror!r}")
    return (f"{mirror.rstrip('/')}/{file.name}",)


def _bounded(n_bytes: int) -> Callable[..., None]:
    """Return a downloader for pooch that limits the size and the total time."""

    def download(url: str, output: str, *_: Any, **__: Any) -> None:
        import requests  # noqa: PLC0415 - comes with pooch

        deadline = time.monotonic() + _DEADLINE
        with requests.get(url, stream=True, timeout=_SILENCE) as response, Path(output).open("wb") as file:
            response.raise_for_status()
            # `read1` returns the bytes that have arrived; `read` would wait for a full block
            read = getattr(response.raw, "read1", response.raw.read)
            received = 0
            while content := read(1 << 16):
                received += len(content)
                if received > n_bytes:
                    raise OSError(f"the server sent more than the {n_bytes} bytes of the original")
                if time.monotonic() > deadline:
                    raise OSError(f"the file did not arrive within {_DEADLINE:g} seconds")
                file.write(content)

    return download


def _reason(error: OSError) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server answered {response.status_code} {response.reason}"
    name = type(error).__name__
    if name == "SSLError":
        return "the server's certificate was not accepted"
    return "the server could not be reached" if "Connect" in name else str(error)


def convert(entry: CatalogEntry, folder: Path) -> Dataset:
    """Read the original files of `entry` in `folder`, and check the result."""
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
    except Exception as error:
        raise DataError(f"{path}: not a Matlab file with W, fea and gnd ({error})") from error


def _from_planetoid(folder: Path, prefix: str) -> tuple[Any, Any, Any]:
    """Join training and test rows; the test rows are stored in the order of `test.index`, not of their numbers."""
    part = {name: _load(folder / f"{prefix}.{name}") for name in ("tx", "ty", "allx", "ally", "graph")}
    try:
        return _joined(part, np.loadtxt(folder / f"{prefix}.test.index", dtype=np.int64))
    except Exception as error:
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


# Replacements for classes of NumPy and SciPy during unpickling. They store the parts, and the arrays built from them
# are checked. The original classes would not check a forged description of their memory.


class _NumberType:
    """Replaces numpy.dtype: the name of a number type and its byte order."""

    _plain = ("f4", "f8", "i4", "i8")

    def __init__(self, name: str, *_flags: Any) -> None:
        if name not in self._plain:
            raise pickle.UnpicklingError(f"the file has values of type {name!r}, not plain numbers")
        self.name, self.order = name, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"


class _ArrayParts:
    """Replaces numpy.ndarray: a shape, a number type and the bytes."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.type, self.by_column, self.content = state

    def array(self) -> Any:
        if not isinstance(self.type, _NumberType):
            raise pickle.UnpicklingError("an array in the file has no number type")
        flat = np.frombuffer(self.content.encode("latin1"), dtype=self.type.order + self.type.name)
        return flat.reshape(self.shape, order="F" if self.by_column else "C")


class _CsrParts:
    """Replaces scipy.sparse.csr_matrix: three arrays and the shape."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.parts = state

    def matrix(self) -> Any:
        arrays = tuple(self.parts[name].array() for name in ("data", "indices", "indptr"))
        matrix = sparse.csr_array(arrays, shape=self.parts["_shape"])
        matrix.check_format(full_check=True)
        return matrix


class _InertUnpickler(pickle.Unpickler):
    """Accepts the names in Planetoid's files; any other name ends the reading before it is imported."""

    _allowed: dict[tuple[str, str], Any] = {  # noqa: RUF012 - never changed
        ("scipy.sparse.csr", "csr_matrix"): _CsrParts,
        ("numpy.core.multiarray", "_reconstruct"): lambda *_hints: _ArrayParts(),
        ("numpy", "ndarray"): _ArrayParts,
        ("numpy", "dtype"): _NumberType,
        ("collections", "defaultdict"): collections.defaultdict,
        ("__builtin__", "list"): list,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which no dataset needs") from None


def _load(path: Path) -> Any:
    try:
        return _InertUnpickler(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except Exception as error:
        raise DataError(f"{path}: not a file of the Planetoid collection ({error})") from error
