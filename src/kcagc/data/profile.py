"""Profiles of columns: type, gaps, levels, spread, skew and a histogram, from a file or from a table in memory.

A column is read block by block. Its numbers are kept as numbers and its texts are counted, so a large table needs
little more memory than its numbers.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from kcagc._types import FloatArray
from kcagc.data.csv_format import ReadNumber
from kcagc.data.files import InputFile
from kcagc.data.problems import Problems
from kcagc.data.table import MISSING, check_header
from kcagc.data.table_files import delimited_records, read_header
from kcagc.text import count

BINS = 12
_BLOCK = 20_000  # rows that are looked at together
_MOST_TEXTS = 200_000  # different texts of a column that are counted
_LOGICAL = {"true", "false"}
# How people write a gap, beyond what a column of numbers takes for one anyway.
GAPS = {
    "-", "--", "---", "–", "—", "?", "??", ".", "..", "*", "n.a.", "n.v.", "(null)", "nil", "\\n", "missing", "unknown",
    "unbekannt", "k.a.", "k. a.", "keine angabe", "not available", "undefined", "#value!", "#wert!", "#ref!", "#div/0!",
}  # fmt: skip
_DATE = re.compile(
    r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2}))(?:[T ]\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)


@dataclass
class ColumnProfile:
    """What a column holds.

    Attributes
    ----------
    name : str
        The name of the column.
    n_rows, n_empty : int
        The number of cells, and of cells that are empty or null.
    values : ndarray of shape (n_numbers,)
        The numbers, in no particular order.
    texts : Counter
        How often each cell that is not empty occurs, as text; incomplete if `many_texts`.
    words : Counter
        The same for cells that are not numbers.
    stored : {"text", "numbers", "times", "other"}
        How the table stores the column; a CSV file stores texts.
    """

    name: str
    n_rows: int = 0
    n_empty: int = 0
    values: FloatArray = field(default_factory=lambda: np.empty(0))
    texts: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    many_texts: bool = False
    leading_zeros: int = 0
    stored: str = "text"

    @property
    def n_filled(self) -> int:
        """The number of cells that are not empty."""
        return self.n_rows - self.n_empty

    @property
    def n_words(self) -> int:
        """The number of cells that are not numbers."""
        return self.n_filled - len(self.values)

    @property
    def n_levels(self) -> int:
        """The number of different cells that are no gaps; a lower bound if `many_texts`."""
        return len(self.texts) - len(self.gap_words()) if self.texts else len(np.unique(self.values))

    def gap_words(self) -> Counter[str]:
        """Return the texts that people write for a gap."""
        return Counter({text: count for text, count in self.words.items() if is_gap(text)})

    def logical(self) -> bool:
        """Return whether all cells are true or false."""
        return bool(self.words) and all(text.lower() in _LOGICAL for text in self.words) and not len(self.values)

    def dates(self) -> int:
        """Count the cells that look like dates or times."""
        return sum(count for text, count in self.words.items() if _DATE.fullmatch(text))

    def histogram(self) -> list[int]:
        """Count the numbers in bins of equal width; without numbers, count the most frequent texts."""
        known = self.values[np.isfinite(self.values)]
        if len(known) and 2 * len(known) >= self.n_filled:
            counts: list[int] = np.histogram(known, bins=BINS)[0].tolist()
            return counts
        return [count for _, count in self.texts.most_common(BINS)]

    def skew(self) -> float:
        """Return the skewness of the numbers; 0 without a spread."""
        return skewness(self.values[np.isfinite(self.values)])


def is_gap(text: str) -> bool:
    """Return whether people write a gap like this."""
    return text.lower() in GAPS or text.lower() in MISSING


def skewness(values: FloatArray) -> float:
    """Return the third standardised moment; 0 without a spread."""
    if len(values) < 3:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        centred = values - values.mean()
        spread = np.sqrt(np.mean(centred**2))
        found = float(np.mean(centred**3) / spread**3) if spread > 0 else 0.0
    return found if math.isfinite(found) else 0.0


class _Builder:
    """Builds the profile of a column from blocks of texts."""

    def __init__(self, name: str, read: ReadNumber, *, plain: bool) -> None:
        self._profile = ColumnProfile(name)
        self._values = array("d")
        self._read, self._plain = read, plain

    def add(self, cells: list[str]) -> None:
        """Add a block of texts."""
        profile = self._profile
        profile.n_rows += len(cells)
        if self._plain and (numbers := _all_numbers(cells)) is not None:
            self._values.frombytes(numbers.tobytes())
            if not profile.many_texts:
                self._count(Counter(map(str.strip, cells)))
            return
        counts = Counter(map(str.strip, cells))
        profile.n_empty += counts.pop("", 0)
        if not profile.many_texts:
            self._count(counts)
        for text, many in counts.items():
            value = self._read(text)
            if value is None or math.isnan(value):
                profile.words[text] += many
            else:
                profile.leading_zeros += _padded(text) * many
                self._values.extend([value] * many)

    def _count(self, counts: Counter[str]) -> None:
        self._profile.texts.update(counts)
        self._profile.many_texts = len(self._profile.texts) > _MOST_TEXTS

    def finished(self) -> ColumnProfile:
        """Return the profile."""
        self._profile.values = np.frombuffer(self._values, dtype=np.float64) if self._values else np.empty(0)
        if self._plain:
            self._profile.leading_zeros = sum(count for text, count in self._profile.texts.items() if _padded(text))
        return self._profile


def _padded(text: str) -> bool:
    return len(text) > 1 and text[0] == "0" and text.isdecimal()


def _all_numbers(cells: list[str]) -> FloatArray | None:
    """Return the numbers if each cell is one."""
    try:
        found = np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    if np.isnan(found).any():
        return None
    joined = "".join(cells)
    return found if joined.isascii() and "_" not in joined else None


def profile_file(file: InputFile, progress: Callable[[int], None] = lambda _: None) -> list[ColumnProfile]:
    """Return a profile of each column of a CSV, TSV or Parquet file; `progress` is called with the rows so far."""
    if file.kind == "parquet":
        from kcagc.data.parquet import parquet_blocks  # noqa: PLC0415 - an extra, and slow to import

        return _from_arrays(parquet_blocks(file, _BLOCK), progress)
    with file.lines() as stream:
        header, last = read_header(file, stream)
        check_header(header, file.origin())
        read = file.csv.number_reader()
        builders = [_Builder(name, read, plain=file.csv.plain) for name in header]
        problems = Problems()
        records = _whole_rows(delimited_records(file, stream, last, problems), len(header), problems)
        rows = 0
        while block := list(islice(records, _BLOCK)):
            for builder, cells in zip(builders, zip(*block, strict=True), strict=True):
                builder.add(list(cells))
            rows += len(block)
            progress(rows)
    if problems:
        raise problems.error(str(file.path), str, party=file.party)
    if not rows:
        raise file.error("there are no rows below the header")
    return [builder.finished() for builder in builders]


def _whole_rows(records: Iterable[tuple[int, list[str]]], width: int, problems: Problems) -> Iterator[list[str]]:
    for line, cells in records:
        if len(cells) == width:
            yield cells
        else:
            first = f"has {count(len(cells), 'cell')}, but the header has {width}"
            problems.add("row length", "rows", None, f"line {line}", first)


def _from_arrays(blocks: Iterable[dict[str, tuple[str, Any]]], progress: Callable[[int], None]) -> list[ColumnProfile]:
    """Return profiles from blocks of columns, each with how it is stored ("text", "numbers", "times" or "other")."""
    found: dict[str, ColumnProfile] = {}
    numbers: dict[str, list[FloatArray]] = {}
    rows = 0
    for block in blocks:
        for name, (stored, values) in block.items():
            one = found.setdefault(name, ColumnProfile(name, stored=stored))
            one.n_rows += len(values)
            if stored == "numbers":
                known = values[~np.isnan(values)]
                one.n_empty += len(values) - len(known)
                numbers.setdefault(name, []).append(known)
            elif stored == "text":
                counts = Counter("" if value is None else value.strip() for value in values)
                one.n_empty += counts.pop("", 0)
                one.words.update(counts)
            else:
                one.n_empty += sum(value is None for value in values)
        rows += len(next(iter(block.values()))[1]) if block else 0
        progress(rows)
    for name, one in found.items():
        if one.stored == "text":
            one.texts = one.words
        elif one.stored == "numbers":
            one.values = np.concatenate(numbers[name])
            one.texts = _number_texts(one.values)
            one.many_texts = not one.texts
    return list(found.values())


def _number_texts(values: FloatArray) -> Counter[str]:
    """Count numbers by their text, if there are few different ones."""
    different, counts = np.unique(values, return_counts=True)
    if len(different) > _MOST_TEXTS:
        return Counter()
    texts = (
        f"{value:.0f}" if value.is_integer() and abs(value) < 2**63 else repr(value) for value in different.tolist()
    )
    return Counter(dict(zip(texts, counts.tolist(), strict=True)))


def profile_frame(content: Any) -> list[ColumnProfile]:
    """Return a profile of each column of a frame of pandas or polars, or of an array."""
    from kcagc.data.interop import typed_columns  # noqa: PLC0415 - files need none of it

    return _from_arrays([typed_columns(content)], lambda _: None)
