"""`kcagc diagnose`: what the paper's theory says about a dataset, or about one party's own data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.cli.settings import FILE
from kcagc.text import printable

if TYPE_CHECKING:
    from kcagc.analysis import Diagnosis, PartyDiagnosis

# What only a dataset needs: a configuration says all of it.
_OF_DATASET = {
    "parties": "--parties",
    "local_clusters": "--local-clusters",
    "psi": "--psi",
    "filter_": "--filter",
    "components": "--components",
    "scaling": "--scaling",
    "unit": "--unit",
    "paper": "--paper",
    "found": "--found",
    "order_constant": "--order-constant",
}


@click.command()
@click.argument("dataset", required=False)
@click.option("--config", type=FILE, envvar="KCAGC_CONFIG", help="Instead of a dataset: a party's TOML file.")
@click.option("--labels", type=FILE, help="With --config: clusters of all nodes  [default: what the run left].")
@click.option("--found", is_flag=True, help="Diagnose the clusters that kcagc finds, not the known classes.")
@click.option("--parties", type=click.IntRange(2, 16), help="Among how many to split the columns  [default: 3].")
@click.option("--local-clusters", metavar="N|Mk", help='Clusters of each party alone: a number, or "2k".')
@click.option("--psi", type=click.IntRange(min=0), help="Order of the graph filter  [default: the paper's].")
@click.option("--filter", "filter_", type=click.Choice(["half", "norm"]), help="Which filter  [default: half].")
@click.option("--components", type=click.IntRange(min=1), help="Singular vectors that each party projects on.")
@click.option("--scaling", type=click.Choice(["unit", "U", "US"]), help="Of projected rows  [default: unit].")
@click.option("--unit", type=float, help="What rows are divided by with --scaling US  [default: 1].")
@click.option("--paper", is_flag=True, help="The paper's configuration; other options change it.")
@click.option("--order-constant", type=float, help="What the paper's O(.) hides  [default: 1].")
@click.option("--enough", type=float, default=100.0, show_default=True, help="The c that the theorem needs.")
@click.option("--seed", type=click.IntRange(0, 2**31), help="Of local clusters and of --found  [default: 0].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def diagnose(
    dataset: str | None,
    config: Path | None,
    labels: Path | None,
    enough: float,
    seed: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Say whether data meet the conditions under which the paper proves its method right, and where they do not.

    DATASET is a dataset with known classes, all of it in this process. With --config it is one party's own data
    alone, seen by the clusters that a run has found, or by its own clusters before any run: nothing leaves the machine.
    """
    source = click.get_current_context().get_parameter_source("config")
    if dataset is not None and source is click.core.ParameterSource.ENVIRONMENT:
        config = None  # a dataset is asked for here and now, and the variable is there for all commands
    if (dataset is None) == (config is None):
        raise click.UsageError(
            "name a dataset (see: kcagc datasets list), or a party's file by --config; one of the two"
        )
    title: dict[str, Any]
    found: Diagnosis | PartyDiagnosis
    if config is not None:
        for name, option in _OF_DATASET.items():
            if given[name] is not None and given[name] is not False:
                raise click.UsageError(f"{option}: is for a dataset; the configuration says how its session runs")
        title, found = _party(config, labels, enough, seed)
    elif labels is not None:
        raise click.UsageError("--labels: goes with --config; a dataset knows its classes, or takes --found")
    else:
        title, found = _dataset(str(dataset), enough, seed or 0, **given)
    if as_json:
        terminal.print_json({**title, **found.as_dict()})
    else:
        _show(title, found)


def _dataset(
    dataset: str,
    enough: float,
    seed: int,
    *,
    parties: int | None,
    found: bool,
    paper: bool,
    order_constant: float | None,
    **given: Any,
) -> tuple[dict[str, Any], Diagnosis]:
    from kcagc.analysis import diagnose
    from kcagc.datasets.catalog import EMBEDDED, entry, load
    from kcagc.estimator import KCAGC

    data = load(dataset, progress=lambda file: click.echo(f"downloading {file}", err=True))
    names = {"local_clusters": "n_local_clusters", "filter_": "filter", "components": "n_components"}
    chosen = {names.get(option, option): value for option, value in given.items() if value is not None}
    chosen.setdefault("psi", 2 if data.name == EMBEDDED else entry(data.name).paper.psi)
    tables = data.parties(parties or (None if data.party_columns else 3))
    model = (KCAGC.paper if paper else KCAGC)(n_clusters=data.n_classes, random_state=seed, **chosen)
    with _steps(dataset, len(tables) + 1 + found) as step:
        if found:
            step("clustering together")
            model.fit(tables, adjacency=data.adjacency)
        result = diagnose(
            model,
            tables,
            None if found else data.labels,
            adjacency=data.adjacency,
            order_constant=1.0 if order_constant is None else order_constant,
            enough=enough,
            progress=step,
        )
    return {"dataset": data.name, "seen_by": "found clusters" if found else "known classes"}, result


def _party(path: Path, labels: Path | None, enough: float, seed: int | None) -> tuple[dict[str, Any], PartyDiagnosis]:
    from kcagc.analysis import diagnose_party
    from kcagc.analysis.clusters import read_labels
    from kcagc.deploy.config import Config
    from kcagc.deploy.run import RoleRun
    from kcagc.errors import ParameterError
    from kcagc.protocol.parameters import draw_seeds

    config = Config.load(path)
    if config.role != "party":
        raise ParameterError(f"{path}: is the configuration of a coordinator, which has no data to diagnose")
    task = RoleRun(config)
    with _steps(config.me, 2) as step:
        step("reading files")
        task.check_data()
        data = task.data
        if data is None:
            raise ParameterError(f"{path}: has no section [data]")
        if labels is None and task.files.labels.exists():
            labels = task.files.labels
        target = None if labels is None else read_labels(labels, config.me, data.graph)
        step("filtering, projecting and clustering")
        # The seed of the run where the configuration fixes one, so that its own clusters are the same.
        fixed = config.document.me.random_state
        drawn, _ = draw_seeds(seed if seed is not None else fixed or 0)
        found = diagnose_party(config.me, data, task.agreement.parameters, target, seed=drawn, enough=enough)
    return {"config": str(path), "seen_by": "own clusters" if labels is None else str(labels)}, found


@contextmanager
def _steps(what: str, total: int) -> Iterator[Any]:
    """Show which step is being done."""
    with terminal.progress(total) as bar:
        task = bar.task_ids[0]
        begun: list[str] = []

        def step(words: str) -> None:
            bar.update(task, description=f"{what}: {words}", completed=len(begun))
            begun.append(words)

        yield step


def _show(title: dict[str, Any], found: Diagnosis | PartyDiagnosis) -> None:
    from rich.markup import escape
    from rich.table import Table

    from kcagc.analysis.conclusions import PURPOSE
    from kcagc.analysis.diagnosis import HEADINGS, LEGEND

    console = terminal.out()
    source = escape(str(title.get("dataset", title.get("config"))))
    console.print(f"{PURPOSE}\n\n[bold]{source}[/], by {escape(title['seen_by'])}\n")
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for line in found.lines():
        table.add_row(*map(escape, line))
    console.print(table)
    console.print(f"\n{LEGEND}")
    for figure in found.figures():
        console.print(escape(figure))
    console.print("\n[bold]Conclusions[/]")
    points = Table.grid(padding=(0, 1, 0, 0))
    for text in found.conclusions:
        points.add_row("-", escape(printable(text, keep="\n")))
    console.print(points)
