"""A process that has imported everything and forks whatever it is asked for, so that no role pays for imports.

Requests come as lines on stdin, process ids and ends go out as lines on stdout. gRPC is imported before a fork and used
only after it: a process in which it runs cannot be forked.
"""

from __future__ import annotations

import contextlib
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
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]
_STARTING = 120.0  # seconds for all imports on a busy machine


class Zygote:
    """The process that all others are forked from; whatever it has started ends with it."""

    def __init__(self, *modules: str, environment: dict[str, str] | None = None) -> None:
        paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "experiments.paper.network.zygote", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # whoever is interrupted ends its stdin, and that ends all roles
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "GRPC_ENABLE_FORK_SUPPORT": "0",
                **(environment or {}),
            },
        )
        self._pids: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._started: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._changed, self._calls = threading.Condition(), itertools.count()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._next_pid()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        self._process.wait()
        self._reader.join()
        self._output.close()

    @property
    def _input(self) -> Any:
        return self._process.stdin

    @property
    def _output(self) -> Any:
        return self._process.stdout

    def _read(self) -> None:
        for line in self._output:
            words = json.loads(line)
            if "ended" in words:
                with self._changed:
                    self._codes[words["ended"]] = words["code"]
                    self._changed.notify_all()
            else:
                self._pids.put(words["pid"])
        self._pids.put(-1)  # nobody need wait for one

    def _next_pid(self) -> int:
        found = self._pids.get(timeout=_STARTING)
        if found < 0:
            raise RuntimeError("the process to fork from has ended; what it said is above")
        return found

    def start(self, function: str, plan: dict[str, Any], log: Path) -> int:
        """Call `module:function` with a plan in a process of its own; give the number under which it is known here."""
        call = next(self._calls)
        asked = {"call": call, "function": function, "plan": plan, "log": str(log)}
        self._input.write((json.dumps(asked) + "\n").encode())
        self._input.flush()
        self._started[call] = self._next_pid()
        return call

    def ended(self, calls: Iterable[int], seconds: float) -> dict[int, int]:
        """Give the exit codes of those that have ended, as soon as one has."""
        watched = set(calls)
        with self._changed:
            self._changed.wait_for(lambda: watched & self._codes.keys(), timeout=max(seconds, 0.0))
            return {call: self._codes[call] for call in watched & self._codes.keys()}

    def kill(self, call: int) -> None:
        """End a process, unless it has ended: its id may be another's by now."""
        with self._changed:
            if call not in self._codes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._started[call], signal.SIGKILL)
        while not self.ended([call], 1.0) and self._process.poll() is None:
            pass


def _serve(modules: list[str]) -> None:
    """Fork until stdin ends, then take along those that are left."""
    for name in modules:
        importlib.import_module(name)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    pending = b""
    _say(pid=os.getpid())
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report(running)
        if 0 in ready:
            more = os.read(0, 1 << 16)
            if not more:
                break
            *lines, pending = (pending + more).split(b"\n")
            for line in lines:
                asked = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _become(asked)
                running[pid] = asked["call"]
                _say(pid=pid)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def _become(asked: dict[str, Any]) -> None:
    """Be a process of one's own, and end as fast: freeing what was imported takes longer than many a run."""
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        module, _, name = asked["function"].partition(":")
        code = getattr(importlib.import_module(module), name)(asked["plan"])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _report(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        _say(ended=running.pop(pid), code=os.waitstatus_to_exitcode(status))


def _say(**words: object) -> None:
    os.write(1, (json.dumps(words) + "\n").encode())


if __name__ == "__main__":
    _serve(sys.argv[1:])
