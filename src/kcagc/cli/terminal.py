"""What all commands share in talking to a person: one console for each stream, and numbers with units."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_PLAIN = {"█": "#", "λ": "lambda", "±": "+-", "ψ": "psi", "…": "..."}


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """Write what the terminal's encoding lacks in plain letters."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def speak_plainly() -> None:
    """Make sure that no output ever fails for want of a letter, as on a terminal set to ASCII."""
    codecs.register_error("kcagc.plainer", _plainer)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="kcagc.plainer")


def _console(stream: TextIO) -> Console:
    # A file has no width; what a script or a log reads is not to be cut at 80 letters.
    width = None if stream.isatty() or os.environ.get("COLUMNS") else 120
    return Console(file=stream, width=width, highlight=False, markup=True)


def out() -> Console:
    """Give the console for results."""
    return _console(sys.stdout)


def messages() -> Console:
    """Give the console for everything that is not a result."""
    return _console(sys.stderr)


def print_json(value: Any) -> None:
    """Print what a script reads."""
    click.echo(json.dumps(value, indent=2))


@contextmanager
def progress(total: int) -> Iterator[Progress]:
    """Show a bar on stderr while a person watches; it vanishes when the work is done."""
    console = messages()
    console.quiet = not console.is_terminal  # rich would end even a disabled bar with an empty line
    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=console.quiet,
    )
    with shown:
        shown.add_task("", total=total)
        yield shown
