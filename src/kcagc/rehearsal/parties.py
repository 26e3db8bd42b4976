"""Who takes part in a rehearsal: parties from their configurations, from tables, or from the columns of one table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from kcagc.data.csv_format import CsvFormat
from kcagc.data.detect import detect_format
from kcagc.data.files import MATRICES, TABLES, InputFile
from kcagc.data.parquet import pyarrow_for
from kcagc.data.party_files import PartyInput, read_party
from kcagc.data.preprocessing import ColumnRule, TableRules
from kcagc.data.table import Wanted
from kcagc.data.table_files import read_features, read_table
from kcagc.deploy.config import Config
from kcagc.deploy.edit import toml_value
from kcagc.deploy.run import RoleRun
from kcagc.disclosure import Policy
from kcagc.errors import AgreementError, DataError, ParameterError
from kcagc.graph.ids import NodeIds
from kcagc.protocol.agreement import graph_digest
from kcagc.secagg.masks import MAX_PARTIES
from kcagc.simulation import COORDINATOR
from kcagc.text import count, listed, quoted

ID_COLUMN = "id"  # of a table without a configuration, if it has such a column
_SHOWN = 3
_AS_OPTIONS = (
    "rules on the command line: --categorical COLUMN, --drop COLUMN, --missing and --scale; for others, such as "
    "missing_values, write a configuration, and give it with --config"
)


@dataclass(frozen=True, eq=False)
class Parties:
    """The parties of a rehearsal: their tables and graphs, their policies, and the settings that they agreed on.

    `session` holds the settings of the configurations (none for tables). `notes` say in sentences what a user should
    know. `classes` holds the known class of each node, None for a node without one.
    """

    inputs: dict[str, PartyInput]
    policies: dict[str, Policy]
    session: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    classes: list[str | None] | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise ParameterError(
                f"only {listed(list(self.inputs))} takes part, and a run needs two parties or more: give another "
                "--config or --table, or rehearse with the columns of this one party in two parts: --split 2"
            )
        if len(self.inputs) > MAX_PARTIES:
            raise ParameterError(f"{len(self.inputs)} parties, but a run has at most {MAX_PARTIES}")

    @property
    def names(self) -> list[str]:
        """The names of the parties, in the order of the run."""
        return list(self.inputs)

    @property
    def first(self) -> PartyInput:
        """The input of the first party, whose nodes are those of all parties."""
        return next(iter(self.inputs.values()))

    def accepting(self, names: Iterable[str]) -> Parties:
        """Return the same parties, all of which accept these risks too."""
        accepted = {party: Policy([*policy.accept, *names]) for party, policy in self.policies.items()}
        return replace(self, policies=accepted)

    def with_classes(self, path: Path, id_column: str, class_column: str) -> Parties:
        """Return the same parties with the known classes of their nodes from a file."""
        ids = self.first.graph.ids
        nodes = NodeIds.numbered(self.first.graph.n_nodes) if ids is None else ids
        known = read_table(path, Wanted((id_column, class_column), None, True, "other"), party="classes")
        known.node_ids(id_column)  # a node with two classes is an error
        pairs = zip(map(str, known.keys[id_column]), map(str, known.keys[class_column]), strict=True)
        by_node = dict(pairs)
        values = nodes.values if isinstance(nodes.values, list) else nodes.values.tolist()
        found = [by_node.get(str(node)) or None for node in values]
        have = sum(one is not None for one in found)
        if not have:
            raise DataError(
                f"{path}: column {id_column!r} has none of the ids of the {count(len(nodes), 'node')} (such as "
                f"{quoted(values[0])}); give the ids that the tables have, or another --class-id-column"
            )
        notes = [] if have == len(nodes) else [f"{path} has a class for {have:,} of {count(len(nodes), 'node')}."]
        return replace(self, classes=found, notes=[*self.notes, *notes])


# From configurations


def from_configs(paths: Sequence[Path], *, parts: int | None, changed: Iterable[str]) -> Parties:
    """Read the configurations of parties, and their tables as `kcagc party` reads them.

    `changed` names the settings that the command line replaces, which the files need not agree on. `parts` is the
    number of parts that the columns of a single party are split into.
    """
    configs = [Config.load(path) for path in paths]
    _check_same_session(configs, set(changed))
    own = [one for one in configs if one.role == "party"]
    notes = [
        f"{one.path} is the configuration of {one.me}, a coordinator, which has no table. The rehearsal runs a "
        "coordinator of its own."
        for one in configs
        if one.role != "party"
    ]
    if not own:
        raise ParameterError(
            f"{configs[0].path}: is the configuration of a coordinator, which has no table; give those of parties"
        )
    twice = [one for number, one in enumerate(own) if one.me in [other.me for other in own[:number]]]
    if twice:
        first = next(one for one in own if one.me == twice[0].me)
        raise ParameterError(f"{first.path} and {twice[0].path}: both are the configuration of {twice[0].me}")
    every = [one.name for one in own[0].document.participants if one.role == "party"]
    own.sort(key=lambda one: every.index(one.me))
    inputs: dict[str, PartyInput] = {}
    for one in own:
        found = RoleRun(one).input
        if found is not None:
            inputs[one.me] = found
    policies = {one.me: one.policy() for one in own}
    absent = [name for name in every if name not in inputs]
    if parts is not None:
        inputs, more = _split(inputs, parts)
        notes += more
        policies = dict.fromkeys(inputs, own[0].policy())
    elif absent:
        notes.append(
            f"{listed(absent)} {'takes' if len(absent) == 1 else 'take'} part in the run, but not in this rehearsal: "
            "no configuration was given."
        )
    session = msgspec.structs.asdict(own[0].document.session)
    _check_same_nodes(inputs, shared=session["graph"] == "shared")
    return Parties(inputs, policies, session, notes)


def _check_same_session(configs: Sequence[Config], changed: set[str]) -> None:
    """Raise an error that names both files if they differ in what all roles must agree on."""
    first = configs[0]
    own = msgspec.structs.asdict(first.document.session)
    for other in configs[1:]:
        theirs = msgspec.structs.asdict(other.document.session)
        differing = [name for name in own if own[name] != theirs[name] and name not in changed]
        if differing:
            each = [f"{name} is {own[name]!r} in the first and {theirs[name]!r} in the second" for name in differing]
            options = listed([f"--{name.replace('_', '-')}" for name in differing if name != "graph"], last="or")
            instead = f", or give {options}, which replaces both" if options else ""
            raise AgreementError(
                f"{first.path} and {other.path}: the section [session] differs: {'; '.join(each)}. A run between "
                f"organisations ends here. Write the same value in both files{instead}"
            )
        lists = [[(one.name, one.role) for one in config.document.participants] for config in (first, other)]
        if lists[0] != lists[1]:
            names = [listed([name for name, _ in one]) for one in lists]
            raise AgreementError(
                f"{first.path} and {other.path}: the participants differ: {names[0]} in the first, {names[1]} in the "
                "second. A run between organisations ends here. List the same participants, in the same order"
            )


# From tables


@dataclass(frozen=True)
class TableFiles:
    """Tables and a graph on the command line, and how their columns are read and become numbers."""

    tables: Sequence[Path]
    graph: Path
    id_column: str | None = None
    source: str = "source"
    target: str = "target"
    weight: str | None = None
    node_list: Path | None = None
    default: ColumnRule = field(default_factory=ColumnRule)
    categorical: Sequence[str] = ()
    drop: Sequence[str] = ()


def from_tables(files: TableFiles, *, parts: int | None, accept: Iterable[str]) -> Parties:
    """Read a table for each party, which is called after its file."""
    names, notes = _names_of(files.tables), list[str]()
    written = {name: _written(path, name, notes) for name, path in zip(names, files.tables, strict=True)}
    headers = {name: _header(path, name, written[name]) for name, path in zip(names, files.tables, strict=True)}
    _check_ruled_columns(files, [column for header in headers.values() for column in header or ()])
    graph_written, inputs = _written(files.graph, "graph", notes), {}
    for name, path in zip(names, files.tables, strict=True):
        header = headers[name]
        rules = _rules(files, header or ())
        id_column = files.id_column if header is not None else None
        if id_column is None and header is not None and ID_COLUMN in header:
            id_column = ID_COLUMN
            notes.append(f"The column {ID_COLUMN!r} of {path} holds the ids of the nodes.")
        elif id_column is None:
            notes.append(
                f"{path} has no column {ID_COLUMN!r}, and --id-column is not given: its rows are called 0, 1, 2, ..., "
                "in the order of the file."
            )
        try:
            inputs[name] = read_party(
                path,
                files.graph,
                party=name,
                id_column=id_column,
                source=files.source,
                target=files.target,
                weight=files.weight,
                node_list=files.node_list,
                rules=rules,
                csv=written[name],
                graph_csv=graph_written,
            )
        except DataError as error:
            hints = [_AS_OPTIONS] if _is_about_columns(path, name, id_column, rules, written[name]) else []
            if header and id_column is None:
                hints.append(f"{path} has no column {ID_COLUMN!r}; --id-column names the one with the ids")
            raise DataError(f"{error} ({'. '.join(hints)})" if hints else str(error)) from error
    if parts is not None:
        inputs, more = _split(inputs, parts)
        notes += more
    _check_same_nodes(inputs, shared=True)
    return Parties(inputs, {name: Policy(accept) for name in inputs}, notes=notes)


def _written(path: Path, party: str, notes: list[str]) -> CsvFormat:
    """Find out how a text file is written; add a note if it is not as usual."""
    file = InputFile.named(path, party, (*TABLES, *MATRICES))
    if file.kind not in ("csv", "tsv") or not path.is_file():
        return CsvFormat()
    detected = detect_format(file, given=CsvFormat())
    if settings := detected.csv.settings():
        how = ", ".join(f"{name} = {toml_value(value)}" for name, value in settings.items())
        where = "graph_csv in [data] holds" if party == "graph" else "[data] holds"
        notes.append(f"{path} is read with {how}. In a configuration, {where} these settings.")
    notes += [f"{path}: {one}" for one in detected.notes]
    return detected.csv


def _is_about_columns(path: Path, party: str, id_column: str | None, rules: TableRules, csv: CsvFormat) -> bool:
    """Return whether the columns of a table do not fit its rules, as options could settle."""
    if not path.exists():
        return False
    try:
        read_features(path, party=party, id_column=id_column, schema=rules.schema(), csv=csv)
    except DataError:
        return True
    return False


def _names_of(paths: Sequence[Path]) -> list[str]:
    """Return a name for each table: that of its file."""
    names = [path.name.split(".")[0] for path in paths]
    for number, name in enumerate(names):
        if name in names[:number]:
            first = paths[names.index(name)]
            raise ParameterError(f"--table: {first} and {paths[number]} would both be the party {name}; rename a file")
        if name == COORDINATOR:
            raise ParameterError(f"--table: {paths[number]}: a party cannot be called {COORDINATOR}; rename the file")
    return names


def _header(path: Path, party: str, written: CsvFormat) -> list[str] | None:
    """Return the columns of a table; None for a matrix, which has no names."""
    file = InputFile.named(path, party, (*TABLES, *MATRICES), written)
    if file.kind in MATRICES:
        return None
    if file.kind == "parquet":
        with file.opened() as stream:
            return [str(name) for name in pyarrow_for(path)[1].read_schema(stream).names]
    with file.lines() as lines:  # the reader of the table reports what is wrong with it
        return next(csv.reader(lines, delimiter=file.delimiter), [])


def _check_ruled_columns(files: TableFiles, columns: Sequence[str]) -> None:
    for option, named in (("--categorical", files.categorical), ("--drop", files.drop)):
        for name in named:
            if name not in columns:
                shown = listed([quoted(one) for one in dict.fromkeys(columns)], 12)
                raise ParameterError(f"{option}: no table has a column {name!r}; there are {shown}")


def _rules(files: TableFiles, header: Iterable[str]) -> TableRules:
    """Return the rules of a table: those for columns that it has."""
    here = set(header)
    kinds: dict[str, Any] = dict.fromkeys(files.categorical, "categorical") | dict.fromkeys(files.drop, "drop")
    columns = {}
    for name, kind in kinds.items():
        if name in here:
            missing = files.default.missing if files.default.missing in ("error", "zero", "indicator") else "indicator"
            columns[name] = ColumnRule(kind=kind, missing=missing if kind == "categorical" else "error")
    return TableRules(files.default, columns).checked()


# From one table


def _split(inputs: Mapping[str, PartyInput], parts: int) -> tuple[dict[str, PartyInput], list[str]]:
    """Split the columns of the only party into contiguous parts; all columns made of one stay together."""
    if len(inputs) != 1:
        raise ParameterError(
            f"--split: is for one party with its own table, but there are {len(inputs)} ({listed(list(inputs))}); "
            "leave it out, or give one --config or --table"
        )
    ((name, whole),) = inputs.items()
    made_of: dict[str, list[int]] = {}
    for column, source in enumerate(_sources(whole)):
        made_of.setdefault(source, []).append(column)
    if len(made_of) < parts:
        raise ParameterError(
            f"--split: {name} has {count(len(made_of), 'column')}, which cannot be split into {parts} parts"
        )
    found, notes = {}, []
    for number, used in enumerate(_shared_out(made_of, parts), start=1):
        columns = [column for source in used for column in made_of[source]]
        found[f"{name}-{number}"] = replace(
            whole,
            features=whole.features[:, columns],
            columns=[whole.columns[column] for column in columns],
            n_columns=len(used),
            preprocessing=None,
            weights=None if whole.weights is None else whole.weights[columns],
        )
        notes.append(f"{name}-{number} has {count(len(used), 'column')} of {name}: {listed(used, _SHOWN)}.")
    return found, notes


def _sources(table: PartyInput) -> list[str]:
    """Return for each column that was made the column that it was made of, if that is known."""
    found = getattr(table.preprocessing, "sources", None)
    made = found() if callable(found) else None
    return made if made is not None and len(made) == table.features.shape[1] else list(table.columns)


def _shared_out(made_of: Mapping[str, Sequence[int]], parts: int) -> list[list[str]]:
    """Return the sources of each part: neighbours, with as nearly equal numbers of columns as the sources allow."""
    shared: list[list[str]] = [[]]
    left, before = list(made_of), 0
    total = sum(map(len, made_of.values()))
    for source in made_of:
        middle, needed = before + len(made_of[source]) / 2, parts - len(shared)
        if shared[-1] and needed and (middle > total * len(shared) / parts or len(left) <= needed):
            shared.append([])
        shared[-1].append(source)
        left.remove(source)
        before += len(made_of[source])
    return shared


def _check_same_nodes(inputs: Mapping[str, PartyInput], *, shared: bool) -> None:
    """Raise an error if parties have other nodes or another graph; a run would end with less detail."""
    (first, own), *others = inputs.items()
    for name, one in others:
        if one.graph.n_nodes != own.graph.n_nodes and (own.graph.ids is None or one.graph.ids is None):
            raise AgreementError(
                f"{first} has {count(own.graph.n_nodes, 'node')}, {name} has {one.graph.n_nodes:,}; all parties need a "
                "row for each node. Give ids, and a node list (node_list)"
            )
        if (own.graph.ids is None) != (one.graph.ids is None):
            which = first if own.graph.ids is None else name
            raise AgreementError(f"{which}: its rows have no ids, but those of the other parties have; name the column")
        if own.graph.ids is not None and one.graph.ids is not None:
            try:
                own.graph.ids.alignment(one.graph.ids, where=name, whose=f"{first}'s")
            except DataError as error:
                raise AgreementError(
                    f"{error}. All parties need the same nodes; use a node list (node_list)"
                ) from error
        if shared and graph_digest(one.graph) != graph_digest(own.graph):
            raise AgreementError(
                f"{first} and {name} do not have the same edges ({own.graph.n_edges:,} and {one.graph.n_edges:,}); all "
                'parties need the same graph file, or graph = "own" in the section [session]'
            )
