"""Fitting rules to a table: scikit-learn finds fillings and scales, and what it found is kept as plain data."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from kcagc._types import Features, FloatArray
from kcagc.files.raw import RawTable
from kcagc.tables.kept import KeptTable
from kcagc.tables.levels import KeptLevels
from kcagc.tables.numbers import KeptNumbers, filled, logged, missing_entries, picked, refuse_gaps
from kcagc.tables.rules import ColumnRule, TableRules

_SPARSE_BELOW = 0.3  # share of entries that are not zero, as scikit-learn's ColumnTransformer has it
_STRATEGY = {"mean": "mean", "median": "median", "zero": "constant", "indicator": "mean"}


def fit_table(rules: TableRules, raw: RawTable) -> KeptTable:
    """Fit the rule of every column to a table."""
    numbers = _fit_numbers(rules, raw)
    levels = tuple(
        KeptLevels.fit(raw, name, rules.of(name)) for name in raw.columns if rules.of(name).kind == "categorical"
    )
    dropped = tuple(name for name, rule in rules.columns.items() if rule.kind == "drop")
    return KeptTable(numbers, levels, dropped, rules.default.kind == "drop", _is_sparse(raw, numbers, levels))


def _is_sparse(raw: RawTable, numbers: KeptNumbers, levels: tuple[KeptLevels, ...]) -> bool:
    if sparse.issparse(raw.numbers) and raw.number_columns:
        return True
    dense, one_hot = len(numbers.columns), sum(len(one.names()) for one in levels)
    return bool(levels) and dense + len(levels) < _SPARSE_BELOW * (dense + one_hot)


def _fit_numbers(rules: TableRules, raw: RawTable) -> KeptNumbers:
    names = tuple(name for name in raw.number_columns if rules.of(name).kind == "number")
    count = len(names)
    fill, centre, divisor = np.full(count, np.nan), np.zeros(count), np.ones(count)
    groups: dict[ColumnRule, list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(rules.of(name), []).append(place)
    block = picked(raw, names)
    strict = np.array([rules.of(name).missing == "error" for name in names], dtype=bool)
    refuse_gaps(raw, names, *missing_entries(block), strict)
    for rule, places in groups.items():
        if rule.missing == "error" and rule.scale == "none":
            continue
        chosen = block if len(places) == count else block[:, places]
        called = tuple(names[place] for place in places)
        fill[places], centre[places], divisor[places] = _fit_group(rule, raw, called, chosen)
    each = [rules.of(name) for name in names]
    return KeptNumbers(
        names,
        tuple(None if rule.missing == "error" else value for rule, value in zip(each, fill.tolist(), strict=True)),
        tuple(rule.missing == "indicator" for rule in each),
        tuple(rule.scale == "log1p" for rule in each),
        tuple(centre.tolist()),
        tuple(divisor.tolist()),
    )


def _fit_group(
    rule: ColumnRule, raw: RawTable, names: tuple[str, ...], block: Features
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give filling, centre and divisor of columns that have the same rule."""
    count = len(names)
    fill, centre, divisor = np.full(count, np.nan), np.zeros(count), np.ones(count)
    if rule.missing != "error":
        _, columns = missing_entries(block)
        empty = np.flatnonzero(np.bincount(columns, minlength=count) == raw.n_rows)
        if empty.size and rule.missing != "zero":
            raise raw.error(0, names[empty[0]], "no row has a value in this column; drop it, or fill it with zero")
        from sklearn.impute import SimpleImputer  # noqa: PLC0415 - slow to import, and not always needed

        imputer = SimpleImputer(strategy=_STRATEGY[rule.missing], fill_value=0.0, keep_empty_features=True)
        fill = np.asarray(imputer.fit(block).statistics_, dtype=np.float64)
    if rule.scale == "log1p":
        logged(raw, names, filled(block, fill), np.ones(count, dtype=bool))  # a value without a logarithm is named now
    elif rule.scale != "none":
        centre, divisor = _scale(rule, filled(block, fill))
    if not (np.isfinite(centre).all() and np.isfinite(divisor).all()):
        wrong = int(np.flatnonzero(~(np.isfinite(centre) & np.isfinite(divisor)))[0])
        raise raw.error(0, names[wrong], "the values of this column are too large to be scaled")
    return fill, centre, divisor


def _scale(rule: ColumnRule, block: Features) -> tuple[FloatArray, FloatArray]:
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler  # noqa: PLC0415 - as above

    nothing = np.zeros(block.shape[1])
    if rule.scale == "standard":
        fitted = StandardScaler(with_mean=not sparse.issparse(block)).fit(block)
        return nothing if sparse.issparse(block) else fitted.mean_, fitted.scale_
    if sparse.issparse(block):  # to subtract the least value would fill it
        return nothing, MaxAbsScaler().fit(block).scale_
    bounds = MinMaxScaler().fit(block)
    return bounds.data_min_, np.where(bounds.data_range_ > 0, bounds.data_range_, 1.0)
