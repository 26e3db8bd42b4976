"""The command line: `python -m experiments.accuracy [--graphs ...] [--parts ...] [--quick]`; stored cells stay."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from experiments.accuracy import study
from experiments.accuracy.page import PAGE, render
from experiments.joint.__main__ import QUICK, listed
from experiments.paper.experiment import Config, Experiment, Options
from experiments.paper.running import run
from experiments.paper.store import RESULTS, Records, provenance
from kcagc.datasets.catalog import EMBEDDED
from kcagc.errors import KcagcError


@click.command()
@click.option("--graphs", "names", default="", help="Only these graphs, separated by commas.")
@click.option("--parts", default="", help=f"Only these parts, separated by commas: {', '.join(study.PARTS)}.")
@click.option("--quick", is_flag=True, help="Few cells on the embedded graph, stored separately.")
@click.option("--again", is_flag=True, help="Compute stored cells again.")
@click.option("--minutes", type=click.FloatRange(min=0), help="Start no cell after so many minutes.")
@click.option("--page", "page_only", is_flag=True, help="Render the page from the stored results only.")
@click.option("--results", type=click.Path(path_type=Path), help="Another folder for raw results and the page.")
def main(
    names: str, parts: str, quick: bool, again: bool, minutes: float | None, page_only: bool, results: Path | None
) -> None:
    """Compute what is missing, and render docs/accuracy.md."""
    console = Console(stderr=True)
    folder = results or (QUICK if quick else RESULTS)
    page = PAGE if folder == RESULTS else folder / "accuracy.md"
    chosen = listed(names) or ((EMBEDDED,) if quick else ())
    about = provenance("src", "experiments/accuracy", "experiments/joint")  # of the code that is imported
    records = Records(folder / "accuracy.json", lambda: about)

    def cells(options: Options) -> list[Config]:
        return [cell for cell in study.cells(options) if not parts or cell["part"] in listed(parts)]

    experiment = Experiment("accuracy", "Accuracy", cells, study.compute, lambda *_: "", alone=True)
    try:
        if not page_only:
            run(experiment, Options(chosen, quick=quick), records, console, again=again, minutes=minutes)
    except KcagcError as error:
        console.print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(error.exit_code)
    finally:
        if len(records):
            render(records, Records(folder / "joint.json"), page)
            console.print(f"{page}: {len(records)} cells", soft_wrap=True)


if __name__ == "__main__":
    main()
