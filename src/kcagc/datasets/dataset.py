"""A dataset: its contents, its file format, and its split among parties."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray, IntArray, Sparse, check_count
from kcagc.errors import DataError
from kcagc.graph.graph import Graph, check_features
from kcagc.text import read_json

MOSTLY_FILLED = 0.5  # above this share of cells that are not 0, a table is an array, as a user would write it


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of generated data as an organisation would call it, and the unit of its values.

    A number x of the generator becomes centre + spread · x, rounded. The spread is negative where a high number stands
    for a low value.

    Parameters
    ----------
    name : str
        The name, with the unit in brackets.
    centre : float
        The value of the number 0.
    spread : float
        The difference between the values of the numbers 1 and 0.
    decimals : int
        The number of decimals of a value.

    Examples
    --------
    >>> from kcagc.datasets import load
    >>> load("demo").columns[1]
    Column(name='standing orders (per month)', centre=12.0, spread=-2.8, decimals=1)
    """

    name: str
    centre: float
    spread: float
    decimals: int

    def values(self, numbers: FloatArray) -> FloatArray:
        """Return numbers of the generator as values in the unit of this column.

        Parameters
        ----------
        numbers : ndarray
            The numbers.

        Returns
        -------
        ndarray
        """
        return np.round(self.centre + self.spread * np.asarray(numbers, dtype=np.float64), self.decimals)


@dataclass(frozen=True, eq=False)
class Dataset:
    """An attributed graph with known classes.

    Attributes
    ----------
    name : str
        The name of the dataset.
    adjacency : scipy.sparse.csr_array of shape (n_nodes, n_nodes)
        The symmetric edge weights.
    features : ndarray or scipy.sparse.csr_array of shape (n_nodes, n_features)
        The features of all parties.
    labels : ndarray of shape (n_nodes,)
        The class of each node, from 0.
    n_classes : int
        The number of classes.
    party_columns : tuple of int, default=()
        The number of columns of each party; empty where the dataset defines no parties.
    about : dict
        The origin of the dataset.
    party_names : tuple of str, default=()
        The names of the parties; empty where the dataset does not name them.
    columns : tuple of Column, default=()
        The names and units of all columns; empty where the dataset has only numbers.

    Examples
    --------
    >>> from kcagc.datasets import load
    >>> load("demo")
    Dataset('demo', 600 nodes, 48 features, k=5)
    """

    name: str
    adjacency: Sparse
    features: Features
    labels: IntArray
    n_classes: int
    party_columns: tuple[int, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)
    party_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return int(self.adjacency.shape[0])

    def parties(self, n_parties: int | None = None) -> list[Features]:
        """Return the columns of each party.

        Parameters
        ----------
        n_parties : int, default=None
            The number of contiguous parts of near-equal width. None uses the split of the dataset.

        Returns
        -------
        list of ndarray or scipy.sparse.csr_array
        """
        if n_parties is None and self.party_columns:
            ends = np.cumsum(self.party_columns)
            return [self.features[:, end - width : end] for width, end in zip(self.party_columns, ends, strict=True)]
        if n_parties is None:
            raise DataError(f"{self.name}: this dataset defines no parties; pass n_parties")
        return split_columns(self.features, n_parties)

    def in_units(self) -> FloatArray:
        """Return all columns in their units, for example in euros per month.

        `features` holds the numbers of the generator instead, which have no unit and are of the same size in all
        columns. Before clustering, scale values in units: `TablePreprocessor(default={"scale": "standard"})`.

        Returns
        -------
        ndarray of shape (n_nodes, n_features)

        Raises
        ------
        DataError
            If the dataset does not say what its columns are.
        """
        if not self.columns:
            raise DataError(f"{self.name}: this dataset has no names and units of columns; use its features")
        numbers = self.features.toarray() if sparse.issparse(self.features) else self.features
        return np.column_stack([one.values(numbers[:, place]) for place, one in enumerate(self.columns)])

    def frames(self) -> dict[str, Any]:
        """Return the table of each party with the names of its columns, in their units.

        Returns
        -------
        dict of str to pandas.DataFrame
            A frame for each party, by the name of the party.

        Raises
        ------
        DataError
            If the dataset does not say what its columns are, or pandas is not installed.

        Examples
        --------
        >>> from kcagc.datasets import load
        >>> load("demo").frames()["telecom"].columns[0]
        'text messages (per day)'
        """
        values = self.in_units()
        try:
            pandas = import_module("pandas")  # an optional package, which only this method needs
        except ImportError:
            raise DataError(f"{self.name}: frames need pandas: pip install pandas (or use in_units())") from None
        names = [one.name for one in self.columns]
        frame = pandas.DataFrame(values, columns=names)
        ends = np.cumsum(self.party_columns).tolist()
        return {
            party: frame.iloc[:, end - width : end]
            for party, width, end in zip(self.party_names, self.party_columns, ends, strict=True)
        }

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.n_nodes:,} nodes, {self.features.shape[1]:,} features, k={self.n_classes})"
        )


