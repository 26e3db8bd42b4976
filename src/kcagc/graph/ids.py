"""Node ids: what organisations call a node, and the row it stands for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import IntArray
from kcagc.errors import DataError

_LISTED = 3


class NodeIds:
    """Distinct node ids in row order; all are whole numbers or all are strings, never a mixture."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values
        self._order = np.argsort(values, kind="stable")
        self._sorted = values[self._order]

    @classmethod
    def of(cls, values: Iterable[Any], *, where: str) -> NodeIds:
        """Check ids: no repeats, none missing, all of one kind. `where` opens the message of an error."""
        array = _one_kind(values, where)
        ids = cls(array)
        repeated = np.flatnonzero(ids._sorted[1:] == ids._sorted[:-1])
        if repeated.size:
            # a stable sort keeps the earlier row first, so these two rows are in the order of the file
            first, second = ids._order[repeated[0]], ids._order[repeated[0] + 1]
            raise DataError(f"{where}: id {_shown(array[first])} appears twice, in rows {first} and {second}")
        return ids

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> str:
        """Say in words what the ids are."""
        return "numbers" if self.values.dtype.kind == "i" else "strings"

    def positions(self, values: Iterable[Any], *, where: str) -> IntArray:
        """Find the row of each of `values`; one that is unknown is an error that names it and its place."""
        array = _one_kind(values, where)
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        self._check_kind(array, where)
        at = np.minimum(np.searchsorted(self._sorted, array), max(len(self) - 1, 0))
        unknown = np.flatnonzero(self._sorted[at] != array) if len(self) else np.arange(len(array))
        if unknown.size:
            named = ", ".join(f"{_shown(array[row])} in row {row}" for row in unknown[:_LISTED])
            more = f" and {unknown.size - _LISTED} more" if unknown.size > _LISTED else ""
            raise DataError(f"{where}: no node has the id {named}{more}")
        return self._order[at].astype(np.int64)

    def alignment(self, values: Iterable[Any], *, where: str) -> IntArray:
        """Give the order that brings rows called `values` into this order; both must hold the same ids."""
        other = NodeIds.of(values, where=where)
        self._check_kind(other.values, where)
        missing = np.setdiff1d(self.values, other.values)
        extra = np.setdiff1d(other.values, self.values)
        if missing.size or extra.size:
            parts = [
                f"{len(found)} {what} ({', '.join(_shown(value) for value in found[:_LISTED])}"
                f"{', ...' if len(found) > _LISTED else ''})"
                for found, what in ((missing, "of the graph's ids are missing"), (extra, "are not in the graph"))
                if found.size
            ]
            raise DataError(f"{where}: ids do not match the graph's: {'; '.join(parts)}")
        return other.positions(self.values, where=where)

    def _check_kind(self, array: NDArray[Any], where: str) -> None:
        if array.size and len(self) and (array.dtype.kind == "i") != (self.values.dtype.kind == "i"):
            ours, theirs = _shown(self.values[0]), _shown(array[0])
            kind = "numbers" if array.dtype.kind == "i" else "strings"
            raise DataError(
                f"{where}: ids here are {kind} (such as {theirs}), but the graph's ids are {self.kind} "
                f"(such as {ours}); write them the same way in both"
            )


def _one_kind(values: Iterable[Any], where: str) -> NDArray[Any]:
    """Give int64 or strings; refuse missing ids, floats and mixtures, which would match by accident or not at all."""
    array = values if isinstance(values, np.ndarray) else np.asarray(list(values), dtype=object)
    if array.ndim != 1:
        raise DataError(f"{where}: ids must be one column, but have shape {array.shape}")
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array
    kinds = [_kind_of(value) for value in array.tolist()]
    for row, kind in enumerate(kinds):
        if kind is None:
            raise DataError(f"{where}: row {row} has no usable id ({array[row]!r}); ids are whole numbers or strings")
        if kind is not kinds[0]:
            raise DataError(
                f"{where}: row {row} is {_shown(array[row])} and row 0 is {_shown(array[0])}; "
                "ids must be all numbers or all strings"
            )
    return array.astype(np.int64 if kinds and kinds[0] is int else np.str_)


def _kind_of(value: Any) -> type | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int
    if isinstance(value, str) and value:
        return str
    return None


def _shown(value: Any) -> str:
    return repr(str(value)) if isinstance(value, str) else str(value)
