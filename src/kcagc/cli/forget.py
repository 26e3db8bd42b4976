"""`kcagc forget`: erases what an interrupted run keeps on disk, where nobody is going to resume it."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="KCAGC_CONFIG",
    help="The role's TOML file.",
)
def forget(config: Path) -> None:
    """Erase the journals of a role: session keys, messages, and its own rows and local clusters.

    A run that was interrupted cannot be resumed afterwards. Results and ledgers stay.
    """
    from kcagc.deployment.config import Config
    from kcagc.deployment.forgetting import forget_journals

    found = forget_journals(Config.load(config))
    for path in found:
        click.echo(f"erased {path}")
    if not found:
        click.echo("there was no journal", err=True)
