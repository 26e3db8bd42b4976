"""All roles of a run on one machine, each as a process with its own folder, keys and certificate."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kcagc.datasets.dataset import Dataset
from kcagc.deploy import interrupts
from kcagc.deploy.folders import FolderPlan, write_folders
from kcagc.errors import KcagcError
from kcagc.text import read_json

_STOPPING = 5.0  # seconds for a process to end by itself


class Trial:
    """The folders of all roles, and the processes that run in them."""

    def __init__(
        self,
        folder: Path,
        parties: list[str],
        *,
        examples: Dataset | None = None,
        random_state: int | None = None,
        **settings: Any,
    ) -> None:
        address = f"127.0.0.1:{_free_port()}"
        plan = FolderPlan.of(parties, address=address, listen=address, random_state=random_state, **settings)
        self.configs = write_folders(folder, plan, examples)
        self.parties = parties

    @contextlib.contextmanager
    def running(self) -> Iterator[Processes]:
        """Start all roles, and stop those that still run at the end of this context."""
        processes = Processes()
        with interrupts.unlimited(), _signals_handled_by(_interrupt):
            try:
                for name, config in self.configs.items():
                    command = "party" if name in self.parties else "coordinator"
                    processes.start(name, [command, "--config", str(config), "--json", "--log-format", "json"])
                yield processes
            finally:
                processes.stop()


@dataclass(frozen=True)
class LogRecord:
    """A log line of a process: its message, and its local time as "HH:MM:SS"."""

    message: str
    clock: str

    @classmethod
    def of(cls, line: str) -> LogRecord:
        """Read a log line; an error at the end of a process is plain text."""
        with contextlib.suppress(ValueError, TypeError, KeyError):
            fields = read_json(line)
            return cls(fields["message"], f"{datetime.fromisoformat(fields['time']).astimezone():%H:%M:%S}")
        return cls(line, f"{datetime.now():%H:%M:%S}")


class Processes:
    """Processes of kcagc, and their log as it is written."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._lines: queue.Queue[tuple[str, str | None]] = queue.Queue()
        self._messages: dict[str, list[str]] = {}

    def start(self, name: str, arguments: list[str]) -> None:
        """Start a process in a session of its own, which Ctrl-C at the terminal does not reach directly."""
        held: list[int] = []
        with _signals_handled_by(lambda number, _: held.append(number)):  # a new process must be known before any exit
            self._start(name, arguments)
        if held:
            raise KeyboardInterrupt

    def _start(self, name: str, arguments: list[str]) -> None:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "kcagc", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        self._running[name], self._messages[name] = process, []
        threading.Thread(target=self._read, args=(name, process), daemon=True).start()

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        for line in process.stderr or ():
            self._lines.put((name, line.rstrip("\n")))
        self._lines.put((name, None))

    def records(self) -> Iterator[tuple[str, LogRecord]]:
        """Yield the name and the log records of the processes until all have ended; raise an error if one failed."""
        ended = 0
        while ended < len(self._running):
            name, line = self._lines.get()
            if line is None:
                ended += 1
                self._check(name)
                continue
            record = LogRecord.of(line)
            self._messages[name].append(record.message)
            yield name, record

    def _check(self, name: str) -> None:
        code = self._running[name].wait()
        if code != 0:
            last = "\n".join(self._messages[name][-5:])
            raise KcagcError(f"{name} ended with exit code {code}:\n{last}")

    @property
    def ids(self) -> dict[str, int]:
        """The process id of each process."""
        return {name: process.pid for name, process in self._running.items()}

    def stop(self) -> None:
        """Stop the processes that still run: SIGTERM, then SIGKILL."""
        for process in self._running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(_STOPPING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError, ValueError):
                        stream.close()


@contextlib.contextmanager
def _signals_handled_by(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Pass Ctrl-C, SIGTERM and the closing of the terminal to a handler inside this context."""
    names = ("SIGINT", "SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _interrupt(_: int, __: Any) -> None:
    raise KeyboardInterrupt


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
