"""`kcagc diagnose`: the conditions of the paper's theory on a dataset, or on one party's own data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.cli.options import (
    FILE,
    JSON,
    PAPER,
    PARTIES,
    WEIGHTING,
    ParameterCommand,
    load_dataset,
    make_model,
    split,
)
from kcagc.cli.roles import CONFIG_NAME
from kcagc.text import printable

if TYPE_CHECKING:
    from kcagc.analysis import Diagnosis, PartyDiagnosis

# The theory is about local clustering: the other run parameters do not matter to it.
_WITHOUT = (
    "n_clusters", "graph", "method", "joint_rows", "virtual_nodes", "fan_in", "aggregator", "max_iter", "n_init"
)  # fmt: skip


_CONFIG_HELP = f"Instead of a dataset: a party's TOML file  [default without a dataset: ./{CONFIG_NAME}]."


@click.command(cls=ParameterCommand, without=_WITHOUT)
@click.argument("dataset", required=False)
@click.option("--config", type=FILE, envvar="KCAGC_CONFIG", help=_CONFIG_HELP)
@click.option("--labels", type=FILE, help="With --config: clusters of all nodes  [default: those of the run].")
@click.option("--found", is_flag=True, help="Diagnose the clusters that kcagc finds, not the known classes.")
@PARTIES
@PAPER
@WEIGHTING
@click.option("--order-constant", type=float, help="Constant in the paper's O(.)  [default: 1].")
@click.option("--enough", type=float, default=100.0, show_default=True, help="Constant c that the theorem requires.")
@click.option("--seed", type=click.IntRange(0, 2**31), help="Seed of local clusters and of --found  [default: 0].")
@JSON
def diagnose(
    dataset: str | None,
    config: Path | None,
    labels: Path | None,
    enough: float,
    seed: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare data with the conditions of the paper's theory (for researchers).

    The conditions are so strict that on real data the answer is nearly always "no guarantee", also when the clusters
    are good. To see the quality of clusters, use kcagc report.

    DATASET is a dataset with known classes; all parties run in this process. With --config, the command reads one
    party's own data and compares them with the clusters of a finished run or, before any run, with the party's own
    clusters. Nothing leaves the machine.
    """
    source = click.get_current_context().get_parameter_source("config")
    if dataset is not None and source is click.core.ParameterSource.ENVIRONMENT:
        config = None  # the variable is set for all commands; the argument is for this one
    if dataset is None and config is None and Path(CONFIG_NAME).is_file():
        config = Path(CONFIG_NAME)
    if (dataset is None) == (config is None):
        raise click.UsageError("give either a dataset (see: kcagc datasets list) or a party's file with --config")
    found: tuple[dict[str, Any], Diagnosis | PartyDiagnosis]
    if config is not None:
        for name, value in given.items():
            if value is not None and value is not False:
                option = f"--{name.replace('_', '-')}"
                raise click.UsageError(f"{option}: only for a dataset; with --config the file sets the parameters")
        found = _diagnose_party(config, labels, enough, seed)
    elif labels is not None:
        raise click.UsageError("--labels: only with --config; a dataset has its own classes, or use --found")
    else:
        found = _diagnose_dataset(str(dataset), seed or 0, enough=enough, **given)
    if as_json:
        terminal.print_json({**found[0], **found[1].as_dict()})
    else:
        _show(*found)


def _diagnose_dataset(
    dataset: str,
    seed: int,
    *,
    parties: int | None,
    found: bool,
    order_constant: float | None,
    enough: float,
    **given: Any,
) -> tuple[dict[str, Any], Diagnosis]:
    from kcagc.analysis import diagnose
    from kcagc.protocol.parameters import RunSettings

    data = load_dataset(dataset)
    tables = split(data, parties)
    method = RunSettings(n_clusters=data.n_classes).method_with_labels(len(tables))
    model = make_model(data, seed, method=method, **given)
    with terminal.steps(dataset, len(tables) + 1 + found) as step:
        if found:
            step("clustering together")
            model.fit(tables, adjacency=data.adjacency)
        constant = 1.0 if order_constant is None else order_constant
        options: Any = {"order_constant": constant, "enough": enough, "progress": step}
        result = diagnose(model, tables, None if found else data.labels, adjacency=data.adjacency, **options)
    return {"dataset": data.name, "compared_with": "found clusters" if found else "known classes"}, result


def _diagnose_party(
    path: Path, labels: Path | None, enough: float, seed: int | None
) -> tuple[dict[str, Any], PartyDiagnosis]:
    from kcagc.analysis import diagnose_party
    from kcagc.analysis.clusters import read_labels
    from kcagc.analysis.diagnosis import settings_with_labels
    from kcagc.deploy.config import Config
    from kcagc.deploy.run import RoleRun
    from kcagc.errors import ParameterError
    from kcagc.graph.filters import SearchedFilter
    from kcagc.protocol.parameters import draw_seed

    config = Config.load(path)
    if config.role != "party":
        raise ParameterError(f"{path}: is the configuration of a coordinator, which has no data to diagnose")
    role_run = RoleRun(config)
    with terminal.steps(config.me, 2) as step:
        step("reading files")
        role_run.check_data()
        data = role_run.data
        if data is None:
            raise ParameterError(f"{path}: has no section [data]")
        if labels is None and role_run.files.labels.exists():
            labels = role_run.files.labels
        target = None if labels is None else read_labels(labels, config.me, data.graph)
        step("filtering, projecting and clustering")
        # If the configuration sets a seed, use it: the party's own clusters are then those of the run.
        fixed = config.document.me.random_state
        drawn = draw_seed(seed if seed is not None else fixed or 0)
        settings = settings_with_labels(config.document.session, config.n_parties)
        if isinstance(data.filter, SearchedFilter):
            data = replace(data, filter=settings.graph_filter())
        parameters = settings.resolve(config.n_parties)
        found = diagnose_party(config.me, data, parameters, target, seed=drawn, enough=enough)
    return {"config": str(path), "compared_with": "own clusters" if labels is None else str(labels)}, found


def _show(title: dict[str, Any], found: Diagnosis | PartyDiagnosis) -> None:
    from rich.markup import escape
    from rich.table import Table

    from kcagc.analysis.conclusions import PURPOSE
    from kcagc.analysis.diagnosis import HEADINGS, LEGEND

    console = terminal.out()
    console.print(f"{PURPOSE}\n")
    subject = title.get("dataset", title.get("config"))
    console.print(f"[bold]{escape(str(subject))}[/], compared with {escape(title['compared_with'])}\n")
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
