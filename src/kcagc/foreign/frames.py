"""Frames of pandas and polars: their columns as numbers or text, their rows by number, their ids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.errors import DataError
from kcagc.files.raw import RawTable
from kcagc.files.reading import Reading
from kcagc.files.table import PRESENT, Texts
from kcagc.graph.ids import NodeIds
from kcagc.text import quoted

_NOT_AVAILABLE = ("NAType", "NaTType")  # what pandas writes for missing: known by name, for it is not imported here


def is_frame(given: Any) -> bool:
    """Tell whether it is a table with named columns."""
    return all(hasattr(given, name) for name in ("columns", "dtypes", "shape", "__getitem__"))


def is_pandas(given: Any) -> bool:
    """Tell whether a frame has an index, as those of pandas do."""
    return hasattr(given, "index") and hasattr(given, "iloc")


def frame_ids(frame: Any, id_column: str | None, where: str) -> NodeIds | None:
    """Give what a frame calls its rows: the column `id_column`, or an index that is more than 0, 1, 2, ..."""
    if id_column is not None:
        if id_column not in list(frame.columns):
            listed = ", ".join(map(repr, list(frame.columns)[:20]))
            raise DataError(f"{where}: there is no column {id_column!r} to name the nodes; there are {listed}")
        return NodeIds.of(frame[id_column].to_numpy(), where=f"{where}: column {id_column!r}")
    if not is_pandas(frame):
        return None
    index = np.asarray(frame.index)
    if np.array_equal(index, np.arange(len(index))):
        return None
    try:
        return NodeIds.of(index, where=f"{where}: index")
    except DataError as error:
        raise DataError(f"{error} (frame.reset_index(drop=True) drops an index that names no nodes)") from error


def without(frame: Any, column: str | None) -> Any:
    """Give a frame without the column that names the nodes."""
    if column is None:
        return frame
    return frame.drop(columns=[column]) if is_pandas(frame) else frame.drop(column)


def frame_rows(frame: Any, rows: IntArray) -> Any:
    """Give these rows of a frame, -1 being one in which everything is missing."""
    lacking = rows < 0
    if not is_pandas(frame):
        source = frame.vstack(frame.clear(n=1)) if lacking.any() else frame
        return source[np.where(lacking, len(frame), rows)]
    taken = frame.iloc[np.maximum(rows, 0)].reset_index(drop=True)
    if lacking.any():
        taken = taken.mask(np.repeat(lacking[:, None], taken.shape[1], axis=1))
    return taken


@dataclass(frozen=True)
class FrameRows:
    """The places of a table in memory."""

    where: str
    ids: NodeIds | None = None

    def error(self, row: int, column: str, message: str) -> DataError:
        """Give the error that says `message` about one cell."""
        called = "" if self.ids is None else f" (id {quoted(self.ids.values[row])})"
        return DataError(f"{self.before}row {row}{called}, column {column!r}: {message}")

    def lacking(self, node: Any, column: str, message: str) -> DataError:
        """Give the error that says `message` about a column of a node that has no row."""
        return DataError(f"{self.before}there is no row for node {quoted(node)}; column {column!r}: {message}")

    @property
    def before(self) -> str:
        """What a message begins with."""
        return f"{self.where}: " if self.where else ""


def raw_frame(frame: Any, reading: Reading, where: str, ids: NodeIds | None = None) -> RawTable:
    """Read a frame as a file would be read."""
    source = FrameRows(where, ids)
    names = [str(name) for name in frame.columns]
    for name in reading.named.keys() - set(names):
        raise DataError(f"{source.before}there is no column {name!r}; there are {', '.join(map(repr, names[:20]))}")
    numbers: dict[str, FloatArray] = {}
    texts: dict[str, Texts] = {}
    for name, column in zip(names, frame.columns, strict=True):
        cells = reading.of(name)
        if cells is None:
            raise DataError(f"{source.before}column {name!r} was not in the table that was fitted")
        if cells.kind == "number":
            numbers[name] = _numbers(frame[column], source, name, gaps=cells.gaps)
        elif cells.kind == "text":
            texts[name] = [_text(value) for value in frame[column].to_numpy().tolist()]
    block = np.column_stack(list(numbers.values())) if numbers else np.empty((len(frame), 0))
    used = [name for name in names if name in numbers or name in texts]
    return RawTable(used, list(numbers), block, texts, np.arange(len(frame)), ids, source)


def _numbers(series: Any, source: FrameRows, name: str, *, gaps: bool) -> FloatArray:
    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "mM":
        raise DataError(f"{source.before}column {name!r} holds times; make numbers of them, or leave it out")
    listed = values if values.dtype.kind in "biuf" else [_number(value, series, source, name) for value in values]
    found: FloatArray = np.asarray(listed, dtype=np.float64)
    wrong = np.flatnonzero(np.isinf(found) if gaps else ~np.isfinite(found))
    if wrong.size:
        row = int(wrong[0])
        what = "missing" if np.isnan(found[row]) else "infinite"
        raise source.error(row, name, f"the value is {what}; {PRESENT if what == 'missing' else 'correct it'}")
    return found


def _number(value: Any, series: Any, source: FrameRows, name: str) -> float:
    if _is_missing(value):
        return float("nan")
    if not isinstance(value, Real):
        raise DataError(
            f"{source.before}column {name!r} holds values of type {series.dtype}; only numbers can be clustered: leave "
            "it out, or give a transformer that makes numbers of it"
        )
    return float(value)


def _text(value: Any) -> str | None:
    """Give a level as text: whole numbers alike whether a gap has made fractions of them or not."""
    if _is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    return None if not text or text.isspace() else text


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in _NOT_AVAILABLE
