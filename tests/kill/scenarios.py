"""Runs of real processes: folders as `kcagc init` makes them, roles that are started, killed and started again."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from kcagc.cli.main import cli
from kcagc.datasets import generate

CONFIG = "kcagc.toml"
HERE = Path(__file__).parent
PATIENCE = 40.0  # seconds for a run that is disturbed; it takes one or two
KILLED = -signal.SIGKILL
Boundary = tuple[str, int]


@dataclass(frozen=True)
class Process:
    """A role that was started; `call` is never the same, as its process id may be."""

    call: int
    pid: int


class Zygote:
    """The process that all roles are forked from."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # whoever interrupts the tests ends their stdin, and that ends all roles
        )
        self._lock, self._pids = threading.Lock(), queue.SimpleQueue()
        self._changed = threading.Condition()
        self._codes: dict[int, int] = {}
        self._calls = itertools.count()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._pids.get(timeout=60)

    def _read(self) -> None:
        for line in self._process.stdout:
            words = json.loads(line)
            if "ended" in words:
                with self._changed:
                    self._codes[words["ended"]] = words["code"]
                    self._changed.notify_all()
            else:
                self._pids.put(words.get("pid", 0))

    def start(self, plan: dict) -> Process:
        with self._lock:
            call = next(self._calls)
            self._process.stdin.write((json.dumps(plan | {"call": call}) + "\n").encode())
            self._process.stdin.flush()
            return Process(call, self._pids.get(timeout=30))

    def wait(self, processes: Iterable[Process], seconds: float) -> dict[Process, int]:
        """Give the exit codes of those that have ended, as soon as one has."""
        watched = {one.call: one for one in processes}
        with self._changed:
            self._changed.wait_for(lambda: watched.keys() & self._codes.keys(), timeout=max(seconds, 0))
            return {watched[call]: self._codes[call] for call in watched.keys() & self._codes.keys()}

    def kill(self, process: Process) -> None:
        """End a process, unless it has ended: its id may be another's by now."""
        with self._changed:
            if process.call not in self._codes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        while not self.wait([process], 10):
            pass

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._reader.join(30)
        self._process.stdout.close()


@dataclass(frozen=True)
class Script:
    """A kind of run: who takes part and with which settings."""

    name: str
    parties: tuple[str, ...] = ("a", "b", "c")
    aggregating_party: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    accept: tuple[str, ...] = ()
    predicts: bool = False
    n_nodes: int = 60

    @property
    def roles(self) -> tuple[str, ...]:
        others = tuple(party for party in self.parties if party != self.aggregating_party)
        return (*others, self.aggregating_party or "coordinator")

    @property
    def aggregator(self) -> str:
        return self.roles[-1]

    def write(self, folder: Path) -> None:
        """Make the folders of all roles, with data and settings."""
        sums = ["--aggregator", self.aggregating_party] if self.aggregating_party else []
        named = ["--parties", ",".join(self.parties), "--clusters", "3", "--address", "localhost:7443", *sums]
        made = CliRunner().invoke(cli, ["init", str(folder), *named], catch_exceptions=False)
        assert made.exit_code == 0, made.output
        settings = {"n_init": 2, "max_iter": 3, **self.settings}
        for name in self.roles:
            path = folder / name / CONFIG
            text = path.read_text()
            text = text.replace("# random_state = 0", "random_state = 0").replace("psi = 5", "psi = 2")
            chosen = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
            text = text.replace("[session]\n", f"[session]\n{chosen}")
            text = text.replace("accept = []", f"accept = {json.dumps(list(self.accept))}")
            if self.predicts and name in self.parties:
                text += '[predict]\nfeatures = "data/more.csv"\ngraph = "data/more-edges.csv"\nid_column = "id"\n'
            path.write_text(text)
        self._write_data(folder)

    def _write_data(self, folder: Path) -> None:
        more = 12
        data = generate(
            self.n_nodes + more, 3, degree=6, homophily=0.55, signal=0.9, features=(5,) * len(self.parties), seed=3
        )
        upper = np.argwhere(np.triu(data.adjacency.toarray(), 1))
        for party, table in zip(self.parties, data.parties(), strict=True):
            for count, features, edges in (
                (self.n_nodes, "features.csv", "edges.csv"),
                (self.n_nodes + more, "more.csv", "more-edges.csv"),
            ):
                head = "id," + ",".join(f"f{column}" for column in range(table.shape[1]))
                rows = [f"n{row}," + ",".join(map(repr, map(float, table[row]))) for row in range(count)]
                (folder / party / "data" / features).write_text("\n".join([head, *rows]) + "\n")
                pairs = [f"n{one},n{other}" for one, other in upper if one < count and other < count]
                (folder / party / "data" / edges).write_text("\n".join(["source,target", *pairs]) + "\n")


SCRIPTS = {
    script.name: script
    for script in (
        Script("coordinator"),
        Script("party sums", aggregating_party="c", accept=("labelled-sums",)),
        Script("two parties", parties=("a", "b"), aggregating_party="b", accept=("labelled-sums", "two-party-sum")),
        Script("basic", settings={"method": "basic"}, n_nodes=40),
        Script("tree", parties=("a", "b", "c", "d", "e"), settings={"method": "tree", "fan_in": 2, "max_iter": 2}),
        Script("predict", predicts=True),
    )
}


