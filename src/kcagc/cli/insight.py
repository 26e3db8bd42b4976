"""Commands about the clusters of a finished run: `kcagc explain` for one node, and `kcagc name` for a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import FILE, JSON

_CONFIG = Path("kcagc.toml")  # taken from the working directory if no option names a configuration or a folder


def _of_a_run(command: Any) -> Any:
    """Add the options that name a finished run."""
    for option in (
        click.option(
            "--result",
            type=click.Path(file_okay=False, path_type=Path),
            help="Result folder of the run, in place of --config.",
        ),
        click.option(
            "--config", type=FILE, envvar="KCAGC_CONFIG", help="The party's TOML file  [default: kcagc.toml]."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("node", metavar="ID")
@_of_a_run
@JSON
def explain(node: str, config: Path | None, result: Path | None, as_json: bool) -> None:
    """Explain why the node ID is in its cluster, and which cluster is its nearest alternative.

    The command reads the results of a finished run of this party; nothing is sent. It shows how far the node is from
    the centres of the two clusters, where its edges lead, and which of the party's columns fit its cluster better. Put
    -- before an ID that begins with a hyphen.
    """
    from kcagc.report.folder import names_in, nodes_in, read_summary
    from kcagc.report.insights.explanation import explain_node

    folder = _folder(config, result)
    summary = read_summary(folder)
    found = explain_node(nodes_in(folder, summary), node, names_in(folder, summary))
    if as_json:
        terminal.print_json(found.to_dict())
    else:
        from kcagc.text import printable

        click.echo(printable(found.text(), keep="\n"))


@click.command()
@click.argument("cluster", type=int, required=False)
@click.argument("text", metavar="[NAME]", required=False)
@_of_a_run
@JSON
def name(cluster: int | None, text: str | None, config: Path | None, result: Path | None, as_json: bool) -> None:
    """Name CLUSTER as NAME, or list all names.

    The file names.json in the result folder keeps the names. The report, `kcagc explain` and a column of the file of
    labels show them. An empty NAME ("") removes a name. Without CLUSTER, the command lists the clusters with their
    names. The names stay on this machine: other parties do not see them.
    """
    from kcagc.errors import ParameterError
    from kcagc.report.folder import names_in, read_summary
    from kcagc.report.page import rename

    folder = _folder(config, result)
    summary = read_summary(folder)
    sizes = [int(size) for size in summary.get("cluster_sizes", ())]
    if not sizes:
        why = "a sweep gives no clusters" if summary.get("role") == "party" else "a coordinator receives no labels"
        raise ParameterError(f"{folder}: has no clusters to name, because {why}")
    if cluster is not None and text is None:
        raise ParameterError(f'NAME: is missing; write, for example: kcagc name {cluster} "Night shift"')
    names = names_in(folder, summary)
    if cluster is not None and text is not None:
        names = names.renamed(cluster, text, n_clusters=len(sizes))
        rename(folder, summary, names)
    if as_json:
        rows = [{"cluster": one, "name": names.of(one), "size": size} for one, size in enumerate(sizes)]
        terminal.print_json(rows)
        return
    from kcagc.text import amount, printable

    wide = len(str(len(sizes)))
    for one, size in enumerate(sizes):
        click.echo(printable(f"{one:>{wide}}  {names.of(one) or '–'} ({amount(size, 'node')})"))


def _folder(config: Path | None, result: Path | None) -> Path:
    """Return the result folder that the options name; without options, that of this directory."""
    from kcagc.cli.roles import load_config
    from kcagc.deploy.run import result_files
    from kcagc.errors import ParameterError
    from kcagc.report.folder import SUMMARY

    if result is not None:
        return result
    if config is None and not _CONFIG.exists():
        here = Path()
        if (here / SUMMARY).exists():
            return here
        raise ParameterError(
            f"--config: there is no {_CONFIG} in this directory. Name the party's configuration with --config, or its "
            "result folder with --result"
        )
    return result_files(load_config(config or _CONFIG), "fit").folder
