"""`kcagc columns`: show the columns of a table, and propose and write a rule for each."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from kcagc.cli import terminal
from kcagc.cli.roles import CONFIG_NAME, FILE, load_config, own_config
from kcagc.text import count, printable, quoted

if TYPE_CHECKING:
    from rich.table import Table

    from kcagc.data.csv_format import CsvFormat
    from kcagc.data.proposal import Proposal, TableProposal
    from kcagc.deploy.config import Config

_FACTS = ("column", "type", "gaps", "levels", "smallest", "median", "largest", "skew", "histogram")
_LEFT_OUT_FIRST = ("skew", "levels", "smallest", "largest", "median", "histogram")  # on a narrow terminal
_GAP = 2  # spaces between two columns
_NAME = 20  # letters of a column's name that stay on one line on a narrow terminal
_BARS = "▁▂▃▄▅▆▇█"
_LISTED = 20  # columns that an error lists
_SHOWN = 60  # columns that are shown; JSON has all
_CONFIG_HELP = f"The party's TOML file; it names the table  [default with --write or without TABLE: ./{CONFIG_NAME}]."


@dataclass
class _Task:
    """The table to look at, how its file is written, and what the configuration says about it."""

    table: Path
    party: str
    csv: CsvFormat
    fixed: frozenset[str]
    id_column: str | None
    given_ids: bool
    config: Config | None = None
    notes: list[str] = field(default_factory=list)


@click.command()
@click.argument("table", required=False, type=FILE)
@click.option("--config", type=FILE, envvar="KCAGC_CONFIG", help=_CONFIG_HELP)
@click.option("--id-column", help="The column that names the nodes.")
@click.option("--delimiter", help="The character between two cells of a CSV file; tab for a tab.")
@click.option("--decimal", help="The decimal sign: . or ,")
@click.option("--thousands", help="What separates groups of three digits: , or . or ' or a space")
@click.option("--encoding", help="The encoding of the file, such as cp1252.")
@click.option("--write", is_flag=True, help="Write the proposed rules into [data] of the configuration.")
@click.option("--replace", is_flag=True, help="With --write: remove the rules that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def columns(
    table: Path | None,
    config: Path | None,
    write: bool,
    replace: bool,
    as_json: bool,
    **given: str | None,
) -> None:
    """Show each column of TABLE and propose a rule for it, with the reason.

    TABLE is a CSV, TSV, Parquet or sparse matrix file; without it, the table of the configuration. For a CSV file, the
    command also proposes how to read it: delimiter, decimal sign, thousands separator and encoding. Nothing is sent.
    With --write, the rules become part of the configuration; a copy of the old file stays in its folder.
    """
    from kcagc.errors import DataError, ParameterError

    task = _task(table, config, given, write=write)
    if replace and not write:
        raise ParameterError("--replace: is for --write")
    found, readings = _propose(task)
    problem: DataError | None = None
    if not readings:
        try:
            _try_rules(task, found)
        except DataError as error:
            problem = error
        if write and task.config is not None:  # before the output, which a pipe may cut off
            _write(task, task.config, found, replace=replace)
    if as_json:
        terminal.print_json(_document(task, found, problem))
    else:
        _show(task, found)
    if write and readings:
        raise ParameterError(f"--write: nothing was written: {readings}")
    if problem is not None:
        note = "No rule settles these problems; correct them in the file:"
        click.echo(f"{note}\n{problem}", err=True)
        sys.exit(problem.exit_code)


def _task(table: Path | None, path: Path | None, given: dict[str, str | None], *, write: bool) -> _Task:
    from kcagc.data.csv_format import CsvFormat
    from kcagc.errors import ParameterError

    if path is None and (table is None or write):
        path = own_config()
    config = None if path is None else load_config(path)
    section = None if config is None else config.document.data
    if config is not None and section is None:
        raise ParameterError(f"{path}: is the configuration of a {config.role}, which has no table")
    if given["delimiter"] in ("tab", "\\t"):
        given["delimiter"] = "\t"
    chosen = {name: one for name, one in given.items() if one is not None and name != "id_column"}
    before = {} if section is None else section.csv().settings()
    wanted: dict[str, Any] = {**before, **chosen}
    csv = CsvFormat(**wanted).checked("--")
    own = None if section is None else section.id_column
    ids = given["id_column"] if given["id_column"] is not None else own
    if config is None or section is None:
        return _Task(_existing(table), "", csv, frozenset(chosen), ids, given["id_column"] is not None)
    features = table if table is not None else config.file(section.features)
    return _Task(
        _existing(features), config.me, csv, frozenset({*before, *chosen}), ids, given["id_column"] is not None, config
    )


def _existing(table: Path | None) -> Path:
    return Path() if table is None else table


def _propose(task: _Task) -> tuple[TableProposal, str]:
    """Return the proposal, and a question that must be answered before it can be written."""
    from dataclasses import replace

    from kcagc.data.detect import detect_format
    from kcagc.data.files import MATRICES, TABLES, InputFile
    from kcagc.data.profile import profile_file
    from kcagc.data.proposal import likely_ids, nearly_ids, propose_matrix, propose_table
    from kcagc.errors import DataError, ParameterError

    file = InputFile.named(task.table, task.party, (*TABLES, *MATRICES), task.csv)
    if file.kind in MATRICES:
        from kcagc.data.matrices import read_matrix

        task.id_column = None
        return propose_matrix(read_matrix(file), absent=_absent_nodes(task)), ""
    question = ""
    with terminal.steps(task.party or task.table.name, 2) as step:
        if file.kind != "parquet":
            step("finding out how the file is written")
            detected = detect_format(file, given=task.csv, fixed=task.fixed)
            task.csv, task.notes = detected.csv, detected.notes
            question = detected.notes[-1] if detected.readings else ""
            file = replace(file, csv=task.csv)
        step("reading columns")
        profiles = profile_file(file, lambda rows: step(f"reading columns: {rows:,} rows", new=False))
    names = [one.name for one in profiles]
    likely = likely_ids(profiles)
    shown = ", ".join(map(quoted, names[:_LISTED])) + (", ..." if len(names) > _LISTED else "")
    if task.id_column is None and (near := nearly_ids(profiles)) is not None:
        task.notes.append(
            f"{near.name!r} looks like the ids, but {count(near.n_rows - near.n_levels, 'row')} repeat an id or have "
            f"none: --id-column {near.name!r} names their lines"
        )
    if task.id_column is None and task.config is None:
        task.id_column = likely if len(names) > 1 else None
    elif task.id_column is not None and task.id_column not in names:
        named = f"there are {shown}: name one with --id-column"
        advice = f"{likely!r} has a different value in every row: --id-column '{likely}'" if likely else named
        message = f"{task.table}: there is no column {task.id_column!r} with the ids of the nodes; {advice}"
        if task.given_ids or likely is None:
            raise ParameterError(message) if task.given_ids else DataError(message, party=task.party)
        task.notes.append(message)
        task.id_column, question = likely, message
    if names == [task.id_column]:
        raise DataError(f"{task.table}: there are no columns but {task.id_column!r}, the ids", party=task.party)
    return propose_table(profiles, task.id_column, absent=_absent_nodes(task)), question


def _absent_nodes(task: _Task) -> int:
    """Count the nodes that take part but have no row in the table; problems of the files are found elsewhere."""
    from kcagc.data.node_lists import graph_nodes, read_ids, table_ids
    from kcagc.errors import KcagcError

    config = task.config
    section = None if config is None else config.document.data
    if config is None or section is None or not section.graph:
        return 0
    files = config.data_files(section)
    try:
        own = table_ids(
            task.table, party=task.party, id_column=task.id_column, feature_ids=files["feature_ids"], csv=task.csv
        )
        if section.node_list is not None:
            nodes = read_ids(files["node_list"], party=task.party)
        else:
            wanted = ("graph", "source", "target", "graph_ids", "graph_csv")
            nodes = graph_nodes(**{name: files[name] for name in wanted}, party=task.party)
        known = set(map(str, own.tolist()))
        absent = sum(str(node) not in known for node in nodes.tolist())
    except KcagcError:
        return 0
    if absent and section.node_list is None:
        task.notes.append(
            f"{absent:,} of {len(nodes):,} nodes of the graph have no row in this table. To cluster them, too, write "
            f"their list and set node_list to it: kcagc nodes all --config {config.path} --output nodes.csv"
        )
    elif absent:
        task.notes.append(f"{absent:,} of {len(nodes):,} nodes of the node list have no row in this table")
    return absent if absent < len(nodes) else 0


def _try_rules(task: _Task, found: TableProposal) -> None:
    """Read the table by the proposed rules and fit them; an error is about what no rule settles."""
    from kcagc.data.files import MATRICES, TABLES, InputFile
    from kcagc.data.table_files import read_features

    rules = found.rules()
    matrix = InputFile.named(task.table, task.party, (*TABLES, *MATRICES)).kind in MATRICES
    table = read_features(
        task.table,
        party=task.party,
        id_column=None if matrix else task.id_column,
        schema=rules.schema(),
        csv=task.csv,
    )
    rules.fit(table)


def _write(task: _Task, config: Config, found: TableProposal, *, replace: bool) -> None:
    from kcagc.deploy.edit import change_data, rules_block

    section = config.document.data
    if section is None:
        return
    settings: dict[str, Any] = {
        name: value for name, value in task.csv.settings().items() if section.csv().settings().get(name) != value
    }
    if task.id_column is not None and task.id_column != section.id_column:
        settings["id_column"] = task.id_column
    if task.table.resolve() != config.file(section.features).resolve():
        settings["features"] = str(task.table.resolve())
    rules, default = found.rules().columns, found.default
    reasons = {one.profile.name: one.reason for one in found.columns} | {"": found.reason}
    rows = f", {found.columns[0].profile.n_rows:,} rows" if found.columns else ""
    block = rules_block(f"({date.today().isoformat()}{rows})", rules, reasons, default)
    kept = change_data(config.path, settings, rules, default, block=block, replace=replace)
    click.echo(
        f"wrote {len(rules) + bool(default.settings()):,} rules to {config.path}; the old file is {kept.name}", err=True
    )
    if config.document.predict is not None and task.csv.settings():
        click.echo("note: [predict] has settings of its own for how its files are written", err=True)


def _document(task: _Task, found: TableProposal, problem: Any) -> dict[str, Any]:
    from kcagc.deploy.edit import rule_settings

    return {
        "table": str(task.table),
        "id_column": task.id_column,
        "csv": task.csv.settings(),
        "notes": task.notes,
        "default": rule_settings(found.default) if found.default.settings() else {},
        "columns": [one.as_dict() for one in found.columns],
        "problems": [] if problem is None else list(problem.problems) or [{"kind": "table", "do": str(problem)}],
    }


def _show(task: _Task, found: TableProposal) -> None:
    from rich.markup import escape
    from rich.table import Table

    from kcagc.deploy.edit import toml_value

    console = terminal.out()
    rows = f"{found.columns[0].profile.n_rows:,} rows, {len(found.columns):,} columns" if found.columns else "a matrix"
    ids = f", ids in {task.id_column!r}" if task.id_column is not None else ""
    console.print(f"[bold]{escape(str(task.table))}[/]: {rows}{escape(ids)}", soft_wrap=True)
    written = ", ".join(f"{name} = {toml_value(value)}" for name, value in task.csv.settings().items())
    if written:
        console.print(f"How the file is written: {escape(written)}")
    if found.columns:
        console.print(_facts_table([_facts(one) for one in found.columns[:_SHOWN]], console.width))
        console.print("\n[bold]Proposed rules[/]")
        rules = Table(box=None, pad_edge=False, show_header=True)
        widest = max(len(one.profile.name) for one in found.columns[:_SHOWN])
        rules.add_column("column", overflow="fold", min_width=min(widest, _NAME))
        for heading in ("rule", "reason"):
            rules.add_column(heading, overflow="fold")
        for one in found.columns[:_SHOWN]:
            rules.add_row(escape(printable(one.profile.name)), escape(printable(_rule(one.rule))), escape(one.reason))
        console.print(rules)
    if len(found.columns) > _SHOWN:
        console.print(f"... and {len(found.columns) - _SHOWN:,} more columns; --json shows all")
    if found.reason:
        console.print(f"default: {escape(_rule(found.default))}  ({escape(found.reason)})")
    for note in task.notes:
        console.print(f"[yellow]note[/]  {escape(note)}", soft_wrap=True)


def _facts_table(rows: list[tuple[str, ...]], width: int) -> Table:
    """Return the table of facts; on a narrow terminal, some facts are left out before names are cut into pieces."""
    from rich.cells import cell_len
    from rich.markup import escape
    from rich.table import Table

    cells = [tuple(printable(cell) for cell in row) for row in rows]
    widths = {column[0]: max(map(cell_len, column)) for column in zip(_FACTS, *cells, strict=True)}
    widths[_FACTS[0]] = min(widths[_FACTS[0]], _NAME)
    shown = list(_FACTS)
    for unneeded in _LEFT_OUT_FIRST:
        if sum(widths[heading] + _GAP for heading in shown) - _GAP <= width:
            break
        shown.remove(unneeded)
    table = Table(box=None, pad_edge=False)
    for heading in shown:
        how: Literal["left", "right"] = "left" if heading in ("column", "type", "histogram") else "right"
        first = heading == _FACTS[0]
        table.add_column(
            heading, justify=how, overflow="fold", no_wrap=not first, min_width=widths[heading] if first else None
        )
    for row in cells:
        table.add_row(*(escape(row[_FACTS.index(heading)]) for heading in shown))
    return table


def _rule(rule: Any) -> str:
    from kcagc.deploy.edit import toml_value

    settings = {name: list(one) if isinstance(one, tuple) else one for name, one in rule.settings().items()}
    return ", ".join(f"{name} = {toml_value(one)}" for name, one in settings.items()) or "as it is"


def _facts(one: Proposal) -> tuple[str, ...]:
    from kcagc.text import number, percent

    found = one.as_dict()
    share = percent(one.n_missing / max(one.profile.n_rows, 1)) if one.n_missing else "–"
    levels = f"{one.n_levels:,}" + ("+" if one.profile.many_texts else "")
    if "median" not in found:
        return (one.profile.name, one.type, share, levels, "", "", "", "", _bars(found["histogram"]))
    numbers = (number(found[name]) for name in ("smallest", "median", "largest"))
    return (one.profile.name, one.type, share, levels, *numbers, f"{found['skew']:.1f}", _bars(found["histogram"]))


def _bars(counts: list[int]) -> str:
    most = max(counts, default=0)
    return "".join(_BARS[-(-one * (len(_BARS) - 1) // most)] if one else " " for one in counts) if most else ""
