"""The configuration file of one role: its sections, how they are read, and the checks that need no other file."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kcagc.data.files import check_labels_path
from kcagc.data.preprocessing import ColumnRule, TableRules
from kcagc.disclosure import Policy
from kcagc.errors import ParameterError
from kcagc.net.tls import Credentials, split_address
from kcagc.protocol.agreement import Agreement, Participant, RoleName
from kcagc.protocol.parameters import NO_GRAPH, MethodChoice, Parameters, PsiChoice, RunSettings
from kcagc.protocol.plan import check_enough_cells
from kcagc.runtime.journal import MAX_STORED_BYTES
from kcagc.runtime.session import Limits
from kcagc.secagg.keys import Identity
from kcagc.text import quoted

_RENAMED = {
    "roles": "[[participants]]",
    "waiting": "[limits], with peer_timeout, message_timeout and max_message_bytes",
}
_EXPECTED = {
    int: "a whole number",
    float: "a number",
    str: 'text in quotes ("...")',
    bool: "true or false",
    list: "a list in brackets ([...])",
}


class _Section(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A section of the file; an unknown setting is an error, because it would have no effect."""


class MeSection(_Section):
    """This role."""

    name: str
    identity: str  # file
    random_state: int | None = None


class ParticipantEntry(_Section):
    """One participant, as all others know it."""

    name: str
    role: RoleName
    identity: str  # public key, in hexadecimal digits
    tls_name: str  # the name in its certificate


class NetworkSection(_Section):
    """The address of the aggregator, and the TLS files of this role."""

    ca: str
    certificate: str
    key: str
    address: str = ""  # of the aggregator, for all other roles
    listen: str = ""  # for the aggregator itself


class NewDataSection(_Section):
    """A party's table and its graph, if the run has one: the files and the names of their columns."""

    features: str
    graph: str | None = None
    id_column: str | None = None
    feature_ids: str | None = None
    source: str = "source"
    target: str = "target"
    weight: str | None = None
    graph_ids: str | None = None
    node_list: str | None = None


class DataSection(NewDataSection):
    """The files of a fit, and the party's own rules for its columns; a prediction uses the rules of the fit."""

    default: ColumnRule = ColumnRule()
    columns: dict[str, ColumnRule] = {}

    def rules(self) -> TableRules:
        """Return the rules of all columns."""
        return TableRules(self.default, self.columns)


class PolicySection(_Section):
    """The risks that this organisation accepts, by name."""

    accept: list[str] = []


class OutputSection(_Section):
    """The folders of the results and of the journal."""

    folder: str = "result"
    labels: str = "labels.csv"
    state: str = "state"


class LimitsSection(_Section):
    """Time limits in seconds, and the largest message in bytes."""

    peer_timeout: float = 600.0
    message_timeout: float = 3600.0
    max_message_bytes: int = 1 << 28


class Document(_Section):
    """The whole file."""

    me: MeSection
    session: RunSettings
    participants: list[ParticipantEntry]
    network: NetworkSection
    data: DataSection | None = None
    predict: NewDataSection | None = None
    policy: PolicySection = msgspec.field(default_factory=PolicySection)
    output: OutputSection = msgspec.field(default_factory=OutputSection)
    limits: LimitsSection = msgspec.field(default_factory=LimitsSection)


