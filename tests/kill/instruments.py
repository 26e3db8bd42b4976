"""Instruments in the process of a role under test: a kill at a chosen boundary, faults of the disk, and observers.

A boundary is a moment before or after something becomes durable, leaves or arrives. Each process counts the boundaries
of each name from 1; a plan names the boundary at which the process kills itself. Observers append to files that outlive
the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from functools import wraps
from pathlib import Path

UNCOUNTED = {"ping", "pong", "waiting-for"}  # their number depends on time
FLUSH = 0.02  # seconds in which the network sends what it was given before the process kills itself


class Notes:
    """A file that grows by whole lines."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *fields: object) -> None:
        os.write(self._file, (json.dumps(fields) + "\n").encode())


class Instruments:
    """The instruments of one process, chosen by its plan."""

    def __init__(self, plan: dict) -> None:
        self.name, self._plan = plan["name"], plan
        folder = Path(plan["notes"])
        self._events, self._seen, self._used, self._sent = (
            Notes(folder / f"{self.name}.{what}") for what in ("events", "seen", "used", "sent")
        )
        self._streams: dict[int, list[str]] = {}  # session and peer of each stream
        self._counts: Counter[str] = Counter()
        self._lock, self._erasing = threading.Lock(), False
        self._events.write("started", os.getpid())

    def happened(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1
            number = self._counts[what]
            self._events.write(what, number)
        if [what, number] == self._plan.get("kill"):
            time.sleep(FLUSH)
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal ends this thread too
        if [what, number] == self._plan.get("interrupt"):
            os.kill(os.getpid(), signal.SIGTERM)
            if threading.current_thread() is not threading.main_thread():  # which ends the process
                time.sleep(60)

    def install(self) -> None:
        """Wrap the functions of the journal, the streams, the steps and the results of a role."""
        from kcagc.data import files
        from kcagc.deploy import run
        from kcagc.net.grpc_client import ClientStream
        from kcagc.net.grpc_server import ServerStream
        from kcagc.protocol import local, party, secure_sum
        from kcagc.runtime import session
        from kcagc.runtime.driver import Driver
        from kcagc.runtime.durable import DurableRole
        from kcagc.runtime.journal import Journal

        session.SessionRun.connect = self._connecting(session.SessionRun.connect)
        for stream in (ClientStream, ServerStream):
            stream.send = self._sending(stream.send)
        Journal.commit = self._committing(Journal.commit)
        Journal._write = self._writing(Journal._write)
        Journal.end = self._around(self._ending(Journal.end), "end")
        Journal.commit_mask = self._using(Journal.commit_mask)
        Driver.deliver = self._around(Driver.deliver, "step")
        DurableRole.receive = self._receiving(DurableRole.receive)
        run.write_results = self._around(run.write_results, "results")
        files._sync_folder = self._around(files._sync_folder, "file")
        secure_sum.mask = self._masking(secure_sum.mask)
        party.encrypt = self._encrypting(party.encrypt)
        session._CLOSE_TIMEOUT = self._plan.get("tell", 4.0)  # seconds; an aggregator that restarts needs less
        if seconds := self._plan.get("slow"):
            local.compute_rows = _slowly(local.compute_rows, seconds)
        if share := self._plan.get("other bits"):
            local.Embedder.rows = _changed(local.Embedder.rows, share)

    def _around(self, function, what):
        @wraps(function)
        def counted(*values, **named):
            self.happened(f"{what} begins")
            result = function(*values, **named)
            self.happened(f"{what} done")
            return result

        return counted

    def _connecting(self, connect):
        """Remember to whom, and in which session, a stream sends."""

        @wraps(connect)
        def noted(run, peer, stream, arrived):
            self._streams[id(stream)] = [run.session.position.attempt.hex(), peer]
            return connect(run, peer, stream, arrived)

        return noted

    def _sending(self, send):
        """Count the frames that leave, and note the bytes of every message, also if they do not arrive."""

        @wraps(send)
        async def counted(stream, frame):
            what = frame.__struct_config__.tag
            counts = what not in UNCOUNTED
            if counts:
                self.happened(f"{what} leaves")
            if what == "part":
                self._sent.write(*self._streams[id(stream)], frame.number, frame.offset, _hash(frame.data))
            await send(stream, frame)
            if counts:
                self.happened(f"{what} left")

        return counted

    def _committing(self, commit):
        """Count a commit if there is something to commit."""

        @wraps(commit)
        def counted(journal):
            counts = journal._db.in_transaction
            if counts:
                self.happened("commit begins")
                self._try_disk(journal, "commit begins")
            commit(journal)
            if counts:
                self.happened("commit done")
            if self._erasing:
                self.happened("erased")

        return counted

    def _ending(self, end):
        """Mark the commit that erases a session: the erased values are still on the disk then."""

        @wraps(end)
        def marked(journal, status, facts):
            self._erasing = True
            end(journal, status, facts)
            self._erasing = False

        return marked

    def _writing(self, write):
        @wraps(write)
        def tried(journal, statement, values):
            what = f"write into {statement.partition(' INTO ')[2].partition(' ')[0]}"
            self._counts[what] += 1
            self._try_disk(journal, what)
            write(journal, statement, values)

        return tried

    def _try_disk(self, journal, what):
        """Raise the error of a full disk, for as many attempts as the plan says."""
        kind, first, last = self._plan.get("disk full", ("", 0, 0))
        if kind == what and first <= self._counts[what] <= last:
            with journal._errors("cannot be written"):
                raise sqlite3.OperationalError("database or disk is full")

    def _receiving(self, receive):
        """Note every message that arrives, with its sender and number."""
        from kcagc.protocol.messages import Masked, Padded, decode

        @wraps(receive)
        def noted(role, sender, number, payload):
            message = decode(payload, sender)
            what = None
            if isinstance(message, Masked):
                what = [message.group, message.number, _hash(message.words)]
            elif isinstance(message, Padded):
                what = ["padded", len(message.words), _hash(payload)]  # of one search, or of the fit
            attempt = (role._journal.fact("attempt") or b"").hex()
            self._seen.write(attempt, sender, number, _hash(payload), what)
            self.happened("message arrives")
            receive(role, sender, number, payload)
            self.happened("message done")

        return noted

    def _using(self, use):
        @wraps(use)
        def noted(journal, label, digest):
            use(journal, label, digest)
            self._used.write("label", label.hex(), digest.hex())

        return noted

    def _masking(self, masked):
        """Note the key streams that hide a vector: no stream may hide two vectors."""

        @wraps(masked)
        def noted(words, pairs, group, label, transcript):
            shared = list(pairs)
            for pair in shared:
                key = pair.mask_key(group, label, len(words), transcript)
                self._used.write("stream", _hash(key), _hash(words.tobytes()))
            return masked(words, shared, group, label, transcript)

        return noted

    def _encrypting(self, encrypt):
        """Note what is encrypted under each key: no key may encrypt two messages."""

        @wraps(encrypt)
        def noted(pair, label, content):
            self._used.write("message", _hash(pair.encryption_key(pair.me, pair.other, label)), _hash(content))
            return encrypt(pair, label, content)

        return noted


def _slowly(function, seconds):
    @wraps(function)
    def slow(*values):
        time.sleep(seconds)
        return function(*values)

    return slow


def _changed(rows, share):
    """Return rows that differ, as those of another processor or number of threads may, but much more."""

    @wraps(rows)
    def changed(embedder, engine, smoothed):
        return rows(embedder, engine, smoothed) * (1 + share)

    return changed


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
