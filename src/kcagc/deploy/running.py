"""Running a task from its journal to its results: begun, taken up, or reported when it has ended already."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import msgspec

from kcagc.deploy.reporting import confidence_of, leave_page, leave_report
from kcagc.deploy.results import set_aside, write_ledger, write_results
from kcagc.deploy.task import Task
from kcagc.disclosure import Entry
from kcagc.errors import KcagcError, SessionError
from kcagc.runtime.client import RoleClient
from kcagc.runtime.driver import Watcher
from kcagc.runtime.durable import DurableRole
from kcagc.runtime.farewell import say_farewell
from kcagc.runtime.journal import DamagedError, Journal, remove
from kcagc.runtime.server import RoleServer
from kcagc.runtime.session import Session
from kcagc.runtime.stage import Play
from kcagc.runtime.status import Look
from kcagc.runtime.stream_handshake import Place

logger = logging.getLogger(__name__)

_ENDING = 2.0  # seconds for what is left of streams to end
_FAREWELL = 3.0  # seconds to reach an aggregator that may wait for our last word


class End(msgspec.Struct, frozen=True):
    """What is kept of a session that ended well: what it was made from, and what a last word needs."""

    attempt: bytes
    bound: bytes
    arrived: int
    sent: int
    made_from: dict[str, bytes]


def run(
    task: Task,
    *,
    new_session: bool,
    watcher: Watcher | None = None,
    look: Look | None = None,
    report: bool = False,
) -> dict[str, Any]:
    """Run to the end and give the summary. Where the run has ended already, give what was kept of it.

    `report` writes the page about it, too, after all roles have parted: nobody waits for it.
    """
    ended: list[Any] = []
    journal = _opened(task, new_session)
    try:
        if journal.status == "finished":
            summary = _finished(task, journal)
            if report and not task.places.report().exists():  # the process was killed before it came to that
                leave_page(task)
            return summary
        if journal.status == "failed":
            logger.info("the last run ended with: %s. This is a new session", journal.why)
        task.check()
        if journal.status == "new":
            set_aside(task.places)
        play = replace(_play(task, journal, watcher, ended), look=look)
        try:
            if asyncio.run(_until_stopped(_role(task, play))):
                _note_goodbye(journal)
        finally:
            # What left is worth knowing after a run that failed or was interrupted, too.
            with contextlib.suppress(Exception):
                write_ledger(task.places, journal.ledger())
        summary = _summary(journal)
    finally:
        journal.close()
    if report and ended:
        leave_report(task, ended[0])
    return summary


def _opened(task: Task, new_session: bool) -> Journal:
    """Open the journal, emptied for a new session; what the old one disclosed goes where its results are."""
    journal = None
    try:
        journal = Journal(task.journal)
        if new_session:
            if journal.status != "finished" and (disclosed := journal.ledger()):
                write_ledger(task.places, disclosed)
            journal.erase()
    except DamagedError:
        if journal is not None:
            journal.close()
        if not new_session:
            raise
        remove(task.journal)
        return Journal(task.journal)
    return journal


def _note_goodbye(journal: Journal) -> None:
    journal.set_fact("goodbye", b"said")
    journal.commit()


async def _role(task: Task, play: Play) -> bool:
    """Run a role; give whether all have said goodbye."""
    network = task.config.document.network
    if task.config.listens:
        listener = RoleServer(play, network.listen)
        logger.info("listening on %s:%d", network.listen.rpartition(":")[0], listener.port)
        await listener.run()
        return True
    return await RoleClient(play, network.address).run()


def _play(task: Task, journal: Journal, watcher: Watcher | None, ended: list[Any]) -> Play:
    def finish(session: Session, result: Any, role: DurableRole) -> None:
        disclosed, sure = journal.ledger(), confidence_of(task, result)
        summary = write_results(
            task.places, task.config.me, task.agreement, result, disclosed, task.graph, task.new_rows, sure, task.input
        )
        ended.append(result)
        aggregator = task.agreement.aggregator
        letters = role.letters.get(aggregator)
        end = End(
            session.place.attempt,
            session.place.bound.get(aggregator, b""),
            letters.arrived if letters else 0,
            letters.sent if letters else 0,
            task.made_from,
        )
        journal.end("finished", {"summary": json.dumps(summary).encode(), "end": msgspec.msgpack.encode(end)})

    return Play(
        card=task.card,
        make_role=task.role,
        open_session=lambda: task.open_session(journal),
        finish=finish,
        credentials=task.credentials,
        waiting=task.config.waiting(),
        watcher=watcher,
    )


def _finished(task: Task, journal: Journal) -> dict[str, Any]:
    """Report a run that has ended; if the aggregator may not know, tell it that all has arrived here."""
    end = msgspec.msgpack.decode(journal.fact("end") or b"", type=End)
    _check_same(task, journal, end)
    logger.info("this run has finished already; --new-session starts another, if all roles are given it")
    if not task.config.listens and journal.fact("goodbye") is None:
        aggregator = task.agreement.aggregator
        place, counts = Place(end.attempt, {aggregator: end.bound}), (end.arrived, end.sent)
        address = task.config.document.network.address

        def record() -> None:
            journal.record_link(Entry(task.config.me, aggregator, "link/opening", "connection", (), 0))

        if asyncio.run(say_farewell(task.card, task.credentials, address, place, counts, _FAREWELL, record)):
            _note_goodbye(journal)
    return _summary(journal)


def _check_same(task: Task, journal: Journal, end: End) -> None:
    """Refuse to give the labels of a finished run to who has changed its data or settings, and waits for others."""
    try:
        now = task.made_from
    except KcagcError as error:
        logger.warning("what this run was made from is not as it was: %s", error)
        return
    changed = [name for name in ("the data", "the configuration") if now.get(name) != end.made_from.get(name)]
    if changed:
        details = _changed_settings(task, _summary(journal))
        raise SessionError(
            f"{task.journal}: the run has finished, and {' and '.join(changed)} changed since{details}. Start all "
            "roles with --new-session, or undo the change to see its results"
        )


def _changed_settings(task: Task, summary: dict[str, Any]) -> str:
    then, now = summary.get("parameters", {}), msgspec.to_builtins(task.agreement.parameters)
    named = [f"{name}: {then.get(name)!r}, now {now[name]!r}" for name in now if then.get(name) != now[name]]
    return f" ({'; '.join(named)})" if named else ""


def _summary(journal: Journal) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(journal.fact("summary") or b"{}")
    return summary


async def _until_stopped(work: Coroutine[Any, Any, bool]) -> bool:
    """Let SIGTERM end a run as Ctrl-C does: cleanly, and to be taken up again."""
    task = asyncio.ensure_future(work)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        # gRPC's own tasks end a moment after its server has stopped; cancelled before that, they complain aloud.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=_ENDING)
