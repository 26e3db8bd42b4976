"""Folders for the roles of a new collaboration: configuration, identity key, trial certificate, and example data."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from scipy import sparse

from kcagc._types import Features
from kcagc.data.files import PRIVATE, write_bytes, write_text
from kcagc.datasets.dataset import Dataset
from kcagc.disclosure.texts import ANONYMOUS_GEOMETRY, RISKS
from kcagc.errors import ParameterError
from kcagc.net.trial_authority import trial_authority
from kcagc.protocol.agreement import Agreement, Participant
from kcagc.protocol.declaration import Parameter
from kcagc.protocol.parameters import NO_GRAPH, PARAMETERS, RunSettings
from kcagc.protocol.plan import risks
from kcagc.secagg.keys import Identity
from kcagc.secagg.masks import MAX_PARTIES

CONFIG = "kcagc.toml"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_ALWAYS_SET = ("n_clusters", "psi", "aggregator")  # settings that are no comments in the file


@dataclass(frozen=True)
class RoleFiles:
    """The files of a role with its keys and certificates, relative to its configuration."""

    identity: str = "private/identity.pem"
    ca: str = "ca.pem"
    certificate: str = "certificate.pem"
    key: str = "private/tls-key.pem"


@dataclass(frozen=True)
class FolderPlan:
    """The roles, the address of the aggregator, and the settings that differ from the default.

    `tls_names` are the names in the certificates of roles that have met; `kcagc init` makes its own.
    """

    parties: tuple[str, ...]
    coordinator: str | None
    address: str
    listen: str
    settings: dict[str, Any]
    random_state: int | None = None
    tls_names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        parties: list[str],
        *,
        aggregator: str | None = None,
        coordinator: str = "coordinator",
        address: str,
        listen: str,
        random_state: int | None = None,
        tls_names: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> FolderPlan:
        """Check the names of the roles and the settings of the session; a party as `aggregator` becomes the last."""
        for name in (*parties, coordinator):
            check_name(name, "role")
        names = [*parties, coordinator] if aggregator is None else parties
        again = {name for name in names if names.count(name) > 1}
        if again:
            raise ParameterError(f"two roles have the name {again.pop()!r}")
        if not 2 <= len(parties) <= MAX_PARTIES:
            found = f"{len(parties)} {'party' if len(parties) == 1 else 'parties'}"
            raise ParameterError(f"--parties: {found}; there must be 2 to {MAX_PARTIES}")
        if aggregator is not None and aggregator not in parties:
            raise ParameterError(f"--aggregator: {aggregator!r} is not one of the parties")
        settings["aggregator"] = "coordinator" if aggregator is None else "party"
        RunSettings.read(settings)
        last = parties if aggregator is None else [*(name for name in parties if name != aggregator), aggregator]
        neutral = coordinator if aggregator is None else None
        return cls(tuple(last), neutral, address, listen, settings, random_state, tls_names or {})

    @property
    def roles(self) -> tuple[str, ...]:
        """All roles, the aggregator last."""
        return self.parties if self.coordinator is None else (*self.parties, self.coordinator)


def write_folders(folder: Path, plan: FolderPlan, examples: Dataset | None = None) -> dict[str, Path]:
    """Write a folder for each role, with a dataset as example data, and return their configuration files.

    The key of the trial authority signs the certificates and is not kept.
    """
    taken = [name for name in plan.roles if (folder / name).exists()]
    if taken:
        raise ParameterError(f"{folder / taken[0]}: exists already; nothing was written")
    authority = trial_authority("kcagc trial")
    identities = {name: Identity.generate() for name in plan.roles}
    public = {name: identity.public for name, identity in identities.items()}
    written = {}
    for name in plan.roles:
        role = folder / name
        private = role / "private"
        private.mkdir(parents=True)
        private.chmod(0o700)
        listens = name == plan.roles[-1]
        certificate, key = authority.issue(tls_name(name), server=listens, client=not listens)
        write_bytes(private / "identity.pem", identities[name].to_pem(), mode=PRIVATE)
        write_bytes(private / "tls-key.pem", key, mode=PRIVATE)
        write_bytes(role / "certificate.pem", certificate)
        write_bytes(role / "ca.pem", authority.certificate_pem)
        if name in plan.parties:
            (role / "data").mkdir()
        has_units = examples is not None and bool(examples.columns)
        write_text(role / CONFIG, configuration(plan, name, public, has_units=has_units))
        written[name] = role / CONFIG
    if examples is not None:
        with_graph = plan.settings.get("graph") != NO_GRAPH
        _write_examples(examples, written, list(plan.parties), with_graph=with_graph)
    return written


def check_name(name: str, what: str) -> None:
    """Raise an error for a name that cannot be that of a folder and part of a DNS name."""
    if not _NAME.fullmatch(name):
        raise ParameterError(
            f"Invalid {what} name {name!r}: use 1 to 32 lower-case letters, digits and hyphens, and no hyphen at "
            "either end"
        )


def tls_name(name: str) -> str:
    """Return the name in a trial certificate; no host on the Internet can have it."""
    return f"{name}.kcagc.internal"


def configuration(
    plan: FolderPlan,
    name: str,
    public: dict[str, bytes],
    *,
    has_units: bool = False,
    files: RoleFiles | None = None,
) -> str:
    """Return the configuration of one role, filled into the template `templates/role.toml`.

    With `has_units`, the columns of the table have different units, and the configuration contains a rule for them.
    `files` are those with the keys of the role, if they are not in the places that `kcagc init` gives them.
    """
    party = name in plan.parties
    seed = "# random_state = 0" if plan.random_state is None else f"random_state = {plan.random_state}"
    needed = _needed_risks(plan, public)
    blocks = {
        "party": party,
        "same-scale": party and has_units,
        "no-rule": party and not has_units,
        "aggregator": name == plan.roles[-1],
        "party-aggregates": party and not plan.coordinator,
        "graph": party and plan.settings.get("graph") != NO_GRAPH,
        "party-without-graph": party and plan.settings.get("graph") == NO_GRAPH,
        "anonymous-geometry": party and ANONYMOUS_GEOMETRY in needed,
        "met": bool(plan.tls_names),
        "met-party": bool(plan.tls_names) and party,
        "met-coordinator": bool(plan.tls_names) and not party,
    }
    values = {
        "name": name,
        "description": "a data party" if party else "the coordinator, which holds no data",
        "role": "party" if party else "coordinator",
        "random_state": seed,
        "session": _session(plan),
        "participants": "\n".join(_participant(plan, one, public[one]) for one in plan.roles).rstrip("\n"),
        "aggregator": plan.roles[-1],
        "listen": json.dumps(plan.listen),
        "address": json.dumps(plan.address),
        "risks": ", ".join(f'"{risk}"' for risk in RISKS),
        "needed": ", ".join(f'"{risk}"' for risk in needed),
        **asdict(files or RoleFiles()),
    }
    template = resources.files("kcagc.deploy").joinpath("templates", "role.toml").read_text(encoding="utf-8")
    return Template(_keep_blocks(template, blocks)).substitute(values)


def _keep_blocks(template: str, blocks: dict[str, bool]) -> str:
    """Return a template without "#% if NAME", "#% else" and "#% end", and without the blocks that do not apply."""
    kept, lines = True, []
    for line in template.splitlines():
        if line.startswith("#% if "):
            kept = blocks[line.removeprefix("#% if ")]
        elif line == "#% else":
            kept = not kept
        elif line == "#% end":
            kept = True
        elif kept:
            lines.append(line)
    return "\n".join(lines) + "\n"


def _session(plan: FolderPlan) -> str:
    """Return a comment and a line for each declared parameter; a default is written as a comment."""
    settings = RunSettings.read(plan.settings)
    local = settings.local_clusters(len(plan.parties)) // settings.clusters[1]
    n_components = settings.resolve(len(plan.parties)).n_components
    computed = {"n_local_clusters": f"{local}k".removeprefix("1"), "n_components": n_components}
    return "\n\n".join(
        _setting(one, plan.settings.get(one.name, computed.get(one.name, one.default)), one.name in plan.settings)
        for one in PARAMETERS.values()
    )


def _setting(parameter: Parameter, value: Any, given: bool) -> str:
    comment = textwrap.wrap(parameter.meaning, 118, initial_indent="# ", subsequent_indent="# ")
    line = f"{parameter.name} = {json.dumps(value)}"
    allowed = parameter.expected.replace("'", '"')
    set_here = given or parameter.name in _ALWAYS_SET
    return "\n".join((*comment, f"{'' if set_here else '# '}{line:<28} # {allowed}"))


def _participant(plan: FolderPlan, name: str, public: bytes) -> str:
    # Another role may have chosen a value. A JSON string is a TOML string: it ends where it shall end.
    return f"""[[participants]]
