"""Files: open those of a party with errors that name party and file, and write files atomically.

`table_files` makes tables of the files that are opened here.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from kcagc._types import FloatArray, IntArray
from kcagc.data.csv_format import CsvFormat, Role, setting_of
from kcagc.data.problems import Origin
from kcagc.data.table import Keys
from kcagc.errors import DataError, ParameterError
from kcagc.graph.ids import NodeIds
from kcagc.text import listed, size

PathLike: TypeAlias = str | os.PathLike[str]
Kind = Literal["csv", "tsv", "txt", "parquet", "npz", "mtx"]
S = TypeVar("S", bound=msgspec.Struct)

TABLES: tuple[Kind, ...] = ("csv", "tsv", "parquet")
MATRICES: tuple[Kind, ...] = ("npz", "mtx")
LISTS: tuple[Kind, ...] = ("csv", "tsv", "parquet", "txt")

PUBLIC = 0o644
PRIVATE = 0o600

_DIGITS = 4  # of a confidence
_COMPRESSED: tuple[Kind, ...] = ("csv", "tsv", "txt", "mtx")  # these may end in .gz
_LONGEST_LINE = 1 << 25  # characters: a file may be one line that fills the memory
_EXPANDED = 1 << 25  # bytes that every compressed file may expand to
_EXPANSION = 100  # times its size that it may expand to
_GZIP = 1032  # times its size that a gzip file can expand to
_PIECE = 1 << 20
_PROBLEMS = {FileNotFoundError: "there is no such file", PermissionError: "there is no permission to read it"}


@dataclass(frozen=True)
class InputFile:
    """A file that a party reads; its kind is the ending of its name."""

    path: Path
    party: str
    kind: Kind
    compressed: bool = False
    csv: CsvFormat = field(default_factory=CsvFormat)
    role: Role = "table"

    @classmethod
    def named(
        cls, path: PathLike, party: str, kinds: tuple[Kind, ...], csv: CsvFormat | None = None, role: Role = "table"
    ) -> InputFile:
        """Return the file of this name, whose kind must be one of `kinds`; `csv` is how a text file is written."""
        endings = {f".{kind}{gz}": kind for kind in kinds for gz in ("", ".gz") if not gz or kind in _COMPRESSED}
        for ending, kind in endings.items():
            if Path(path).name.lower().endswith(ending):
                return cls(Path(path), party, kind, ending.endswith(".gz"), csv or CsvFormat(), role)
        raise DataError(f"{path}: its name must end in {listed(list(endings), last='or')}", party=party)

    def origin(self, unit: str = "row", first: IntArray | int = 0, note: str = "") -> Origin:
        """Return this file as the origin of a table."""
        return Origin(str(self.path), unit, first, note, party=self.party, in_file=True)

    @property
    def delimiter(self) -> str:
        """The character between two cells."""
        return self.csv.delimiter or ("\t" if self.kind == "tsv" else ",")

    def error(self, message: str) -> DataError:
        """Return an error about this file."""
        return self.origin().fail(message)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the file and decompress it; errors of the disk and of the compression inside the block name the file."""
        try:
            mode = self.path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise self.error("this is a folder, not a file")
            if not stat.S_ISREG(mode):  # a pipe can be read only once, and the careful reader is a second pass
                raise self.error("this is not a regular file")
            if self.compressed:
                self._check_expansion()
            with gzip.open(self.path) if self.compressed else self.path.open("rb") as stream:
                yield stream  # type: ignore[misc]  # a GzipFile has all of IO[bytes] but the name
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self.error(f"damaged, or cut off ({error})") from error
        except OSError as error:
            raise self.error(_PROBLEMS.get(type(error), f"cannot be read ({error.strerror or error})")) from error

    def expansion_limit(self, least: int = _EXPANDED) -> int:
        """Return how many bytes this compressed file may expand to."""
        return max(least, _EXPANSION * self.path.stat().st_size)

    def _check_expansion(self) -> None:
        """Raise an error for a small file that would fill the memory; nothing of it is kept."""
        state, limit = self.path.stat(), self.expansion_limit()
        if state.st_size * _GZIP > limit and not _expands_within(self.path, limit, state.st_size, state.st_mtime_ns):
            raise self.error(
                f"expands to more than {size(limit)}, from {size(state.st_size)}: so much repetition is rare in data "
                "and common in attacks. If you trust the file, decompress it (gunzip) and name the result instead"
            )

    @contextmanager
    def lines(self) -> Iterator[Iterator[str]]:
        """Open the file as text, with or without a byte order mark; an error names a line that has another encoding."""
        encoding = self.csv.encoding
        try:
            with self.opened() as stream, io.TextIOWrapper(stream, encoding=self.csv.codec, newline="") as text:
                yield self._bounded(text)
        except UnicodeError as error:
            reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
            name = "UTF-8" if encoding == "utf-8" else encoding
            advice = "save it as UTF-8"
            if self.role != "other":
                setting = setting_of(self.role, 'encoding = "..."')
                how = "`kcagc columns` proposes it" if self.role == "table" else "utf-16 or cp1252, for example"
                advice += f", or set {setting} ({how})"
            raise self.error(f"{self._undecodable()}not {name} ({reason}); {advice}") from error

    def _bounded(self, text: IO[str]) -> Iterator[str]:
        for number, line in enumerate(iter(partial(text.readline, _LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                raise self.error(f"line {number} has more than {_LONGEST_LINE:,} characters")
            yield line

    def _undecodable(self) -> str:
        """Find the line: the decoder works on blocks, and its error knows only the place in the block."""
        if "16" in self.csv.encoding or "32" in self.csv.encoding:  # a line end is more than one byte
            return ""
        with self.opened() as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    line.decode(self.csv.encoding)
                except UnicodeError:
                    return f"line {number}: "
        return ""


@lru_cache(maxsize=64)
def _expands_within(path: Path, limit: int, _size: int, _changed: int) -> bool:
    """Return whether a gzip file has at most so many bytes; `_size` and `_changed` tell versions of a file apart."""
    buffer, total = bytearray(_PIECE), 0
    with gzip.open(path) as stream:
        while total <= limit and (read := stream.readinto(buffer)):
            total += read
    return total <= limit


def write_bytes(path: PathLike, data: bytes, *, mode: int = PUBLIC) -> None:
    """Write a file atomically: readers see the old content or the new content, never a part.

    Parameters
    ----------
    path : str or path
        The file; an existing file is replaced. If writing fails, the existing file stays as it was.
    data : bytes
        The content.
    mode : int, default 0o644
        Permissions of the file from its first byte on, less those that the umask takes away.

    Examples
    --------
    >>> from kcagc.data import write_bytes
    >>> write_bytes("key.bin", b"secret", mode=0o600)
    """
    target = Path(path)
    partial_file = target.with_name(f".{uuid.uuid4().hex}.part")  # same folder: a rename across disks is a copy
    try:
        # The file is opened with its permissions: to restrict them later would leave it readable in between.
        with open(partial_file, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial_file.replace(target)
    except BaseException:
        partial_file.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


class _SavedFormat(msgspec.Struct):
    """The field of a saved file that shows whether this version can read the file."""

    format: str


def read_saved(path: PathLike, kind: type[S], form: str, what: str, *, party: str = "") -> S:
    """Read a file that holds a struct; its field `format` must be `form`. Errors call such a file `what`."""
    where = f"{party}: {path}" if party else path
    try:
        content = Path(path).read_bytes()
        found = msgspec.msgpack.decode(content, type=_SavedFormat).format
    except OSError as error:
        raise ParameterError(f"{where}: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{where}: is not {what}, or is damaged: {error}") from error
    if found != form:
        raise DataError(f"{where}: has the format {found!r}, but this version reads {form!r}; fit the model again")
    try:
        return msgspec.msgpack.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{where}: is {what}, but another version of kcagc wrote it, or it is damaged: {error}; fit it again"
        raise DataError(message) from error


def write_text(path: PathLike, text: str, *, mode: int = PUBLIC) -> None:
    """Write a text in UTF-8 atomically, with its line ends unchanged.

    Parameters
    ----------
    path, mode
        As for `write_bytes`.
    text : str
        The content.

    Examples
    --------
    >>> from kcagc.data import write_text
    >>> write_text("notes.txt", "two lines\\nof text\\n")
    """
    write_bytes(path, text.encode(), mode=mode)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut; Windows does so itself and cannot open folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_labels_path(path: PathLike) -> None:
    """Raise an error for a path that `write_labels` does not accept, before a long run.

    Parameters
    ----------
    path : str or path
        The file for the labels.

    Raises
    ------
    ParameterError
        The name ends neither in `.csv` nor in `.parquet`, or pyarrow is not installed.

    Examples
    --------
    >>> from kcagc.data import check_labels_path
    >>> check_labels_path("labels.csv")
    """
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise ParameterError(f"{path}: labels are written to a file whose name ends in .csv or .parquet")
    if ending == ".parquet":
        from kcagc.data.parquet import pyarrow_for  # noqa: PLC0415 - an extra

        pyarrow_for(path)


def write_labels(
    path: PathLike, ids: NodeIds | None, labels: ArrayLike, *, confidence: FloatArray | None = None, mode: int = PUBLIC
) -> None:
    """Write a row `id, cluster` for each node, sorted by id, atomically.

    Parameters
    ----------
    path : str or path
        A file whose name ends in `.csv` or `.parquet`. A CSV file does not distinguish the string "7" from the number
        7; a Parquet file does. Ids are written unchanged, also those that a spreadsheet takes for a formula.
    ids : NodeIds or None
        The ids of the nodes; None calls them 0, 1, 2, ...
    labels : array-like of int of shape (n_nodes,)
        The cluster of each node.
    confidence : ndarray of shape (n_nodes,) or None, default None
        A third column `confidence`, from 0 to 1, with four digits.
    mode : int, default 0o644
        Permissions of the file, less those that the umask takes away.

    Raises
    ------
    DataError
        `labels`, `ids` and `confidence` do not fit together.
    ParameterError
        The name of the file has another ending.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kcagc.data import write_labels
    >>> write_labels("labels.csv", None, [1, 0])
    >>> Path("labels.csv").read_text()
    'id,cluster\\n0,1\\n1,0\\n'
    """
    check_labels_path(path)
    clusters = np.asarray(labels)
    if clusters.ndim != 1 or clusters.dtype.kind not in "iu":
        raise DataError(f"labels: must be one column of whole numbers, not {clusters.dtype} of shape {clusters.shape}")
    known = NodeIds.numbered(len(clusters)) if ids is None else ids
    if len(known) != len(clusters):
        raise DataError(f"labels: {len(clusters)} labels for {len(known)} ids")
    if confidence is not None and len(confidence) != len(clusters):
        raise DataError(f"labels: {len(confidence)} confidences for {len(clusters)} labels")
    order = known.sorted_rows()
    columns: dict[str, Any] = {"id": known.take(order).values, "cluster": clusters[order].astype(np.int64)}
    if confidence is not None:
        columns["confidence"] = np.round(confidence[order], _DIGITS)
    if Path(path).suffix.lower() == ".csv":
        write_text(path, csv_text(columns), mode=mode)
        return
    from kcagc.data.parquet import pyarrow_for  # noqa: PLC0415 - an extra

    arrow, parquet = pyarrow_for(path)
    content = io.BytesIO()
    parquet.write_table(arrow.table(columns), content)
    write_bytes(path, content.getvalue(), mode=mode)


def csv_text(columns: dict[str, Keys | FloatArray]) -> str:
    """Return columns of ids, whole numbers and fractions as the text of a CSV file."""
    cells = [
        map(csv_cell, values)
        if isinstance(values, list)
        else (f"{value:.{_DIGITS}f}" for value in values.tolist())
        if values.dtype.kind == "f"
        else map(str, values.tolist())
        for values in columns.values()
    ]
    return "".join(f"{','.join(row)}\n" for row in (columns, *zip(*cells, strict=True)))


def csv_cell(text: str) -> str:
    """Return a text as a cell of a CSV file, in quotes if needed (also for a carriage return, unlike `csv` of 3.11)."""
    return '"' + text.replace('"', '""') + '"' if re.search(r'[,"\r\n]', text) else text
