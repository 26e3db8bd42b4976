"""Real roles for the tests: folders as `kcagc init` writes them, a process for each role, and its log."""

from __future__ import annotations

import itertools
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from experiments.paper.network.fork_server import ForkServer
from kcagc.data.files import PRIVATE, write_bytes
from kcagc.deploy.config import Config
from kcagc.deploy.folders import FolderPlan, tls_name, write_folders
from kcagc.deploy.run import RoleRun
from kcagc.disclosure import Ledger, Policy
from kcagc.net.trial_authority import trial_authority
from kcagc.protocol.parameters import draw_seed
from kcagc.secagg.keys import Identity
from kcagc.simulation import simulate_fit

PATIENCE = 30.0  # seconds after which a test gives up waiting
PATIENT = "peer_timeout = 200\nmessage_timeout = 200"  # limits of a run that waits for many tests
NODES = 24
AGGREGATOR = "coordinator"


class Role:
    """One process of `kcagc`."""

    def __init__(self, fork_server, name, arguments, logs, patches, descriptors=None):
        self._fork_server, self.name, self.code = fork_server, name, None
        self._out, self._err = (logs / f"{name}-{next(_numbers)}.{kind}" for kind in ("out", "err"))
        plan = {"arguments": arguments, "patches": patches, "descriptors": descriptors}
        self._process = fork_server.start("tests.role_process:run_command", plan, self._out, errors=self._err)
        self.pid = self._process.pid

    @property
    def log(self) -> str:
        """What the process wrote to stderr."""
        return self._err.read_text() if self._err.exists() else ""

    @property
    def out(self) -> str:
        return self._out.read_text() if self._out.exists() else ""

    @property
    def running(self) -> bool:
        if self.code is None:
            self.code = self._fork_server.ended([self._process], 0.0).get(self._process)
        return self.code is None

    @property
    def memory(self) -> int:
        """The most bytes of memory that the process has used so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    @property
    def n_lines(self) -> int:
        """The number of lines in the log so far."""
        return len(self.log.splitlines())

    def wait_for_line(self, pattern: str, since: int = 0) -> str:
        """Wait until the log has a line with this pattern; return the line."""
        until(lambda: self.lines(pattern, since), f"{self.name} to log {pattern!r}", self)
        return self.lines(pattern, since)[0]

    def lines(self, pattern: str, since: int = 0) -> list[str]:
        return [line for line in self.log.splitlines()[since:] if re.search(pattern, line)]

    def ends(self, seconds: float = PATIENCE) -> int:
        """Wait for the end of the process; return the exit code."""
        until(lambda: not self.running, f"{self.name} to end", self, seconds)
        return self.code

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._fork_server.kill(self._process)


_numbers = itertools.count()


def until(done, what, role=None, seconds=PATIENCE):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not done():
        said = "" if role is None else f"; its log:\n{role.log}"
        assert time.monotonic() < end, f"waited {seconds} s for {what}{said}"
        if role is not None and not role.running:
            assert done(), f"waited for {what}, but it ended with {role.code}{said}"
        time.sleep(0.01)
    return True


def assert_one_line(role: Role, pattern: str, since: int = 0) -> None:
    """Assert that exactly one line of the log has this pattern."""
    role.wait_for_line(pattern, since)
    time.sleep(0.02)  # a second line would arrive within this time
    assert len(role.lines(pattern, since)) == 1, role.log


@dataclass
class Collaboration:
    """New folders of all roles, with an authority that can issue more certificates."""

    root: Path
    fork_server: ForkServer
    parties: tuple[str, ...] = ("a", "b", "c")
    limits: str = "peer_timeout = 25\nmessage_timeout = 25"
    aggregator: str = AGGREGATOR  # a party, if one aggregates
    port: int = 0
    roles: list[Role] = field(default_factory=list)

    def __post_init__(self) -> None:
        plan = FolderPlan.of(
            list(self.parties),
            coordinator=AGGREGATOR,
            aggregator=None if self.aggregator == AGGREGATOR else self.aggregator,
            address="127.0.0.1:1",
            listen="127.0.0.1:0",
            n_clusters=3,
            psi=1,
        )
        self.configs = write_folders(self.root, plan)
        self.authority = trial_authority("test")
        random = np.random.default_rng(5)
        groups = np.arange(NODES) % 3
        names = [f"n{number:02}" for number in range(NODES)]
        pairs = itertools.combinations(range(NODES), 2)
        edges = [pair for pair in pairs if random.random() < (0.4 if groups[pair[0]] == groups[pair[1]] else 0.05)]
        for name in plan.roles:
            self.certify(name)
            self.edit(name, r"# random_state = 0", "random_state = 0")
            self.edit(name, r"# n_init = 10", "n_init = 2")
            self.edit(name, r"(?s)peer_timeout = 600.*?\n.*?\n", self.limits + "\n")
        if plan.coordinator is None:
            for name in plan.roles:
                self.edit(name, r"accept = \[\]", 'accept = ["labelled-sums", "revealing-labels", "two-party-sum"]')
        for name in plan.parties:
            table = random.normal(scale=2, size=(3, 3))[groups] + random.normal(size=(NODES, 3))
            rows = [f"{who},{','.join(f'{value:.3f}' for value in row)}" for who, row in zip(names, table, strict=True)]
            self.write(name, "features", ["id,f0,f1,f2", *rows])
            self.write(name, "edges", ["source,target", *(f"{names[one]},{names[two]}" for one, two in edges)])

    # The files of a role.

    def folder(self, name: str) -> Path:
        return self.root / name

    def write(self, name, what, lines):
        (self.folder(name) / "data" / f"{what}.csv").write_text("\n".join(lines) + "\n")

    def read(self, name, what):
        return (self.folder(name) / "data" / f"{what}.csv").read_text().splitlines()

    def edit(self, name, pattern, replacement):
        """Change a configuration."""
        path = self.configs[name]
        text, count = re.subn(pattern, replacement, path.read_text())
        assert count, pattern
        path.write_text(text)

    def certify(self, name, *, called=None, authority=None, trusting=None, **dates):
        """Write a new certificate for a role: in another name, by another authority, or with other dates."""
        authority = authority or self.authority
        pem, key = authority.issue(
            tls_name(called or name), server=name == self.aggregator, client=name != self.aggregator, **dates
        )
        folder = self.folder(name)
        write_bytes(folder / "private" / "tls-key.pem", key, mode=PRIVATE)
        write_bytes(folder / "certificate.pem", pem)
        write_bytes(folder / "ca.pem", b"".join(one.certificate_pem for one in trusting or [self.authority]))

    def task(self, name) -> RoleRun:
        return RoleRun(Config.load(self.configs[name]))

    def pin_another_key(self, name: str) -> None:
        """Replace the identity key of a role, and the public half in its own configuration only."""
        identity = Identity.generate()
        write_bytes(self.folder(name) / "private" / "identity.pem", identity.to_pem(), mode=PRIVATE)
        self.edit(name, rf'(name = "{name}"\nrole = "\w+"\nidentity = )"\w+"', rf'\1"{identity.public.hex()}"')

    # Processes.

    def start(self, name, *options, patches=None, port=None, descriptors=None):
        command = "coordinator" if name == AGGREGATOR else "party"
        listens = name == self.aggregator
        where = ["--listen", "127.0.0.1:0"] if listens else ["--address", f"127.0.0.1:{port or self.port}"]
        where = [] if "--listen" in options else where
        argv = [command, "--config", str(self.configs[name]), *where, *options]
        role = Role(self.fork_server, name, argv, self.root, patches or {}, descriptors)
        self.roles.append(role)
        return role

    def start_aggregator(self, *options, **more):
        aggregator = self.start(self.aggregator, *options, **more)
        self.port = int(aggregator.wait_for_line(r"listening on").rpartition(":")[2])
        return aggregator

    def start_parties(self, *names):
        return [self.start(name) for name in names or self.parties if name != self.aggregator]

    def close(self) -> None:
        for role in self.roles:
            role.kill()

    # The expected result.

    def expected(self) -> np.ndarray:
        """Return the labels that the same roles compute in one process."""
        tasks = {name: self.task(name) for name in self.parties}
        one = tasks[self.parties[0]]
        results = simulate_fit(
            one.agreement.parameters,
            {name: task.data for name, task in tasks.items()},
            policy=Policy(),
            seeds=dict.fromkeys(tasks, draw_seed(0)),
            ledger=Ledger(),
        )
        return next(iter(results.values())).labels

    def labels(self, name: str) -> np.ndarray:
        lines = (self.folder(name) / "result" / "labels.csv").read_text().splitlines()
        return np.array([int(line.split(",")[1]) for line in lines[1:]])

    def assert_finishes(self, aggregator, *parties, seconds=PATIENCE) -> None:
        """Assert that all roles succeed, with the expected labels."""
        assert [role.ends(seconds) for role in (*parties, aggregator)] == [0] * (len(parties) + 1), [
            role.log for role in (*parties, aggregator)
        ]
        expected = self.expected()
        for name in self.parties:
            np.testing.assert_array_equal(self.labels(name), expected)