def split_columns(features: Features, n_parties: int) -> list[Features]:
    """Split a table into contiguous parts of near-equal width, wider parts first.

    Parameters
    ----------
    features : array-like or sparse matrix of shape (n_nodes, n_features)
        The table.
    n_parties : int
        The number of parts.

    Returns
    -------
    list of ndarray or scipy.sparse.csr_array

    Raises
    ------
    DataError
        If there are fewer columns than parties.

    Examples
    --------
    >>> [part.shape for part in split_columns(np.eye(3), 2)]
    [(3, 2), (3, 1)]
    """
    features = check_features(features)
    width = features.shape[1]
    check_count("n_parties", n_parties)
    if n_parties > width:
        raise DataError(f"n_parties: {width} columns cannot be split among {n_parties} parties")
    return [features[:, part[0] : part[-1] + 1] for part in np.array_split(np.arange(width), n_parties)]


def read(path: Path, name: str) -> Dataset:
    """Read an `.npz` file: CSR arrays of the adjacency (`adj_*`) and the features (`feat_*`), `labels`, JSON `meta`."""
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: not a dataset file (not an .npz archive, or a damaged one)")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            parts = {key: file[key] for key in file.files}
        adjacency, features = (
            sparse.csr_array(
                (parts[f"{part}_data"], parts[f"{part}_indices"], parts[f"{part}_indptr"]),
                shape=tuple(parts[f"{part}_shape"].tolist()),
            )
            for part in ("adj", "feat")
        )
        labels = parts["labels"]
        about = read_json(str(parts["meta"])) if "meta" in parts else {}
        party_columns = tuple(int(width) for width in about.get("party_columns", ()))
    except KeyError as error:
        raise DataError(f"{path}: not a dataset file (it has no {error})") from error
    except (OSError, ValueError, TypeError, AttributeError, EOFError, MemoryError, RuntimeError) as error:
        raise DataError(f"{path}: not a dataset file ({error})") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: a damaged file ({error})") from error
    try:
        graph = Graph.from_matrix(adjacency)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    checked = check_features(features, n_nodes=graph.n_nodes, where=f"{path}: features")
    if checked.nnz > MOSTLY_FILLED * checked.shape[0] * checked.shape[1]:
        checked = checked.toarray()
    if labels.dtype.kind not in "iu" or labels.shape != (graph.n_nodes,) or (labels < 0).any():
        raise DataError(f"{path}: labels must be {graph.n_nodes} whole numbers, 0 or more")
    if party_columns and (sum(party_columns) != checked.shape[1] or min(party_columns) < 1):
        raise DataError(f"{path}: party_columns {list(party_columns)} do not add up to {checked.shape[1]} columns")
    return Dataset(
        name, graph.adjacency, checked, labels.astype(np.int64), len(np.unique(labels)), party_columns, about
    )


def write(dataset: Dataset, path: Path) -> None:
    """Write an `.npz` file; the file appears complete or not at all."""
    from kcagc.data.files import write_bytes  # noqa: PLC0415 - most runs only read

    features = sparse.csr_array(dataset.features)
    arrays: dict[str, Any] = {
        f"{part}_{piece}": value
        for part, matrix in (("adj", dataset.adjacency), ("feat", features))
        for piece, value in (
            ("data", matrix.data),
            ("indices", matrix.indices),
            ("indptr", matrix.indptr),
            ("shape", np.asarray(matrix.shape)),
        )
    }
    about = dataset.about | ({"party_columns": dataset.party_columns} if dataset.party_columns else {})
    content = io.BytesIO()
    np.savez_compressed(content, labels=dataset.labels, meta=np.asarray(json.dumps(about)), **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, content.getvalue())
