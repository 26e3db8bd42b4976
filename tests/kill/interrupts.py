"""SIGINT and SIGTERM to a party that smooths, projects or clusters a large table; how long it takes to end.

`python -m kill.interrupts --each 50` keeps the figures in tests/kill/results. Every interrupted process is followed by
the same command, which resumes the session; the last one completes the run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.paper.network.fork_server import ForkServer, Process
from experiments.paper.store import provenance
from kcagc.deploy.folders import FolderPlan, write_folders
from role_process import WARM

RESULTS = Path(__file__).parent / "results" / "interrupts.json"
SERVER = (*WARM, "tests.kill.large_table")
ENVIRONMENT = {"KCAGC_REPORT": "0"}  # and all threads of the libraries, as users have them
SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM}
KINDS = list(itertools.product(("filter", "svd", "k-means"), SIGNALS))
LIMIT = 5.0  # seconds from the signal to the end of the process
INTERRUPTED = 130
PATIENCE = 120.0
LATEST = 0.3  # seconds from the begin of a phase to the last signals; each phase takes one or more
LARGE, SMALL, COORDINATOR = "large", "small", "coordinator"


@dataclass(frozen=True)
class Interrupt:
    """One interrupted process: where the signal was sent, the seconds to the end, and what the process left."""

    phase: str
    signal: str
    seconds: float
    code: int
    inside: bool  # whether the phase had not ended when the process did
    closed: bool  # whether the journal was closed
    last_line: str
    resumed: bool  # whether the process had resumed the session of the process before

    @property
    def orderly(self) -> bool:
        in_time = self.code == INTERRUPTED and self.seconds < LIMIT
        return in_time and self.closed and self.last_line == "kcagc: interrupted"


class LargeRun:
    """A coordinator, a small party that waits, and a large party that is interrupted and started again."""

    def __init__(self, fork_server: ForkServer, folder: Path) -> None:
        self._fork_server, self._folder = fork_server, folder
        plan = FolderPlan.of(
            [LARGE, SMALL],
            address="127.0.0.1:1",
            listen="127.0.0.1:0",
            random_state=1,
            n_clusters=4,
            method="cells",
            psi=2,
            n_components=8,
            n_init=2,
        )
        self._configs = write_folders(folder, plan)
        for path in self._configs.values():
            text = path.read_text().replace("accept = []", 'accept = ["revealing-labels"]')
            path.write_text(re.sub(r"peer_timeout = \d+", "peer_timeout = 900", text))
        self._numbers = itertools.count()
        self._running: dict[str, Process] = {}
        self._port = 0

    def __enter__(self) -> LargeRun:
        self._start(COORDINATOR)
        found = self._wait_for(lambda: re.search(r"listening on \S+:(\d+)", self._log(COORDINATOR)))
        self._port = int(found[1])
        self._start(SMALL)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            self._fork_server.kill(process)

    def interrupt(self, phase: str, name: str, share: float) -> Interrupt:
        """Start the large party, and interrupt it in a phase; `share` chooses the moment."""
        notes = self._folder / f"notes-{next(self._numbers)}"
        log = self._start(LARGE, phase=phase, notes=str(notes))
        self._wait_for(lambda: notes.exists() and "begins" in notes.read_text())
        time.sleep(share * LATEST)
        begin = time.monotonic()
        os.kill(self._running[LARGE].pid, SIGNALS[name])
        code = self._end_of(LARGE)
        seconds, text = time.monotonic() - begin, log.read_text()
        return Interrupt(
            phase,
            name,
            round(seconds, 3),
            code,
            inside="ends" not in notes.read_text(),
            closed=not (self._folder / LARGE / "state" / "fit.sqlite-wal").exists(),
            last_line=text.splitlines()[-1],
            resumed="resuming the interrupted session" in text,
        )

    def complete(self) -> dict[str, int]:
        """Start the large party once more, and let the run end; return the exit code of each role."""
        self._start(LARGE)
        return {name: self._end_of(name) for name in (LARGE, SMALL, COORDINATOR)}

    def labels(self) -> list[bytes]:
        return [self._folder.joinpath(name, "result", "labels.csv").read_bytes() for name in (LARGE, SMALL)]

    def _start(self, name: str, **plan: object) -> Path:
        command = [COORDINATOR if name == COORDINATOR else "party", "--config", str(self._configs[name])]
        if name != COORDINATOR:
            command += ["--address", f"127.0.0.1:{self._port}"]
        log = self._folder / f"{name}-{next(self._numbers)}.log"
        self._running[name] = self._fork_server.start("tests.kill.large_table:run", {**plan, "arguments": command}, log)
        return log

    def _log(self, name: str) -> str:
        return "".join(path.read_text() for path in sorted(self._folder.glob(f"{name}-*.log")))

    def _wait_for(self, done):
        end = time.monotonic() + PATIENCE
        while not (found := done()):
            ended = self._fork_server.ended(self._running.values(), 0.0)
            assert not ended, f"a role ended: {[self._log(one) for one in self._running]}"
            assert time.monotonic() < end, [self._log(one) for one in self._running]
            time.sleep(0.005)
        return found

    def _end_of(self, name: str) -> int:
        process = self._running[name]
        ended = self._fork_server.ended([process], PATIENCE)
        assert ended, f"{name} did not end:\n{self._log(name)}"
        del self._running[name]
        return ended[process]


def interrupts(run: LargeRun, kinds: Iterable[tuple[str, str]], each: int) -> Iterator[Interrupt]:
    """Interrupt phases by signals so many times each, at moments that differ."""
    chance = random.Random(7)  # noqa: S311
    for (phase, name), _ in itertools.product(kinds, range(each)):
        yield run.interrupt(phase, name, chance.random())


def summary(found: list[Interrupt]) -> dict[str, dict[str, object]]:
    """Return the figures of each phase and signal."""
    kinds = defaultdict(list)
    for one in found:
        kinds[f"{one.phase}, {one.signal}"].append(one)
    return {
        kind: {
            "interrupts": len(some),
            "inside the phase": sum(one.inside for one in some),
            "of a resumed session": sum(one.resumed for one in some),
            "exit codes": sorted({one.code for one in some}),
            "journal closed": sum(one.closed for one in some),
            "seconds, median": round(statistics.median(one.seconds for one in some), 2),
            "seconds, most": round(max(one.seconds for one in some), 2),
        }
        for kind, some in kinds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=50)
    each, found, ends = parser.parse_args().each, [], {}
    with ForkServer(*SERVER, environment=ENVIRONMENT) as server:
        for kind in KINDS:  # each with a session of its own, which the first process has not resumed
            with tempfile.TemporaryDirectory() as folder, LargeRun(server, Path(folder)) as run:
                found += interrupts(run, [kind], each)
                ends[", ".join(kind)] = run.complete()
            sys.stdout.write(f"{kind}: {summary(found)[', '.join(kind)]}\n")
            sys.stdout.flush()
    kept = {"about": provenance("src", "tests/kill"), "interrupts": summary(found), "exit codes at the end": ends}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    failed = [one for one in found if not one.orderly]
    sys.exit(
        "\n".join(map(str, failed)) if failed or any(code for end in ends.values() for code in end.values()) else 0
    )


if __name__ == "__main__":
    main()