class StuckError(AssertionError):
    """A run that did not come to its end, with what every role said."""


class Run:
    """One run in a folder of its own; whatever it starts ends with it."""

    def __init__(
        self, zygote: Zygote, script: Script, template: Path, folder: Path, *, predicting: bool = False
    ) -> None:
        shutil.copytree(template, folder)
        self.folder, self.script, self._zygote, self._predicting = folder, script, zygote, predicting
        self.notes = folder / "notes"
        self.notes.mkdir()
        self.port = self.address_port = free_port()
        self.running: dict[str, Process] = {}
        self.plans: dict[str, list[dict]] = {role: [] for role in script.roles}
        self.codes: dict[str, list[int]] = {role: [] for role in script.roles}

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            self._zygote.kill(process)

    def arguments(self, role: str, folder: Path | None = None) -> list[str]:
        """Give the command of a role, the same every time."""
        config = (folder or self.folder / role) / CONFIG
        command = ["party" if role in self.script.parties else "coordinator"]
        if self._predicting:
            command = ["predict", "--model", str(config.parent / "result" / "model.kcagc")]
        place = ["--listen", f"127.0.0.1:{self.port}"]
        if role != self.script.aggregator:
            place = ["--address", f"127.0.0.1:{self.address_port}"]
        return [*command, "--config", str(config), *place]

    def plan(self, role: str, folder: Path | None = None, **instruments: object) -> dict:
        log = str((folder or self.folder / role) / "log.txt")
        given = {"name": role, "notes": str(self.notes), "log": log, "arguments": self.arguments(role, folder)}
        return given | instruments

    def start(self, role: str, folder: Path | None = None, **instruments: object) -> None:
        """Start a role, or start it again; from another folder, if one is given."""
        self.running[role] = self._zygote.start(self.plan(role, folder, **instruments))

    def start_all(self, **instruments: object) -> None:
        """Start all roles; those with plans get theirs, one for each time that they are started."""
        for role in self.script.roles:
            self.start(role, **(instruments | self._next_plan(role)))

    def _next_plan(self, role: str) -> dict:
        return self.plans[role].pop(0) if self.plans[role] else {}

    def to_the_end(self, seconds: float = PATIENCE, waiting_for: Iterable[str] = ()) -> None:
        """Start whoever was killed again, with the same command, until all (or those named) have ended well."""
        end = time.monotonic() + seconds
        wanted = set(waiting_for) or set(self.running)
        while wanted & self.running.keys():
            ended = self._zygote.wait(self.running.values(), end - time.monotonic())
            if not ended:
                raise StuckError(f"{', '.join(sorted(self.running))} did not end in {seconds:.0f} s\n{self.said()}")
            for role in [role for role, process in self.running.items() if process in ended]:
                code = ended[self.running.pop(role)]
                self.codes[role].append(code)
                if code == KILLED:
                    self.start(role, **self._next_plan(role))
                elif code != 0:
                    raise StuckError(f"{role} ended with {code}\n{self.said()}")

    def strike(self, role: str, seconds: float) -> None:
        """After a while kill a role, if it still runs, and start it again."""
        time.sleep(seconds)
        if role in self.running and self.still_running(role):
            self._zygote.kill(self.running[role])
            if self.end_of(role) == KILLED:
                self.start(role)

    def end_of(self, role: str, seconds: float = PATIENCE) -> int:
        """Wait for one role to end, and give its exit code."""
        process = self.running[role]
        ended = self._zygote.wait([process], seconds)
        if not ended:
            raise StuckError(f"{role} did not end in {seconds:.0f} s\n{self.said()}")
        del self.running[role]
        self.codes[role].append(ended[process])
        return ended[process]

    def still_running(self, role: str) -> bool:
        return not self._zygote.wait([self.running[role]], 0)

    def said(self, role: str | None = None) -> str:
        roles = [role] if role else self.script.roles
        return "\n".join(f"--- {one}\n{read(self.folder / one / 'log.txt')}" for one in roles)

    def results(self, role: str) -> Path:
        return self.folder / role / "result" / ("prediction" if self._predicting else "")

    def labels(self) -> dict[str, str]:
        """Give the nodes and their clusters, which all parties have alike; what is beside them is a party's own."""
        found = {}
        for party in self.script.parties:
            lines = read(self.results(party) / "labels.csv").splitlines()
            found[party] = "\n".join(",".join(line.split(",")[:2]) for line in lines)
        return found

    def happened(self, role: str) -> list[list[Boundary]]:
        """Give the boundaries of each process of a role."""
        processes: list[list[Boundary]] = []
        for what, number in noted(self.notes / f"{role}.events"):
            if what == "started":
                processes.append([])
            else:
                processes[-1].append((what, number))
        return processes

    def until(self, role: str, boundary: Boundary, seconds: float = PATIENCE) -> None:
        """Wait until a role has come to a boundary."""
        end = time.monotonic() + seconds
        while not any(boundary in process for process in self.happened(role)):
            if time.monotonic() > end:
                raise StuckError(f"{role} never came to {boundary}\n{self.said()}")
            time.sleep(0.01)


def noted(path: Path) -> list[list]:
    return [json.loads(line) for line in read(path).splitlines()]


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def free_port() -> int:
    """Give a port that is free, and that the system does not hand out to those who connect."""
    while True:
        port = random.randint(15_000, 31_000)  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
