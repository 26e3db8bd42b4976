"""The command line: `python -m experiments.paper NAME [--datasets ...] [--seeds N] [--quick]`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from experiments.paper.experiment import NAMES, Options, experiment
from experiments.paper.page import PAGE, render
from experiments.paper.running import run
from experiments.paper.store import RESULTS, ROOT, Book
from kcagc.errors import KcagcError

QUICK = ROOT / "experiments" / "quick"  # not in the repository: a quick run must not look like a real one


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...", required=True, type=click.Choice([*NAMES, "all", "page"]))
@click.option("--datasets", default="", help="Only these datasets, separated by commas.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of each cell.")
@click.option("--quick", is_flag=True, help="A small version of everything, stored separately from the real results.")
@click.option("--again", is_flag=True, help="Compute stored cells again.")
@click.option("--results", type=click.Path(path_type=Path), help="Another folder for raw results and the page.")
def main(names: tuple[str, ...], datasets: str, seeds: int, quick: bool, again: bool, results: Path | None) -> None:
    """Compute the experiments NAME, or `all`; `page` renders the stored results only."""
    console = Console(stderr=True)
    options = Options(tuple(one.strip() for one in datasets.split(",") if one.strip()), seeds, quick)
    folder = results or (QUICK if quick else RESULTS)
    page = PAGE if folder == RESULTS else folder / "paper.md"
    book = Book(folder)
    chosen = [name for name in NAMES if name in names or "all" in names]
    skipped: list[str] = []
    try:
        for name in chosen:
            one = experiment(name)
            lacking = one.missing()
            if lacking and all(cell in book[name] for cell in one.cells(options)):
                lacking = ""
            if lacking:
                skipped.append(f"{name}: skipped, {lacking}")
                console.print(skipped[-1], soft_wrap=True)
                continue
            run(one, options, book[name], console, again=again)
    except KcagcError as error:
        console.print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(error.exit_code)
    finally:
        shown = render(book, page)
        console.print(f"{page}: {', '.join(shown) or 'nothing yet'}", soft_wrap=True)
    for message in skipped:
        console.print(message, soft_wrap=True)
    if skipped and "all" not in names:
        sys.exit(1)


if __name__ == "__main__":
    main()
