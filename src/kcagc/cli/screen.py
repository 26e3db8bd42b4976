"""What all commands share in talking to a person: one console for each stream, and numbers with units."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

out = Console(highlight=False)
messages = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print what a script reads."""
    click.echo(json.dumps(value, indent=2))


@contextmanager
def progress(total: int | None) -> Iterator[Progress]:
    """Show a bar on stderr while a person watches; it vanishes when the work is done."""
    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        columns += [BarColumn(bar_width=24), MofNCompleteColumn()]
    with Progress(*columns, TimeElapsedColumn(), console=messages, transient=True) as shown:
        shown.add_task("", total=total)
        yield shown


def percent(share: float) -> str:
    """Write a share as the papers do: per cent with one decimal."""
    return f"{100 * share:.1f} %"
