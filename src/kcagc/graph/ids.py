"""Node ids: what organisations call a node, and the row it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kcagc._types import IntArray
from kcagc.errors import DataError
from kcagc.text import quoted

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

    @classmethod
    def numbered(cls, n: int) -> NodeIds:
        """Return the ids 0, 1, ..., n-1 of nodes without names."""
        return cls(np.arange(n, dtype=np.int64), where="nodes")

    @property
    def are_text(self) -> bool:
        """Whether the ids are strings."""
        return isinstance(self.values, list)

    def tolist(self) -> list[Any]:
        """Return the ids as Python strings or integers."""
        return self.values if isinstance(self.values, list) else self.values.tolist()

    def take(self, rows: IntArray) -> NodeIds:
        """Return the ids of some rows, in the order of `rows`."""
        values = self.values
        return NodeIds([values[row] for row in rows] if isinstance(values, list) else values[rows], where="ids")

    def sorted_rows(self) -> IntArray:
        """Return the rows in the order that all parties share: numbers by size, strings by code point."""
        if isinstance(self.values, list):
            return np.array(sorted(range(len(self)), key=self.values.__getitem__), dtype=np.int64)
        return self._order

    def find(self, values: IntArray | list[str]) -> IntArray:
        """Return the row of each of `values`, which are of the same kind as these ids; -1 where there is none."""
        if isinstance(values, list):
            return np.fromiter((self._row.get(value, -1) for value in values), np.int64, len(values))
        if len(self) == 0 or len(values) == 0:
            return np.full(len(values), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._sorted, values), len(self) - 1)
        return np.where(self._sorted[at] == values, self._order[at], -1)

    def positions(self, values: Iterable[Any], *, where: str) -> IntArray:
        """Return the row of each of `values`; an unknown id is an error that names the id and its row."""
        wanted = one_kind(values, where)
        self._check_kind(wanted, where)
        found = self.find(wanted)
        unknown = np.flatnonzero(found < 0)
        if unknown.size:
            named = ", ".join(f"{quoted(wanted[row])} in row {row}" for row in unknown[:_LISTED])
            more = f" and {unknown.size - _LISTED} more" if unknown.size > _LISTED else ""
            raise DataError(f"{where}: no node has the id {named}{more}")
        return found

    def alignment(
        self,
        values: Iterable[Any] | NodeIds,
        *,
        where: str,
        whose: str = "the graph's",
        missing: bool = False,
        extra: bool = False,
    ) -> IntArray:
        """Return, for each of these ids, the row of a table whose rows are named `values`.

        Both must hold the same ids. With `missing`, an id without a row gets -1; with `extra`, rows of other ids are
        left out.
        """
        rows = values if isinstance(values, NodeIds) else NodeIds.of(values, where=where)
        self._check_kind(rows.values, where, whose)
        found, known = rows.find(self.values), self.find(rows.values)
        absent = [] if missing else np.flatnonzero(found < 0).tolist()
        unknown = [] if extra else np.flatnonzero(known < 0).tolist()
        problems = [
            f"{len(wrong)} {what} ({', '.join(map(quoted, sorted(ids.values[row] for row in wrong)[:_LISTED]))}"
            f"{', ...' if len(wrong) > _LISTED else ''})"
            for wrong, ids, what in (
                (absent, self, f"of {whose} ids are missing"),
                (unknown, rows, f"are not among {whose} ids"),
            )
            if wrong
        ]
        if problems:
            raise DataError(f"{where}: ids do not match {whose}: {'; '.join(problems)}")
        return found

    def _check_kind(self, values: IntArray | list[str], where: str, whose: str = "the graph's") -> None:
        if len(values) and len(self) and _kind(values) != self.kind:
            raise DataError(
                f"{where}: ids here are {_kind(values)} (such as {quoted(values[0])}), but {whose} ids are "
                f"{self.kind} (such as {quoted(self.values[0])}); write them the same way in both"
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
                f"{where}: row {row} is {quoted(listed[row])} and row 0 is {quoted(listed[0])}; "
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
    return DataError(f"{where}: id {quoted(value)} appears twice, in rows {first} and {second}")
