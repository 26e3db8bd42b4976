"""A measured run on one machine: folders from `kcagc init`, a process for each role, a link for each party."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from experiments.paper.network.fork_server import ForkServer, Process
from experiments.paper.network.relay import Count, Network, Relay
from kcagc.datasets.dataset import Dataset
from kcagc.deploy.folders import FolderPlan, write_folders

ROLE_FUNCTION = "experiments.paper.network.stopwatch:run_role"
_WARM = ("kcagc.cli.roles", "grpc.aio", "rich.status", "sklearn.cluster", "kcagc.deploy.run")
_ELSEWHERE = {"n_clusters", "psi", "aggregator", "accept", "random_state"}  # the folders already contain these lines
_LISTENING = 120.0  # seconds for the aggregator to read its files


def warmed(*modules: str) -> ForkServer:
    """Return a fork server for roles. Each role uses one thread for linear algebra: there are more roles than cores."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return ForkServer(*_WARM, ROLE_FUNCTION.partition(":")[0], *modules, environment={**one, "KCAGC_REPORT": "0"})


@dataclass(frozen=True)
class Files:
    """The paths of a party's table and graph, relative to its configuration or absolute."""

    features: str = "data/features.npz"
    graph: str = "data/graph.npz"


@dataclass(frozen=True)
class MeasuredRole:
    """The result of a role: its summary, its labels (for parties), its events, and the resources it used."""

    name: str
    summary: dict[str, Any]
    labels: np.ndarray | None
    events: list[tuple[float, str, Any]]
    peak: int  # bytes of memory
    cpu: float  # processor seconds, from the fork to the end
    link: tuple[Count, Count] | None  # bytes to the aggregator and back, if there is a relay

    def when(self, what: str) -> list[float]:
        """Return the times of all events of one kind."""
        return [at for at, event, _ in self.events if event == what]


