"""`kcagc init`: folders for the roles of a new collaboration; `kcagc identity`: an identity key for one role."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import ParameterCommand

if TYPE_CHECKING:
    from kcagc.datasets.dataset import Dataset


def _number_or_range(_context: click.Context, _parameter: click.Parameter, given: str) -> int | tuple[int, int]:
    least, _, most = given.partition("-")
    try:
        return (int(least), int(most)) if most else int(least)
    except ValueError:
        raise click.BadParameter(f"must be a number such as 5, or a range such as 2-8, not {given!r}") from None


@click.command(cls=ParameterCommand)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--parties", required=True, metavar="NAME,NAME,...", help="The organisations that hold data.")
@click.option("--aggregator", metavar="NAME", help="A party that aggregates, as in the paper, without a coordinator.")
@click.option("--coordinator", default="coordinator", show_default=True, help="Name of the coordinator.")
@click.option(
    "--address",
    default="localhost:7443",
    show_default=True,
    help="Address of the aggregator for all others, HOST:PORT.",
)
@click.option("--example-data", is_flag=True, help="Fill the data folders with the embedded dataset.")
@click.option(
    "--n-clusters",
    default="5",
    show_default=True,
    callback=_number_or_range,
    help="Number of clusters k to find, or a range to compare, such as 2-8.",
)
def init(
    folder: Path,
    parties: str,
    aggregator: str | None,
    coordinator: str,
    address: str,
    example_data: bool,
    **given: Any,
) -> None:
    """Write a folder for each role: a commented configuration, keys, and certificates for a trial.

    No folder contains a private file of another role, so that each folder can be moved to its organisation.
    """
    from rich.markup import escape

    from kcagc.deploy.folders import FolderPlan, write_folders
    from kcagc.net.tls import split_address

    _, port = split_address(address, "--address")
    plan = FolderPlan.of(
        [name.strip() for name in parties.split(",") if name.strip()],
        aggregator=aggregator,
        coordinator=coordinator,
        address=address,
        listen=f"0.0.0.0:{port}",
        **{name: value for name, value in given.items() if value is not None},
    )
    written = write_folders(folder, plan, _examples() if example_data else None)
    console = terminal.out()
    for name, path in written.items():
        what = "coordinator" if name == plan.coordinator else "party"
        console.print(f"[bold]{name}[/]  kcagc {what} --config {escape(str(path))}", soft_wrap=True)
    console.print(
        "\nMove each folder to the machine of its organisation. Put the data files of each party into its folder "
        "data, read the comments in kcagc.toml, and run in this folder: kcagc check. The certificates are for "
        "trials, because this machine has held the keys of all roles; docs/deploy.md explains how to use your own."
    )


def _examples() -> Dataset:
    from kcagc.datasets import load

    return load("demo")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def identity(file: Path) -> None:
    """Make an identity key in FILE and print its public half, which all roles list under [[participants]]."""
    from kcagc.data.files import PRIVATE, write_bytes
    from kcagc.errors import ParameterError
    from kcagc.secagg.keys import Identity

    if file.exists():
        raise ParameterError(f"{file}: exists already; a key is never overwritten")
    made = Identity.generate()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, made.to_pem(), mode=PRIVATE)
    click.echo(made.public.hex())
