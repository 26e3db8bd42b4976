"""The entry point: which commands there are, and how an error ends."""

from __future__ import annotations

import sys

import click

from kcagc import __version__
from kcagc.cli.baselines import baselines
from kcagc.cli.datasets import datasets
from kcagc.cli.demo import demo
from kcagc.errors import KcagcError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kcagc")
def cli() -> None:
    """Cluster the nodes of a graph that organisations share, using features that each holds and none may show."""


for command in (demo, datasets, baselines):
    cli.add_command(command)


def main() -> None:
    """Run the command line; what kcagc refuses on purpose ends in one line and the exit code of its class."""
    try:
        cli()
    except KcagcError as error:
        click.echo(f"kcagc: {error}", err=True)
        sys.exit(error.exit_code)
