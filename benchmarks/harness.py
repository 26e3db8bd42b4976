"""Runs to be measured: all roles as processes with mutual TLS, or one computation alone in a process of its own."""

from __future__ import annotations

import atexit
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from experiments.paper.configurations import dataset, order_of
from experiments.paper.network.fork_server import ForkServer
from experiments.paper.network.measure import default_settings, paper_settings
from experiments.paper.network.relay import Network
from experiments.paper.network.roles import PLAY, Files, Played, Roles, warmed
from kcagc.datasets.dataset import Dataset

CONFIGURATIONS = ("default", "paper")
UNLIMITED = Network("wire", delay=0.0, rate=1e12)  # a relay that only counts bytes
_PATIENCE = 3600.0
_ALONE = "benchmarks.alone"


def settings_of(configuration: str, name: str, local: int | str, **changes: Any) -> dict[str, Any]:
    """Give the settings of a configuration for a public graph."""
    data = dataset(name)
    chosen = paper_settings(data.n_classes, local) if configuration == "paper" else default_settings(local)
    return chosen | {"n_clusters": data.n_classes, "psi": order_of(name), "random_state": 0} | changes


def played(
    data: Dataset | Sequence[Files],
    n_parties: int,
    settings: dict[str, Any],
    network: Network | None = None,
    *,
    play: str = PLAY,
) -> list[Played]:
    """Run all roles to the end; give what each left."""
    with tempfile.TemporaryDirectory() as folder:
        return Roles(Path(folder), data, n_parties, settings, play=play).run(_fork_server(), network, _PATIENCE)


def alone(function: str, *, all_cores: bool = True, **plan: Any) -> Any:
    """Call a function of `benchmarks.alone` in a process of its own, with or without threads for its mathematics."""
    fork_server = _server_with_all_cores() if all_cores else _fork_server()
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "result.json", Path(folder) / "log"
        process = fork_server.start(f"{_ALONE}:call", {"function": function, "plan": plan, "result": str(result)}, log)
        try:
            ended = fork_server.ended([process], _PATIENCE)
        finally:
            fork_server.kill(process)
        if ended.get(process) != 0:
            raise RuntimeError(f"{function} failed:\n{log.read_text(encoding='utf-8')}")
        return json.loads(result.read_text(encoding="utf-8"))


def turns(measure: Callable[[], dict[str, float]], *, least: int, most: int, seconds: float) -> dict[str, list[float]]:
    """Take turns of all figures that belong together, so that what slows the machine slows all; give every figure.

    At least `least` turns, then more up to `most` while fewer than `seconds` have passed.
    """
    found: dict[str, list[float]] = {}
    begin = time.monotonic()
    for turn in range(most):
        if turn >= least and time.monotonic() - begin > seconds:
            break
        for name, figure in measure().items():
            found.setdefault(name, []).append(round(figure, 4))
    return found


def medians(found: dict[str, list[float]]) -> dict[str, float]:
    """Give the middle of each."""
    return {name: round(median(values), 4) for name, values in found.items()}


@lru_cache(maxsize=1)
def _fork_server() -> ForkServer:
    """Give the process that roles are forked from: one thread each, and imports are paid once."""
    return _kept(warmed(_ALONE, "benchmarks.instruments"))


@lru_cache(maxsize=1)
def _server_with_all_cores() -> ForkServer:
    """Give the process for what runs alone, and may use every core."""
    return _kept(ForkServer(_ALONE, "sklearn.cluster"))


def _kept(server: ForkServer) -> ForkServer:
    atexit.register(server.__exit__, None, None, None)
    return server
