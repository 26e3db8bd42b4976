"""Journal: the durable state of a role in one SQLite file, readable by its owner only and locked while in use.

One step of a role (the message it received, the results it computed, the mask labels it committed, the messages it
sends) is one transaction, and no message leaves before the commit. After a crash at any moment the journal therefore
holds a step completely or not at all. It holds the secrets of the session until the session ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kcagc.disclosure import Disclosure
from kcagc.errors import PeerError, SessionError
from kcagc.net.frames import ANY_SESSION
from kcagc.runtime.driver import mask_reuse
from kcagc.runtime.kept import KeptResults
from kcagc.secagg.keys import Secrets, random_token
from kcagc.text import listed

FORMAT = "3"
MAX_STORED_BYTES = 900_000_000  # of one message; SQLite stores at most 1,000,000,000 bytes in one value
RECOMPUTED = b""  # stored in place of a message that a replay computes again
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
_BOUND = "bound "
_ENDED = "ended"  # this role's name of the last session that a peer knew and that this role has ended
_FINGERPRINT = "fingerprint "


@dataclass(frozen=True)
class StoredMessage:
    """A message in the journal; the payload is None if only its digest is needed."""

    peer: str
    number: int
    digest: bytes
    payload: bytes | None


class InvalidJournalError(SessionError):
    """The file is not a journal, or another version of kcagc wrote it."""


def remove(path: Path) -> None:
    """Delete a journal and the files that SQLite keeps with it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class Journal:
    """An open journal; a second process cannot open it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept: KeptResults | None = None  # results of earlier sessions; without it, results last for this session
        self._recorded = 0  # disclosures that this process recorded
        self._lock, self._closed = threading.RLock(), False  # `close` may come from another thread than the steps
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Created with its mode, so that other users can never read it. An existing file is not opened here:
            # closing it would release the locks of this process.
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
        with self._errors("cannot be read"):
            # The operating system releases the lock when the process ends, even after a crash.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.execute("BEGIN EXCLUSIVE")
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT OR IGNORE INTO facts VALUES ('format', ?)", (FORMAT.encode(),))
            self._db.execute("COMMIT")
        found = (self.fact("format") or b"").decode("utf-8", "replace")
        if found != FORMAT:
            raise InvalidJournalError(
                f"{self.path}: another version of kcagc wrote this journal (format {found}; this version uses "
                f"{FORMAT}). Finish the run with that version, or start all roles with --new-session"
            )

    # Facts: values of the whole session.

    def fact(self, name: str) -> bytes | None:
        """Return a fact, or None."""
        return self._value("SELECT value FROM facts WHERE name = ?", (name,))

    def facts(self, prefix: str) -> dict[str, bytes]:
        """Return all facts whose name has a prefix, by the rest of the name."""
        rows = self._rows("SELECT name, value FROM facts WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))
        return {str(name)[len(prefix) :]: bytes(value) for name, value in rows}

    def set_fact(self, name: str, value: bytes) -> None:
        """Write a fact as part of the current step."""
        self._write("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    @property
    def status(self) -> Status:
        """The status of the session."""
        if self.fact("failing") is not None:  # the process was killed before it could end the session
            return "failed"
        found = self.fact("status")
        return "new" if found is None else found.decode()  # type: ignore[return-value]

    @property
    def failure(self) -> str:
        """Why the session failed."""
        return (self.fact("failure") or self.fact("failing") or b"").decode()

    # The store of a driver.

    def store_result(self, name: str, compute: Callable[[], bytes], keep: bytes = b"") -> bytes:
        """Return the result stored under a name; compute and store it in the current step if there is none.

        With `keep`, the result of an earlier session is stored. A new one is kept at once, before the step commits.
        """
        found = self.load_result(name)
        if found is None:
            kept = self.kept if keep else None
            found = compute() if kept is None else kept.keep(self.fact("attempt") or b"", keep, compute)
            self._write("INSERT INTO results VALUES (?, ?)", (name, found))
        return found

    def load_result(self, name: str) -> bytes | None:
        """Return the result stored under a name, or None."""
        return self._value("SELECT value FROM results WHERE name = ?", (name,))

    def commit_mask(self, label: bytes, digest: bytes) -> None:
        """Store the content that a mask label hides, in the current step; refuse a second content."""
        found = self._value("SELECT digest FROM labels WHERE label = ?", (label,))
        if found is None:
            self._write("INSERT INTO labels VALUES (?, ?)", (label, digest))
        elif found != digest:
            raise mask_reuse()

    # Messages.

    def store_incoming(self, peer: str, number: int, digest: bytes, payload: bytes | None) -> None:
        """Store a received message."""
        if payload is not None and len(payload) > MAX_STORED_BYTES:
            raise PeerError(f"sent a message of {len(payload):,} bytes, which is too long for the journal", peer=peer)
        row = (peer, number, digest, payload)
        self._write("INSERT INTO incoming (peer, number, digest, payload) VALUES (?, ?, ?, ?)", row)

    def store_outgoing(self, peer: str, number: int, payload: bytes, *, whole: bool = True) -> None:
        """Store a message before it leaves; in a replay, require that it equals the stored one.

        If `whole` is false, only the digest is stored, because a replay computes the same message again.
        """
        if len(payload) > MAX_STORED_BYTES:
            raise SessionError(
                f"{self.path}: a message of {len(payload):,} bytes is too long to send. Reduce its size: "
                'method = "cells" instead of "basic", joint_rows = "shares" instead of "coordinator", '
                "fewer components, fewer restarts or fewer local clusters"
            )
        digest = hashlib.sha256(payload).digest()
        found = self._value("SELECT digest FROM outgoing WHERE peer = ? AND number = ?", (peer, number))
        if found is None:
            row = (peer, number, digest, payload if whole else RECOMPUTED)
            self._write("INSERT INTO outgoing VALUES (?, ?, ?, ?)", row)
        elif found != digest:
            raise SessionError(
                f"{self.path}: message {number} to {peer} differs from the one that was sent before the interruption; "
                "nothing was sent. Start all roles with --new-session"
            )

    def drop_outgoing(self, peer: str, up_to: int) -> None:
        """Delete the bytes of messages that the peer has committed, in the current step; digests stay."""
        self._write(
            "UPDATE outgoing SET payload = NULL WHERE peer = ? AND number <= ? AND payload IS NOT NULL", (peer, up_to)
        )

    def incoming(self) -> list[StoredMessage]:
        """Return the received messages in their order."""
        rows = self._rows("SELECT peer, number, digest, payload FROM incoming ORDER BY position")
        return [StoredMessage(*row) for row in rows]

    def outgoing(self) -> list[StoredMessage]:
        """Return the sent messages."""
        rows = self._rows("SELECT peer, number, digest, payload FROM outgoing ORDER BY peer, number")
        return [StoredMessage(*row) for row in rows]

    # The disclosure ledger.

    def record(self, entry: Disclosure) -> None:
        """Store a disclosure; a replay records the same ones in the same order, and each is stored once."""
        self._record(self._recorded, entry)
        self._recorded += 1

    def record_connection(self, sender: str, receiver: str, kind: str) -> None:
        """Store and commit what the first frames of a stream disclose; a replay does not repeat them."""
        self.record_outside(Disclosure(sender, receiver, kind, "connection", (), 0))

    def record_outside(self, entry: Disclosure) -> None:
        """Store and commit a disclosure outside the protocol, which a replay does not repeat."""
        self._record(None, entry)
        self.commit()

    def _record(self, position: int | None, entry: Disclosure) -> None:
        row = (position, time.time(), json.dumps(entry.fields(), ensure_ascii=False))
        self._write("INSERT OR IGNORE INTO ledger VALUES (?, ?, ?)", row)

    def ledger(self) -> list[tuple[float, Disclosure]]:
        """Return all disclosures with their times."""
        rows = self._rows("SELECT at, entry FROM ledger ORDER BY at, position")
        return [(at, Disclosure.from_fields(json.loads(entry))) for at, entry in rows]

    # Steps and ends.

    def commit(self) -> None:
        """Commit the current step; if that fails, none of its messages may leave."""
        with self._errors("cannot be written"):
            if self._db.in_transaction:
                self._db.execute("COMMIT")

    def roll_back(self) -> None:
        """Undo the current step."""
        with self._errors("cannot be written"):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def end(self, status: Status, facts: Mapping[str, bytes]) -> None:
        """End the session: erase secrets and messages; keep the status, the ledger and the given facts."""
        ended = self._ended(status)
        for table in _PRIVATE:
            self._write(f"DELETE FROM {table}", ())  # noqa: S608 - constant names
        self._write("DELETE FROM facts WHERE name != 'format'", ())
        self.set_fact("status", status.encode())
        for name, value in facts.items():
            self.set_fact(name, value)
        if ended:
            self.set_fact(_ENDED, ended)
        self.commit()
        with self._errors("cannot be written"):
            # Overwrites the erased pages in the file itself, and empties the log of past pages.
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _ended(self, status: Status) -> bytes:
        """Return the name of the last session that a peer knew and that has no result."""
        if status == "finished":
            return b""
        attempt = self.fact("attempt") if self.facts(_BOUND) else None
        return attempt or self.fact(_ENDED) or b""

    def erase(self, *, ledger: bool = True) -> None:
        """Erase everything for a new session; with `ledger=False` keep the earlier disclosures."""
        self.end("new", {})
        self._write("DELETE FROM facts WHERE name = 'status'", ())
        self._write("DELETE FROM ledger" if ledger else "UPDATE ledger SET position = NULL", ())
        self.commit()
        self._recorded = 0

    def leave_all(self) -> None:
        """Note that this role takes part in none of its earlier sessions any more, those without a journal included."""
        self.set_fact(_ENDED, ANY_SESSION)
        self.commit()

    def fail(self, failure: str) -> None:
        """End a failed session."""
        self.end("failed", {"failure": failure.encode()})

    def note_failure(self, failure: str) -> None:
        """Write into the current step that the session fails, so that it fails even if the process is killed."""
        self.set_fact("failing", failure.encode())

    def close(self) -> None:
        """Close the file; an uncommitted step is undone."""
        with self._lock:
            self._closed = True
            self._db.close()

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with self._errors("cannot be read"):
            return self._db.execute(statement, values).fetchall()

    def _value(self, statement: str, values: tuple[Any, ...]) -> bytes | None:
        found = self._rows(statement, values)
        return bytes(found[0][0]) if found else None

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._errors("cannot be written"):
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(statement, values)

    @contextlib.contextmanager
    def _errors(self, problem: str) -> Iterator[None]:
        """Raise errors of SQLite as errors of the session."""
        try:
            with self._lock:
                if self._closed:
                    raise SessionError(f"{self.path}: the journal is closed")
                yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise SessionError(
                    f"{self.path}: another process is using this journal. Run each role only once at a time"
                ) from error
            invalid = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
            kind = InvalidJournalError if invalid else SessionError
            found = kind(f"{self.path}: the journal {problem}: {error}")
            raise found.with_public_message(f"its journal {problem}, for example because its disk is full") from error


# The session in a journal.


@dataclass(frozen=True)
class SessionPosition:
    """The session that a role is in: its own random name of it, and the peers' names as far as they are known.

    `ended` is this role's name of an earlier session, which it has ended.
    """

    attempt: bytes
    bound: dict[str, bytes]
    ended: bytes = b""


class SessionRandomness(msgspec.Struct, frozen=True):
    """Everything random that a role draws for a session and keeps until its end."""

    nonce: bytes
    private: bytes
    shuffling: bytes
    seed: int

    @classmethod
    def fresh(cls, seed: int) -> SessionRandomness:
        """Draw fresh secrets; the seed, which is not secret, is given."""
        secrets = Secrets.fresh()
        return cls(secrets.nonce, secrets.private, secrets.shuffling, seed)

    @property
    def secrets(self) -> Secrets:
        """The secret part."""
        return Secrets(self.nonce, self.private, self.shuffling)

    def __repr__(self) -> str:
        return "SessionRandomness(…)"


class SessionEnd(msgspec.Struct, frozen=True):
    """What the journal keeps of a finished session to close its stream later."""

    attempt: bytes
    bound: bytes
    arrived: int
    sent: int


@dataclass(frozen=True, eq=False)
class StoredSession:
    """An open session of a role."""

    journal: Journal
    randomness: SessionRandomness
    position: SessionPosition
    resumed: bool

    def bind(self, peer: str, attempt: bytes) -> None:
        """Store the name of the session at a peer."""
        if self.journal.fact("attempt") != self.position.attempt:
            raise SessionError(f"{self.journal.path}: that session is over")
        if self.position.bound.get(peer) != attempt:
            self.journal.set_fact(_BOUND + peer, attempt)
            self.journal.commit()
            self.position.bound[peer] = attempt

    def finish(self, facts: Mapping[str, bytes], end: SessionEnd) -> None:
        """End the session well; keep the given facts and the fingerprints of its inputs."""
        kept = {_FINGERPRINT + name: value for name, value in self.journal.facts(_FINGERPRINT).items()}
        self.journal.end("finished", {**facts, **kept, "end": msgspec.msgpack.encode(end)})


def open_session(journal: Journal, fingerprints: Mapping[str, bytes], seed: int) -> StoredSession:
    """Start a session, or resume the one in the journal.

    Changed data, settings or packages would send other bytes under the same masks. A session that is bound to a peer is
    therefore not resumed with them; a session without a peer starts again.
    """
    if journal.status == "running":
        changed, bound = changed_inputs(journal, fingerprints), journal.facts(_BOUND)
        if not changed:
            randomness = msgspec.msgpack.decode(journal.fact("randomness") or b"", type=SessionRandomness)
            position = SessionPosition(journal.fact("attempt") or b"", bound, journal.fact(_ENDED) or b"")
            return StoredSession(journal, randomness, position, resumed=bool(bound))
        if bound:
            raise SessionError(
                f"{journal.path}: {listed(changed)} changed since this session started; nothing was sent. Undo "
                "the change to resume it, or start all roles with --new-session"
            )
    journal.erase(ledger=False)  # disclosures of a failed session stay in the ledger
    randomness, attempt = SessionRandomness.fresh(seed), random_token()
    journal.set_fact("status", b"running")
    journal.set_fact("randomness", msgspec.msgpack.encode(randomness))
    journal.set_fact("attempt", attempt)
    for name, value in fingerprints.items():
        journal.set_fact(_FINGERPRINT + name, value)
    journal.commit()
    position = SessionPosition(attempt, {}, journal.fact(_ENDED) or b"")
    return StoredSession(journal, randomness, position, resumed=False)


def changed_inputs(journal: Journal, fingerprints: Mapping[str, bytes]) -> list[str]:
    """Return the names of inputs whose fingerprints differ from those of the session in the journal."""
    stored = journal.facts(_FINGERPRINT)
    return [name for name in {**fingerprints, **stored} if fingerprints.get(name) != stored.get(name)]