@dataclass(frozen=True, eq=False)
class Config:
    """A configuration that was read and checked; its paths are relative to its file."""

    path: Path
    document: Document

    @classmethod
    def load(cls, path: Path, changes: dict[str, Any] | None = None) -> Config:
        """Read a file; `changes`, by dotted name, come from options and the environment and override it."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ParameterError(f"{path}: {error.strerror or error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError(f"{path}: not a TOML file: {error}") from error
        for name, value in (changes or {}).items():
            section, _, key = name.partition(".")
            inner = content.setdefault(section, {}) if value is not None else None
            if isinstance(inner, dict):
                inner[key] = value
        if problem := find_problem(content, Document):
            raise ParameterError(f"{path}: {problem}")
        config = cls(path, msgspec.convert(content, type=Document))
        config.check()
        return config

    def check(self) -> None:
        """Raise an error if this configuration cannot make a session; read no other file."""
        document = self.document
        with _errors_at(f"{self.path}: "):
            self.agreement().check()
            check_enough_cells(self.agreement())
            with _errors_at("policy."):
                self.policy()
            if self.me not in [one.name for one in document.participants]:
                raise ParameterError(f"me.name: {self.me!r} is not among the participants")
            if (document.data is None) == (self.role == "party"):
                needed = self.role == "party"
                raise ParameterError(
                    "a party needs a section [data]" if needed else "a coordinator has no section [data]"
                )
            self._check_address("listen" if self.listens else "address")
            for one in document.participants:
                if not one.tls_name:
                    raise ParameterError(
                        f"participants: {one.name}: tls_name: is empty; enter the name in its certificate"
                    )
            for name in ("peer_timeout", "message_timeout", "max_message_bytes"):
                if not getattr(document.limits, name) > 0:
                    raise ParameterError(f"limits.{name}: must be above 0")
            if document.limits.max_message_bytes > MAX_STORED_BYTES:
                raise ParameterError(f"limits.max_message_bytes: must be at most {MAX_STORED_BYTES:,} bytes")
            for name, section in (("data", document.data), ("predict", document.predict)):
                if section is not None and self.role == "party":
                    self._check_graph(name, section)
            if document.data is not None:
                document.data.rules().checked("data.")
                with _errors_at("output.labels: "):
                    check_labels_path(document.output.labels)
            if not 0 <= (document.me.random_state or 0) < 2**32:
                raise ParameterError("me.random_state: must be a whole number from 0 to 2^32 - 1")

    def _check_graph(self, name: str, section: NewDataSection) -> None:
        """Raise an error if a section has a file of edges, and the session no graph, or the other way round."""
        without = self.document.session.graph == NO_GRAPH
        if without and section.graph is not None:
            raise ParameterError(
                f'{name}.graph: names a file of edges, but [session] has graph = "none"; remove this line, or set '
                f'graph = "shared" or "own" in [session] of all roles'
            )
        if not without and section.graph is None:
            raise ParameterError(
                f"{name}.graph: is missing; name the file of the edges. To cluster without a graph, set "
                'graph = "none" in [session] of all roles'
            )

    def _check_address(self, name: str) -> None:
        address = getattr(self.document.network, name)
        if not address:
            raise ParameterError(f"network.{name}: is missing; write HOST:PORT")
        split_address(address, f"network.{name}", any_port=self.listens)

    @property
    def me(self) -> str:
        """The name of this role."""
        return self.document.me.name

    @property
    def role(self) -> RoleName:
        """The kind of this role: "party" or "coordinator"."""
        return next(one.role for one in self.document.participants if one.name == self.me)

    @property
    def listens(self) -> bool:
        """Whether this role is the aggregator, to which all others connect."""
        return self.document.participants[-1].name == self.me

    def parameters(self) -> Parameters:
        """Return the parameters of a fit."""
        return self.document.session.resolve(self.n_parties)

    def method_choice(self) -> MethodChoice:
        """Return the method of a fit and why it was taken."""
        return self.document.session.choose_method(self.n_parties)

    def psi_choice(self) -> PsiChoice:
        """Return the order of the filter of a fit and why it was taken."""
        return self.document.session.choose_psi()

    @property
    def n_parties(self) -> int:
        """The number of parties."""
        return sum(one.role == "party" for one in self.document.participants)

    def agreement(self, parameters: Parameters | None = None) -> Agreement:
        """Return what all roles must agree on."""
        participants = []
        for one in self.document.participants:
            try:
                key = bytes.fromhex(one.identity)
            except ValueError as error:
                raise ParameterError(f"participants: {one.name}: identity: is not a hexadecimal number") from error
            participants.append(Participant(one.name, one.role, key))
        return Agreement(participants=tuple(participants), parameters=parameters or self.parameters())

    def identity(self) -> Identity:
        """Read this role's identity key."""
        path = self.file(self.document.me.identity)
        try:
            identity = Identity.from_pem(path.read_bytes())
        except OSError as error:
            raise ParameterError(f"{path}: {error.strerror or error}") from error
        except (ValueError, TypeError) as error:
            raise ParameterError(f"{path}: cannot be used as an identity key: {error}") from error
        pinned = next(one.identity for one in self.document.participants if one.name == self.me)
        if identity.public.hex() != pinned.lower():
            raise ParameterError(
                f"{path}: its public half is not the identity that [[participants]] lists for {self.me}"
            )
        return identity

    def credentials(self) -> Credentials:
        """Read and check this role's certificate, key and authorities."""
        network = self.document.network
        credentials = Credentials.load(
            self.file(network.ca),
            self.file(network.certificate),
            self.file(network.key),
            owner=self.me,
            server=self.listens,
            client=not self.listens,
        )
        wanted = self.tls_names()[self.me].lower()
        if wanted not in {name.lower() for name in credentials.names}:
            raise ParameterError(
                f"{credentials.certificate_file}: is for {', '.join(sorted(credentials.names))}, but [[participants]] "
                f"lists the tls_name {wanted} for {self.me}"
            )
        return credentials

    def tls_names(self) -> dict[str, str]:
        """Return the name that each role's certificate must have."""
        return {one.name: one.tls_name.lower() for one in self.document.participants}

    def policy(self) -> Policy:
        """Return the policy of this organisation."""
        return Policy(self.document.policy.accept)

    def limits(self) -> Limits:
        """Return the limits of this role."""
        limits = self.document.limits
        return Limits(limits.peer_timeout, limits.message_timeout, limits.max_message_bytes)

    def file(self, name: str) -> Path:
        """Return the path of a file that the configuration names."""
        return self.path.parent / Path(name).expanduser()

    def data_files(self, section: NewDataSection) -> dict[str, Any]:
        """Return the files and columns of a section by the names that `read_party` has for them."""
        paths = ("features", "graph", "feature_ids", "graph_ids", "node_list")
        given = {name: getattr(section, name) for name in NewDataSection.__struct_fields__}
        return given | {name: self.file(given[name]) for name in paths if given[name] is not None}


