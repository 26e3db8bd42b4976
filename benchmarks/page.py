"""The page of performance figures, the list of benchmarks, and where their figures come from."""

from __future__ import annotations

import os
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.paper import store
from experiments.paper.experiment import Experiment
from experiments.paper.plots import Figures
from experiments.paper.store import ROOT, Book
from kcagc.data.files import write_text

PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
QUICK = ROOT / "benchmarks" / "quick"  # not in the repository: a quick run must not look like a real one
_CODE = ("src", "experiments/paper", "benchmarks", ":!benchmarks/results")

MODULES = {
    "fit-over-agc": "benchmarks.fit_over_agc",
    "breakdown": "benchmarks.breakdown",
    "delays": "benchmarks.delays",
    "versions": "benchmarks.versions",
    "joint": "benchmarks.joint",
    "peers": "benchmarks.peers.benchmark",
    "million": "benchmarks.million",
    "scaling": "benchmarks.scaling",
    "filter": "benchmarks.filter",
    "plan": "benchmarks.plan",
    "gpu": "benchmarks.gpu",
    "dask": "benchmarks.dask",
    "match": "benchmarks.match",
    "startup": "benchmarks.startup",
}
NAMES = tuple(MODULES)

_HEAD = """# Performance

Time, traffic and memory of kcagc, compared with targets. `make bench` measures everything on your machine
(`NAME=startup` one section, `QUICK=1` a small version) and renders this page from the figures in {results}; do not edit
it. Both parts of every ratio were measured alternately in one run on one machine. Training times in the networks of the
paper, next to the paper's figures, are in [paper.md](paper.md).
"""


def render(book: Book, page: Path = PAGE) -> list[str]:
    """Write the page and its figures; return the names of its sections."""
    results = f"`{book.folder.relative_to(ROOT)}`" if book.folder.is_relative_to(ROOT) else f"`{book.folder.name}`"
    parts, shown, missing = [_HEAD.format(results=results)], [], []
    for name in NAMES:
        if len(book[name]):
            shown.append(name)
            parts.append(section(book, name, page))
        else:
            missing.append(name)
    if missing:
        parts.append(f"## Not measured\n\n{', '.join(f'`{name}`' for name in missing)}.\n")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, "\n".join(parts))
    return shown


def section(book: Book, name: str, page: Path = PAGE) -> str:
    """Return one section and draw its figures."""
    one = benchmark(name)
    figures = Figures(page.parent / page.stem, page)
    return f"## {one.title}\n\n{one.render(book, figures).strip()}\n\n{_where(book, name)}"


def _where(book: Book, name: str) -> str:
    runs = [
        f"commit `{run['commit']}`, {run['when']}, {run['machine']}, Python {run['python']}, "
        + ", ".join(f"{package} {version}" for package, version in run["versions"].items())
        for run in book[name].runs.values()
    ]
    return f"<small>`make bench NAME={name}`; {'; '.join(runs)}</small>\n"


def benchmark(name: str) -> Experiment:
    """Return a benchmark by its name."""
    found: Experiment = import_module(MODULES[name]).BENCHMARK
    return found


def provenance() -> dict[str, Any]:
    """Return the origin of figures: as for the experiments, with processor and memory of the machine."""
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores ({_processor()}), {gibibytes:.0f} GiB, {platform.system()} {platform.machine()}"
    return store.provenance(*_CODE) | {"machine": machine}


def book(folder: Path = RESULTS) -> Book:
    """Open the stored figures."""
    return Book(folder, provenance)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
