"""All roles of a run on one machine, each a process of its own with its own folder, keys and certificate."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kcagc.deploy.folders import Plan, write_folders
from kcagc.errors import KcagcError
from kcagc.files.atomic import write_text

_STOPPING = 5.0  # seconds for a process to end by itself


class Trial:
    """Folders of all roles, and the processes that run in them."""

    def __init__(self, folder: Path, parties: list[str], *, n_clusters: int, psi: int) -> None:
        address = f"127.0.0.1:{_free_port()}"
        plan = Plan.of(parties, address=address, listen=address, n_clusters=n_clusters, psi=psi)
        self.configs = write_folders(folder, plan)
        self.parties = parties

    def set(self, name: str, value: int | str) -> None:
        """Give a setting that the template leaves to its default another value, at all roles."""
        for path in self.configs.values():
            text = path.read_text(encoding="utf-8")
            written = f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}"
            changed, times = re.subn(rf"^# {name} = .*$", written, text, flags=re.MULTILINE)
            if times != 1:
                raise KcagcError(f"{path}: has no line for {name}")
            write_text(path, changed)

    @contextlib.contextmanager
    def running(self) -> Iterator[Processes]:
        """Start all roles; whatever happens here, none of them outlives this."""
        processes = Processes()
        with _handled(_interrupt):
            try:
                for name, config in self.configs.items():
                    command = "party" if name in self.parties else "coordinator"
                    processes.start(name, [command, "--config", str(config), "--json"])
                yield processes
            finally:
                processes.stop()


class Processes:
    """Processes of kcagc, and what they say on stderr, line by line, as it comes."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._said: queue.Queue[tuple[str, str | None]] = queue.Queue()
        self._lines: dict[str, list[str]] = {}

    def start(self, name: str, arguments: list[str]) -> None:
        """Start one; a process of its own, which a Ctrl-C at the terminal reaches only through us."""
        held: list[int] = []
        with _handled(lambda number, _: held.append(number)):  # or one that was just started would be known to nobody
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
        self._running[name], self._lines[name] = process, []
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        for line in process.stderr or ():
            self._said.put((name, line.rstrip("\n")))
        self._said.put((name, None))

    def lines(self) -> Iterator[tuple[str, str]]:
        """Give what they say until all have ended; raise if one ended badly."""
        ended = 0
        while ended < len(self._running):
            name, line = self._said.get()
            if line is None:
                ended += 1
                self._check(name)
                continue
            self._lines[name].append(line)
            yield name, line

    def _check(self, name: str) -> None:
        process = self._running[name]
        code = process.wait()
        if code != 0:
            said = "\n".join(self._lines[name][-5:])
            raise KcagcError(f"{name} ended with exit code {code}:\n{said}")

    @property
    def ids(self) -> dict[str, int]:
        """The number that the system gave each process."""
        return {name: process.pid for name, process in self._running.items()}

    def stop(self) -> None:
        """End those that still run, gently first."""
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
def _handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Have what ends a program, Ctrl-C, SIGTERM or a terminal that is closed, do this for as long as this lasts."""
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
