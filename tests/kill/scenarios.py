"""Scenarios of real processes: folders as `kcagc init` writes them, roles that are killed and started again."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from experiments.paper.network.fork_server import ForkServer, Process
from kcagc.cli.main import cli
from kcagc.datasets import generate

CONFIG = "kcagc.toml"
PATIENCE = 180.0  # seconds for a disturbed run, which takes one or two on a quiet machine, and 30 on a very busy one
KILLED = -signal.SIGKILL
MOST_RESTARTS = 200  # of one role with one exit code: a killed role is often killed again
RUN = "tests.role_process:run_observed"
Boundary = tuple[str, int]


@dataclass(frozen=True)
class Scenario:
    """A kind of run: its participants and settings."""

    name: str
    parties: tuple[str, ...] = ("a", "b", "c")
    aggregating_party: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    accept: tuple[str, ...] = ()
    predicts: bool = False
    at_every_boundary: bool = True  # whether a campaign kills its roles everywhere
    n_nodes: int = 60
    signal: float = 0.9
    patches: Mapping[str, object] = field(default_factory=dict)  # constants of the package, in every process

    @property
    def roles(self) -> tuple[str, ...]:
        others = tuple(party for party in self.parties if party != self.aggregating_party)
        return (*others, self.aggregating_party or "coordinator")

    @property
    def aggregator(self) -> str:
        return self.roles[-1]

    def write(self, folder: Path) -> None:
        """Write the folders of all roles, with data and settings."""
        sums = ["--aggregator", self.aggregating_party] if self.aggregating_party else []
        named = ["--parties", ",".join(self.parties), "--n-clusters", "3", "--address", "localhost:7443", *sums]
        made = CliRunner().invoke(cli, ["init", str(folder), *named], catch_exceptions=False)
        assert made.exit_code == 0, made.output
        settings = {"n_init": 2, "max_iter": 3, "psi": 2, "n_clusters": 3, **self.settings}
        for name in self.roles:
            path = folder / name / CONFIG
            text = path.read_text()
            text = re.sub(r"^(psi|n_clusters) = .*\n", "", text, flags=re.MULTILINE)
            text = text.replace("# random_state = 0", "random_state = 0")
            chosen = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
            text = text.replace("[session]\n", f"[session]\n{chosen}")
            text = text.replace("accept = []", f"accept = {json.dumps([*self.accept, 'revealing-labels'])}")
            if self.predicts and name in self.parties:
                text += '[predict]\nfeatures = "data/more.csv"\ngraph = "data/more-edges.csv"\nid_column = "id"\n'
            path.write_text(text)
        self._write_data(folder)

    def _write_data(self, folder: Path) -> None:
        more = 12
        widths = (5,) * len(self.parties)
        data = generate(self.n_nodes + more, 3, degree=6, homophily=0.55, signal=self.signal, features=widths, seed=3)
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


# The joint method as on a large graph: mixtures of nodes, a sample, and then weights for the other nodes.
_SAMPLE = {
    "kcagc.cluster.joint.MIN_SAMPLE": 40,
    "kcagc.cluster.joint.SAMPLE_VALUES": 120,
    "kcagc.protocol.subspace.MIXTURES": 50,
}
_TWO_ORDERS = {"kcagc.protocol.parameters.PSI_GRID": (1, 3)}
_CLEAR = 3.0  # clear clusters: the coordinator finds the same in rows with other bits
_OPENED, _RISKS = {"method": "joint", "joint_rows": "coordinator"}, ("anonymous-geometry",)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("coordinator", settings={"method": "cells"}),
        Scenario("party aggregates", aggregating_party="c", accept=("labelled-sums",)),
        Scenario("two parties", parties=("a", "b"), aggregating_party="b", accept=("labelled-sums", "two-party-sum")),
        Scenario(
            "five parties",
            parties=("a", "b", "c", "d", "e"),
            aggregating_party="e",
            settings={"method": "cells"},
            accept=("labelled-sums",),
            at_every_boundary=False,
        ),
        Scenario("basic", settings={"method": "basic"}, n_nodes=40),
        Scenario("tree", parties=("a", "b", "c", "d", "e"), settings={"method": "tree", "fan_in": 2, "max_iter": 2}),
        Scenario("predict", settings={"method": "cells"}, predicts=True),
        Scenario("joint shares", settings={"method": "joint"}),
        Scenario("joint sample", settings={"method": "joint"}, patches=_SAMPLE),
        Scenario("joint two parties", parties=("a", "b"), settings={"method": "joint"}, patches=_SAMPLE),
        Scenario("joint coordinator", settings=_OPENED, accept=_RISKS, signal=_CLEAR),
        Scenario(
            "joint coordinator two parties",
            parties=("a", "b"),
            settings=_OPENED,
            accept=_RISKS,
            signal=_CLEAR,
            patches=_SAMPLE,
        ),
        Scenario("joint search", parties=("a", "b"), settings={"psi": "auto"}, patches=_TWO_ORDERS),
        Scenario(
            "joint sweep", parties=("a", "b"), settings={"psi": "auto", "n_clusters": [2, 4]}, patches=_TWO_ORDERS
        ),
        Scenario("joint predict", settings={"method": "joint"}, predicts=True),
        Scenario("joint predict two parties", parties=("a", "b"), settings={"method": "joint"}, predicts=True),
        Scenario("joint coordinator predict", settings=_OPENED, accept=_RISKS, signal=_CLEAR, predicts=True),
    )
}


class StuckError(AssertionError):
    """A run that did not end, with the logs of all roles."""


class Run:
    """One run in a new folder. Its processes end with it."""

    def __init__(
        self, fork_server: ForkServer, scenario: Scenario, template: Path, folder: Path, *, predicting: bool = False
    ) -> None:
        shutil.copytree(template, folder)
        self.folder, self.scenario, self._fork_server, self._predicting = folder, scenario, fork_server, predicting
        self.notes = folder / "notes"
        self.notes.mkdir()
        self.port = self.address_port = free_port()
        self.running: dict[str, Process] = {}
        self.plans: dict[str, list[dict]] = {role: [] for role in scenario.roles}
        self.codes: dict[str, list[int]] = {role: [] for role in scenario.roles}

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            self._fork_server.kill(process)

    def arguments(self, role: str, folder: Path | None = None) -> list[str]:
        """Return the command of a role. It is the same at every start."""
        config = (folder or self.folder / role) / CONFIG
        command = ["party" if role in self.scenario.parties else "coordinator"]
        if self._predicting:
            command = ["predict", "--model", str(config.parent / "result" / "model.kcagc")]
        place = ["--listen", f"127.0.0.1:{self.port}"]
        if role != self.scenario.aggregator:
            place = ["--address", f"127.0.0.1:{self.address_port}"]
        return [*command, "--config", str(config), *place]

    def start(
        self, role: str, folder: Path | None = None, *, options: Iterable[str] = (), **instruments: object
    ) -> None:
        """Start a role, from another folder if one is given."""
        arguments = [*self.arguments(role, folder), *options]
        plan = {"name": role, "notes": str(self.notes), "arguments": arguments} | instruments
        plan["patches"] = dict(self.scenario.patches)
        log, environment = (folder or self.folder / role) / "log.txt", plan.pop("environment", None)
        self.running[role] = self._fork_server.start(RUN, plan, log, environment=environment)

    def start_all(self, **instruments: object) -> None:
        """Start all roles. A role with plans gets the next of them at each start."""
        for role in self.scenario.roles:
            self.start(role, **(instruments | self._next_plan(role)))

    def _next_plan(self, role: str) -> dict:
        return self.plans[role].pop(0) if self.plans[role] else {}

    def run_to_end(
        self, seconds: float = PATIENCE, waiting_for: Iterable[str] = (), *, again: Collection[int] = (KILLED,)
    ) -> None:
        """Restart each role that was killed, or ended with a code of `again`, with the same command.

        Return when all roles, or those named, have succeeded.
        """
        end = time.monotonic() + seconds
        wanted = set(waiting_for) or set(self.running)
        while wanted & self.running.keys():
            ended = self._fork_server.ended(self.running.values(), end - time.monotonic())
            if not ended:
                raise StuckError(f"{', '.join(sorted(self.running))} did not end in {seconds:.0f} s\n{self.logs()}")
            for role in [role for role, process in self.running.items() if process in ended]:
                code = ended[self.running.pop(role)]
                self.codes[role].append(code)
                if code in again and self.codes[role].count(code) <= MOST_RESTARTS:
                    self.start(role, **self._next_plan(role))
                elif code != 0:
                    raise StuckError(f"{role} ended with {code}\n{self.logs()}")

    def kill_and_restart(self, role: str, seconds: float) -> None:
        """Wait, kill a role if it still runs, and start it again."""
        time.sleep(seconds)
        if role in self.running and self.still_running(role) and self.kill(role) == KILLED:
            self.start(role)

    def kill(self, role: str) -> int:
        """Kill a role; return its exit code, which is another one if it has just ended."""
        self._fork_server.kill(self.running[role])
        return self.end_of(role)

    def end_of(self, role: str, seconds: float = PATIENCE) -> int:
        """Wait for the end of a role; return its exit code."""
        process = self.running[role]
        ended = self._fork_server.ended([process], seconds)
        if not ended:
            raise StuckError(f"{role} did not end in {seconds:.0f} s\n{self.logs()}")
        del self.running[role]
        self.codes[role].append(ended[process])
        return ended[process]

    def still_running(self, role: str) -> bool:
        return not self._fork_server.ended([self.running[role]], 0)

    def logs(self, role: str | None = None) -> str:
        roles = [role] if role else self.scenario.roles
        return "\n".join(f"--- {one}\n{read(self.folder / one / 'log.txt')}" for one in roles)

    def results(self, role: str) -> Path:
        return self.folder / role / "result" / ("prediction" if self._predicting else "")

    def labels(self) -> dict[str, str]:
        """Return the nodes and clusters, which are the same for all parties; other columns differ by party.

        Of a sweep, return its curves.
        """
        found = {}
        for party in self.scenario.parties:
            if "sweep" in (summary := json.loads(read(self.results(party) / "run.json"))):
                curves = {name: one for name, one in summary["sweep"].items() if name != "cost"}  # of rounded shares
                found[party] = json.dumps([curves, summary["psi_search"]])
                continue
            lines = read(self.results(party) / "labels.csv").splitlines()
            found[party] = "\n".join(",".join(line.split(",")[:2]) for line in lines)
        return found

    def boundaries(self, role: str) -> list[list[Boundary]]:
        """Return the boundaries that each process of a role reached."""
        processes: list[list[Boundary]] = []
        for what, number in read_notes(self.notes / f"{role}.events"):
            if what == "started":
                processes.append([])
            else:
                processes[-1].append((what, number))
        return processes

    def wait_for(self, role: str, boundary: Boundary, seconds: float = PATIENCE) -> None:
        """Wait until a role has reached a boundary."""
        end = time.monotonic() + seconds
        while not any(boundary in process for process in self.boundaries(role)):
            if time.monotonic() > end:
                raise StuckError(f"{role} never reached {boundary}\n{self.logs()}")
            time.sleep(0.01)


def read_notes(path: Path) -> list[list]:
    return [json.loads(line) for line in read(path).splitlines()]


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def free_port() -> int:
    """Return a free port outside the range from which the system assigns ports to clients."""
    while True:
        port = random.randint(15_000, 31_000)  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
