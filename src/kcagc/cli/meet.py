"""`kcagc invite` and `kcagc join`: organisations meet at a coordinator, and each makes its own keys."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import ParameterCommand

FOLDER = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The folder of this role  [default: the working directory].",
)


@click.command(cls=ParameterCommand, without=("aggregator",))
@click.argument("federation")
@click.option(
    "--coordinator", required=True, metavar="CODE", help="The admission code of the coordinator, or - to read it."
)
@click.option("--parties", required=True, metavar="NAME,NAME,...", help="The organisations that hold data, yours too.")
@click.option("--hours", type=float, default=24.0, show_default=True, help="How long the invitation is valid.")
@click.option("--n-clusters", type=int, default=5, show_default=True, help="Number of clusters k to find.")
@FOLDER
def invite(federation: str, coordinator: str, parties: str, hours: float, folder: Path, **given: Any) -> None:
    """Invite parties to a new FEDERATION, and print the code with which each of them joins.

    Run this at one of the parties. The operator of the coordinator (kcagc serve) gives you its admission code. Pass the
    printed code on over a channel that outsiders cannot read: with it, anyone can join under the name of a party that
    has not joined yet.
    """
    from kcagc.deploy.interrupts import until_stopped
    from kcagc.federation.codes import Code
    from kcagc.federation.joining import expiry
    from kcagc.federation.joining import invite as open_meeting
    from kcagc.text import listed

    names = [name.strip() for name in parties.split(",") if name.strip()]
    settings = {name: value for name, value in given.items() if value is not None}
    admission = Code.read(_text(coordinator), "admission")
    code, invitation = asyncio.run(
        until_stopped(open_meeting(admission, federation, names, folder, settings=settings, hours=hours)),
    )
    click.echo(code.text())
    terminal.messages().print(
        f"Give this code to {listed(names)}. Until {expiry(invitation)}, each of them (you too) runs: "
        "kcagc join CODE --as NAME",
        soft_wrap=True,
    )


@click.command()
@click.argument("code")
@click.option("--as", "name", required=True, metavar="NAME", help="The name of this party in the invitation.")
@FOLDER
def join(code: str, name: str, folder: Path) -> None:
    """Join a federation with the CODE of an invitation (- reads it from the input).

    The command makes the keys of this party, waits until all invited parties have joined, and writes kcagc.toml.
    After an interruption, run it again in the same folder.
    """
    from rich.markup import escape

    from kcagc.deploy.interrupts import until_stopped
    from kcagc.federation.codes import Code, fingerprint
    from kcagc.federation.joining import join as join_meeting
    from kcagc.text import listed

    messages, shown = terminal.messages(), set[str]()

    def waiting(absent: list[str]) -> None:
        text = f"waiting for {listed(absent)}"
        if text not in shown:
            shown.add(text)
            messages.print(text, soft_wrap=True)

    meeting = join_meeting(Code.read(_text(code), "invitation"), name, folder, on_waiting=waiting)
    joined = asyncio.run(until_stopped(meeting))
    console = terminal.out()
    for participant, key in joined.participants.items():
        console.print(f"{participant:<12} {fingerprint(key)}")
    console.print(f"{'all together':<12} [bold]{joined.fingerprint}[/]")
    console.print(
        "Read the last line to the other parties and the coordinator over the telephone: it must be the same for all.\n"
        f"Written: {escape(str(joined.config))}. Put your data into the folder data there, and run: kcagc check",
        soft_wrap=True,
    )


def _text(code: str) -> str:
    return sys.stdin.read() if code == "-" else code
