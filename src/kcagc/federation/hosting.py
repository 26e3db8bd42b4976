"""One federation of a standing coordinator: it opens a run when a party comes, and the next one after its end.

A run that ends, however it ends, leaves its record and its ledger, and nothing that the next one waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections import Counter, defaultdict
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kcagc.deploy.agreed import ProposalFolder, agreed, require_agreed, unless_revoked
from kcagc.deploy.audit import write_audit
from kcagc.deploy.config import Config
from kcagc.deploy.results import write_ledger
from kcagc.deploy.run import RoleRun, open_journal, role_spec
from kcagc.errors import AgreementError, KcagcError, ParameterError, PeerError, RejectedError, SessionError
from kcagc.federation.folder import Stamp, stamp_of
from kcagc.federation.records import RunRecord, RunRecords
from kcagc.net.frames import Open, Rejected, RejectionReason
from kcagc.net.grpc_server import ServerStream
from kcagc.net.tls import Credentials
from kcagc.protocol.agreement import Agreement, compare_inputs
from kcagc.runtime.connection import identify
from kcagc.runtime.durable import RECEIPTS
from kcagc.runtime.journal import InvalidJournalError, Journal, SessionEnd
from kcagc.runtime.server import RoleServer
from kcagc.runtime.session import public_reason

logger = logging.getLogger(__name__)

_NO_SESSION = b"\0"  # is the name of no session: only an interrupted run may open
_FITS_ONLY = (
    "kcagc serve takes part in fits only: the operator of the coordinator starts kcagc predict or kcagc match with "
    "--listen at another port, and the parties name this port with --address"
)
_LOOK_AGAIN = 1.0  # seconds until a run is looked at again for a party that waits: it may start a new session

current_federation: ContextVar[str] = ContextVar("current_federation", default="")  # of the log records of a task


@dataclass(eq=False)
class OpenRun:
    """A run that has not ended: its role, its journal and its record."""

    task: RoleRun
    journal: Journal
    record: RunRecord
    server: RoleServer
    resumed: bool


class HostedFederation:
    """A federation whose coordinator is this process."""

    def __init__(self, name: str, path: Path, listen: str) -> None:
        self.name, self._path, self._listen = name, path, listen
        self.records = RunRecords(path.parent / "runs")
        self.run: OpenRun | None = None
        self._config: tuple[Stamp, Config] | None = None
        self._credentials: tuple[Config, Stamp, Credentials] | None = None
        self.turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # of a party's requests, and of all ("")
        self._running: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._begun = asyncio.Event()  # set when the next run is open, or there is a new proposal or decision
        self._news = 0  # proposals and decisions that have arrived
        self.ended: Counter[str] = Counter(finished=0, failed=0)  # runs since this process started, by state
        self.last_seconds = 0.0  # duration of the last run that ended
        self.waiting: Counter[str] = Counter()  # questions of each party for the next run

    def config(self) -> Config:
        """Return the configuration, which is read again when its file has changed."""
        stamp = stamp_of([self._path])
        if self._config is None or self._config[0] != stamp:
            config = Config.load(self._path, {"network.listen": self._listen})
            if config.role != "coordinator":
                raise ParameterError(f"{self._path}: is the configuration of a party; put that of the coordinator here")
            self._config = stamp, config
        return self._config[1]

    def credentials(self) -> Credentials:
        """Return the certificate and the authorities, which are read again when a file has changed."""
        config, last = self.config(), self._credentials
        if last is None or last[0] is not config or last[1] != stamp_of(last[2].files):
            found = config.credentials()
            self._credentials = last = config, stamp_of(found.files), found
        return last[2]

    def load(self) -> RoleRun:
        """Return the open run, or the next one with its approved proposal."""
        return RoleRun(agreed(self.config())) if self.run is None else self.run.task

    def announce(self) -> None:
        """Answer the questions of waiting parties at once, because there is a new proposal or decision."""
        self._news += 1
        self._begun.set()
        self._begun = asyncio.Event()

    async def serve(self, stream: ServerStream) -> None:
        """Serve the stream of a party to its end; if no run is open, this opens one."""
        current_federation.set(self.name)
        try:
            async with self._opening:  # until it ends, the run is not known yet
                task = self.load()
            endpoint = task.endpoint
            opened, signed = await self._identified(stream, task)
            self._check_opening(opened, self.load())  # a proposal can be declined while an opening is on its way
            run = await self.opened(opened.bound)
        except PeerError:
            raise
        except KcagcError as error:
            logger.warning("no run can be opened: %s", error)
            raise Rejected(RejectionReason.RETRY, f"{self.name}: the coordinator cannot open a run now") from error
        if run.task.agreement != endpoint.agreement:
            raise Rejected(RejectionReason.RETRY, f"{endpoint.name} is between two sessions")
        await run.server.admit(stream, opened, signed)

    async def _identified(self, stream: ServerStream, task: RoleRun) -> tuple[Open, bytes]:
        """Perform the handshake; a party with other inputs also learns why no run can open here, if that is so."""
        try:
            return await identify(stream, task.endpoint, self._earlier(task.config))
        except Rejected as rejection:
            if rejection.reason is RejectionReason.AGREEMENT:
                if f"task: {task.config.me} has 'fit'" in rejection.message:
                    raise Rejected(rejection.reason, f"{rejection.message}. {_FITS_ONLY}") from rejection
                try:
                    require_agreed(task.config, "fit")
                except (AgreementError, RejectedError) as error:
                    raise Rejected(rejection.reason, f"{rejection.message}. {error}") from error
            raise

    def _earlier(self, config: Config) -> Agreement | None:
        """Return the agreement of the last session, whose parties may come back to it after its end."""
        folder = ProposalFolder.of(config)
        number = folder.current("fit")
        return None if number is None else folder.read(number).agreement()

    def _check_opening(self, opened: Open, task: RoleRun) -> None:
        """Reject a party if an identity key is revoked here, or if it comes without the approved proposal.

        One that comes only to say why it ends opens no run.
        """
        if opened.leaving and self.run is None:
            raise Rejected(RejectionReason.RETRY, "no run is open")
        try:
            ProposalFolder.of(task.config).require_not_revoked()
        except RejectedError as error:
            raise Rejected(RejectionReason.IDENTITY, f"at the coordinator, {error}") from error
        if self.run is not None and opened.inputs != task.agreement.inputs():
            raise Rejected(RejectionReason.OVER, f"that session is over: {task.config.me} has started another one")
        if self.run is None and not opened.bound:
            try:
                require_agreed(task.config, "fit")
                compare_inputs(task.config.me, task.agreement, opened.name, opened.inputs)
            except (AgreementError, RejectedError) as error:
                raise Rejected(RejectionReason.AGREEMENT, str(error)) from error

    async def opened(self, bound: bytes = b"") -> OpenRun:
        """Return the open run; if there is none, open the next one or the interrupted one.

        With `bound`, the name of a session at a party, only an interrupted run is opened. The opening goes on to its
        end if the caller is cancelled because its stream is lost.
        """
        return await asyncio.shield(asyncio.create_task(self._open_once(bound)))

    async def _open_once(self, bound: bytes) -> OpenRun:
        async with self._opening:
            return self.run or await self._open(bound)

    async def resume(self) -> None:
        """Go on with the run that a process before this one has not ended."""
        current_federation.set(self.name)
        last = self.records.last()
        if last is not None and last.state == "running":
            try:
                await self.opened(_NO_SESSION)
            except Rejected:  # the run had ended
                pass
            except (KcagcError, OSError) as error:
                logger.warning("the interrupted run cannot go on: %s", error)

    async def _open(self, bound: bytes) -> OpenRun:
        run = await asyncio.to_thread(self._prepare, bound)
        try:
            try:
                await run.server.open()
            except SessionError as error:
                if not run.resumed:
                    raise
                # Its parties cannot go on with it either: the run has failed, and the next one takes its place.
                await self._end(run, str(error))
                run = await asyncio.to_thread(self._prepare, b"")
                await run.server.open()
        except BaseException as error:
            await self._end(run, str(error))
            raise
        logger.info("run %d %s", run.record.number, "goes on" if run.resumed else "begins")
        self.run = run
        self._begun.set()
        self._begun = asyncio.Event()
        self._running = asyncio.create_task(self._run_to_end(run))
        return run

    async def next_run(self, party: str, seconds: float) -> int:
        """Return the number of a run that a party can join; 0 if there is none within some seconds."""
        end, news = time.monotonic() + seconds, self._news
        self.waiting[party] += 1
        try:
            while (left := end - time.monotonic()) > 0 and news == self._news:
                if self.run is not None and self.run.server.awaits(party):
                    return self.run.record.number
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left if self.run is None else min(left, _LOOK_AGAIN)):
                        await self._begun.wait()
        finally:
            self.waiting[party] -= 1
        return 0

    async def stop(self) -> None:
        """Stop the open run, so that the next start of the process resumes it."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    def _prepare(self, bound: bytes) -> OpenRun:
        """Open the journal, and choose the number of the run.

        An interrupted run goes on if it still may; otherwise it ends here, so that it cannot block the next one.
        """
        config, last = self.config(), self.records.last()
        try:
            journal = Journal(RoleRun(config).journal)
        except InvalidJournalError:  # without its secrets no role can go on with that session
            journal = open_journal(RoleRun(config), new_session=True)
        try:
            task = None
            if last is not None and last.state == "running":
                task = self._interrupted(config, journal)
                if task is None:
                    self._settle(config, last, journal)
            resumed, record = task is not None, last if task is not None else None
            if task is None:
                task = RoleRun(agreed(config))
                if bound:
                    _reject_ended(config.me, journal, bound)
                task.check()  # before the run has a record, which would stay if it could not begin
                journal.erase()
            record = record or self.records.next()
            task = self._with_folder(task.config, record.number)
            server = RoleServer(role_spec(task, journal, [], None, None))
            return OpenRun(task, journal, self.records.write(record), server, resumed)
        except BaseException:
            journal.close()
            raise

    def _interrupted(self, config: Config, journal: Journal) -> RoleRun | None:
        """Return the interrupted run with its proposal; None if it has ended, or may not go on any more."""
        if journal.status != "running":
            return None
        try:
            task = RoleRun(agreed(config, resume=True))
            task.check()
        except KcagcError as error:
            journal.fail(str(error))
            return None
        return task

    def _settle(self, config: Config, last: RunRecord, journal: Journal) -> None:
        """Complete the record of a run that cannot go on, or whose process ended before the record was written."""
        write_ledger(self._with_folder(config, last.number).files, journal.ledger())
        failure = journal.failure or "the session is not in the journal"
        self.records.write(last.ended(None if journal.status == "finished" else failure))
        if journal.status != "finished":
            logger.warning("run %d has failed: %s", last.number, failure)

    def _with_folder(self, config: Config, number: int) -> RoleRun:
        """Return the task with the folder of a run for its results."""
        document = config.document
        output = msgspec.structs.replace(document.output, folder=str(self.records.folder_of(number).absolute()))
        document = msgspec.structs.replace(document, output=output)
        return RoleRun(dataclasses.replace(config, document=document))

    async def _run_to_end(self, run: OpenRun) -> None:
        cause: str | None = None
        try:
            await unless_revoked(run.task.config, run.server.run())
        except asyncio.CancelledError as stopped:
            run.server.announce_end(public_reason(stopped))
            await run.server.stop()
            run.journal.close()
            raise
        except KcagcError as error:
            cause = str(error)
            if isinstance(error, RejectedError):  # a revoked key, of which the messages of the role say nothing
                run.server.announce_end(public_reason(error))
        except Exception as error:
            logger.exception("run %d ended with an error of this process", run.record.number)
            cause = str(error) or type(error).__name__
        try:
            await self._end(run, cause)
        finally:
            self.run = None

    async def _end(self, run: OpenRun, cause: str | None) -> None:
        """Record the end of a run and let go of everything that it held."""
        await run.server.stop()
        await asyncio.to_thread(self._record_end, run, cause)
        if cause is None:
            logger.info("run %d has finished", run.record.number)
        else:
            logger.warning("run %d has failed: %s", run.record.number, cause)

    def _record_end(self, run: OpenRun, cause: str | None) -> None:
        try:
            if cause is not None and run.journal.status == "running":
                run.journal.fail(cause)
            write_ledger(run.task.files, run.journal.ledger())
            if cause is None and (receipts := run.journal.fact(RECEIPTS)) is not None:
                write_audit(run.task, receipts)
        except (KcagcError, OSError) as error:
            logger.warning("the ledger or audit file of run %d could not be written: %s", run.record.number, error)
        finally:
            run.journal.close()
            record = run.record.ended(cause)
            self.ended[record.state] += 1
            self.last_seconds = (record.until or record.since) - record.since
            with contextlib.suppress(OSError):
                self.records.write(record)


def _reject_ended(name: str, journal: Journal, bound: bytes) -> None:
    """Reject a party that comes back to a session that has ended."""
    end: Any = journal.fact("end")
    if end is not None and msgspec.msgpack.decode(end, type=SessionEnd).attempt == bound:
        # It has everything, and only closes its stream.
        raise Rejected(RejectionReason.ENDED, f"{name} has finished that session")
    # The party drops it, and takes part in the next one.
    raise Rejected(RejectionReason.OVER, f"that session is over: {name} has ended it")
