"""`load(name)`: the embedded dataset, or a public graph from your folder, the cache or its public address."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from kcagc.datasets.catalog import EMBEDDED, entries
from kcagc.datasets.fetch import fetch
from kcagc.datasets.model import Dataset, read
from kcagc.errors import DataError

FOLDER = "KCAGC_DATA"
CACHE = "KCAGC_CACHE"


def names() -> list[str]:
    """Give the names that `load` knows; the first needs no download."""
    return [EMBEDDED, *entries()]


def load(name: str, *, progress: Callable[[str], None] | None = None) -> Dataset:
    """Give a dataset by name.

    "demo" comes with the package. For the others `NAME.npz` is looked for in the folder named by KCAGC_DATA, then in
    the cache; if it is in neither, the original is downloaded, checked and converted, and kept in the cache.
    """
    if name == EMBEDDED:
        return read(embedded_path(), EMBEDDED)
    found = entries().get(name)
    if found is None:
        raise DataError(f"dataset: there is none called {name!r}; there are {', '.join(names())}")
    path = where(name)
    if path is None:
        return fetch(found, cache_path(name), progress=progress)
    try:
        dataset = read(path, name)
        found.check(dataset, where=str(path))
    except DataError as error:
        if path == cache_path(name):
            raise DataError(f"{error}; delete it to have it downloaded anew") from error
        raise
    return dataset


def where(name: str) -> Path | None:
    """Tell which file `load` would read, or None if it would download."""
    folder = os.environ.get(FOLDER)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{FOLDER}: {folder} is not a folder")
    for path in (*([Path(folder) / f"{name}.npz"] if folder else []), cache_path(name)):
        try:
            if path.exists():
                return path
        except OSError as error:
            raise DataError(f"{path}: cannot be looked at ({error.strerror})") from error
    return None


def cache_path(name: str) -> Path:
    """Tell where a downloaded graph is kept: under KCAGC_CACHE, else the user's cache folder."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen) / f"{name}.npz"
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:  # a container's user without an entry and without HOME
        raise DataError(f"{CACHE}: not set, and this user has no home folder to keep downloads in") from error
    return Path(home) / "kcagc" / "datasets" / f"{name}.npz"


def embedded_path() -> Path:
    """Tell where the embedded dataset lies."""
    return Path(str(resources.files("kcagc.datasets").joinpath("demo.npz")))
