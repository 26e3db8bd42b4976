"""A Dask cluster that works for one party: its settings, the connection, and tasks that survive the loss of a worker.

Tasks read and write files in a folder that the party and all workers see; only small results travel. If a worker is
lost, Dask runs its tasks again elsewhere. If the scheduler is lost, the run of the role ends with an `EngineError`.

Dask's own processes send each other code. A scheduler and its workers therefore belong to the party itself, and a
connection to another machine needs TLS with certificates on both sides.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import re
import secrets
import shutil
import signal
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kcagc._types import check_count
from kcagc.engines.pieces import make_folder, read_probe
from kcagc.errors import EngineError, ParameterError
from kcagc.text import listed

_RETRIES = 2  # of a task that raised an error, for example because a file system did not answer
_POLL = 1.0  # seconds between two looks at the cluster while no task ends
_CONNECT = "30s"
_SHARE = 0.65  # of the memory limit of a worker; Dask writes to the disk and warns from 0.7 on
_BASE = 300 << 20  # bytes that a worker holds without any task
_UNLIMITED = 4 << 30  # bytes that the tasks of a worker without a limit take
_UNITS = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_DASK_LOGGERS = ("client", "comm", "core", "nanny", "scheduler", "utils", "worker")
_SAME_COMMAND = "Repair the cluster, then start the same command again: it resumes the run"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClusterSettings:
    """Where the cluster is, or how large a local one shall be; see `DaskEngine`."""

    scheduler: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    folder: str = ""
    workers: int | None = None
    memory: str | int | None = None
    worker_timeout: float = 300.0

    def __post_init__(self) -> None:
        check_count("engine.workers", self.workers, optional=True)
        bytes_of(self.memory)
        if not self.worker_timeout > 0:
            raise ParameterError(f"engine.worker_timeout: must be above 0 seconds, not {self.worker_timeout!r}")
        if not self.scheduler:
            for name in ("ca", "certificate", "key"):
                if getattr(self, name):
                    raise ParameterError(f"engine.{name}: is for an existing cluster; set engine.scheduler too")
            return
        for name in ("workers", "memory"):
            if getattr(self, name) is not None:
                raise ParameterError(
                    f"engine.{name}: is for a cluster on this machine, but engine.scheduler names an existing one; "
                    f"remove engine.{name}, or engine.scheduler"
                )
        if not self.folder:
            raise ParameterError(
                "engine.folder: is missing; with engine.scheduler, name a folder that this machine and all workers see "
                "under the same path"
            )
        self._check_address()

    def _check_address(self) -> None:
        match = re.fullmatch(r"(tls|tcp)://(\[[0-9a-fA-F:]+\]|[^:/\s]+):(\d{1,5})", self.scheduler)
        if match is None:
            raise ParameterError(f"engine.scheduler: write tls://HOST:PORT, not {self.scheduler!r}")
        if match[1] == "tcp" and match[2] not in ("localhost", "[::1]") and not match[2].startswith("127."):
            raise ParameterError(
                f"engine.scheduler: {self.scheduler} has no encryption, and everybody who reaches it can run code as "
                "its user. Start the scheduler and the workers with TLS (docs/howto/engines.md), and write tls://"
            )
        given = [name for name in ("ca", "certificate", "key") if getattr(self, name)]
        if match[1] == "tls" and len(given) < 3:
            lacking = [f"engine.{name}" for name in ("ca", "certificate", "key") if name not in given]
            raise ParameterError(f"{listed(lacking)}: missing; {self.scheduler} needs the TLS files of this client")


def bytes_of(text: str | int | None) -> int | None:
    """Return the bytes of a size such as "2.5GiB"; None for None."""
    if text is None or (isinstance(text, int) and not isinstance(text, bool) and text > 0):
        return text
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B)", str(text), flags=re.IGNORECASE)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or not float(match[1]) > 0:
        raise ParameterError(f'engine.memory: must be a size such as "2.5GiB", not {text!r}')
    return int(float(match[1]) * unit)


def import_distributed() -> Any:
    """Return the package `distributed`, or raise an error that says how to install it."""
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ParameterError(
            f"engine: 'dask' needs the package distributed, which cannot be imported here ({error}). Install "
            'kcagc[dask], or use engine = "local"'
        ) from error
    return distributed


@dataclass
class _WorkFiles:
    """What happens to the files of this work: those of a named folder stay while some work is unfinished."""

    may_stay: bool
    unfinished: bool = False

    def remove(self, folder: Path) -> None:
        """Remove a folder, unless the next start can go on from there."""
        if not (self.may_stay and self.unfinished):
            shutil.rmtree(folder, ignore_errors=True)


class Cluster:
    """A connected cluster, and the folder that this process and the workers share.

    Attributes
    ----------
    threads : int
        The number of tasks that ran at the same time when the connection was made.
    room : int
        The bytes that one task may take.
    folder : Path
        The folder of the files.
    lasting : bool
        Whether the files of unfinished work stay for the next start.
    files : object
        Its `remove` removes a folder, unless the next start can go on from there.
    """

    def __init__(self, settings: ClusterSettings, client: Any = None) -> None:
        self._distributed, self._settings = import_distributed(), settings
        self.lasting = bool(settings.folder)
        self.files = _WorkFiles(self.lasting)
        self._without_since: float | None = None  # no worker since then
        self._stack = contextlib.ExitStack()
        self._closed = weakref.finalize(self, self._stack.close)
        try:
            self.folder = self._own_folder()
            self._client = self._connected() if client is None else client
            atexit.register(self._closed)  # before Dask's own, which waits for running tasks
            self.threads, self.room = self._inspect()
        except OSError as error:
            self.close()
            raise EngineError(
                f"engine: the Dask cluster {settings.scheduler or 'on this machine'} cannot be used ({error}). Check "
                "that the scheduler runs, and engine.scheduler, engine.folder and the TLS files"
            ) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect, end a local cluster, and remove what need not stay."""
        atexit.unregister(self._closed)
        self._closed()

    def owned(self, name: str) -> Path:
        """Return a folder of this name, which is removed with the connection."""
        folder = self.folder / name
        self._stack.callback(self.files.remove, folder)
        return folder

    def _own_folder(self) -> Path:
        """Return the folder of the settings, locked against a second process, or a temporary one."""
        if not self.lasting:
            made = tempfile.mkdtemp(prefix="kcagc-dask-")
            self._stack.callback(shutil.rmtree, made, ignore_errors=True)
            return Path(made)
        folder = make_folder(Path(self._settings.folder).expanduser().absolute())
        try:
            import fcntl  # noqa: PLC0415 - not on every system
        except ImportError:
            return folder
        lock = self._stack.enter_context((folder / ".lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EngineError(
                f"engine.folder: another run works in {folder}; end it, or name another folder, one for each party"
            ) from error
        return folder

    def _connected(self) -> Any:
        made, settings = self._distributed, self._settings
        # Errors of the connection become ours; Dask would print them with a traceback too.
        for part in _DASK_LOGGERS:
            logging.getLogger(f"distributed.{part}").setLevel(logging.CRITICAL)
        if settings.scheduler:
            security = self._security() if settings.scheduler.startswith("tls") else None
            place: Any = settings.scheduler
        else:
            security = None
            # With temporary certificates: otherwise every user of this machine could give work to the scheduler.
            place = made.LocalCluster(
                n_workers=settings.workers,
                threads_per_worker=1,
                memory_limit=bytes_of(settings.memory) or "auto",
                security=True,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
                local_directory=str(self.folder),
                silence_logs=logging.CRITICAL,
            )
            self._stack.callback(_end_now, place)
        client = made.Client(place, security=security, set_as_default=False, timeout=_CONNECT)
        self._stack.callback(client.close)
        return client

    def _security(self) -> Any:
        settings = self._settings
        files = {"ca": settings.ca, "certificate": settings.certificate, "key": settings.key}
        for name, file in files.items():
            if not Path(file).is_file():
                raise ParameterError(f"engine.{name}: {file}: there is no such file")
        return self._distributed.Security(
            tls_ca_file=settings.ca,
            tls_client_cert=settings.certificate,
            tls_client_key=settings.key,
            require_encryption=True,
        )

    def _inspect(self) -> tuple[int, int]:
        """Check that every worker has this version and sees the folder; return the threads and the room of a task."""
        self._await_workers()
        token = secrets.token_hex(16)
        probe = self.folder / f".probe-{token[:8]}"
        probe.write_text(token, encoding="utf-8")
        try:
            found: dict[str, Any] = self._client.run(_describe, str(probe))
        except OSError:
            raise
        except Exception as error:
            raise EngineError(
                f"engine: a worker of the Dask cluster cannot run the code of kcagc ({error}); install kcagc[dask] "
                f"{version('kcagc')} on all workers"
            ) from error
        finally:
            probe.unlink()
        for name, (found_version, content, _, _) in found.items():
            if found_version != version("kcagc"):
                raise EngineError(
                    f"engine: worker {name} has kcagc {found_version}, and this machine {version('kcagc')}; install "
                    "the same version on both"
                )
            if content != token:
                raise EngineError(
                    f"engine.folder: worker {name} does not see the files of this machine in {self.folder}; name a "
                    "folder that this machine and all workers share under the same path"
                )
        rooms = [max(int(_SHARE * limit) - _BASE, limit // 4) // threads for _, _, limit, threads in found.values()]
        return sum(threads for *_, threads in found.values()), min(rooms)

    def _await_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=self._settings.worker_timeout)
        except TimeoutError as error:
            raise self._without_workers() from error

    def _without_workers(self) -> EngineError:
        return EngineError(
            f"engine: the Dask cluster has had no worker for {self._settings.worker_timeout:g} s "
            f"(engine.worker_timeout). {_SAME_COMMAND}"
        )

    def run(
        self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], report: Callable[[int, int], None]
    ) -> list[Any]:
        """Call a function with each of these arguments on the workers; return the results in the same order.

        A task whose worker is lost runs again on another one.

        Raises
        ------
        EngineError
            If the scheduler is lost, no worker is left, or a task fails again and again.
        """
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        results: list[Any] = [None] * len(items)
        numbers = {}
        self.files.unfinished = True
        try:
            with self._errors_of(function.__name__):
                for number, values in enumerate(items):
                    future = self._client.submit(function, *values, pure=False, retries=_RETRIES)
                    numbers[future] = number
                    future.add_done_callback(ended.put)
            report(0, len(items))
            for done in range(1, len(items) + 1):
                with self._errors_of(function.__name__):
                    future = self._ended(ended)
                    results[numbers.pop(future)] = self._result(future)
                report(done, len(items))
        finally:
            for future in numbers:  # the scheduler drops tasks whose result is not wanted
                future.release()
        self.files.unfinished = False
        return results

    @contextlib.contextmanager
    def _errors_of(self, task: str) -> Iterator[None]:
        """Raise an `EngineError` for every error of the cluster inside this context."""
        try:
            yield
        except self._distributed.KilledWorker as error:
            raise EngineError(
                f"engine: workers of the Dask cluster were lost one after the other during the same task ({task}); "
                f"most often they need more memory than their limit. {_SAME_COMMAND}"
            ) from error
        except self._distributed.CancelledError as error:  # as all tasks are that lose their scheduler
            raise EngineError(
                f"engine: the connection to the Dask scheduler {self._settings.scheduler or 'on this machine'} is "
                f"lost. {_SAME_COMMAND}"
            ) from error
        except EngineError:
            raise
        except Exception as error:
            raise EngineError(
                f"engine: a task failed on the Dask cluster ({task}: {type(error).__name__}: {error}). {_SAME_COMMAND}"
            ) from error

    def _ended(self, ended: queue.SimpleQueue[Any]) -> Any:
        """Return the next task that has ended; raise an error if there is no worker for too long."""
        while True:
            try:
                return ended.get(timeout=_POLL)
            except queue.Empty:
                self._check_workers()

    def _result(self, future: Any) -> Any:
        """Return the result of a task; one whose worker is lost meanwhile runs again."""
        while True:
            try:
                return future.result(timeout=_POLL)
            except TimeoutError:
                if future.status == "error":
                    raise
                self._check_workers()

    def _check_workers(self) -> None:
        now = time.monotonic()
        if self._client.nthreads():
            self._without_since = None
        elif self._without_since is None:
            self._without_since = now
            logger.warning("engine: the Dask cluster has no worker; waiting for one")
        elif now - self._without_since > self._settings.worker_timeout:
            raise self._without_workers()


def _end_now(cluster: Any) -> None:
    """End a local cluster without waiting for its tasks: their results are not needed."""
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        with contextlib.suppress(ProcessLookupError):
            if nanny.pid:
                os.kill(nanny.pid, signal.SIGKILL)
    cluster.close()


def _describe(probe: str, dask_worker: Any) -> tuple[str, str, int, int]:
    """Return, on a worker, the version of kcagc, the content of a file, the memory limit and the number of threads."""
    limit = dask_worker.memory_manager.memory_limit or _UNLIMITED
    return version("kcagc"), read_probe(probe), int(limit), int(dask_worker.state.nthreads)
