"""`kcagc report`: the page about a run, made again from what is in its folder."""

from __future__ import annotations

from pathlib import Path

import click

from kcagc.cli import terminal
from kcagc.cli.settings import FILE


@click.command()
@click.argument("folder", metavar="RUN_DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--labels", type=FILE, help="Known labels of some or all nodes: .csv, .tsv or .parquet.")
@click.option("--id-column", default="id", show_default=True, help="The column of --labels that names the nodes.")
@click.option("--label-column", default="label", show_default=True, help="The column of --labels with the classes.")
def report(folder: Path, labels: Path | None, id_column: str, label_column: str) -> None:
    """Write report.html in RUN_DIR, the result folder of a run that has ended.

    One page that needs no network: clusters and what marks them, a map, links, quality, rounds, traffic, the ledger in
    plain words, and the configuration. With --labels the clusters are compared with classes that you know; the
    comparison is kept in quality.json and shown from then on.
    """
    from rich.markup import escape

    from kcagc.report.insights.quality import compare_with_known
    from kcagc.report.page import write_page

    if labels is not None:
        compare_with_known(folder, labels, id_column=id_column, label_column=label_column)
    path = write_page(folder)
    terminal.out().print(f"[bold]{escape(str(path))}[/]", soft_wrap=True)
