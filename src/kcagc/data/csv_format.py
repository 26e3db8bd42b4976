"""How a CSV file is written: delimiter, decimal sign, thousands separator and encoding; and how its numbers are read.

Nothing is detected here. A run reads a file as its configuration states, and `kcagc columns` proposes what to state.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from kcagc._types import check_choice
from kcagc.errors import ParameterError
from kcagc.text import quoted

Decimal = Literal[".", ","]
Thousands = Literal[",", ".", " ", "'"]
Role = Literal["table", "graph", "other"]  # of a file: how it is written has settings, graph_csv, or none
ReadNumber = Callable[[str], float | None]

DELIMITERS = (",", ";", "\t", "|")
_SPACES = "[ \u00a0\u2009\u202f]"  # programs write a thousands separator as any of these
_SPELLINGS = {" ": _SPACES, "'": "['\u2019]", ".": r"\.", ",": ","}


class CsvFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    r"""How a CSV file is written.

    Parameters
    ----------
    delimiter : str or None, default None
        The character between two cells. None: a comma in ``.csv`` files, a tab in ``.tsv`` files.
    decimal : {".", ","}, default "."
        The decimal sign.
    thousands : {",", ".", " ", "'"} or None, default None
        What separates groups of three digits. None: nothing does.
    encoding : str, default "utf-8"
        The encoding of the text, by a name that Python knows, such as "cp1252" (Windows, western Europe).

    Examples
    --------
    >>> from kcagc.data import CsvFormat, read_features, write_text
    >>> write_text("kunden.csv", "id;umsatz\nann;1.234,50\nbob;27,00\n")
    >>> how = CsvFormat(delimiter=";", decimal=",", thousands=".")
    >>> read_features("kunden.csv", party="bank", id_column="id", csv=how).numbers.tolist()
    [[1234.5], [27.0]]
    """

    delimiter: str | None = None
    decimal: Decimal = "."
    thousands: Thousands | None = None
    encoding: str = "utf-8"

    def checked(self, where: str = "") -> CsvFormat:
        """Return this format, or raise an error for a setting that cannot be; `where` precedes its name."""
        one = self.delimiter
        if one is not None and (len(one) != 1 or one.isalnum() or one in '"\r\n+-.'):
            raise ParameterError(f'{where}delimiter: must be one character such as ";" or "\\t", not {one!r}')
        check_choice(f"{where}decimal", self.decimal, get_args(Decimal))
        if self.thousands is not None:
            check_choice(f"{where}thousands", self.thousands, get_args(Thousands))
        if self.thousands == self.decimal:
            raise ParameterError(f"{where}thousands: is {self.thousands!r}, the decimal sign, too; change one of them")
        try:
            b"a".decode(self.encoding, "ignore")  # this also refuses codecs that are not about text
        except (LookupError, ValueError):
            raise ParameterError(
                f'{where}encoding: there is no encoding {self.encoding!r}; use "utf-8" or "cp1252", for example'
            ) from None
        return self

    @property
    def codec(self) -> str:
        """The codec that decodes a file; for UTF-8, with or without a byte order mark."""
        return "utf-8-sig" if codecs.lookup(self.encoding).name == "utf-8" else self.encoding

    @property
    def plain(self) -> bool:
        """Whether numbers are written as in program code, so that NumPy reads them."""
        return self.decimal == "." and self.thousands is None

    def settings(self) -> dict[str, str]:
        """Return the settings that differ from their defaults."""
        plain = CsvFormat()
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value != getattr(plain, name)}

    def number_reader(self) -> ReadNumber:
        """Return a function that reads a cell without spaces around it as a number, or returns None."""
        if self.plain:
            return read_number
        grouped = None
        if self.thousands is not None:
            sign = _SPELLINGS[self.thousands]  # 12,34,567 is how India writes it
            decimal = _SPELLINGS[self.decimal]
            pattern = rf"([-+]?[1-9]\d{{0,2}}(?:{sign}\d{{2,3}})*{sign}\d{{3}})({decimal}\d*)?"
            grouped = re.compile(pattern), re.compile(sign)

        def read(text: str) -> float | None:
            if grouped is not None and (found := grouped[0].fullmatch(text)):
                rest = (found[2] or "").replace(",", ".")
                return read_number(grouped[1].sub("", found[1]) + rest)
            if self.decimal == ",":
                return None if "." in text else read_number(text.replace(",", ".", 1))
            return read_number(text)

        return read


def read_number(text: str) -> float | None:
    """Return a number as NumPy reads it: Python's float would also accept 1_000 and digits of other scripts."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


# Every other way to write a number, the likeliest first.
FORMATS = (
    CsvFormat(thousands=","),
    CsvFormat(decimal=","),
    CsvFormat(decimal=",", thousands="."),
    CsvFormat(),
    CsvFormat(thousands=" "),
    CsvFormat(decimal=",", thousands=" "),
    CsvFormat(thousands="'"),
    CsvFormat(decimal=",", thousands="'"),
)
_READERS = tuple((one, one.number_reader()) for one in FORMATS)
_NUMBER_LIKE = re.compile(r"[-+]?\d[\d.,'\u2019\s]*")


def readings(text: str) -> list[tuple[CsvFormat, float]]:
    """Return how else a cell can be read as a number with separators: the shortest settings for each value."""
    if not _NUMBER_LIKE.fullmatch(text):
        return []
    found: dict[float, CsvFormat] = {}
    for how, read in _READERS:
        value = read(text)
        if value is not None:
            found.setdefault(value, how)
    return [(how, value) for value, how in found.items()]


def setting_of(role: Role, setting: str) -> str:
    """Return what to write into a configuration so that a file of this role is read with `setting`."""
    return f"graph_csv = {{ {setting} }}" if role == "graph" else setting


def separator_advice(text: str, *, in_file: bool = True, role: Role = "table") -> str:
    """Return what to set for a cell such as "1,234", with the value that each setting gives; "" for other cells."""
    found = readings(text)
    if not found:
        return ""
    choices = []
    for how, value in found:
        changed = [f'{name} = "{sign}"' for name, sign in how.settings().items()]
        changed = changed or ['decimal = "."']
        settings = setting_of(role, ", ".join(changed)) if role == "graph" else " and ".join(changed)
        choices.append(f"{settings} if {quoted(text)} is {value:.15g}")
    return f"{'set' if in_file else 'read the file with'} {', or '.join(choices)}"
