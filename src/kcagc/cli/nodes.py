"""`kcagc nodes`: which nodes of the graph an organisation has, and which of them all organisations have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kcagc.cli.settings import FILE, loaded, options


@click.group()
def nodes() -> None:
    """Make the list of nodes that all organisations have, for `node_list` in everybody's configuration."""


@nodes.command()
@options("config", "features", "graph")
@click.option("--output", type=FILE, required=True, help="Where to write the list, a CSV file of one column.")
def have(config: Path, output: Path, **given: Any) -> None:
    """Write down which nodes of the graph this party's table has.

    Nothing is sent. Whoever is given the file learns which of the graph's nodes this organisation has a row for, which
    may say who its customers are: give it to the other parties knowingly, and not to the coordinator. Rows of nodes
    that are not in the graph are not listed.
    """
    from kcagc.errors import ParameterError
    from kcagc.files.listed import read_present, write_ids

    own = loaded(config, **given)
    section = own.document.data
    if section is None:
        raise ParameterError(f"{config}: is the configuration of a {own.role}, which has no table")
    found = read_present(
        own.file(section.features),
        own.file(section.graph),
        party=own.me,
        id_column=section.id_column,
        feature_ids=None if section.feature_ids is None else own.file(section.feature_ids),
        source=section.source,
        target=section.target,
        graph_ids=None if section.graph_ids is None else own.file(section.graph_ids),
    )
    write_ids(output, found)
    click.echo(
        f"{output}: {len(found):,} nodes of the graph that {own.me} has. Whoever gets this file learns which they are.",
        err=True,
    )


@nodes.command()
@click.argument("lists", nargs=-1, required=True, type=FILE)
@click.option("--output", type=FILE, required=True, help="Where to write the list, a CSV file of one column.")
def common(lists: tuple[Path, ...], output: Path) -> None:
    """Write down the nodes that are in all LISTS, which the parties made with `kcagc nodes have`."""
    from kcagc.errors import ParameterError
    from kcagc.files.listed import common_ids, write_ids

    if len(lists) < 2:
        raise ParameterError("LISTS: give the list of every party, two or more")
    found = common_ids(lists)
    write_ids(output, found)
    click.echo(f"{output}: {len(found):,} nodes that are in all {len(lists)} lists", err=True)
