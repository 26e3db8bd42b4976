"""The job with other systems: those installed by `make setup-peers`, and earlier figures of others."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.job import Job
from experiments.paper.store import ROOT

_HERE = Path(__file__).parent
_PATIENCE = 900.0
_SENT = re.compile(r"Link details: total send bytes (\d+)")


@dataclass(frozen=True)
class Peer:
    """A program for another system: its environment, number of parties and further arguments."""

    title: str
    environment: str
    program: str
    n_parties: int
    arguments: tuple[str, ...]
    note: str

    @property
    def python(self) -> Path:
        """The Python of its environment."""
        return ROOT / self.environment / "bin" / "python"

    @property
    def installed(self) -> bool:
        """Whether the environment is installed."""
        return self.python.exists()

    def run(self, job: Job, start: list[int]) -> dict[str, Any]:
        """Return the figures and labels of the program."""
        with tempfile.TemporaryDirectory() as folder:
            given, result = Path(folder) / "job.npz", Path(folder) / "result.json"
            job.save(given, np.array(start), self.n_parties)
            command = [self.python, _HERE / self.program, given, result, *self.arguments]
            code, output = _run([str(one) for one in command], folder)
            if code != 0 or not result.exists():
                raise RuntimeError(f"{self.title} failed:\n{output[-2000:]}")
            found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
            sent = _SENT.search(output)
        return ({"bytes_sent": int(sent[1])} if sent else {}) | found


def _run(command: list[str], folder: str) -> tuple[int, str]:
    """Run a program and end all processes that it started."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=_PATIENCE)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, output


_SPU = "our k-means, all of it inside MPC, parties as threads without TLS, multiplication triples dealt by one of them"
PEERS = (
    Peer("SPU, SEMI2K", ".venv-spu", "spu_program.py", 2, ("SEMI2K",), _SPU),
    Peer(
        "SPU, ABY3",
        ".venv-spu",
        "spu_program.py",
        3,
        ("ABY3",),
        "our k-means, all of it inside MPC, parties as threads",
    ),
    Peer(
        "MPyC",
        ".venv-mpyc",
        "mpyc_program.py",
        3,
        ("-M3",),
        "argmin only, three processes without TLS; an honest majority, so no privacy for two",
    ),
)


@dataclass(frozen=True)
class Measured:
    """Earlier figures of the same job, on another machine with two cores, for systems that cannot be installed here."""

    title: str
    parties: str
    seconds: float
    megabytes_sent: float | None
    megabytes_held: float | None
    note: str


BEFORE = (
    Measured("FATE 1.11.4 HeteroKMeans", "2 + arbiter", 15.3, None, 129, "masks repeat in every iteration"),
    Measured("FATE 1.11.4 HeteroKMeans", "3 + arbiter", 25.9, None, 123, ""),
    Measured("XFL vertical_kmeans", "2 + assistant", 20.0, 15.5, None, "traffic of all parties together"),
    Measured("XFL vertical_kmeans", "3 + assistant", 27.0, 23.0, None, "traffic of all parties together"),
    Measured("SPU's own KMeans, SEMI2K", "2", 38.0, 708, 2800, "in one process"),
    Measured("SPU's own KMeans, ABY3", "3", 35.0, 1960, 1500, "in one process"),
    Measured("SecretFlow-lite 1.13 KMeans", "2", 45.0, None, 2600, ""),
)
