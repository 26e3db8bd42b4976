"""A fitted estimator as a file of plain data: what it was asked for, what it found, and every party's share.

It holds the private shares of all parties, as the estimator itself does, and is written for its owner only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import numpy as np

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.data.preprocessing import FittedRules, TableRules
from kcagc.data.table import PathLike
from kcagc.data.transformer import TablePreprocessor
from kcagc.disclosure import Disclosure, Ledger
from kcagc.errors import DataError, KcagcError, ParameterError
from kcagc.graph.filters import Filter, StoredFilter
from kcagc.graph.ids import NodeIds
from kcagc.protocol.fit import MergeReport
from kcagc.protocol.local import PartyModel
from kcagc.protocol.messages import Stored, restore, store

FORMAT = "kcagc estimator 2"

# What a fit leaves in plain numbers, to be saved as it is.
_FIGURES = (
    "n_iter_", "converged_", "cells_", "single_node_cells_", "rounds_", "secure_sums_", "further_sums_", "bytes_sent_",
    "bytes_by_role_", "n_features_in_",
)  # fmt: skip

T = TypeVar("T")


class SavedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's rules, and what was fitted by them."""

    rules: TableRules
    kept: FittedRules

    @classmethod
    def of(cls, party: str, transformer: Any) -> Self | None:
        """Take the transformer of a party; any but ours would have to be pickled."""
        if transformer is None:
            return None
        if not isinstance(transformer, TablePreprocessor):
            raise ParameterError(
                f"transformers: {party}: {type(transformer).__name__} cannot be saved, because only plain data are; "
                "kcagc.data.TablePreprocessor can be, or transform the table before fit"
            )
        return cls(transformer.rules(), transformer.fitted_)

    def asked(self) -> TablePreprocessor:
        """Give the transformer as it was before the fit."""
        return TablePreprocessor(**self._parameters())

    def fitted(self) -> TablePreprocessor:
        """Give the transformer that was fitted."""
        return TablePreprocessor.from_fitted(self.kept, **self._parameters())

    def _parameters(self) -> dict[str, Any]:
        return {"columns": dict(self.rules.columns), "default": self.rules.default}


class SavedEstimator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything of a fitted `KCAGC` that its predictions and its figures come from."""

    format: str = FORMAT
    settings: dict[str, Any]
    asked_filter: StoredFilter | None  # None where it was asked for by name
    filter: StoredFilter
    labels: Stored
    ids: list[str | int] | None
    models: dict[str, PartyModel]
    tables: dict[str, SavedTable | None]
    feature_names: dict[str, list[str]]
    figures: dict[str, Any]
    merges: list[MergeReport]
    ledger: list[dict[str, Any]]

    def write(self, path: PathLike) -> None:
        """Write it, for its owner only."""
        write_bytes(path, msgspec.msgpack.encode(self, enc_hook=_plain), mode=PRIVATE)

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Read one; whatever else the file is, is said."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise ParameterError(f"{path}: {error.strerror or error}") from error
        try:
            found = msgspec.msgpack.decode(content, type=_Format).format
            if found != FORMAT:
                raise DataError(f"{path}: is written as {found!r}, and KCAGC.load reads {FORMAT!r}")
            return msgspec.msgpack.decode(content, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"{path}: not a saved KCAGC, or a damaged one: {error}") from error


class _Format(msgspec.Struct):
    """As much of a file as says whether we can read it."""

    format: str


def save_estimator(model: Any, path: PathLike) -> None:
    """Write a fitted `KCAGC`."""
    SavedEstimator(
        settings=_plain_settings(model.get_params(deep=False)),
        asked_filter=None if isinstance(model.filter, str) else _stored(model.filter),
        filter=_stored(model.filter_),
        labels=store(model.labels_),
        ids=None if model.node_ids_ is None else list(model.node_ids_),
        models=model.models_,
        tables={name: SavedTable.of(name, one) for name, one in model.transformers_.items()},
        feature_names=model.feature_names_,
        figures={name: getattr(model, name) for name in _FIGURES},
        merges=model.merges_,
        ledger=[entry.fields() for entry in model.ledger_],
    ).write(path)


def load_estimator(kind: type[T], path: PathLike) -> T:
    """Read a fitted `KCAGC`."""
    saved = SavedEstimator.read(path)
    asked = [None if one is None else one.asked() for one in saved.tables.values()]
    settings = dict(saved.settings, transformers=asked if any(asked) else None)
    settings["accept"] = tuple(settings.get("accept", ()))
    if saved.asked_filter is not None:
        settings["filter"] = saved.asked_filter.restore()
    try:
        model: Any = kind(**settings)
        model.ledger_ = Ledger(Disclosure.from_fields(fields) for fields in saved.ledger)
        model.labels_ = restore(saved.labels).astype(np.intp)
        for name in _FIGURES:
            setattr(model, name, saved.figures[name])
    except (TypeError, KeyError, ValueError, KcagcError) as error:
        raise DataError(f"{path}: not a saved KCAGC, or a damaged one: {error}") from error
    model.node_ids_ = None if saved.ids is None else NodeIds.of(saved.ids, where=f"{path}: ids").values
    model.filter_, model.models_, model.merges_ = saved.filter.restore(), saved.models, saved.merges
    model.transformers_ = {name: None if one is None else one.fitted() for name, one in saved.tables.items()}
    model.feature_names_ = saved.feature_names
    return model  # type: ignore[no-any-return]


def _stored(given: Filter) -> StoredFilter:
    """Return a filter as plain data; raise `ParameterError` for a class of the caller."""
    stored = given.stored()
    if stored.kind == "custom":
        raise ParameterError(f"filter: {given!r} cannot be saved; use HalfFilter, NormFilter or ChebyshevFilter")
    return stored


def _plain_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Give parameters that are plain data; functions, transformers and generators of random numbers are not."""
    left_out = {"callbacks", "transformers", "filter", "random_state"}
    settings = {name: value for name, value in given.items() if name not in left_out}
    settings["accept"] = sorted(settings["accept"])
    if not isinstance(settings["nodes"], str):
        settings["nodes"] = list(settings["nodes"])
    settings["random_state"] = given["random_state"] if isinstance(given["random_state"], int) else None
    if isinstance(given["filter"], str):
        settings["filter"] = given["filter"]
    return settings


def _plain(value: Any) -> Any:
    """Give a number of NumPy as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} is no plain data")
