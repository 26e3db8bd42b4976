"""A fitted `KCAGC` as a file of plain data: its parameters, its results, and the share of every party.

Like the estimator, the file holds the private shares of all parties. Only its owner can read it.
"""

from __future__ import annotations

from dataclasses import asdict
from numbers import Integral
from typing import Any, Self, TypeVar

import msgspec
import numpy as np

from kcagc.cluster.search import PsiSearch
from kcagc.data.files import PRIVATE, PathLike, read_saved, write_bytes
from kcagc.data.fitted_rules import FittedRules
from kcagc.data.preprocessing import TableRules
from kcagc.data.transformer import TablePreprocessor
from kcagc.disclosure import Disclosure, Ledger
from kcagc.errors import DataError, KcagcError, ParameterError
from kcagc.estimator_results import PartyInsights
from kcagc.graph.filters import Filter, StoredFilter
from kcagc.graph.ids import NodeIds
from kcagc.protocol.fit_result import MergeReport
from kcagc.protocol.local import PartyModel
from kcagc.protocol.messages import Stored, restore, store

FORMAT = "kcagc estimator 2"

# Fitted attributes that are plain numbers.
_FIGURES = (
    "cost_", "modularity_",
    "n_iter_", "converged_", "cells_", "single_node_cells_", "rounds_", "secure_sums_", "further_sums_", "bytes_sent_",
    "bytes_by_role_", "n_features_in_",
)  # fmt: skip

T = TypeVar("T")


class SavedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A party's rules for its columns, and the fitted rules."""

    rules: TableRules
    fitted_rules: FittedRules

    @classmethod
    def of(cls, party: str, transformer: Any) -> Self | None:
        """Return the transformer of a party as plain data; refuse any other class, because kcagc never pickles."""
        if transformer is None:
            return None
        if not isinstance(transformer, TablePreprocessor):
            raise ParameterError(
                f"transformers: {party}: {type(transformer).__name__} cannot be saved; use "
                "kcagc.data.TablePreprocessor, or transform the table before fit"
            )
        return cls(transformer.rules(), transformer.fitted_)

    def unfitted(self) -> TablePreprocessor:
        """Return the transformer as it was before the fit."""
        return TablePreprocessor(**self._parameters())

    def fitted(self) -> TablePreprocessor:
        """Return the fitted transformer."""
        return TablePreprocessor.from_fitted(self.fitted_rules, **self._parameters())

    def _parameters(self) -> dict[str, Any]:
        return {"columns": dict(self.rules.columns), "default": self.rules.default}


