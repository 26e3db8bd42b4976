"""Node ids: what organisations call a node, and the row it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import IntArray
from kcagc.errors import DataError

_LISTED = 3
_LARGEST = np.iinfo(np.int64).max


class NodeIds:
    """Distinct node ids in row order; all are whole numbers or all are strings, never a mixture."""

    def __init__(self, values: IntArray | list[str], *, where: str) -> None:
        """Take ids of one kind, as `NodeIds.of` makes them; `where` opens the message of an error."""
        self.values = values
        if isinstance(values, list):
            # A dictionary, because an array of strings would be as wide as the longest of them.
            self._row: dict[str, int] = {}
            for row, value in enumerate(values):
                first = self._row.setdefault(value, row)
                if first != row:
                    raise _repeated(value, first, row, where)
        else:
            self._order = np.argsort(values, kind="stable")
            self._sorted = values[self._order]
            repeated = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
            if repeated.size:  # a stable sort keeps the earlier row first
                first, second = self._order[repeated[0]], self._order[repeated[0] + 1]
                raise _repeated(values[first], first, second, where)

    @classmethod
    def of(cls, values: Iterable[Any], *, where: str) -> NodeIds:
        """Check ids: no repeats, none missing, all of one kind."""
        return cls(one_kind(values, where), where=where)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> str:
        """Say in words what the ids are."""
        return _kind(self.values)

    def positions(self, values: Iterable[Any], *, where: str) -> IntArray:
        """Find the row of each of `values`; one that is unknown is an error that names it and its place."""
        return self._positions(one_kind(values, where), where)

    def alignment(self, values: Iterable[Any], *, where: str) -> IntArray:
        """Give the order that brings rows called `values` into this order; both must hold the same ids."""
        other = NodeIds.of(values, where=where)
        self._check_kind(other.values, where)
        ours, theirs = set(self._listed()), set(other._listed())
        problems = [
            f"{len(found)} {what} ({', '.join(_shown(value) for value in sorted(found)[:_LISTED])}"
            f"{', ...' if len(found) > _LISTED else ''})"
            for found, what in (
                (ours - theirs, "of the graph's ids are missing"),
                (theirs - ours, "are not in the graph"),
            )
            if found
        ]
        if problems:
            raise DataError(f"{where}: ids do not match the graph's: {'; '.join(problems)}")
        return other._positions(self.values, where)

    def _positions(self, values: IntArray | list[str], where: str) -> IntArray:
        self._check_kind(values, where)
        if isinstance(values, list):
            found = np.fromiter((self._row.get(value, -1) for value in values), np.int64, len(values))
        elif len(self) == 0 or len(values) == 0:
            found = np.full(len(values), -1)
        else:
            at = np.minimum(np.searchsorted(self._sorted, values), len(self) - 1)
            found = np.where(self._sorted[at] == values, self._order[at], -1)
        unknown = np.flatnonzero(found < 0)
        if unknown.size:
            named = ", ".join(f"{_shown(values[row])} in row {row}" for row in unknown[:_LISTED])
            more = f" and {unknown.size - _LISTED} more" if unknown.size > _LISTED else ""
            raise DataError(f"{where}: no node has the id {named}{more}")
        return found

    def _listed(self) -> list[Any]:
        return self.values if isinstance(self.values, list) else self.values.tolist()

    def _check_kind(self, values: IntArray | list[str], where: str) -> None:
        if len(values) and len(self) and _kind(values) != self.kind:
            raise DataError(
                f"{where}: ids here are {_kind(values)} (such as {_shown(values[0])}), but the graph's ids are "
                f"{self.kind} (such as {_shown(self.values[0])}); write them the same way in both"
            )


def one_kind(values: Iterable[Any], where: str) -> IntArray | list[str]:
    """Give int64 or strings; refuse missing ids, fractions and mixtures, which would match by accident or never."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise DataError(f"{where}: ids must be one column, but have shape {values.shape}")
        masked = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        if masked is not None and masked.any():
            raise DataError(f"{where}: row {int(np.flatnonzero(masked)[0])} has no id")
        if values.dtype.kind == "i" or (values.dtype.kind == "u" and not (values > _LARGEST).any()):
            return np.asarray(values).astype(np.int64)
    listed: Sequence[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = [_kind_of(value) for value in listed]
    for row, kind in enumerate(kinds):
        if kind is None:
            raise DataError(
                f"{where}: row {row} has no usable id ({listed[row]!r}); ids are strings or whole numbers below 2^63"
            )
        if kind is not kinds[0]:
            raise DataError(
                f"{where}: row {row} is {_shown(listed[row])} and row 0 is {_shown(listed[0])}; "
                "ids must be all numbers or all strings"
            )
    if kinds and kinds[0] is str:
        return [str(value) for value in listed]
    return np.array([int(value) for value in listed], dtype=np.int64)


def _kind_of(value: Any) -> type | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int if abs(int(value)) <= _LARGEST else None
    if isinstance(value, str) and value:
        return str
    return None


def _kind(values: NDArray[Any] | list[str]) -> str:
    return "strings" if isinstance(values, list) else "numbers"


def _repeated(value: Any, first: int, second: int, where: str) -> DataError:
    return DataError(f"{where}: id {_shown(value)} appears twice, in rows {first} and {second}")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
