"""The command line: `python -m attacks [NAME...] [--short] [--missing]`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import click
from rich.console import Console

from attacks import page
from attacks.results import RESULTS, SEPARATE, SHORT, SUITES, book, figures, options, suite
from experiments.paper.running import run


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", type=click.Choice([*SUITES, "page"]))
@click.option("--short", is_flag=True, help="The demo only, stored separately from the real figures.")
@click.option("--missing", is_flag=True, help="Only missing figures, to continue after an interruption.")
def main(names: tuple[str, ...], short: bool, missing: bool) -> None:
    """Run the attacks of these suites, or all; `page` renders the stored figures only."""
    console = Console(stderr=True)
    kept = book(SHORT if short else RESULTS)
    wanted = names or tuple(name for name in SUITES if name not in SEPARATE and find_spec(SUITES[name]))
    broken = []
    for name in (one for one in SUITES if one in wanted):
        if not missing:
            kept[name].clear()
        run(suite(name), options(short), kept[name], console)
        known = getattr(import_module(SUITES[name]), "is_open", lambda _: False)
        found = [one for _, result in kept[name].all() for one in figures(result)]
        broken += [one for one in found if not one.holds and not known(one)]
    if not short:
        page.render(kept)
    for one in broken:
        console.print(f"beyond its bound: {one}", style="red", soft_wrap=True, markup=False)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
