"""Kept results: what a party has sent about its data in earlier sessions, and a record of those sessions.

Local labels from another seed would tell their receivers more with every session. A party therefore sends the same ones
in every session with the same data and settings. The folder holds a file for each kept result and one for each session,
each with a checksum and readable by its owner only. A file is on the disk before anything that depends on it leaves.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kcagc.data.files import PRIVATE, write_bytes
from kcagc.disclosure import RISKS, Policy
from kcagc.disclosure.texts import CHANGED_ROSTER
from kcagc.errors import PolicyError, SessionError
from kcagc.text import listed

FORMAT = "kcagc kept 1"
KEPT = "kept"  # the folder, beside the journals
_SESSION = ".session"


class CheckedContent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file with its checksum."""

    format: str
    checksum: bytes
    value: bytes


class CountedSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A session with local labels of this party: its time, its data, and the identity key of each party.

    It counts once its labels are ready, before they leave; so it also counts if the run then ends or is refused.
    """

    at: float
    data: bytes
    parties: dict[str, bytes]


@dataclass(frozen=True, eq=False)
class KeptResults:
    """The folder of kept results, and the data (a digest) and the parties of a session now."""

    folder: Path
    data: bytes
    parties: dict[str, bytes]

    def keep(self, session: bytes, key: bytes, compute: Callable[[], bytes]) -> bytes:
        """Return the result of a key; compute and write it if there is none. The session counts from now on."""
        found = self.load(key)
        if found is None:
            found = compute()
            self._write(self._file(key), found)
        counted = self.folder / f"{session.hex()}{_SESSION}"
        if not counted.exists():
            self._write(counted, msgspec.msgpack.encode(CountedSession(time.time(), self.data, self.parties)))
        return found

    def load(self, key: bytes) -> bytes | None:
        """Return the result of a key, or None."""
        path = self._file(key)
        return _read(path) if path.exists() else None

    def sessions(self) -> list[CountedSession]:
        """Return the sessions with these data, the oldest first."""
        found = []
        for path in self.folder.glob(f"*{_SESSION}"):
            with _damage(path):
                found.append(msgspec.msgpack.decode(_read(path), type=CountedSession))
        return sorted((one for one in found if one.data == self.data), key=lambda one: one.at)

    def counts(self) -> dict[str, int]:
        """Count the sessions with these data, and those of them whose parties have the same identity keys."""
        found, keys = self.sessions(), set(self.parties.values())
        same = sum(set(one.parties.values()) == keys for one in found)
        return {"with_these_data": len(found), "with_these_parties": same}

    def check(self, key: bytes, policy: Policy) -> None:
        """Raise an error for a damaged file, and for parties that differ by one from earlier ones."""
        self.load(key)
        for earlier in reversed(self.sessions()):
            if CHANGED_ROSTER not in policy.accept and (change := one_change(earlier.parties, self.parties)):
                moment = datetime.fromtimestamp(earlier.at, UTC)
                raise PolicyError(
                    f"the same data were in a session with {listed(list(earlier.parties))} on {moment:%Y-%m-%d} (UTC), "
                    f'and {change}; nothing was sent. "{CHANGED_ROSTER}": {RISKS[CHANGED_ROSTER].discloses} To run it, '
                    f'accept "{CHANGED_ROSTER}" in your policy; otherwise run with the earlier parties'
                )

    def _file(self, key: bytes) -> Path:
        return self.folder / key.hex()

    def _write(self, path: Path, value: bytes) -> None:
        content = CheckedContent(FORMAT, hashlib.sha256(value).digest(), value)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_bytes(path, msgspec.msgpack.encode(content), mode=PRIVATE)
        except OSError as error:
            raise SessionError(f"{path}: cannot be written: {error.strerror or error}; nothing was sent") from error


def one_change(earlier: dict[str, bytes], now: dict[str, bytes]) -> str:
    """Describe how the parties differ by one from earlier ones; empty if they are the same or differ by more."""
    gone = [name for name, key in earlier.items() if key not in now.values()]
    new = [name for name, key in now.items() if key not in earlier.values()]
    if len(gone) > 1 or len(new) > 1 or not gone + new:
        return ""
    if gone == new:
        return f"{gone[0]} has another identity key now"
    if gone and new:
        return f"{new[0]} replaces {gone[0]} now"
    return f"{new[0]} joins them now" if new else f"{gone[0]} is not among them now"


def erase_kept(folder: Path) -> bool:
    """Overwrite and remove all kept results and the record of sessions; return whether there was a folder."""
    if not folder.exists():
        return False
    for path in folder.iterdir():
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    folder.rmdir()
    return True


def _read(path: Path) -> bytes:
    with _damage(path):
        content = msgspec.msgpack.decode(path.read_bytes(), type=CheckedContent)
        if content.format != FORMAT or content.checksum != hashlib.sha256(content.value).digest():
            raise ValueError("its format or its checksum is wrong")
        return content.value


@contextlib.contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Raise errors of reading as an error that names the file and the remedy."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:  # errors of msgspec are ValueErrors
        raise SessionError(
            f"{path}: a record of earlier sessions with your data cannot be read ({error}); nothing was sent. Restore "
            "the file from a backup. If you cannot, `kcagc forget` erases all such records; the next session then "
            "sends other local labels, from which the other parties learn more"
        ) from error
