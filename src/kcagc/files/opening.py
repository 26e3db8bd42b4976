"""A file that somebody named: is it there, may it be read, what is it; whatever is wrong names party and file."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

from kcagc.errors import DataError

PathLike: TypeAlias = str | os.PathLike[str]
Kind = Literal["csv", "tsv", "txt", "parquet", "npz", "mtx"]

TABLES: tuple[Kind, ...] = ("csv", "tsv", "parquet")
MATRICES: tuple[Kind, ...] = ("npz", "mtx")
LISTS: tuple[Kind, ...] = ("csv", "tsv", "parquet", "txt")
KINDS: tuple[Kind, ...] = (*LISTS, *MATRICES)

_PACKED: tuple[Kind, ...] = ("csv", "tsv", "txt", "mtx")  # these may end in .gz


@dataclass(frozen=True)
class InputFile:
    """A file that `party` reads, of a kind told by its name."""

    path: Path
    party: str
    kind: Kind
    packed: bool

    @classmethod
    def named(cls, path: PathLike, party: str, kinds: tuple[Kind, ...]) -> InputFile:
        """Tell the kind by the ending of the name; it must be one of `kinds`."""
        found = Path(path)
        name = found.name.lower()
        for kind in kinds:
            if name.endswith(f".{kind}"):
                return cls(found, party, kind, packed=False)
            if kind in _PACKED and name.endswith(f".{kind}.gz"):
                return cls(found, party, kind, packed=True)
        endings = [f".{kind}{gz}" for kind in kinds for gz in ("", ".gz") if not gz or kind in _PACKED]
        raise DataError(f"{path}: its name must end in {', '.join(endings[:-1])} or {endings[-1]}", party=party)

    def error(self, message: str) -> DataError:
        """Give the error that says `message` about this file."""
        return DataError(f"{self.path}: {message}", party=self.party)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open it for reading, unpacked; what the disk or the packing does wrong inside the block is named too."""
        try:
            mode = self.path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise self.error("this is a folder, not a file")
            if not stat.S_ISREG(mode):  # a pipe could be read only once, and a wrong cell is searched in a second pass
                raise self.error("this is not a regular file")
            with gzip.open(self.path) if self.packed else self.path.open("rb") as stream:
                yield stream  # type: ignore[misc]  # a GzipFile is one but for its name
        except FileNotFoundError as error:
            raise self.error("there is no such file") from error
        except PermissionError as error:
            raise self.error("there is no permission to read it") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self.error(f"damaged, or cut off ({error})") from error
        except OSError as error:
            raise self.error(f"cannot be read ({error.strerror or error})") from error

    @contextmanager
    def text(self) -> Iterator[IO[str]]:
        """Open it as UTF-8, with or without a byte order mark; the first line that is not UTF-8 is named."""
        try:
            with self.opened() as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as lines:
                yield lines
        except UnicodeDecodeError as error:
            raise self.error(f"line {self._foreign_line()}: not UTF-8 ({error.reason}); save it as UTF-8") from error

    def _foreign_line(self) -> int:
        """Find the line: the decoder works on blocks, and its error knows the place in a block only."""
        with self.opened() as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    line.decode()
                except UnicodeDecodeError:
                    return number
        raise AssertionError("every line is UTF-8")  # then so is the whole: no character goes over a line end
