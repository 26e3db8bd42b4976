"""A role's memory that outlives its process: one SQLite file, readable by its owner only, locked while it is used.

What one step of the role did (the message it took in, what it computed once, the labels it used, what it sends) is one
transaction, and nothing leaves before it is committed. A process that was killed at any moment therefore finds either
all of a step or nothing of it. The file holds the session's secrets until the session ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kcagc.disclosure import Entry
from kcagc.errors import MaskReuseError, PeerError, SessionError

FORMAT = "1"
LARGEST = 900_000_000  # bytes of one message: SQLite takes no more than a thousand million in one place
MADE_AGAIN = b""  # in place of a message's bytes: a replay makes them anew
Status = Literal["new", "running", "finished", "failed"]

_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS results (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS labels (label BLOB PRIMARY KEY, digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outgoing (
    peer TEXT, number INTEGER, digest BLOB NOT NULL, payload BLOB, PRIMARY KEY (peer, number));
CREATE TABLE IF NOT EXISTS incoming (
    position INTEGER PRIMARY KEY, peer TEXT, number INTEGER, digest BLOB NOT NULL, payload BLOB,
    UNIQUE (peer, number));
CREATE TABLE IF NOT EXISTS ledger (position INTEGER UNIQUE, at REAL NOT NULL, entry TEXT NOT NULL);
"""
_PRIVATE = ("results", "labels", "incoming", "outgoing")


@dataclass(frozen=True)
class Kept:
    """A message as the journal has it; the payload is None where only its digest was worth keeping."""

    peer: str
    number: int
    digest: bytes
    payload: bytes | None


class DamagedError(SessionError):
    """A file that is no journal, or not one of this version."""


def remove(path: Path) -> None:
    """Take away a journal and what SQLite keeps beside it; for one that cannot be emptied."""
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


