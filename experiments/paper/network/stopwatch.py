"""A stopwatch for the process of a measured role: it records events and changes nothing else.

Times come from the monotonic clock, which all processes of one machine share.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec

from kcagc.protocol.messages import RunStage


class _Head(msgspec.Struct):
    """The fields of a message that identify it."""

    kind: str
    stage: RunStage | None = None
    step: str = ""
    group: str = ""
    number: int = -1


_heads = msgspec.msgpack.Decoder(_Head)


class Stopwatch:
    """The events of one role: time, kind, and a detail."""

    def __init__(self) -> None:
        self._events: list[tuple[float, str, Any]] = []

    def note(self, what: str, detail: Any = "") -> None:
        """Record an event now."""
        self._events.append((time.monotonic(), what, detail))

    def install(self) -> None:
        """Record connections, local work, commits of the journal, messages and the end."""
        from kcagc.deploy import run  # noqa: PLC0415 - only in the process of a role
        from kcagc.net.frames import Assembly  # noqa: PLC0415
        from kcagc.protocol import local  # noqa: PLC0415
        from kcagc.protocol.components import Components  # noqa: PLC0415
        from kcagc.runtime.durable import DurableRole, PeerQueue  # noqa: PLC0415
        from kcagc.runtime.journal import Journal  # noqa: PLC0415
        from kcagc.runtime.session import SessionRun  # noqa: PLC0415

        run.read_party = self._timed(run.read_party, "read")
        local.compute_rows = self._timed(local.compute_rows, "local")
        local.compute_labels = self._timed(local.compute_labels, "local")
        Components.compute = self._timed(Components.compute, "local")  # type: ignore[method-assign]
        Journal.commit = self._committing(Journal.commit)  # type: ignore[method-assign]
        SessionRun.connect = self._connecting(SessionRun.connect)  # type: ignore[method-assign]
        Assembly.add = self._arriving(Assembly.add)  # type: ignore[method-assign]
        PeerQueue.post = self._posting(PeerQueue.post)  # type: ignore[method-assign]
        DurableRole.receive = self._receiving(DurableRole.receive)  # type: ignore[method-assign]

    def write(self, path: Path) -> None:
        """Write all events, and the memory and processor time of the process since its fork."""
        self.note("ended")
        used = resource.getrusage(resource.RUSAGE_SELF)
        figures = {"peak": used.ru_maxrss * 1024, "cpu": used.ru_utime + used.ru_stime, "events": self._events}
        path.write_text(json.dumps(figures), encoding="utf-8")

    def _timed(self, function: Callable[..., Any], what: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*values: Any, **named: Any) -> Any:
            self.note(f"{what} begins")
            used = time.thread_time()
            result = function(*values, **named)
            self.note(f"{what} ends", time.thread_time() - used)
            return result

        return timed

    def _committing(self, commit: Callable[..., None]) -> Callable[..., None]:
        @wraps(commit)
        def timed(journal: Any) -> None:
            counts, start_time = journal._db.in_transaction, time.monotonic()
            commit(journal)
            if counts:
                self.note("commit", time.monotonic() - start_time)

        return timed

    def _connecting(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(connect)
        def noted(run: Any, peer: str, *values: Any) -> Any:
            self.note("connected", peer)
            return connect(run, peer, *values)

        return noted

    def _posting(self, post: Callable[..., None]) -> Callable[..., None]:
        @wraps(post)
        def noted(queue: Any, number: int, payload: bytes) -> None:
            self.note("sends", [queue.peer, _named(payload), len(payload)])
            post(queue, number, payload)

        return noted

    def _arriving(self, add: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(add)
        def noted(assembly: Any, part: Any) -> Any:
            message = add(assembly, part)
            if message is not None:
                self.note("arrives", assembly._sender)  # a role at work reads it later
            return message

        return noted

    def _receiving(self, receive: Callable[..., None]) -> Callable[..., None]:
        @wraps(receive)
        def noted(role: Any, sender: str, number: int, payload: bytes) -> None:
            self.note("receives", [sender, _named(payload), len(payload)])
            before = role.finished
            receive(role, sender, number, payload)
            if role.finished and not before and role.driver.error is None:
                self.note("labels")  # confirmed by all parties, and stored in the journal

        return noted


def _named(payload: bytes) -> str:
    head = _heads.decode(payload)
    number = str(head.number) if head.number >= 0 else ""
    return " ".join(filter(None, (head.kind, head.group, str(head.stage or head.step), number)))


def run_role(plan: dict[str, Any]) -> int:
    """Run a role with a stopwatch; return its exit code."""
    watch = Stopwatch()
    watch.install()
    return run_installed(watch, plan)


def run_installed(watch: Stopwatch, plan: dict[str, Any]) -> int:
    """Run a role whose instruments are installed; return its exit code."""
    from kcagc.cli.main import main  # noqa: PLC0415

    sys.argv = ["kcagc", *plan["arguments"]]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    finally:
        watch.write(Path(plan["notes"]))
    return 0
