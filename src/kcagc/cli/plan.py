"""`kcagc plan`: what a run will need, from its sizes alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import JSON, ParameterCommand
from kcagc.text import count, decimal, seconds, size

if TYPE_CHECKING:
    from kcagc.planning.forecast import Forecast
    from kcagc.planning.traffic import Task

_WITHOUT = ("n_clusters", "scaling", "unit", "virtual_nodes", "min_local_size", "graph")  # they change no cost
_MOST = 10**12


def _whole(text: str) -> int:
    """Return a whole number, also written as 1e9 or 1_000_000."""
    try:
        found = float(text.replace(",", "").replace("_", ""))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number; write for example 1000000 or 1e6") from error
    if not 1 <= found <= _MOST or found != int(found):
        raise click.BadParameter(f"{text!r} is not a whole number from 1 to {_MOST:,}")
    return int(found)


@click.command(cls=ParameterCommand, without=_WITHOUT)
@click.option("--nodes", type=_whole, metavar="N", required=True, help="Number of nodes, such as 1e6.")
@click.option("--edges", type=_whole, metavar="N", required=True, help="Number of edges.")
@click.option("--columns", type=_whole, metavar="N", required=True, help="Number of columns of the party with most.")
@click.option("--parties", type=click.IntRange(2, 64), default=2, show_default=True, help="Number of parties.")
@click.option("--n-clusters", type=click.IntRange(1), required=True, help="Number of clusters k.")
@click.option(
    "--cells", type=_whole, metavar="N", help="Methods with local clusters: number of cells  [default: assumed]."
)
@click.option(
    "--latency", type=click.FloatRange(0), default=10.0, show_default=True, help="Milliseconds of a message, one way."
)
@click.option(
    "--bandwidth", type=click.FloatRange(0.001), default=100.0, show_default=True, help="Megabits per second of a link."
)
@click.option("--cores", type=click.IntRange(1), help="Cores of each machine  [default: those of this machine].")
@click.option("--memory", type=click.FloatRange(0.1), help="Memory of a party's machine in GB  [default: this one's].")
@click.option("--one-machine", is_flag=True, help="All roles run on one machine.")
@click.option("--measure", is_flag=True, help="Measure in seconds how fast this machine is, and adapt the times.")
@JSON
def plan(
    nodes: int,
    edges: int,
    columns: int,
    parties: int,
    n_clusters: int,
    cells: int | None,
    latency: float,
    bandwidth: float,
    cores: int | None,
    memory: float | None,
    one_machine: bool,
    measure: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Predict time, bytes and memory of a run from its sizes alone, and which engine to take.

    The command reads no data and opens no connection. Bytes are counted message by message, as the protocol sends
    them. Time and memory come from coefficients that were fitted to measured runs.
    """
    from kcagc.planning.forecast import Link, forecast
    from kcagc.planning.model import calibrate, coefficients
    from kcagc.planning.traffic import Task
    from kcagc.protocol.parameters import RunSettings

    chosen = {name: value for name, value in given.items() if value is not None}
    settings = RunSettings.read({"n_clusters": n_clusters, **chosen})
    parameters = settings.resolve(parties)
    parameters.check()
    task = Task(nodes, edges, columns, parties, parameters, cells)
    task.check()
    faster = calibrate() if measure else None
    room = memory * 1e9 if memory is not None else float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    link = Link() if one_machine else Link(latency / 1e3, bandwidth * 1e6 / 8)
    found = forecast(task, link, cores=cores or os.cpu_count() or 1, memory=room, faster=faster, together=one_machine)
    if as_json:
        known = coefficients()
        shown = {"method": parameters.method, **found.as_dict(), "slower_than_coefficients": faster}
        terminal.print_json(shown | {"coefficients": {"commit": known.commit, "machine": known.machine}})
    else:
        _show(task, found, faster, str(settings.choose_method(parties)))


def _show(task: Task, found: Forecast, faster: dict[str, float] | None, method: str) -> None:
    from rich.table import Table

    from kcagc.planning.model import coefficients
    from kcagc.planning.traffic import cells

    console, parameters = terminal.out(), task.parameters
    size_of_run = (
        f"{count(task.nodes, 'node')}, {task.edges:,} edges, {task.parties} parties with {task.columns:,} columns"
    )
    console.print(f"{size_of_run}, k = {parameters.n_clusters}", soft_wrap=True)
    console.print(f"method: {method}", soft_wrap=True, markup=False)
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(("", "computes", "sends", "receives", "memory")):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    for one in found.roles:
        name = one.name if one.count == 1 or one.name.startswith("every") else f"{one.name} ({one.count})"
        table.add_row(name, seconds(one.seconds), size(one.sent), size(one.received), size(one.memory))
    console.print(table)
    console.print(
        f"[bold]About {seconds(found.seconds)}[/] from the connection of all roles to the labels, of which "
        f"{seconds(found.of_network)} are the network: {found.delays:,} delays in a row, {found.sums:,} secure sums. "
        "Reading the files comes before it.",
        soft_wrap=True,
    )
    console.print(f"engine: {found.engine}, because {found.reason}", soft_wrap=True, markup=False)
    if parameters.has_local_clusters:
        children = min(task.parties, parameters.fan_in) if parameters.method == "tree" else task.parties
        source = "as given" if task.cells is not None else "assumed; give --cells if you know better"
        console.print(f"cells: {cells(task, children):,} ({source})", soft_wrap=True)
    known = coefficients()
    if faster is None:
        console.print(
            f"Times are for a machine like {known.machine}; --measure adapts them to this one.", soft_wrap=True
        )
    else:
        words = {"near": "products in the cache", "far": "products beyond it", "algebra": "all else"}
        factors = ", ".join(f"{words[name]} {decimal(value)} ×" for name, value in faster.items())
        console.print(f"This machine takes, compared with {known.machine}: {factors}", soft_wrap=True)
