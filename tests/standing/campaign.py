"""A coordinator that stays, with real processes: runs of several federations, and what the process holds after each."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from deploy.collaboration import edit
from experiments.paper.network.fork_server import ForkServer, Process
from federation.folders import federation, meet_at

PATIENCE = 120.0  # seconds for one run on a busy machine
PARTIES = ("alice", "bob", "carol")


@dataclass(frozen=True)
class Held:
    """What a process holds at one moment, and how long the run before it took."""

    run: int
    seconds: float
    memory_mib: float
    descriptors: int
    threads: int


def held(pid: int, run: int = 0, seconds: float = 0.0) -> Held:
    """Read what a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024
    threads = int(re.search(r"Threads:\s+(\d+)", status)[1])
    return Held(run, round(seconds, 3), round(memory, 1), len(list(Path(f"/proc/{pid}/fd").iterdir())), threads)


class Standing:
    """A process of `kcagc serve` with its federations; all processes end with it.

    The first party of a federation starts each run, and the others wait for it.
    """

    def __init__(
        self,
        root: Path,
        fork_server: ForkServer,
        names: Iterable[str],
        *,
        descriptors: int = 1024,
        peer_timeout: int = 20,
    ) -> None:
        self.root, self._forks = root, fork_server
        self.place = root / "standing"
        self.configs = {name: federation(root, self.place, name, PARTIES, n_init=2) for name in names}
        for path in self.place.glob("federations/*/kcagc.toml"):
            edit(path, r"^peer_timeout = .*", f"peer_timeout = {peer_timeout}")
        self.running: list[Process] = []
        arguments = ["serve", str(self.place), "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
        self.serve = self.start("serve", arguments, descriptors=descriptors)
        self.port = int(self._printed(r"listening on \S+:(\d+)"))
        self.metrics_port = int(self._printed(r"metrics: \S+:(\d+)/"))
        for configs in self.configs.values():
            meet_at(configs, self.port)

    def __enter__(self) -> Standing:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for one in self.running:
            self._forks.kill(one)

    def start(self, name: str, arguments: list[str], **plan: object) -> Process:
        """Start a process of kcagc; its log is NAME.log."""
        log = self.root / f"{name}.log"
        one = self._forks.start("tests.role_process:run_command", {"arguments": arguments, **plan}, log)
        self.running.append(one)
        return one

    def wait_for_runs(self, name: str) -> list[Process]:
        """Start the parties of a federation that wait for the runs which its first party starts."""
        return [
            self.start(f"{name}-{party}", ["party", "--config", str(path), "--wait", "--no-report"])
            for party, path in self.configs[name].items()
            if party != PARTIES[0]
        ]

    def one_run(self, name: str) -> float:
        """Let the first party of a federation start a run; return its seconds."""
        path = self.configs[name][PARTIES[0]]
        begin = time.monotonic()
        one = self.start(f"{name}-{PARTIES[0]}", ["party", "--config", str(path), "--new-session", "--no-report"])
        code = self._forks.ended([one], PATIENCE).get(one)
        self.running.remove(one)
        if code != 0:
            self._forks.kill(one)
            raise AssertionError(f"a run of {name} ended with {code}:\n{self.log(f'{name}-{PARTIES[0]}')[-2000:]}")
        return time.monotonic() - begin

    def runs_at_once(self, names: Iterable[str]) -> dict[str, float]:
        """Run federations at the same time; return the seconds of each."""
        chosen = list(names)
        with ThreadPoolExecutor(len(chosen)) as pool:
            return dict(zip(chosen, pool.map(self.one_run, chosen), strict=True))

    def kill(self, process: Process) -> None:
        """Kill a process without notice."""
        self._forks.kill(process)
        self.running.remove(process)

    def held(self, run: int = 0, seconds: float = 0.0) -> Held:
        """Return what the coordinator's process holds."""
        return held(self.serve.pid, run, seconds)

    def log(self, name: str) -> str:
        """Return what a process has written."""
        path = self.root / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def metric(self, name: str, federation: str, **labels: str) -> float:
        """Read a metric of a federation."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        listed = ",".join(f'{key}="{value}"' for key, value in {"federation": federation, **labels}.items())
        return float(re.search(rf"^{name}{{{listed}}} (\S+)$", text, flags=re.MULTILINE)[1])

    def until(self, what: str, done: object, seconds: float = PATIENCE) -> None:
        """Wait until a condition holds."""
        end = time.monotonic() + seconds
        while not done():  # type: ignore[operator]
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s for {what}:\n{self.log('serve')[-2000:]}")
            time.sleep(0.02)

    def _printed(self, pattern: str) -> str:
        self.until(f"{pattern!r} from kcagc serve", lambda: re.search(pattern, self.log("serve")))
        return re.search(pattern, self.log("serve"))[1]


def many_runs(standing: Standing, name: str, number: int) -> list[dict[str, float]]:
    """Run a federation many times, one run after the other; return what the coordinator holds after each."""
    waiting = standing.wait_for_runs(name)
    found = []
    for run in range(1, number + 1):
        seconds = standing.one_run(name)
        standing.until(f"the end of run {run}", lambda: standing.metric("kcagc_run_open", name) == 0)
        now = asdict(standing.held(run, seconds))
        party = held(waiting[0].pid)
        found.append(now | {"party_memory_mib": party.memory_mib, "party_descriptors": party.descriptors})
    return found


def growth(found: list[dict[str, float]], field: str) -> float:
    """Return how much more a process holds in the last tenth of runs than in the second one, by medians."""
    tenth = max(len(found) // 10, 1)
    early, late = (sorted(one[field] for one in part) for part in (found[tenth : 2 * tenth], found[-tenth:]))
    return late[len(late) // 2] - early[len(early) // 2]
