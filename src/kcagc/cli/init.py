"""`kcagc init`: folders for all roles to begin with; `kcagc identity`: a key for one role, made where it belongs."""

from __future__ import annotations

from pathlib import Path

import click

from kcagc.cli import terminal


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--parties", required=True, metavar="NAME,NAME,...", help="The organisations that hold data.")
@click.option("--aggregator", metavar="NAME", help="A party that sums, as in the paper, instead of a coordinator.")
@click.option("--coordinator", default="coordinator", show_default=True, help="The coordinator's name.")
@click.option("--clusters", type=click.IntRange(min=2), default=5, show_default=True, help="Clusters to find.")
@click.option("--psi", type=click.IntRange(min=0), default=5, show_default=True, help="Steps of smoothing.")
@click.option("--example-data", is_flag=True, help="Fill the data folders with the embedded dataset.")
@click.option(
    "--address", default="localhost:7443", show_default=True, help="Where parties reach the aggregator, HOST:PORT."
)
def init(
    folder: Path,
    parties: str,
    aggregator: str | None,
    coordinator: str,
    clusters: int,
    psi: int,
    example_data: bool,
    address: str,
) -> None:
    """Write a folder for each role: a commented configuration, keys, and certificates for a trial.

    Nothing private of one role lies in another's folder, so that each can be moved to where it belongs.
    """
    from rich.markup import escape

    from kcagc.deploy.folders import Plan, write_folders
    from kcagc.net.address import split_address

    _, port = split_address(address, "--address")
    names = [name.strip() for name in parties.split(",") if name.strip()]
    plan = Plan.of(
        names,
        aggregator=aggregator,
        coordinator=coordinator,
        address=address,
        listen=f"0.0.0.0:{port}",
        n_clusters=clusters,
        psi=psi,
    )
    written = write_folders(folder, plan)
    if example_data:
        from kcagc.datasets import load
        from kcagc.deploy.examples import write_examples

        write_examples(load("demo"), written, list(plan.parties))
    console = terminal.out()
    for name, path in written.items():
        what = "coordinator" if name == plan.coordinator else "party"
        console.print(f"[bold]{name}[/]  kcagc {what} --config {escape(str(path))}", soft_wrap=True)
    console.print(
        "\nMove each folder to its own machine, put the data files of each party into its data folder, read the "
        "comments in its kcagc.toml, and try: kcagc check --config kcagc.toml. The certificates are for trials: "
        "whoever ran this command has had all keys in hand. docs/deploy.md says how to bring your own."
    )


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def identity(file: Path) -> None:
    """Make an identity key in FILE and print its public half, for the `identity` of this role in everybody's file."""
    from kcagc.errors import ParameterError
    from kcagc.files.atomic import PRIVATE, write_bytes
    from kcagc.secagg.keys import Identity

    if file.exists():
        raise ParameterError(f"{file}: is there already; a key is not overwritten")
    made = Identity.generate()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(file, made.to_pem(), mode=PRIVATE)
    click.echo(made.public.hex())
