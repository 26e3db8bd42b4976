"""Text for people: safe to print, with numbers, sizes, times and lists written the same way everywhere."""

from __future__ import annotations

import json
import math
import tomllib
import unicodedata
from collections.abc import Sequence
from typing import Any

_QUOTED = 60  # characters of a value that a message repeats


def printable(text: str, keep: str = "") -> str:
    """Return text that cannot control a terminal or reverse the direction of the text around it.

    Other organisations write part of what a log, an error or a report shows. Control and invisible characters, line
    breaks included, become "?" unless `keep` lists them; unusual spaces become plain spaces.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep else " " if unicodedata.category(letter) == "Zs" else "?"
        for letter in text
    )


_TOO_DEEP = "it is nested too deeply"


def read_json(text: str | bytes) -> Any:
    """Return the content of a JSON text; raise `ValueError` for another text, and for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def read_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text; raise `TOMLDecodeError` for another text, and for one nested too deeply."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError(_TOO_DEEP) from None


def quoted(value: Any) -> str:
    """Return a value of a data file for a message: strings in quotes and escaped, long values cut."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


def listed(words: Sequence[str], at_most: int | None = None, *, last: str = "and") -> str:
    """Return "a, b and c", or "a, b and 7 more" with `at_most` words; with semicolons if a word has a comma.

    `last` is the word before the last of them, "and" or "or".
    """
    if at_most is not None and len(words) > at_most:
        words = [*words[:at_most], f"{len(words) - at_most:,} more"]
    if len(words) < 2:
        return "".join(words)
    separator = "; " if any("," in word for word in words) else ", "
    return f"{separator.join(words[:-1])} {last} {words[-1]}"


def count(value: float, noun: str = "") -> str:
    """Return a whole number with thousands separators and, if a noun is given, "1 node" or "2 nodes"."""
    number = f"{round(value):,}"
    return f"{number} {noun}{'' if round(value) == 1 else 's'}" if noun else number


def amount(value: float, noun: str) -> str:
    """Return "no nodes", "1 node" or "2 nodes"."""
    return count(value, noun) if round(value) else f"no {noun}s"


def decimal(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """Return a number with some decimal digits; a small rest is never rounded to zero.

    Zero is "0". A number that would be rounded to zero is "<0.01", or ">-0.01" if it is negative.
    """
    if value == 0:
        return "0"
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    if float(text) != 0:
        return text
    least = f"{10.0**-digits:.{digits}f}"
    return f"<{least}" if value > 0 else f">-{least}"


def number(value: float) -> str:
    """Return a number with three significant digits."""
    if not math.isfinite(value):
        return "undefined" if math.isnan(value) else "infinite" if value > 0 else "minus infinite"
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.2e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share as a percentage, or a dash if there is none; a small rest is never rounded to none or to all."""
    if share is None:
        return "–"
    least = 10.0**-digits
    if 0 < 100 * share < least / 2:
        return f"<{least:.{digits}f} %"
    return f">{100 - least:.{digits}f} %" if 100 - least / 2 <= 100 * share < 100 else f"{100 * share:.{digits}f} %"


def size(n_bytes: float) -> str:
    """Return a number of bytes in the unit that fits."""
    value, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < (999.5 if unit == "bytes" else 999.95):
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if unit != "bytes" else count(value, "byte")


def seconds(value: float) -> str:
    """Return a duration in the units that fit: "350 ms", "12.3 s", "3 min 05 s" or "2 h 05 min"."""
    if value < 0.9995:
        return f"{round(1000 * value)} ms"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