class MeasuredRun:
    """The folders of one run, the aggregator last; each role's process calls `function` (`module:name`)."""

    def __init__(
        self,
        folder: Path,
        data: Dataset | Sequence[Files],
        n_parties: int,
        settings: dict[str, Any],
        *,
        function: str = ROLE_FUNCTION,
    ) -> None:
        self.parties = [f"party-{number:02}" for number in range(1, n_parties + 1)]
        plan = FolderPlan.of(
            self.parties,
            aggregator=self.parties[-1] if settings.get("aggregator") == "party" else None,
            address="127.0.0.1:1",  # the processes get another address
            listen="127.0.0.1:0",
            n_clusters=settings["n_clusters"],
            psi=settings["psi"],
        )
        self._folder, self._configs, self._function = folder, write_folders(folder, plan), function
        self.aggregator = plan.roles[-1]
        given = [Files()] * n_parties if isinstance(data, Dataset) else data
        files = dict(zip(self.parties, given, strict=True))
        for name, path in self._configs.items():
            path.write_text(_configured(path.read_text(), settings, files.get(name)), encoding="utf-8")
        if isinstance(data, Dataset):
            graph = sparse.csr_array(data.adjacency)
            for name, table in zip(self.parties, data.parties(n_parties), strict=True):
                own = self._configs[name].parent
                _save(own / Files.features, table)
                _save(own / Files.graph, graph)

    def run(self, fork_server: ForkServer, network: Network | None, seconds: float) -> list[MeasuredRole]:
        """Run all roles to the end and return their results."""
        with contextlib.ExitStack() as stack:
            running = stack.enter_context(self._ending(fork_server))
            running[self._start(fork_server, self.aggregator, "--listen", "127.0.0.1:0")] = self.aggregator
            port = self._listening(fork_server, running)
            others = [name for name in self._configs if name != self.aggregator]
            ports, links = [port] * len(others), {}
            if network is not None:
                relay = stack.enter_context(Relay(network, port, len(others)))
                ports, links = relay.ports, dict(zip(others, relay.counts, strict=True))
            for name, own in zip(others, ports, strict=True):
                running[self._start(fork_server, name, "--address", f"127.0.0.1:{own}")] = name
            self._to_the_end(fork_server, running, seconds)
        return [self._measured(name, links.get(name)) for name in self._configs]

    @contextlib.contextmanager
    def _ending(self, fork_server: ForkServer) -> Iterator[dict[Process, str]]:
        """Kill all roles that still run after an error."""
        running: dict[Process, str] = {}
        try:
            yield running
        finally:
            for process in running:
                fork_server.kill(process)

    def _start(self, fork_server: ForkServer, name: str, *place: str) -> Process:
        command = "party" if name in self.parties else "coordinator"
        arguments = [command, "--config", str(self._configs[name]), *place, "--json"]
        return fork_server.start(
            self._function, {"arguments": arguments, "notes": str(self._notes(name))}, self._log(name)
        )

    def _listening(self, fork_server: ForkServer, running: dict[Process, str]) -> int:
        end = time.monotonic() + _LISTENING
        while time.monotonic() < end and not fork_server.ended(running, 0.01):
            if found := re.search(r"listening on \S+:(\d+)", self._output(self.aggregator)):
                return int(found[1])
        raise RuntimeError(f"{self.aggregator} does not listen:\n{self._output(self.aggregator)}")

    def _to_the_end(self, fork_server: ForkServer, running: dict[Process, str], seconds: float) -> None:
        end = time.monotonic() + seconds
        while running:
            ended = fork_server.ended(running, end - time.monotonic())
            if not ended:
                output = "\n".join(self._output(name) for name in running.values())
                raise RuntimeError(f"{', '.join(running.values())} did not end in {seconds:.0f} seconds:\n{output}")
            for process, code in ended.items():
                name = running.pop(process)
                if code != 0:
                    raise RuntimeError(f"{name} ended with exit code {code}:\n{self._output(name)}")

    def _measured(self, name: str, link: tuple[Count, Count] | None) -> MeasuredRole:
        noted = json.loads(self._notes(name).read_text(encoding="utf-8"))
        result = self._configs[name].parent / "result"
        summary = json.loads((result / "run.json").read_text(encoding="utf-8"))
        labels = None
        if name in self.parties:
            rows = np.loadtxt(result / "labels.csv", delimiter=",", skiprows=1, usecols=(0, 1), dtype=np.int64)
            labels = rows[np.argsort(rows[:, 0]), 1]
        events = [tuple(event) for event in noted["events"]]
        return MeasuredRole(name, summary, labels, events, noted["peak"], noted["cpu"], link)

    def _notes(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _output(self, name: str) -> str:
        return self._log(name).read_text(encoding="utf-8") if self._log(name).exists() else ""


def _save(path: Path, matrix: Any) -> None:
    if sparse.issparse(matrix):
        sparse.save_npz(path, sparse.csr_array(matrix), compressed=False)
    else:
        np.savez(path, values=matrix)


def _configured(text: str, settings: dict[str, Any], files: Files | None) -> str:
    """Return a configuration from the template with these settings and the paths of a party's files."""
    chosen = {name: value for name, value in settings.items() if name not in _ELSEWHERE and value is not None}
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in chosen.items())
    changes = [("[session]\n", f"[session]\n{lines}")]
    if settings.get("random_state") is not None:
        changes.append(("# random_state = 0\n", f"random_state = {settings['random_state']}\n"))
    if files is not None:
        changes += [
            ("accept = []\n", f"accept = {json.dumps(list(settings.get('accept', ())))}\n"),
            ('features = "data/features.csv"\n', f"features = {json.dumps(files.features)}\n"),
            ('\nid_column = "id"\n', "\n"),
            ('graph = "data/edges.csv"\n', f"graph = {json.dumps(files.graph)}\n"),
        ]
    for before, after in changes:
        if text.count(before) != 1:
            raise RuntimeError(f"the template of a configuration has {text.count(before)} lines {before.strip()!r}")
        text = text.replace(before, after)
    return text
