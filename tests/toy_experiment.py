"""An experiment that takes no time, for tests of what is around experiments; its own file, so that workers find it."""

from __future__ import annotations

import os

from experiments.paper.experiment import Config, Experiment, Options, Result


def cells(options: Options) -> list[Config]:
    return [{"dataset": name, "seed": seed} for name in options.pick("cora") for seed in range(options.seeds)]


def compute(cell: Config) -> Result:
    if cell["seed"] == 13:
        raise ValueError("an unlucky cell")
    return {"accuracy": 10.0 * cell["seed"], "process": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}


def render(book: object, figures: object) -> str:
    return "nothing"


TOY = Experiment("toy", "A toy", cells, compute, render)
TOY_ALONE = Experiment("toy", "A toy", cells, compute, render, alone=True)
