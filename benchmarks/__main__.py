"""The command line: `python -m benchmarks NAME... [--quick] [--missing]`."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from benchmarks.page import NAMES, PAGE, QUICK, RESULTS, benchmark, book, render, section
from experiments.paper.experiment import Options
from experiments.paper.running import run
from kcagc.errors import KcagcError


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...", required=True, type=click.Choice([*NAMES, "all", "page"]))
@click.option("--datasets", default="", help="Only these datasets, separated by commas.")
@click.option("--quick", is_flag=True, help="A small version, stored separately from the real figures.")
@click.option("--missing", is_flag=True, help="Only missing figures, to continue after an interruption.")
@click.option("--results", type=click.Path(path_type=Path), help="Another folder for the figures and the page.")
def main(names: tuple[str, ...], datasets: str, quick: bool, missing: bool, results: Path | None) -> None:
    """Run the benchmarks NAME, or `all`, and print tables; `page` renders the stored figures only."""
    console = Console(stderr=True)
    options = Options(tuple(one.strip() for one in datasets.split(",") if one.strip()), quick=quick)
    folder = results or (QUICK if quick else RESULTS)
    page = PAGE if folder == RESULTS else folder / "performance.md"
    kept = book(folder)
    try:
        for name in (one for one in NAMES if one in names or "all" in names):
            one = benchmark(name)
            lacking = one.missing()
            if lacking:
                console.print(f"{name}: {lacking}", soft_wrap=True)
            if not missing and one.cells(options):
                kept[name].clear()
            run(one, options, kept[name], console)
            click.echo(section(kept, name, page))
    except (KcagcError, RuntimeError) as error:
        console.print(f"error: {error}", style="red", soft_wrap=True, markup=False)
        sys.exit(getattr(error, "exit_code", 1))
    shown = render(kept, page)
    console.print(f"{page}: {', '.join(shown) or 'nothing yet'}", soft_wrap=True)


if __name__ == "__main__":
    main()
