"""A party's table made into numbers by that party's transformer, fitted on its own rows alone."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import Features
from kcagc.errors import DataError, ParameterError
from kcagc.files.reading import Reading
from kcagc.foreign.frames import is_frame, raw_frame
from kcagc.inputs.given import Given
from kcagc.text import quoted


def transformers_for(asked: Any, names: Sequence[str]) -> dict[str, Any]:
    """Give each party a transformer of its own, not fitted yet, or None."""
    each = list(asked) if isinstance(asked, list | tuple) else [asked] * len(names)
    if len(each) != len(names):
        raise ParameterError(f"transformers: {len(each)} for {len(names)} parties; give one, or None, for each")
    for name, one in zip(names, each, strict=True):
        if one is not None and not (hasattr(one, "fit") and hasattr(one, "transform")):
            raise ParameterError(
                f"transformers: {name}: must have fit and transform, as scikit-learn's do, not {one!r}"
            )
    return {name: None if one is None else _anew(one) for name, one in zip(names, each, strict=True)}


def _anew(transformer: Any) -> Any:
    from sklearn.base import clone  # noqa: PLC0415 - a role without transformers starts without scikit-learn

    return clone(transformer)


def prepared(given: Given, transformer: Any, *, fit: bool) -> tuple[Features, list[str]]:
    """Give a party's numbers, and what the columns are called."""
    content = given.content
    if transformer is None:
        lacking = np.flatnonzero(given.rows < 0)
        if lacking.size:
            called = lacking[0] if given.ids is None else given.ids.values[lacking[0]]
            raise DataError(
                f"{given.name}: there is no row for node {quoted(called)} (and {lacking.size - 1} more); a transformer "
                "that fills in what is missing is needed, or nodes='intersection'"
            )
        return _numbers(given, content)
    try:
        made = transformer.fit(content).transform(content) if fit else transformer.transform(content)
    except (ValueError, TypeError) as error:
        raise DataError(f"{given.name}: transformers: {error}") from error
    numbers, columns = _numbers(given, made)
    if numbers.shape[0] != given.n_rows:
        raise DataError(f"{given.name}: transformers: {given.n_rows} rows became {numbers.shape[0]}")
    with contextlib.suppress(AttributeError, ValueError, TypeError):  # not every transformer knows
        columns = [str(name) for name in transformer.get_feature_names_out()]
    return numbers, columns


def _numbers(given: Given, content: Any) -> tuple[Features, list[str]]:
    if is_frame(content):
        raw = raw_frame(content, Reading(), given.name, given.ids)
        return raw.numbers, raw.columns
    values = content if sparse.issparse(content) else np.asarray(content)
    width = values.shape[1] if values.ndim == 2 else 0
    return values, [str(column) for column in range(width)]
