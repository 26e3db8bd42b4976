"""Where figures come from: commit, versions, and a machine that is described well enough to compare with another."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from experiments.paper import store
from experiments.paper.store import ROOT, Book

RESULTS = ROOT / "benchmarks" / "results"
QUICK = ROOT / "benchmarks" / "quick"  # not kept: a quick run must not look like the real one
_CODE = ("src", "experiments/paper", "benchmarks", ":!benchmarks/results")


def provenance() -> dict[str, Any]:
    """Say what measures: as for the experiments, with the processor and the memory of the machine."""
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores ({_processor()}), {gibibytes:.0f} GiB, {platform.system()} {platform.machine()}"
    return store.provenance(*_CODE) | {"machine": machine}


def book(folder: Path = RESULTS) -> Book:
    """Open the kept figures."""
    return Book(folder, provenance)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
