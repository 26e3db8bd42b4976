"""Find out how a CSV file is written. The result is a proposal for a person; no run calls this module."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from kcagc.data.csv_format import DELIMITERS, FORMATS, CsvFormat, read_number
from kcagc.data.files import InputFile
from kcagc.data.table import MISSING
from kcagc.text import quoted

_SAMPLE = 1 << 18  # characters in which the delimiter is looked for
_ROWS = 20_000  # rows in which numbers are looked for
_RECORDS = 200  # rows that a delimiter must divide alike
_MOSTLY = 0.6  # share of a column's cells that look like numbers
_ENOUGH = 3
_LOOKS_LIKE_NUMBER = re.compile(r"[-+]?[\d.,][\d.,'\u2019\u00a0\u2009\u202f ]*(?:[eE][-+]?\d+)?")
_THREE_DECIMALS = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")


@dataclass(frozen=True)
class Detected:
    """How a file seems to be written; `readings` are the ways to read its numbers, if more than one is possible."""

    csv: CsvFormat
    notes: list[str] = field(default_factory=list)
    readings: list[CsvFormat] = field(default_factory=list)


def detect_format(file: InputFile, *, given: CsvFormat, fixed: frozenset[str] = frozenset()) -> Detected:
    """Return how a CSV file seems to be written; the settings of `given` named in `fixed` are not changed."""
    notes: list[str] = []
    found = given
    if "encoding" not in fixed:
        found = msgspec.structs.replace(found, encoding=_encoding(file))
        if found.encoding != "utf-8":
            notes.append(f"encoding {found.encoding}: the file is not UTF-8; look at a name with an accent or umlaut")
    if "delimiter" not in fixed:
        found = msgspec.structs.replace(found, delimiter=_delimiter(_with(file, found)))
    changes = {name: getattr(found, name) for name in ("decimal", "thousands")}
    if fixed & set(changes):
        return Detected(found, notes)
    chosen, readings, note = _number_format(_with(file, found))
    found = msgspec.structs.replace(found, decimal=chosen.decimal, thousands=chosen.thousands)
    return Detected(found, [*notes, *([note] if note else [])], readings)


def _with(file: InputFile, how: CsvFormat) -> InputFile:
    return InputFile(file.path, file.party, file.kind, file.compressed, how)


def _encoding(file: InputFile) -> str:
    """Return the encoding: one that all bytes of the file allow."""
    utf8 = codecs.getincrementaldecoder("utf-8")()
    windows = codecs.getincrementaldecoder("cp1252")()
    possible = {"utf-8": utf8, "cp1252": windows}
    with file.opened() as stream:
        start = True
        while block := stream.read(1 << 20):
            if start and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            for order, zeros in (("le", block[1::2]), ("be", block[::2])):  # without a mark, letters leave zeros
                if start and zeros.count(0) > _MOSTLY * len(zeros):
                    return f"utf-16-{order}"
            start = False
            for name, decoder in list(possible.items()):
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    del possible[name]
    if "utf-8" in possible:
        try:
            utf8.decode(b"", final=True)
        except UnicodeDecodeError:
            del possible["utf-8"]
    return next(iter(possible), "latin-1")


def _delimiter(file: InputFile) -> str | None:
    """Return the delimiter that divides most rows into as many cells as the header; None for the default."""
    with file.lines() as lines:
        text, size = [], 0
        for line in lines:
            text.append(line)
            size += len(line)
            if size > _SAMPLE:
                break
    usual = file.delimiter
    best, most = usual, (0.0, 0)
    for sign in dict.fromkeys((usual, *DELIMITERS)):
        try:
            rows = [row for row in islice(csv.reader(io.StringIO("".join(text)), delimiter=sign), _RECORDS) if row]
        except csv.Error:
            continue
        if not rows or len(rows[0]) < 2:
            continue
        alike = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        if (alike, len(rows[0])) > most:
            best, most = sign, (alike, len(rows[0]))
    return None if best == usual else best


def _number_format(file: InputFile) -> tuple[CsvFormat, list[CsvFormat], str]:
    """Return how numbers are written, the ways to read them if these differ, and a note about that."""
    cells = [counts for counts in _cells(file) if _holds_numbers(counts)]
    readers = [(how, how.number_reader()) for how in FORMATS]
    scores = {
        how: sum(count for counts in cells for text, count in counts.items() if read(text) is not None)
        for how, read in readers
    }
    best = max(scores.values(), default=0)
    candidates = [how for how, score in scores.items() if score == best]
    plain = CsvFormat()
    if plain in candidates:
        doubt = _unclear_points(cells) if file.delimiter == ";" else ""
        if not doubt:
            return plain, [], ""
        readings = [plain, CsvFormat(thousands=".", decimal=",")]
        return plain, readings, _both([doubt], readings)
    first = candidates[0]
    for other in candidates[1:]:
        one, two = first.number_reader(), other.number_reader()
        apart = [text for counts in cells for text in counts if one(text) != two(text)]
        if apart:
            return plain, [first, other], _both(apart, [first, other])
    simplest = min(candidates, key=lambda how: len(how.settings()))
    return simplest, [], ""


def _both(texts: list[str], readings: list[CsvFormat]) -> str:
    """Return what to decide about cells that two formats read differently, or that only one of them reads."""
    only = [next((text for text in texts if how.number_reader()(text) is None), None) for how in readings]
    if None not in only:
        two = " and ".join(quoted(text) for text in only)
        return f"numbers are written in two ways, as in {two}, and no setting reads both; write them in one way"
    choices, text = [], texts[0]
    for how in readings:
        settings = " ".join(f"--{name} '{sign}'" for name, sign in how.settings().items()) or "--decimal '.'"
        choices.append(f"{settings} if {quoted(text)} is {how.number_reader()(text):.15g}")
    return f"numbers such as {quoted(text)} can be read in two ways: give {', or '.join(choices)}"


def _unclear_points(cells: list[Counter[str]]) -> str:
    """Return a cell such as "1.234" of a column in which every point is followed by three digits."""
    for counts in cells:
        points = [text for text in counts if "." in text]
        if len(points) >= _ENOUGH and all(_THREE_DECIMALS.fullmatch(text) for text in points):
            return points[0]
    return ""


def _cells(file: InputFile) -> list[Counter[str]]:
    with file.lines() as lines:
        rows = list(islice(csv.reader(lines, delimiter=file.delimiter), _ROWS + 1))
    width = len(rows[0]) if rows else 0
    columns = zip(*(row for row in rows[1:] if len(row) == width), strict=True)
    return [Counter(map(str.strip, column)) for column in columns]


def _holds_numbers(counts: Counter[str]) -> bool:
    known = {text: count for text, count in counts.items() if text.lower() not in MISSING}
    total = sum(known.values())
    looks = sum(count for text, count in known.items() if _LOOKS_LIKE_NUMBER.fullmatch(text))
    separated = any(_LOOKS_LIKE_NUMBER.fullmatch(text) and read_number(text) is None for text in known)
    return total > 0 and looks >= _MOSTLY * total and (separated or any("." in text for text in known))
