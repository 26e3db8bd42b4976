"""Transformers of scikit-learn: `TablePreprocessor`, which has the rules for columns, and one for each party."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from kcagc._types import Features
from kcagc.data.fitted_rules import FittedRules
from kcagc.data.interop import is_frame, table_of
from kcagc.data.preprocessing import ColumnRule, TableRules
from kcagc.data.problems import Origin
from kcagc.data.table import Schema, Table
from kcagc.data.weighting import Weighting
from kcagc.errors import ParameterError
from kcagc.graph.ids import NodeIds
from kcagc.text import listed

Rule = ColumnRule | Mapping[str, Any]


@contextlib.contextmanager
def rows_called(transformer: Any, name: str, ids: NodeIds | None) -> Iterator[None]:
    """Make the errors of a `TablePreprocessor` name the party and its nodes, inside this context."""
    if isinstance(transformer, TablePreprocessor):
        transformer._origin = Origin(name, "row" if ids is None else "node", ids=ids)
    try:
        yield
    finally:
        if isinstance(transformer, TablePreprocessor):
            transformer._origin = _UNNAMED


_UNNAMED = Origin("X")


class TablePreprocessor(TransformerMixin, BaseEstimator):
    """Make numbers of a table, column by column: replace missing cells, scale and weight numbers, encode categories.

    The fitted rules are plain data, so a model that uses this transformer can be saved.

    Parameters
    ----------
    columns : mapping of str to ColumnRule or mapping, or None, default None
        A rule for each column that needs one, such as ``{"age": {"missing": "mean", "scale": "standard"}}``. Columns of
        an array are called "0", "1", ...
    default : ColumnRule, mapping or None, default None
        The rule of all other columns; None accepts finite numbers only.

    Attributes
    ----------
    fitted_ : FittedRules
        The fitted rules.
    n_features_in_ : int
        The number of columns that `fit` saw.

    Examples
    --------
    >>> import numpy as np
    >>> from kcagc.data import TablePreprocessor
    >>> table = np.array([[1.0, 10.0], [np.nan, 30.0], [4.0, 20.0]])
    >>> TablePreprocessor(default={"missing": "zero", "scale": "minmax"}).fit_transform(table).tolist()
    [[0.25, 0.0], [0.0, 1.0], [1.0, 0.5]]
    """

    def __init__(self, *, columns: Mapping[str, Rule] | None = None, default: Rule | None = None) -> None:
        self.columns = columns
        self.default = default

    _origin = _UNNAMED

    def rules(self) -> TableRules:
        """Return the rules after a check.

        Returns
        -------
        TableRules

        Raises
        ------
        ParameterError
            A rule is wrong; the error names its column.
        """
        if self.columns is not None and not isinstance(self.columns, Mapping):
            raise ParameterError(f"columns: must be rules by the names of their columns, not {self.columns!r}")
        named = {str(name): ColumnRule.of(rule, f"columns: {name}") for name, rule in (self.columns or {}).items()}
        return TableRules(ColumnRule.of({} if self.default is None else self.default, "default"), named)

    def weighted(self, weighting: Weighting) -> Self:
        """Return a transformer, not fitted, whose rules have another weighting in place of "auto".

        Parameters
        ----------
        weighting : {"auto", "idf", "none"}
            See `ColumnRule`.

        Returns
        -------
        TablePreprocessor
        """
        rules = self.rules().weighted(weighting)
        return type(self)(columns=rules.columns, default=rules.default)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the rules to a table.

        Parameters
        ----------
        X : frame of pandas or polars, array or sparse matrix of shape (n_rows, n_columns)
            The table.
        y : ignored

        Returns
        -------
        TablePreprocessor
            The fitted transformer.

        Raises
        ------
        DataError
            A cell does not fit the rules; the error names row and column.
        """
        rules = self.rules()
        self.fitted_ = rules.fit(self._table(X, rules.schema(), reset=True))
        return self

    def transform(self, X: Any) -> Features:
        """Make numbers of a table that has the columns of the fit.

        Parameters
        ----------
        X : frame of pandas or polars, array or sparse matrix of shape (n_rows, n_columns)
            The table.

        Returns
        -------
        ndarray or csr_array of shape (n_rows, n_features)
            A CSR matrix if most entries are 0.
        """
        check_is_fitted(self)
        return self.fitted_.apply(self._table(X, self.fitted_.schema(), reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of the result.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.asarray(self.fitted_.feature_names(), dtype=object)

    @classmethod
    def from_fitted(cls, fitted: FittedRules, **parameters: Any) -> Self:
        """Return a fitted transformer, from the rules that another one fitted.

        Parameters
        ----------
        fitted : FittedRules
            The attribute `fitted_` of the other transformer.
        **parameters
            The parameters of the other transformer.

        Returns
        -------
        TablePreprocessor
        """
        made = cls(**parameters)
        made.fitted_ = fitted
        made.n_features_in_ = len(fitted.columns) + len(fitted.dropped)
        return made

    def _table(self, X: Any, schema: Schema, *, reset: bool) -> Table:
        if is_frame(X):
            if reset or hasattr(self, "feature_names_in_"):
                _ = validate_data(self, X, skip_check_array=True, reset=reset)
            return table_of(X, schema, self._origin)
        checked = validate_data(
            self, X, accept_sparse="csr", dtype=None, ensure_all_finite=False, reset=reset, ensure_min_features=1
        )
        if checked.dtype.kind == "O":
            for value in checked.flat:
                if isinstance(value, dict | list | set):
                    raise TypeError(f"X: the argument must be a string or a number, not {type(value).__name__}")
        return table_of(checked, schema, self._origin)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = isinstance(self.default, Mapping) and self.default.get("missing") != "error"
        tags.transformer_tags.preserves_dtype = []
        return tags


def transformers_for(asked: Any, names: Sequence[str], weighting: Weighting) -> dict[str, tuple[Any, None]]:
    """Return for each party a transformer of its own that is not fitted, or None; there are no weights yet."""

    def own(given: Any) -> Any:
        if isinstance(given, TablePreprocessor) and weighting != "auto":
            return given.weighted(weighting)
        return None if given is None else clone(given)

    if isinstance(asked, Mapping):
        unknown = [name for name in asked if name not in names]
        if unknown:
            raise ParameterError(f"transformers: there is no party {unknown[0]!r}; the parties are {listed(names)}")
        asked = [asked.get(name) for name in names]
    each = list(asked) if isinstance(asked, list | tuple) else [asked] * len(names)
    if len(each) != len(names):
        raise ParameterError(f"transformers: {len(each)} for {len(names)} parties; give one, or None, for each")
    for name, one in zip(names, each, strict=True):
        if one is not None and not (hasattr(one, "fit") and hasattr(one, "transform")):
            raise ParameterError(f"transformers: {name}: must have fit and transform, as in scikit-learn, not {one!r}")
    return {name: (own(one), None) for name, one in zip(names, each, strict=True)}
