"""`load(name)`: the embedded dataset, or a public graph from a folder, the cache or its public address.

`catalog.json` describes the public graphs of the paper: addresses and hashes of the original files, and the counts that
identify each graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from kcagc.datasets.dataset import Column, Dataset, read
from kcagc.errors import DataError
from kcagc.graph.graph import Graph

EMBEDDED = "demo"
FOLDER = "KCAGC_DATA"
CACHE = "KCAGC_CACHE"


class SourceFile(msgspec.Struct, frozen=True):
    """One original file: its public addresses in the order of preference, its size and its SHA-256."""

    name: str
    urls: tuple[str, ...]
    bytes: int
    sha256: str


class PaperFigures(msgspec.Struct, frozen=True):
    """The filter order of the paper for a graph, and the accuracy in per cent that it prints for its baselines."""

    psi: int
    agc: float
    gcc: float


class CatalogEntry(msgspec.Struct, frozen=True):
    """A public graph, with the counts that identify it and the reason why the paper counts more edges."""

    name: str
    title: str
    nodes: int
    edges: int
    self_loops: int
    isolated: int
    features: int
    feature_kind: str
    classes: int
    paper_edges: int
    paper_edges_why: str
    paper: PaperFigures
    files: tuple[SourceFile, ...]

    def check(self, dataset: Dataset, where: str) -> None:
        """Raise `DataError` for a dataset with other counts than this graph."""
        graph = Graph(dataset.adjacency)
        for what, wanted, found in (
            ("nodes", self.nodes, graph.n_nodes),
            ("edges", self.edges, graph.n_edges),
            ("self loops", self.self_loops, graph.n_self_loops),
            ("isolated nodes", self.isolated, graph.n_isolated),
            ("features", self.features, dataset.features.shape[1]),
            ("classes", self.classes, dataset.n_classes),
        ):
            if wanted != found:
                raise DataError(
                    f"{where}: not the {self.name} graph: it has {found} {what}, but {self.name} has {wanted}"
                )


@cache
def entries() -> dict[str, CatalogEntry]:
    """Return all public graphs by name, in the order of the paper."""
    content = resources.files("kcagc.datasets").joinpath("catalog.json").read_bytes()
    return {one.name: one for one in msgspec.json.decode(content, type=list[CatalogEntry])}


def entry(name: str) -> CatalogEntry:
    """Return the description of one public graph."""
    try:
        return entries()[name]
    except KeyError:
        raise DataError(f"dataset: unknown name {name!r}; choose one of {', '.join(names())}") from None


def names() -> list[str]:
    """Return the names that `load` accepts; the first needs no download.

    Returns
    -------
    list of str

    Examples
    --------
    >>> names()
    ['demo', 'cora', 'citeseer', 'pubmed', 'wiki']
    """
    return [EMBEDDED, *entries()]


def load(name: str, *, progress: Callable[[str], None] | None = None) -> Dataset:
    """Return a dataset by name.

    "demo" is part of the package. Other datasets are read from `NAME.npz` in the folder named by the environment
    variable KCAGC_DATA, or else from the cache. If neither has the file, the original is downloaded, checked, converted
    and stored in the cache.

    Parameters
    ----------
    name : str
        One of `names()`.
    progress : callable, default=None
        Called with a description of each file before its download.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If the name is unknown or a file is damaged.
    DownloadError
        If the dataset cannot be downloaded.

    Examples
    --------
    >>> load("demo").n_classes
    5
    """
    if name == EMBEDDED:
        return _demo()
    found = entry(name)
    path = local_path(name)
    if path is None:
        from kcagc.datasets.download import fetch  # noqa: PLC0415 - imports slow libraries

        return fetch(found, cache_path(name), progress=progress)
    try:
        dataset = read(path, name)
        found.check(dataset, where=str(path))
    except DataError as error:
        if path == cache_path(name):
            raise DataError(f"{error}; delete the file to download it again") from error
        raise
    return dataset


def _demo() -> Dataset:
    """Read the embedded dataset, and the names and units that its columns would have at three organisations."""
    content = resources.files("kcagc.datasets").joinpath("demo_columns.json").read_bytes()
    columns = msgspec.json.decode(content, type=dict[str, list[Column]])
    every = tuple(one for own in columns.values() for one in own)
    return replace(read(embedded_path(), EMBEDDED), party_names=tuple(columns), columns=every)


def local_path(name: str) -> Path | None:
    """Return the file that `load` reads, or None if it downloads."""
    folder = os.environ.get(FOLDER)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{FOLDER}: {folder} is not a folder")
    for path in (*([Path(folder) / f"{name}.npz"] if folder else []), cache_path(name)):
        try:
            if path.exists():
                return path
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    return None


def cache_path(name: str) -> Path:
    """Return the path of a downloaded graph: in the folder KCAGC_CACHE, or else in the cache folder of the user."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen) / f"{name}.npz"
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:  # a user of a container, without HOME
        raise DataError(
            f"{CACHE}: not set, and this user has no home folder; set it to a folder for downloads"
        ) from error
    return Path(home) / "kcagc" / "datasets" / f"{name}.npz"


def embedded_path() -> Path:
    """Return the path of the embedded dataset."""
    return Path(str(resources.files("kcagc.datasets").joinpath("demo.npz")))