class SavedEstimator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the file."""

    format: str = FORMAT
    settings: dict[str, Any]
    filter_parameter: StoredFilter | None  # None if the parameter is a name
    filter: StoredFilter
    labels: Stored
    ids: list[str | int] | None
    models: dict[str, PartyModel]
    tables: dict[str, SavedTable | None]
    feature_names: dict[str, list[str]]
    figures: dict[str, Any]
    merges: list[MergeReport]
    ledger: list[dict[str, Any]]
    column_weights: dict[str, Stored] = {}  # those of a file of 0.8.0 or earlier are all 1


def save_estimator(model: Any, path: PathLike) -> None:
    """Write a fitted `KCAGC` to a file that only its owner can read."""
    saved = SavedEstimator(
        settings=_plain_settings(model.get_params(deep=False)),
        filter_parameter=None if isinstance(model.filter, str) else _stored(model.filter),
        filter=_stored(model.filter_),
        labels=store(model.labels_),
        ids=None if model.node_ids_ is None else list(model.node_ids_),
        models=model.models_,
        tables={name: SavedTable.of(name, one) for name, one in model.transformers_.items()},
        feature_names=model.feature_names_,
        figures={name: getattr(model, name) for name in (*_FIGURES, "method_reason_")}
        | {"psi_search_": None if model.psi_search_ is None else asdict(model.psi_search_)},
        merges=model.merges_,
        ledger=[entry.fields() for entry in model.ledger_],
        column_weights={name: store(one) for name, one in model.column_weights_.items()},
    )
    write_bytes(path, msgspec.msgpack.encode(saved, enc_hook=_plain), mode=PRIVATE)


def load_estimator(kind: type[T], path: PathLike) -> T:
    """Read a fitted `KCAGC`."""
    saved = read_saved(path, SavedEstimator, FORMAT, "a saved KCAGC")
    unfitted = [None if one is None else one.unfitted() for one in saved.tables.values()]
    settings = {"weighting": "none", **saved.settings, "transformers": unfitted if any(unfitted) else None}
    settings["accept"] = tuple(settings.get("accept", ()))
    if saved.filter_parameter is not None:
        settings["filter"] = saved.filter_parameter.restore()
    try:
        model: Any = kind(**settings)
        model.ledger_ = Ledger(Disclosure.from_fields(fields) for fields in saved.ledger)
        model.labels_ = restore(saved.labels).astype(np.intp)
        figures = {"modularity_": None} | saved.figures  # a file of 0.9.0 or earlier has no modularity
        for name in _FIGURES:
            setattr(model, name, figures[name])
        model.insights_ = PartyInsights(None)
    except (TypeError, KeyError, ValueError, KcagcError) as error:
        raise DataError(f"{path}: is not a saved KCAGC, or is damaged: {error}") from error
    model.node_ids_ = None if saved.ids is None else NodeIds.of(saved.ids, where=f"{path}: ids").values
    model.filter_, model.models_, model.merges_ = saved.filter.restore(), saved.models, saved.merges
    model.psi_ = getattr(model.filter_, "psi", None)
    model.psi_search_ = _psi_search(saved.figures.get("psi_search_"))
    model.transformers_ = {name: None if one is None else one.fitted() for name, one in saved.tables.items()}
    model.feature_names_ = saved.feature_names
    weights = {name: np.ones(len(names)) for name, names in saved.feature_names.items()}
    model.column_weights_ = weights | {name: restore(one) for name, one in saved.column_weights.items()}
    if any(one.shape != weights[name].shape for name, one in model.column_weights_.items() if name in weights):
        raise DataError(f"{path}: is not a saved KCAGC, or is damaged: the weights are not those of its columns")
    taken = next(iter(saved.models.values())).parameters.method
    model.method_ = taken
    model.method_reason_ = saved.figures.get("method_reason_", "the version that made this model took it")
    return model  # type: ignore[no-any-return]


def _psi_search(saved: dict[str, Any] | None) -> PsiSearch | None:
    if saved is None:
        return None
    values, modularity, error = (tuple(saved[name]) for name in ("values", "modularity", "error"))
    return PsiSearch(saved["psi"], values, modularity, error, saved["reason"])


def _stored(given: Filter) -> StoredFilter:
    """Return a filter as plain data; raise `ParameterError` for a class of the caller."""
    stored = given.stored()
    if stored.kind == "custom":
        raise ParameterError(f"filter: {given!r} cannot be saved; use HalfFilter, NormFilter or ChebyshevFilter")
    return stored


def _plain_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that are plain data: no functions, transformers or random number generators."""
    omitted = {"callbacks", "transformers", "filter", "random_state", "engine"}  # an engine is one of the machine
    settings = {name: value for name, value in given.items() if name not in omitted}
    settings["accept"] = sorted(settings["accept"])
    if not isinstance(settings["nodes"], str):
        settings["nodes"] = list(settings["nodes"])
    seed = given["random_state"]
    settings["random_state"] = int(seed) if isinstance(seed, Integral) else None
    if isinstance(given["filter"], str):
        settings["filter"] = given["filter"]
    return settings


def _plain(value: Any) -> Any:
    """Return a NumPy number as a Python number."""
    if hasattr(value, "item"):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} is not plain data")