name = {json.dumps(name)}
role = "{"party" if name in plan.parties else "coordinator"}"
identity = "{public.hex()}"
tls_name = {json.dumps(plan.tls_names.get(name) or tls_name(name))}
"""


def _needed_risks(plan: FolderPlan, public: dict[str, bytes]) -> list[str]:
    participants = [
        Participant(name, "party" if name in plan.parties else "coordinator", public[name]) for name in plan.roles
    ]
    parameters = RunSettings.read(plan.settings).resolve(len(plan.parties))
    return list(risks(Agreement(participants=tuple(participants), parameters=parameters)))


def _write_examples(dataset: Dataset, configs: dict[str, Path], parties: list[str], *, with_graph: bool) -> None:
    """Write example data to each party's folder: its share of the columns, and the edges that all parties have."""
    people = [f"person-{number:03}" for number in range(dataset.n_nodes)]
    own = len(dataset.party_columns) == len(parties)
    columns = [one.name for one in dataset.columns]
    if columns:
        dataset = replace(dataset, features=dataset.in_units())
    tables = dataset.parties(None if own else len(parties))
    edges = sparse.triu(dataset.adjacency).tocoo()
    pairs = [
        f"{people[one]},{people[other]}\n" for one, other in zip(edges.row.tolist(), edges.col.tolist(), strict=True)
    ]
    for party, table in zip(parties, tables, strict=True):
        data = configs[party].parent / "data"
        width = table.shape[1]
        names = columns[:width] or [f"{party}-{column}" for column in range(width)]
        columns = columns[width:]
        write_text(data / "features.csv", "".join(_table(names, people, table)))
        if with_graph:
            write_text(data / "edges.csv", "".join(("source,target\n", *pairs)))


def _table(names: list[str], people: list[str], features: Features) -> list[str]:
    dense = features.toarray() if sparse.issparse(features) else features
    rows = [
        f"{person},{','.join(map(repr, row))}\n"
        for person, row in zip(people, dense.astype(float).tolist(), strict=True)
    ]
    return [f"{','.join(('id', *names))}\n", *rows]
