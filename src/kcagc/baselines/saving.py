"""Fitted baselines as files: arrays in NumPy's own format, and all else as JSON; nothing is pickled."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kcagc.cluster.search import PsiSearch
from kcagc.data.files import PRIVATE, PathLike, write_bytes
from kcagc.errors import DataError, ParameterError
from kcagc.text import read_json

FORMAT = "kcagc baseline 1"
_HEADER = "header.json"
_SEARCH = "psi_search_"


def save_baseline(model: Any, path: PathLike) -> None:
    """Write parameters and fitted attributes to a file that only its owner can read."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    values: dict[str, Any] = {}
    for name, value in vars(model).items():
        if not name.endswith("_") or name.startswith("_"):
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays[name] = value
        else:
            values[name] = _plain(value)
    settings = {name: _plain(value) for name, value in model.get_params(deep=False).items() if name != "engine"}
    if not isinstance(settings["random_state"], int):
        settings["random_state"] = None  # a generator of the caller
    header = {"format": FORMAT, "class": type(model).__name__, "settings": settings, "values": values}
    content = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez_compressed(content, allow_pickle=False, **{_HEADER: text}, **arrays)
    write_bytes(path, content.getvalue(), mode=PRIVATE)


def load_baseline(kind: type[Any], path: PathLike) -> Any:
    """Read a fitted baseline of this class."""
    try:
        raw = io.BytesIO(Path(path).read_bytes())
        if not zipfile.is_zipfile(raw):
            raise ValueError("it is not an archive of arrays")
        with np.load(raw, allow_pickle=False) as content:
            header = read_json(content[_HEADER].tobytes())
            arrays = {name: content[name] for name in content.files if name != _HEADER}
        found = header["format"], header["class"]
    except OSError as error:
        raise ParameterError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path}: is not a saved {kind.__name__}, or is damaged: {error}") from error
    if found[0] != FORMAT:
        raise DataError(f"{path}: has the format {found[0]!r}, but this version reads {FORMAT!r}; fit the model again")
    if found[1] != kind.__name__:
        raise DataError(f"{path}: is a saved {found[1]}, not a {kind.__name__}; use {found[1]}.load")
    try:
        model = kind(**header["settings"])
        for name, value in (header["values"] | arrays).items():
            if not name.endswith("_") or name.startswith("_"):
                raise TypeError(f"{name} is not a fitted attribute")
            setattr(model, name, PsiSearch.from_document(value) if name == _SEARCH and value is not None else value)
        if hasattr(model, "feature_names_in_"):
            model.feature_names_in_ = np.array(model.feature_names_in_, dtype=object)
    except (TypeError, AttributeError) as error:
        raise DataError(f"{path}: is not a saved {kind.__name__}, or is damaged: {error}") from error
    return model


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; a list of numbers of NumPy becomes one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
