"""Measured runs: all roles as processes with mutual TLS, or one computation alone in a separate process."""

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
from experiments.paper.network.roles import ROLE_FUNCTION, Files, MeasuredRole, MeasuredRun, warmed
from kcagc.datasets.dataset import Dataset

CONFIGURATIONS = ("default", "paper")
UNLIMITED = Network("wire", delay=0.0, rate=1e12)  # a relay that only counts bytes
_PATIENCE = 3600.0
_ALONE = "benchmarks.alone"


def settings_of(configuration: str, name: str, local: int | str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a configuration for a public graph."""
    data = dataset(name)
    chosen = paper_settings(data.n_classes, local) if configuration == "paper" else default_settings(local)
    return chosen | {"n_clusters": data.n_classes, "psi": order_of(name), "random_state": 0} | changes


def run_roles(
    data: Dataset | Sequence[Files],
    n_parties: int,
    settings: dict[str, Any],
    network: Network | None = None,
    *,
    function: str = ROLE_FUNCTION,
) -> list[MeasuredRole]:
    """Run all roles to the end and return the result of each."""
    with tempfile.TemporaryDirectory() as folder:
        return MeasuredRun(Path(folder), data, n_parties, settings, function=function).run(
            _fork_server(), network, _PATIENCE
        )


def alone(function: str, *, all_cores: bool = True, **plan: Any) -> Any:
    """Call a function of `benchmarks.alone` in a separate process, with one or all threads for linear algebra."""
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
    """Measure figures that belong together in turns, so that a slow moment of the machine affects all of them.

    There are at least `least` turns, and up to `most` while fewer than `seconds` have passed.
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
    """Return the median of each figure."""
    return {name: round(median(values), 4) for name, values in found.items()}


@lru_cache(maxsize=1)
def _fork_server() -> ForkServer:
    """Return the fork server for roles, with one thread each."""
    return _closed_at_exit(warmed(_ALONE, "benchmarks.instruments"))


@lru_cache(maxsize=1)
def _server_with_all_cores() -> ForkServer:
    """Return the fork server for computations that may use every core."""
    return _closed_at_exit(ForkServer(_ALONE, "sklearn.cluster"))


def _closed_at_exit(server: ForkServer) -> ForkServer:
    atexit.register(server.__exit__, None, None, None)
    return server
