"""`kcagc serve`: the coordinator of several federations, for as long as they last. `kcagc runs`: their runs."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import click

from kcagc.cli import terminal
from kcagc.cli.options import JSON
from kcagc.text import printable

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("folder", type=FOLDER)
@click.option("--listen", required=True, envvar="KCAGC_LISTEN", help="Address on which it listens, HOST:PORT.")
@click.option(
    "--address",
    envvar="KCAGC_ADDRESS",
    help="Address at which the parties reach it, HOST:PORT  [default: that of --listen].",
)
@click.option(
    "--metrics",
    envvar="KCAGC_METRICS",
    help="Answer /metrics and /healthz over plain HTTP at this local address, for example 127.0.0.1:9464.",
)
@click.option("--log-json", is_flag=True, help="Write each log line as a JSON object.")
def serve(folder: Path, listen: str, address: str | None, metrics: str | None, *, log_json: bool) -> None:
    """Serve all federations in FOLDER as their coordinator, until it is stopped.

    FOLDER and its keys are made when they are not there. Each federation is a folder FOLDER/federations/NAME with the
    coordinator's kcagc.toml, which a meeting of its parties writes (kcagc invite). Runs of different federations go on
    at the same time; those of one follow each other.
    """
    from kcagc.deploy.interrupts import until_stopped
    from kcagc.federation.folder import StandingFolder, in_use
    from kcagc.federation.hosting import current_federation
    from kcagc.federation.meetings import ADMISSION
    from kcagc.federation.observe import Observer
    from kcagc.federation.service import Service

    place = StandingFolder.open(folder)
    display = terminal.StatusDisplay("serve", as_json=log_json, part=current_federation.get)

    async def work() -> None:
        service = Service(place, listen)
        click.echo(f"listening on {listen.rpartition(':')[0]}:{service.port}")
        click.echo(f"identity of this coordinator: {place.fingerprint}")
        admission = service.meetings.admit(address or f"{_reachable(listen)}:{service.port}")
        click.echo(f"admission code for inviters, who reach it at {admission.address}: {folder / ADMISSION}")
        async with contextlib.AsyncExitStack() as stack:
            if metrics is not None:
                observer = Observer(service, metrics)
                await stack.enter_async_context(await observer.start())
                click.echo(f"metrics: http://{metrics.rpartition(':')[0]}:{observer.port}/metrics")
            await until_stopped(service.run())

    with in_use(folder), display.shown():
        asyncio.run(work())


def _reachable(listen: str) -> str:
    """Return the host of the address, or the name of this machine if it listens on all of its addresses."""
    host = listen.rpartition(":")[0]
    return socket.gethostname() if host in ("0.0.0.0", "[::]") else host  # noqa: S104 - compared, not listened on


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@JSON
def runs(folder: Path, *, as_json: bool) -> None:
    """List the runs of all federations in FOLDER: state, begin, and result or cause."""
    from kcagc.errors import ParameterError
    from kcagc.federation.folder import configurations, is_in_use
    from kcagc.federation.records import RunRecords

    if not (folder / "federations").is_dir():
        raise ParameterError(f"{folder}: is not a folder of kcagc serve; name the folder that contains federations/")
    served = is_in_use(folder)
    found = [
        {"federation": name, **record.shown(served=served)}
        for name, path in configurations(folder).items()
        for record in RunRecords(path.parent / "runs").all()
    ]
    if as_json:
        terminal.print_json(found)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("federation", "run", "state", "since", "result or cause", box=None)
    for one in found:
        table.add_row(*(Text(printable(str(one[name]))) for name in ("federation", "run", "state", "since", "result")))
    terminal.out().print(table if found else "no runs yet")
