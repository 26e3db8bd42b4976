"""`TablePreprocessor`: the rules of a configuration file as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kcagc._types import Features
from kcagc.errors import DataError, ParameterError
from kcagc.files.raw import RawTable
from kcagc.files.reading import Cells, Reading
from kcagc.foreign.frames import FrameRows, is_frame, raw_frame
from kcagc.tables.fitting import fit_table
from kcagc.tables.kept import KeptTable
from kcagc.tables.rules import ColumnRule, TableRules

Rule = ColumnRule | Mapping[str, Any]


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Make numbers of a table: words become columns of 0 and 1, gaps are filled, numbers scaled, column by column.

    Parameters
    - `columns`: a rule for each column that needs one, as {"age": {"missing": "mean", "scale": "standard"}}; what a
      rule may say is in `ColumnRule`. The columns of an array are called "0", "1", ...
    - `default`: the rule of all others.

    Unlike most transformers it is kept as plain data, so that a model with it can be saved. After `fit`: `kept_`.
    """

    def __init__(self, *, columns: Mapping[str, Rule] | None = None, default: Rule | None = None) -> None:
        self.columns = columns
        self.default = default

    def rules(self) -> TableRules:
        """Give the rules, checked."""
        if self.columns is not None and not isinstance(self.columns, Mapping):
            raise ParameterError(f"columns: must be rules by the name of their columns, not {self.columns!r}")
        named = {str(name): ColumnRule.of(rule, f"columns: {name}") for name, rule in (self.columns or {}).items()}
        return TableRules(ColumnRule.of({} if self.default is None else self.default, "default"), named)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find fillings, levels and scales; `y` is ignored."""
        rules = self.rules()
        raw = self._raw(X, rules.reading(), reset=True)
        if not raw.columns:
            raise DataError("X: all columns are dropped: nothing is left")
        self.kept_ = fit_table(rules, raw)
        return self

    def transform(self, X: Any) -> Features:
        """Make numbers of a table with the same columns; gives an array, or CSR where most entries are 0."""
        check_is_fitted(self)
        return self.kept_.apply(self._raw(X, self.kept_.reading(), reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Give what the columns are called that come out."""
        check_is_fitted(self)
        return np.asarray(self.kept_.names(), dtype=object)

    @classmethod
    def from_kept(cls, kept: KeptTable, **parameters: Any) -> Self:
        """Give a fitted transformer out of what one kept."""
        made = cls(**parameters)
        made.kept_ = kept
        made.n_features_in_ = len(kept.columns) + len(kept.dropped)
        return made

    def _raw(self, X: Any, reading: Reading, *, reset: bool) -> RawTable:
        if is_frame(X):
            if reset or hasattr(self, "feature_names_in_"):
                _ = validate_data(self, X, skip_check_array=True, reset=reset)
            return raw_frame(X, reading, "X")
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=None, ensure_all_finite=False, reset=reset, ensure_min_features=1
        )
        return raw_array(checked, reading)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = isinstance(self.default, Mapping) and self.default.get("missing") != "error"
        tags.transformer_tags.preserves_dtype = []
        return tags


def raw_array(values: Any, reading: Reading, where: str = "X") -> RawTable:
    """Read an array or a sparse matrix, whose columns are called by their numbers."""
    names = [str(column) for column in range(values.shape[1])]
    if not sparse.issparse(values) and values.dtype.kind not in "biuf":
        for value in values.flat:
            if isinstance(value, dict | list | set):
                raise TypeError(f"{where}: the argument must be a string or a number, not {type(value).__name__}")
        return raw_frame(_Columns(values, names), reading, where)
    for name in names:
        cells = reading.of(name) or Cells("drop")
        if cells.kind == "text":
            if sparse.issparse(values):
                raise DataError(f"{where}: column {name!r} cannot be categorical: a sparse matrix holds numbers only")
            return raw_frame(_Columns(values, names), reading, where)
    for name in reading.named.keys() - set(names):
        raise DataError(f"{where}: there is no column {name!r}; columns are called '0' to '{names[-1]}'")
    kept = [name for name in names if (reading.of(name) or Cells("drop")).kind == "number"]
    block = (sparse.csr_array(values) if sparse.issparse(values) else values).astype(np.float64)
    if len(kept) < len(names):
        block = block[:, [int(name) for name in kept]]
    entries = block.data if sparse.issparse(block) else block
    if np.isinf(entries).any():
        raise DataError(f"{where}: a value is infinite (Inf); correct it")
    return RawTable(kept, kept, block, {}, np.arange(block.shape[0]), None, FrameRows(where))


class _Columns:
    """An array as a frame, for columns of different kinds."""

    def __init__(self, values: NDArray[Any], names: list[str]) -> None:
        self.columns = names
        self._values = {name: values[:, place] for place, name in enumerate(names)}
        self._length = len(values)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> Any:
        return _Column(self._values[name])


class _Column:
    def __init__(self, values: NDArray[Any]) -> None:
        self._values, self.dtype = values, values.dtype

    def to_numpy(self) -> NDArray[Any]:
        return self._values