class Journal:
    """An open journal; a second process that opens it is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries = 0  # of the ledger, recorded by this process
        self._lock, self._closed = threading.RLock(), False  # an interrupted process closes it while its role works
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Made here with its mode, so that it is never readable by others, not even for a moment. One that is there
            # is not opened beside SQLite: closing it would give up the locks that this process has on it.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            path.chmod(0o600)
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise SessionError(f"{path}: the journal cannot be opened: {error}") from error
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._saying("cannot be read"):
            # The lock is the operating system's: it goes with the process, however that ends.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.execute("BEGIN EXCLUSIVE")
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (FORMAT.encode(),))
            self._db.execute("COMMIT")
        if self.fact("format") != FORMAT.encode():
            raise DamagedError(f"{self.path}: was written by another version of kcagc; start with --new-session")

    # Facts: what holds for the whole session.

    def fact(self, name: str) -> bytes | None:
        """Give a fact, or None."""
        return self._value("SELECT value FROM facts WHERE name = ?", (name,))

    def facts(self, prefix: str) -> dict[str, bytes]:
        """Give all facts whose name begins so, without the beginning."""
        rows = self._rows("SELECT name, value FROM facts WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))
        return {str(name)[len(prefix) :]: bytes(value) for name, value in rows}

    def set_fact(self, name: str, value: bytes) -> None:
        """Write a fact into the step at hand."""
        self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    @property
    def status(self) -> Status:
        """How far the session is."""
        if self.fact("failing") is not None:  # its process was killed before it could end the session
            return "failed"
        found = self.fact("status")
        return "new" if found is None else found.decode()  # type: ignore[return-value]

    @property
    def why(self) -> str:
        """Why the session failed."""
        return (self.fact("why") or self.fact("failing") or b"").decode()

    # The store that a station uses.

    def once(self, name: str, compute: Callable[[], bytes]) -> bytes:
        """Give what is stored under a name; if nothing is, compute it and store it in the step at hand."""
        found = self.recall(name)
        if found is None:
            found = compute()
            self._write("INSERT INTO results VALUES (?, ?)", (name, found))
        return found

    def recall(self, name: str) -> bytes | None:
        """Give what is stored under a name, or None."""
        return self._value("SELECT value FROM results WHERE name = ?", (name,))

    def use(self, label: bytes, digest: bytes) -> None:
        """Note that a label hides this content; the note is safe before anything of the step leaves."""
        found = self._value("SELECT digest FROM labels WHERE label = ?", (label,))
        if found is None:
            self._write("INSERT INTO labels VALUES (?, ?)", (label, digest))
        elif found != digest:
            raise MaskReuseError("a label that hides one content was about to hide another; nothing was sent")

    # Messages.

    def keep_incoming(self, peer: str, number: int, digest: bytes, payload: bytes | None) -> None:
        """Keep a message that was taken in."""
        if payload is not None and len(payload) > LARGEST:
            raise PeerError(f"sent a message of {len(payload):,} bytes, which is too long to be kept", peer=peer)
        row = (peer, number, digest, payload)
        self._write("INSERT INTO incoming (peer, number, digest, payload) VALUES (?, ?, ?, ?)", row)

    def keep_outgoing(self, peer: str, number: int, payload: bytes, *, whole: bool = True) -> None:
        """Keep a message that is about to leave; on a replay, make sure that it is the one that left.

        Of what is long and comes out the same when it is made again, not the `whole` is kept: its digest will do.
        """
        if len(payload) > LARGEST:
            raise SessionError(
                f"{self.path}: a message of {len(payload):,} bytes is longer than can be sent; cluster fewer rows at "
                'once: method = "cells" instead of "basic", fewer starts or fewer local clusters'
            )
        digest = hashlib.sha256(payload).digest()
        found = self._value("SELECT digest FROM outgoing WHERE peer = ? AND number = ?", (peer, number))
        if found is None:
            row = (peer, number, digest, payload if whole else MADE_AGAIN)
            self._write("INSERT INTO outgoing VALUES (?, ?, ?, ?)", row)
        elif found != digest:
            raise SessionError(
                f"{self.path}: message {number} to {peer} comes out different from the one that was sent before the "
                "interruption; nothing was sent. Start all roles with --new-session"
            )

    def forget_outgoing(self, peer: str, up_to: int) -> None:
        """Drop the bytes of what is safe at the peer, in the step at hand; digests stay."""
        self._write(
            "UPDATE outgoing SET payload = NULL WHERE peer = ? AND number <= ? AND payload IS NOT NULL", (peer, up_to)
        )

    def incoming(self) -> list[Kept]:
        """Give what was taken in, in its order."""
        return [
            Kept(*row) for row in self._rows("SELECT peer, number, digest, payload FROM incoming ORDER BY position")
        ]

    def outgoing(self) -> list[Kept]:
        """Give what left or was about to."""
        found = self._rows("SELECT peer, number, digest, payload FROM outgoing ORDER BY peer, number")
        return [Kept(*row) for row in found]

    # The ledger.

    def record(self, entry: Entry) -> None:
        """Keep an entry of the ledger; a replay makes the same entries in the same order, and none is kept twice."""
        self._record(self._entries, entry)
        self._entries += 1

    def record_link(self, entry: Entry) -> None:
        """Keep what a stream's first words disclose; they are not the role's, and no replay says them again."""
        self._record(None, entry)
        self.commit()

    def _record(self, position: int | None, entry: Entry) -> None:
        row = (position, time.time(), json.dumps(entry.fields(), ensure_ascii=False))
        self._write("INSERT OR IGNORE INTO ledger VALUES (?, ?, ?)", row)

    def ledger(self) -> list[tuple[float, Entry]]:
        """Give everything that left this role so far, or opened to it, and when."""
        rows = self._rows("SELECT at, entry FROM ledger ORDER BY at, position")
        return [(at, Entry.of(json.loads(entry))) for at, entry in rows]

    # Steps and ends.

    def commit(self) -> None:
        """Make the step at hand safe; if that fails, nothing of it may leave."""
        with self._saying("cannot be written"):
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    def roll_back(self) -> None:
        """Forget the step at hand."""
        with self._saying("cannot be written"):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def end(self, status: Status, facts: dict[str, bytes]) -> None:
        """End the session: erase secrets and messages, keep how it ended, what was disclosed, and the given facts."""
        for table in _PRIVATE:
            self._write(f"DELETE FROM {table}", ())  # noqa: S608 - names of our own
        self._write("DELETE FROM facts WHERE name != 'format'", ())
        self.set_fact("status", status.encode())
        for name, value in facts.items():
            self.set_fact(name, value)
        self.commit()
        with self._saying("cannot be written"):
            # What was erased is overwritten in the file itself, and the log of past pages is emptied.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def erase(self, *, ledger: bool = True) -> None:
        """Forget everything, for a new session; what was disclosed before it can be kept."""
        self.end("new", {})
        self._write("DELETE FROM facts WHERE name = 'status'", ())
        self._write("DELETE FROM ledger" if ledger else "UPDATE ledger SET position = NULL", ())
        self.commit()
        self._entries = 0

    def fail(self, why: str) -> None:
        """End a session that failed."""
        self.end("failed", {"why": why.encode()})

    def note_failing(self, why: str) -> None:
        """Write into the step at hand that the session is about to end, so that it does even if the process dies."""
        self.set_fact("failing", why.encode())

    def close(self) -> None:
        """Let go of the file; a step that is not committed is forgotten."""
        with self._lock:
            self._closed = True
            self._db.close()

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._saying("cannot be read"):
            return self._db.execute(statement, values).fetchall()

    def _value(self, statement: str, values: tuple[Any, ...]) -> bytes | None:
        found = self._rows(statement, values)
        return bytes(found[0][0]) if found else None

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._saying("cannot be written"):
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(statement, values)

    @contextlib.contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        try:
            with self._lock:
                if self._closed:
                    raise SessionError(f"{self.path}: the journal is closed")
                yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise SessionError(
                    f"{self.path}: another process is using this journal; a role runs once at a time"
                ) from error
            raise SessionError(f"{self.path}: the journal {what}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise DamagedError(f"{self.path}: the journal {what}: {error}") from error
        except sqlite3.Error as error:
            raise SessionError(f"{self.path}: the journal {what}: {error}") from error
