"""Start-up times: processes that start from nothing, with files in the cache of the machine."""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

from benchmarks.presentation import Target, targets_table
from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import table

LIMIT = 0.3
HELP = "kcagc --help"
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    HELP: ["-m", "kcagc", "--help"],
    "kcagc --version": ["-m", "kcagc", "--version"],
    "import kcagc": ["-c", "import kcagc"],
    "from kcagc import KCAGC": ["-c", "from kcagc import KCAGC"],
    "all that a role imports": ["-c", "import kcagc.cli.roles, kcagc.deploy.run"],
}


def cells(options: Options) -> list[Config]:
    """Return every command."""
    return [{"command": words, "times": 3 if options.quick else 15} for words in COMMANDS]


def compute(cell: Config) -> Result:
    """Start the command several times."""
    taken = []
    for turn in range(cell["times"] + 1):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *COMMANDS[cell["command"]]], check=True, stdout=subprocess.DEVNULL)
        if turn:  # the first run fills caches
            taken.append(time.perf_counter() - begin)
    return {"seconds": round(median(taken), 4), "least": round(min(taken), 4), "most": round(max(taken), 4)}


def render(book: Book, figures: Figures) -> str:
    """Return the table."""
    records = book["startup"]
    found = {config["command"]: result for config, result in records.all()}
    rows = [
        [f"`{words}`" if words != "all that a role imports" else words]
        + [f"{found[words][field]:.3f}" for field in ("seconds", "least", "most")]
        for words in COMMANDS
        if words in found
    ]
    return (
        "Seconds from the start of a process to its end.\n\n"
        + targets_table([Target(f"`{HELP}`", found[HELP]["seconds"], LIMIT, "s", 3)])
        + "\n"
        + table(["", "median, s", "least", "most"], rows)
    )


BENCHMARK = Experiment("startup", "Starting up", cells, compute, render, alone=True)