@contextlib.contextmanager
def _errors_at(place: str) -> Iterator[None]:
    """Put a place in front of the parameter errors inside this context."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"{place}{error}") from error


def find_problem(value: Any, kind: Any, where: str = "") -> str | None:
    """Return what is wrong in a part of the file, with its place; None if that part can be read as `kind`.

    Structures are walked field by field, so that the place and the expected type are known here.
    """
    before = f"{where}: " if where else ""
    if get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind) and len(get_args(kind)) == 2:
        kind = next(one for one in get_args(kind) if one is not NoneType)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not isinstance(value, dict):
            return f"{before}must be a section, not {_toml(value)}"
        return _session_problem(value, where) if kind is RunSettings else _section_problem(value, kind, where)
    if get_origin(kind) is list and isinstance(value, list):
        parts = [(f"{where}[{number}]", one) for number, one in enumerate(value)]
    elif get_origin(kind) is dict and isinstance(value, dict):
        parts = [(f"{where}.{name}", one) for name, one in value.items()]
    else:
        try:
            msgspec.convert(value, type=kind)
        except msgspec.ValidationError:
            return f"{before}must be {_expected(kind)}, not {_toml(value)}"
        return None
    found = (find_problem(one, get_args(kind)[-1], place) for place, one in parts)
    return next((problem for problem in found if problem), None)


def _session_problem(value: dict[str, Any], where: str) -> str | None:
    try:
        RunSettings.read(value)
    except ParameterError as error:
        return f"{where}.{error}"
    return None


def _section_problem(value: dict[str, Any], kind: type[msgspec.Struct], where: str) -> str | None:
    before = f"{where}: " if where else ""
    hints = get_type_hints(kind, include_extras=True)
    for name in value:
        if not where and name in _RENAMED:
            return f"the section {name!r} of earlier versions is now {_RENAMED[name]}"
        if name not in hints:
            return f"{before}there is no {'setting' if where else 'section'} {name!r}; there are {', '.join(hints)}"
    for field in msgspec.structs.fields(kind):
        if field.name in value:
            problem = find_problem(value[field.name], hints[field.name], f"{where}.{field.name}".lstrip("."))
            if problem:
                return problem
        elif field.required:
            return f"{before}{field.name!r} is missing"
    return None


def _expected(kind: Any) -> str:
    """Describe the values that a setting may have."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_expected(one) for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is Literal:
        *some, last = (_toml(one) for one in get_args(kind))
        return f"{', '.join(some)} or {last}" if some else last
    return _EXPECTED.get(get_origin(kind) or kind, "a section")


def _toml(value: Any) -> str:
    """Return a value as it stands in the file; only the kind of a section or a list."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "a list"
    return quoted(value) if not isinstance(value, str | bool) else json.dumps(value, ensure_ascii=False)
