"""`kcagc forget`: erases what an interrupted run keeps on disk, where nobody is going to resume it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kcagc.cli.settings import loaded, options


@click.command()
@options("config", "output", "state")
def forget(config: Path, **given: Any) -> None:
    """Erase the journals of a role: session keys, messages, and its own rows and local clusters.

    A run that was interrupted cannot be resumed afterwards. Results and ledgers stay.
    """
    from kcagc.deploy.run import forget_journals

    found = forget_journals(loaded(config, **given))
    for path in found:
        click.echo(f"erased {path}")
    if not found:
        click.echo("there was no journal", err=True)
