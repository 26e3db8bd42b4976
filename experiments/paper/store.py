"""Raw results as JSON: a file for each experiment, a line for each cell, with its origin."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from experiments.paper.experiment import PUBLIC, Config, Result
from kcagc.data.files import write_text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
_CODE = ("src", "experiments/paper")  # the code that results depend on
_PACKAGES = ("kcagc", "numpy", "scipy", "scikit-learn", "cryptography", "grpcio")


@dataclass(frozen=True)
class Stat:
    """Mean and standard deviation of the seeds of a cell, as the paper prints them."""

    mean: float
    std: float
    n: int


class Records:
    """The finished cells of one experiment; `about` returns their origin."""

    def __init__(self, path: Path, about: Callable[[], dict[str, Any]] | None = None) -> None:
        self.path, self._about = path, about or provenance
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": {}, "cells": []}
        self.runs: dict[str, Any] = kept["runs"]
        self._cells: dict[str, dict[str, Any]] = {_key(cell["config"]): cell for cell in kept["cells"]}

    def __contains__(self, config: Config) -> bool:
        return _key(config) in self._cells

    def __len__(self) -> int:
        return len(self._cells)

    def add(self, config: Config, result: Result, seconds: float) -> None:
        """Store a finished cell in the file at once."""
        run = self._about()
        number = next((name for name, known in self.runs.items() if _but_when(known) == _but_when(run)), None)
        if number is None:
            number = f"run-{max((int(name.removeprefix('run-')) for name in self.runs), default=0) + 1}"
            self.runs[number] = run
        self._cells[_key(config)] = {"config": config, "result": result, "seconds": round(seconds, 2), "run": number}
        used = {cell["run"] for cell in self._cells.values()}
        self.runs = {name: known for name, known in self.runs.items() if name in used}
        cells = ",\n".join(json.dumps(cell, ensure_ascii=False) for _, cell in sorted(self._cells.items()))
        runs = ",\n".join(f"{json.dumps(name)}: {json.dumps(known)}" for name, known in self.runs.items())
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, f'{{"runs": {{\n{runs}\n}}, "cells": [\n{cells}\n]}}\n')

    def clear(self) -> None:
        """Remove all cells, to compute them again; the file stays until the first is finished."""
        self.runs, self._cells = {}, {}

    def all(self, **wanted: Any) -> Iterator[tuple[Config, Result]]:
        """Return the cells whose configuration has these values."""
        for _, cell in sorted(self._cells.items()):
            if all(cell["config"].get(name) == value for name, value in wanted.items()):
                yield cell["config"], cell["result"]

    def one(self, **wanted: Any) -> Result | None:
        """Return the result of the first such cell."""
        return next((result for _, result in self.all(**wanted)), None)

    def stat(self, field: str, **wanted: Any) -> Stat | None:
        """Return mean and deviation of a value over such cells, or None without such cells."""
        found = [result[field] for _, result in self.all(**wanted) if result.get(field) is not None]
        return Stat(float(np.mean(found)), float(np.std(found)), len(found)) if found else None

    def values(self, name: str, **wanted: Any) -> list[Any]:
        """Return the values of one field of the configuration: numbers sorted, graphs in the order of the paper."""
        found = list(dict.fromkeys(config[name] for config, _ in self.all(**wanted) if name in config))
        return sorted(found, key=lambda value: (value not in PUBLIC, PUBLIC.index(value) if value in PUBLIC else value))


class Book:
    """The results of all experiments, by name."""

    def __init__(self, folder: Path = RESULTS, about: Callable[[], dict[str, Any]] | None = None) -> None:
        self.folder, self._about = folder, about
        self._opened: dict[str, Records] = {}

    def __getitem__(self, name: str) -> Records:
        if name not in self._opened:
            self._opened[name] = Records(self.folder / f"{name}.json", self._about)
        return self._opened[name]


def provenance(*code: str) -> dict[str, Any]:
    """Return the origin of results: commit (of the paths `code`), versions, machine, day."""
    return {
        "commit": _commit(*(code or _CODE)),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "when": datetime.now(UTC).date().isoformat(),
    }


def _commit(*code: str) -> str:
    """Return the commit, marked if the code has changed since."""
    head = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--", *code)
    return head + ("+changes" if changed else "") if head else "unknown"


def _git(*asked: str) -> str:
    try:
        return subprocess.run(
            ["git", *asked], cwd=ROOT, capture_output=True, text=True, check=False, timeout=20
        ).stdout.strip()
    except OSError:
        return ""


def _but_when(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "when"}


def _key(config: Config) -> str:
    return json.dumps(config, sort_keys=True)
