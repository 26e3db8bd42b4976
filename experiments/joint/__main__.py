"""The command line: `python -m experiments.joint [--graphs ...] [--seeds N] [--quick]`; stored cells stay."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from experiments.accuracy.page import PAGE, render
from experiments.joint import study
from experiments.paper.experiment import Config, Experiment, Options
from experiments.paper.running import run
from experiments.paper.store import RESULTS, ROOT, Records, provenance
from kcagc.datasets.catalog import EMBEDDED
from kcagc.errors import KcagcError

QUICK = ROOT / "experiments" / "quick"  # not in the repository: a quick run must not look like a real one


@click.command()
@click.option("--graphs", "names", default="", help="Only these graphs, separated by commas.")
@click.option("--parties", default="", help="Only these numbers of parties, separated by commas.")
@click.option("--methods", default="", help=f"Only these methods, separated by commas: {', '.join(study.METHODS)}, ...")
@click.option("--seeds", type=click.IntRange(min=1), default=study.SEEDS, show_default=True, help="Runs of each cell.")
@click.option("--quick", is_flag=True, help="Two parties on the embedded graph, stored separately.")
@click.option("--again", is_flag=True, help="Compute stored cells again.")
@click.option("--all-cores", is_flag=True, help="Compute one cell on each core at the same time.")
@click.option("--page", "page_only", is_flag=True, help="Render the page from the stored results only.")
@click.option("--results", type=click.Path(path_type=Path), help="Another folder for raw results and the page.")
def main(
    names: str,
    parties: str,
    methods: str,
    seeds: int,
    quick: bool,
    again: bool,
    all_cores: bool,
    page_only: bool,
    results: Path | None,
) -> None:
    """Compute what is missing, and render docs/accuracy.md."""
    console = Console(stderr=True)
    folder = results or (QUICK if quick else RESULTS)
    page = PAGE if folder == RESULTS else folder / "accuracy.md"
    chosen = listed(names) or ((EMBEDDED,) if quick else ())
    about = provenance("src", "experiments/joint")  # of the code that this process has imported
    records = Records(folder / "joint.json", lambda: about)

    def cells(options: Options) -> list[Config]:
        return [
            cell
            for cell in study.cells(options)
            if (not parties or str(cell.get("parties", 1)) in listed(parties))
            and (not methods or cell["method"] in listed(methods))
        ]

    experiment = Experiment("joint", "Accuracy", cells, study.compute, lambda *_: "", alone=not all_cores)
    try:
        if not page_only:
            run(experiment, Options(chosen, seeds, quick), records, console, again=again)
    except KcagcError as error:
        console.print(f"error: {error}", style="red", soft_wrap=True)
        sys.exit(error.exit_code)
    finally:
        if len(records):
            render(Records(folder / "accuracy.json"), records, page)
            console.print(f"{page}: {len(records)} cells", soft_wrap=True)


def listed(text: str) -> tuple[str, ...]:
    """Return the words of an option that are separated by commas."""
    return tuple(one.strip() for one in text.split(",") if one.strip())


if __name__ == "__main__":
    main()
