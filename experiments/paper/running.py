"""The computation of missing cells, on all cores (or one at a time where time is measured), with progress."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from experiments.paper.experiment import Config, Experiment, Options, Result
from experiments.paper.store import Records

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(
    experiment: Experiment,
    options: Options,
    records: Records,
    console: Console,
    *,
    again: bool = False,
    minutes: float | None = None,
) -> int:
    """Compute missing cells and store each at once; return their number.

    With `minutes`, no cell starts after so many minutes.
    """
    begin = time.perf_counter()
    cells = experiment.cells(options)
    todo = [cell for cell in cells if again or cell not in records]
    if not todo:
        console.print(f"{experiment.name}: all {len(cells)} cells are there")
        return 0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    compute_all = _one_by_one if experiment.alone else _side_by_side
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(experiment.name, total=len(cells), completed=len(cells) - len(todo))
        for done, (cell, result, seconds) in enumerate(compute_all(experiment.compute, todo), start=1):
            records.add(cell, result, seconds)
            bar.advance(task)
            if not console.is_terminal:  # no terminal: write a line to the log
                left = len(todo) - done
                console.print(f"{experiment.name}: {_words(cell)}: {seconds:.1f} s; {left} left", soft_wrap=True)
            if minutes is not None and time.perf_counter() - begin > 60 * minutes:
                console.print(
                    f"{experiment.name}: stopped after {minutes:g} minutes; {len(todo) - done} cells are left"
                )
                return done
    return len(todo)


def _one_by_one(compute: Callable[[Config], Result], cells: list[Config]) -> Iterator[tuple[Config, Result, float]]:
    for cell in cells:
        begin = time.perf_counter()
        result = compute(cell)
        yield cell, result, time.perf_counter() - begin


def _side_by_side(compute: Callable[[Config], Result], cells: list[Config]) -> Iterator[tuple[Config, Result, float]]:
    """Compute in one process for each core, with one thread each: more threads do not help small matrices."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))  # NumPy reads them during its import
    try:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
            waiting: dict[Future[tuple[Result, float]], Config] = {
                pool.submit(_timed, compute, cell): cell for cell in cells
            }
            try:
                while waiting:
                    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        cell = waiting.pop(future)
                        result, seconds = future.result()
                        yield cell, result, seconds
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _timed(compute: Callable[[Config], Result], cell: Config) -> tuple[Result, float]:
    begin = time.perf_counter()
    return compute(cell), time.perf_counter() - begin


def _words(cell: Config) -> str:
    return " ".join(f"{name}={value}" for name, value in cell.items())
