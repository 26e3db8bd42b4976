"""A fork server: a process that has imported all modules and forks one process for each request.

A forked role starts in milliseconds because it imports nothing. Requests arrive as lines on stdin; process ids and exit
codes leave as lines on stdout. The server imports gRPC and does not use it: a process that uses gRPC cannot fork.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]
_STARTING = 120.0  # seconds for all imports on a busy machine
_FAILED = 1  # exit code of a process whose function raised an error, as of any Python program


@dataclass(frozen=True)
class Process:
    """A process that the server forked. Its number is unique; the system may reuse its process id."""

    number: int
    pid: int


class ForkServer:
    """The server and a connection to it. All processes that it forked end with it."""

    def __init__(self, *modules: str, environment: dict[str, str] | None = None) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._server = subprocess.Popen(
            [sys.executable, "-m", "experiments.paper.network.fork_server", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt ends the caller; its end closes stdin, which ends the server
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "GRPC_ENABLE_FORK_SUPPORT": "0",
                **(environment or {}),
            },
        )
        self._pids: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._codes: dict[int, int] = {}
        self._changed, self._lock, self._numbers = threading.Condition(), threading.Lock(), itertools.count()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._next_pid()

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        self._server.wait()
        self._reader.join()
        self._output.close()

    @property
    def _input(self) -> Any:
        return self._server.stdin

    @property
    def _output(self) -> Any:
        return self._server.stdout

    def _read(self) -> None:
        for line in self._output:
            report = json.loads(line)
            if "ended" in report:
                with self._changed:
                    self._codes[report["ended"]] = report["code"]
                    self._changed.notify_all()
            else:
                self._pids.put(report["pid"])
        self._pids.put(-1)  # wakes a caller that waits for a process id

    def _next_pid(self) -> int:
        found = self._pids.get(timeout=_STARTING)
        if found < 0:
            raise RuntimeError("the fork server has ended; its error is on stderr")
        return found

    def start(
        self,
        function: str,
        plan: dict[str, Any],
        log: Path,
        *,
        errors: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> Process:
        """Call `module:function` with a plan in a new process. The integer that it returns is the exit code.

        The process appends its output to `log`, and stderr to `errors` where given. With an `environment` the process
        starts a new interpreter, so that libraries read these variables while they are imported.
        """
        with self._lock:
            number = next(self._numbers)
            request = {"number": number, "function": function, "plan": plan, "log": str(log)}
            request |= {"errors": str(errors or log), "environment": environment}
            self._input.write((json.dumps(request) + "\n").encode())
            self._input.flush()
            return Process(number, self._next_pid())

    def ended(self, processes: Iterable[Process], seconds: float) -> dict[Process, int]:
        """Wait until one of the processes has ended; return the exit codes of those that have."""
        watched = {process.number: process for process in processes}
        with self._changed:
            self._changed.wait_for(lambda: watched.keys() & self._codes.keys(), timeout=max(seconds, 0.0))
            return {watched[number]: self._codes[number] for number in watched.keys() & self._codes.keys()}

    def kill(self, process: Process) -> None:
        """Kill a process and wait for its end. A process that has ended is left alone: its id may be reused."""
        with self._changed:
            if process.number not in self._codes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        while not self.ended([process], 1.0) and self._server.poll() is None:
            pass


def _serve(modules: list[str]) -> None:
    """Fork until stdin ends; then kill the processes that still run."""
    for name in modules:
        importlib.import_module(name)
    gc.freeze()
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    pending = b""
    _send(pid=os.getpid())
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(running)
        if 0 in ready:
            more = os.read(0, 1 << 16)
            if not more:
                break
            *lines, pending = (pending + more).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _run_request(request)
                running[pid] = request["number"]
                _send(pid=pid)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _run_request(request: dict[str, Any]) -> None:
    """Run a request in this forked process, and end the process.

    It ends without the interpreter's shutdown, which would free all imported modules: that takes longer than many runs.
    """
    code = _FAILED
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        appending = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(request["log"], appending, 0o600), 1)
        os.dup2(os.open(request["errors"], appending, 0o600), 2)
        if request["environment"]:
            plain = json.dumps(request | {"environment": None})
            command = [sys.executable, "-m", "experiments.paper.network.fork_server", "--request", plain]
            os.execve(sys.executable, command, os.environ | request["environment"])  # noqa: S606
        code = _call(request)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _call(request: dict[str, Any]) -> int:
    module, _, name = request["function"].partition(":")
    return int(getattr(importlib.import_module(module), name)(request["plan"]))


def _report_ended(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        _send(ended=running.pop(pid), code=os.waitstatus_to_exitcode(status))


def _send(**report: object) -> None:
    os.write(1, (json.dumps(report) + "\n").encode())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--request"]:
        sys.exit(_call(json.loads(sys.argv[2])))
    _serve(sys.argv[1:])
