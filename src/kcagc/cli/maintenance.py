"""Commands for one role outside of a run: `kcagc check`, `kcagc nodes`, `kcagc report` and `kcagc forget`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kcagc.cli import terminal
from kcagc.cli.roles import FILE, WITH_DATA, load_config, options


@click.command()
@options(*WITH_DATA)
@click.option("--model", type=FILE, envvar="KCAGC_MODEL", help="Check for a prediction with this model.")
@click.option("--offline", is_flag=True, help="Do not connect to the aggregator.")
@click.option(
    "--disclosure",
    is_flag=True,
    help="Check nothing else; print what the run discloses, in plain words (Markdown), for a data protection officer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def check(config: Path, model: Path | None, offline: bool, disclosure: bool, as_json: bool, **given: Any) -> None:
    """Validate configuration, keys, certificates, policy, data and connectivity.

    No data leave this machine. The exit code is that of the first error. With --disclosure, the command reads the
    configuration only and prints one page: what each role learns, what stays hidden, and what was accepted by name. To
    keep the page, write: kcagc check --disclosure > disclosure.md
    """
    from rich.markup import escape

    from kcagc.deploy.agreed import agreed
    from kcagc.deploy.checks import run_checks
    from kcagc.deploy.run import RoleRun
    from kcagc.disclosure.page import describe_run
    from kcagc.protocol.plan import outline

    own = agreed(load_config(config, predicting=model is not None, **given), "fit" if model is None else "predict")
    role_run = RoleRun(own) if model is None else RoleRun.predict(own, model)
    if disclosure:
        page = describe_run(outline(role_run.agreement), own.me, own.policy().accept)
        if as_json:
            terminal.print_json(page.as_dict())
        else:
            click.echo(page.as_markdown(), nl=False)
        return
    console, findings = terminal.out(), []
    if not as_json:
        participants = ", ".join(one.name for one in own.document.participants)
        console.print(f"[bold]{escape(own.me)}[/] ({own.role}); all participants: {participants}")
    slow = terminal.SlowStep({"labels": "clustering locally, and measuring what the local labels would reveal"})
    for finding in run_checks(role_run, connect=not offline, begin=slow.begin):
        slow.end()
        findings.append(finding)
        if not as_json:
            mark = "[green]ok   [/]" if finding.ok else "[red]error[/]"
            message = finding.message.replace("\n", f"\n{'':<6}")
            console.print(f"{mark} {finding.check:<12} {escape(message)}", soft_wrap=True)
            for warning in finding.warnings:
                console.print(f"[yellow]note [/] {'':<12} {escape(warning)}", soft_wrap=True)
    if as_json:
        terminal.print_json([finding.as_dict() for finding in findings])
    errors = [finding.error for finding in findings if finding.error is not None]
    if errors:
        sys.exit(errors[0].exit_code)


@click.group()
def nodes() -> None:
    """Make a list of nodes for `node_list` in every configuration: all nodes of the graph, or those that all have."""


@nodes.command(name="all")
@options("config", "graph")
@click.option("--output", type=FILE, required=True, help="CSV file of one column to write.")
def all_(config: Path, output: Path, **given: Any) -> None:
    """Write the list of all nodes of the graph.

    All parties have the same graph, so the list discloses nothing: each party can make it alone. A node without a row
    in a party's table gets a row of missing values there, which the rules for its columns fill in.
    """
    from kcagc.data.node_lists import graph_nodes, write_ids
    from kcagc.errors import ParameterError

    own = load_config(config, **given)
    section = own.document.data
    if section is None:
        raise ParameterError(f"{config}: is the configuration of a {own.role}, which has no graph")
    files = own.data_files(section)
    wanted = ("graph", "source", "target", "graph_ids", "graph_csv")
    found = graph_nodes(**{name: files[name] for name in wanted}, party=own.me)
    write_ids(output, found)
    click.echo(
        f"{output}: all {len(found):,} nodes of the graph. Set node_list to this file in [data] of {config}", err=True
    )


@nodes.command()
@options("config", "features", "graph")
@click.option("--output", type=FILE, required=True, help="CSV file of one column to write.")
def have(config: Path, output: Path, **given: Any) -> None:
    """Write the list of the graph's nodes that this party's table has.

    Nothing is sent. The list shows for which nodes of the graph this organisation has a row, for example which people
    are its customers. Give it to the other parties only if you may, and do not give it to the coordinator. Rows of
    nodes that are not in the graph are not listed.
    """
    from kcagc.data.node_lists import present_nodes, write_ids
    from kcagc.errors import ParameterError

    own = load_config(config, **given)
    section = own.document.data
    if section is None:
        raise ParameterError(f"{config}: is the configuration of a {own.role}, which has no table")
    if section.graph is None:
        raise ParameterError(
            f"{config}: the run has no graph, so this list would hold all ids of {own.me}. Find the common ids with "
            "`kcagc match`, which hides all others, and name its list as node_list in [data]"
        )
    files = own.data_files(section)
    del files["weight"], files["node_list"]
    found = present_nodes(**files, party=own.me)
    write_ids(output, found)
    click.echo(f"{output}: {len(found):,} nodes of the graph that {own.me} has. The file discloses them.", err=True)


@nodes.command()
@click.argument("lists", nargs=-1, required=True, type=FILE)
@click.option("--output", type=FILE, required=True, help="CSV file of one column to write.")
def common(lists: tuple[Path, ...], output: Path) -> None:
    """Write the list of nodes that are in all LISTS, which the parties wrote with `kcagc nodes have`."""
    from kcagc.data.node_lists import common_nodes, write_ids
    from kcagc.errors import ParameterError

    if len(lists) < 2:
        raise ParameterError("LISTS: give the list of every party, two or more")
    found = common_nodes(lists)
    write_ids(output, found)
    click.echo(f"{output}: {len(found):,} nodes that are in all {len(lists)} lists", err=True)


@click.command()
@click.argument("folder", metavar="RUN_DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--labels", type=FILE, help="Known labels of some or all nodes: .csv, .tsv or .parquet.")
@click.option("--id-column", default="id", show_default=True, help="Column of --labels with the node ids.")
@click.option("--label-column", default="label", show_default=True, help="Column of --labels with the classes.")
def report(folder: Path, labels: Path | None, id_column: str, label_column: str) -> None:
    """Write report.html in RUN_DIR, the result folder of a finished run.

    The page needs no network. It shows the clusters and what distinguishes them, a map, links, quality, rounds,
    traffic, the disclosure ledger in plain words, and the configuration. With --labels it compares the clusters with
    known classes; quality.json keeps the comparison, and later reports show it.
    """
    from rich.markup import escape

    from kcagc.report.insights.quality import compare_with_known
    from kcagc.report.page import write_page

    if labels is not None:
        compare_with_known(folder, labels, id_column=id_column, label_column=label_column)
    path = write_page(folder)
    terminal.out().print(f"[bold]{escape(str(path))}[/]", soft_wrap=True)


@click.command()
@options("config", "output", "state")
def forget(config: Path, **given: Any) -> None:
    """Erase the folder of journals: session keys, messages, own rows, local labels, and the record of sessions.

    An interrupted run cannot be resumed afterwards. A later session with the same data sends other local labels, from
    which the other parties learn more. Results and ledgers stay.
    """
    from kcagc.deploy.finished import forget_journals

    erased = forget_journals(load_config(config, **given))
    for path in erased:
        click.echo(f"erased {path}")
    if not erased:
        click.echo("there is no journal", err=True)
