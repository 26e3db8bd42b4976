"""The configuration file of one role: what it may say, and a clear word about what it may not."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kcagc.cluster.projection import Scaling
from kcagc.errors import ParameterError
from kcagc.files.labels import check_labels_path
from kcagc.inputs import parameters_of
from kcagc.ledger import Policy
from kcagc.protocol.agreement import (
    Aggregator,
    Agreement,
    GraphSharing,
    Parameters,
    RoleName,
    Seat,
    Seeding,
    VirtualNodes,
)
from kcagc.protocol.plan import check_enough_cells
from kcagc.runtime.journal import LARGEST
from kcagc.runtime.runner import Waiting
from kcagc.secagg.identity import Identity
from kcagc.transport.address import split_address
from kcagc.transport.certificates import Credentials


class _Section(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of the file; a word that it does not know is an error, because it would have no effect."""


class Me(_Section):
    """Who this role is."""

    name: str
    identity: str  # file
    random_state: int | None = None


class SessionSettings(_Section):
    """What all roles must say alike. The names are those of the estimator."""

    n_clusters: int
    n_local_clusters: int | str | None = None
    method: str = "auto"
    psi: int = 5
    filter: str = "half"
    n_components: int | None = None
    scaling: Scaling = "unit"
    unit: float = 1.0
    virtual_nodes: VirtualNodes = "cell"
    seeding: Seeding = "common"
    fan_in: int = 4
    aggregator: Aggregator = "coordinator"
    max_iter: int = 100
    n_init: int = 10
    graph: GraphSharing = "shared"


class RoleEntry(_Section):
    """One role of the roster, as all others know it."""

    name: str
    role: RoleName
    identity: str  # its public key, in hexadecimal
    tls_name: str  # the name in its certificate


class Network(_Section):
    """Where the aggregator is, and what proves who one is to TLS."""

    ca: str
    certificate: str
    key: str
    address: str = ""  # of the aggregator, for those who connect
    listen: str = ""  # for the aggregator itself


class Data(_Section):
    """A party's table and the shared graph."""

    features: str
    graph: str
    id_column: str | None = None
    feature_ids: str | None = None
    source: str = "source"
    target: str = "target"
    weight: str | None = None
    graph_ids: str | None = None


class PolicySection(_Section):
    """What the operator accepts beyond the default, by name."""

    accept: list[str] = []


class Output(_Section):
    """Where results go, and where the journal lies."""

    folder: str = "result"
    labels: str = "labels.csv"
    state: str = "state"


class WaitingSection(_Section):
    """How long to wait, in seconds, and how long a message may be, in bytes."""

    missing: float = 600.0
    silent: float = 3600.0
    largest_message: int = 1 << 28


class Document(_Section):
    """The whole file."""

    me: Me
    session: SessionSettings
    roles: list[RoleEntry]
    network: Network
    data: Data | None = None
    predict: Data | None = None
    policy: PolicySection = msgspec.field(default_factory=PolicySection)
    output: Output = msgspec.field(default_factory=Output)
    waiting: WaitingSection = msgspec.field(default_factory=WaitingSection)


@dataclass(frozen=True, eq=False)
class Config:
    """A configuration that was read and makes sense; paths in it are relative to its file."""

    path: Path
    document: Document

    @classmethod
    def load(cls, path: Path, changes: dict[str, Any] | None = None) -> Config:
        """Read a file; `changes` (from options and the environment) take the place of what it says, by dotted name."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ParameterError(f"{path}: {error.strerror or error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ParameterError(f"{path}: not a TOML file: {error}") from error
        for name, value in (changes or {}).items():
            if value is not None:
                _put(content, name, value)
        try:
            document = msgspec.convert(content, type=Document)
        except msgspec.ValidationError as error:
            raise ParameterError(f"{path}: {_said(str(error))}") from error
        config = cls(path, document)
        config.check()
        return config

    def check(self) -> None:
        """Refuse what makes no session; nothing is read but the file itself and the identity key."""
        document = self.document
        try:
            self.agreement().check()
            check_enough_cells(self.agreement())
            self._check_accepted()
            if self.me not in [one.name for one in document.roles]:
                raise ParameterError(f"me.name: {self.me!r} is not among the roles")
            if (document.data is None) == (self.role == "party"):
                told = "a party needs a section [data]" if self.role == "party" else "a coordinator has no [data]"
                raise ParameterError(told)
            self._check_address("listen" if self.listens else "address")
            for one in document.roles:
                if not one.tls_name:
                    raise ParameterError(f"roles: {one.name}: tls_name: is empty; it is the name in its certificate")
            for name in ("missing", "silent", "largest_message"):
                if not getattr(document.waiting, name) > 0:
                    raise ParameterError(f"waiting.{name}: must be above 0")
            if document.waiting.largest_message > LARGEST:
                raise ParameterError(f"waiting.largest_message: must be at most {LARGEST:,} bytes")
            self._check_labels()
            if not 0 <= (document.me.random_state or 0) < 2**32:
                raise ParameterError("me.random_state: must be a whole number from 0 to 2^32 - 1")
        except ParameterError as error:
            raise ParameterError(f"{self.path}: {error}") from error

    def _check_accepted(self) -> None:
        try:
            self.policy()
        except ParameterError as error:
            raise ParameterError(f"policy.{error}") from error

    def _check_address(self, wanted: str) -> None:
        where = getattr(self.document.network, wanted)
        if not where:
            raise ParameterError(f"network.{wanted}: is missing; it is HOST:PORT")
        split_address(where, f"network.{wanted}", any_port=self.listens)

    def _check_labels(self) -> None:
        if self.role == "party":
            try:
                check_labels_path(self.document.output.labels)
            except ParameterError as error:
                raise ParameterError(f"output.labels: {error}") from error

    @property
    def me(self) -> str:
        """The name of this role."""
        return self.document.me.name

    @property
    def role(self) -> RoleName:
        """What this role is."""
        return next(one.role for one in self.document.roles if one.name == self.me)

    @property
    def listens(self) -> bool:
        """Whether this role is the aggregator."""
        return self.document.roles[-1].name == self.me

    def parameters(self) -> Parameters:
        """Give the parameters of a fit."""
        settings = self.document.session
        parties = sum(one.role == "party" for one in self.document.roles)
        return parameters_of(settings, parties, settings.graph == "shared")

    def agreement(self, parameters: Parameters | None = None) -> Agreement:
        """Give what all roles must agree on."""
        seats = []
        for one in self.document.roles:
            try:
                key = bytes.fromhex(one.identity)
            except ValueError as error:
                raise ParameterError(f"roles: {one.name}: identity: is no hexadecimal number") from error
            seats.append(Seat(one.name, one.role, key))
        return Agreement(roster=tuple(seats), parameters=parameters or self.parameters())

    def identity(self) -> Identity:
        """Read this role's identity key."""
        path = self.file(self.document.me.identity)
        try:
            identity = Identity.from_pem(path.read_bytes())
        except OSError as error:
            raise ParameterError(f"{path}: {error.strerror or error}") from error
        except (ValueError, TypeError) as error:
            raise ParameterError(f"{path}: cannot be used as an identity key: {error}") from error
        pinned = next(one.identity for one in self.document.roles if one.name == self.me)
        if identity.public.hex() != pinned.lower():
            raise ParameterError(f"{path}: is not the key whose public half is listed for {self.me} under roles")
        return identity

    def credentials(self) -> Credentials:
        """Read and check this role's certificate, key and authority."""
        network = self.document.network
        credentials = Credentials.load(
            self.file(network.ca),
            self.file(network.certificate),
            self.file(network.key),
            who=self.me,
            server=self.listens,
            client=not self.listens,
        )
        wanted = self.tls_names()[self.me].lower()
        if wanted not in {name.lower() for name in credentials.names}:
            raise ParameterError(
                f"{credentials.certificate_file}: is for {', '.join(sorted(credentials.names))}, but the roles list "
                f"{wanted} for {self.me}"
            )
        return credentials

    def tls_names(self) -> dict[str, str]:
        """Give the name that each role's certificate must have."""
        return {one.name: one.tls_name.lower() for one in self.document.roles}

    def policy(self) -> Policy:
        """Give what the operator accepts."""
        return Policy(self.document.policy.accept)

    def waiting(self) -> Waiting:
        """Give how long to wait."""
        said = self.document.waiting
        return Waiting(said.missing, said.silent, said.largest_message)

    def file(self, name: str) -> Path:
        """Give a file that the configuration names, relative to where the configuration is."""
        return self.path.parent / Path(name).expanduser()


def _put(content: dict[str, Any], name: str, value: Any) -> None:
    section, _, key = name.partition(".")
    inner = content.setdefault(section, {})
    if isinstance(inner, dict):
        inner[key] = value


_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": 'text in quotes ("...")',
    "bool": "true or false",
    "array": "a list in brackets ([...])",
    "object": "a section",
    "null": "left out",
}


def _said(message: str) -> str:
    """Say what is wrong, and where, in the words of people who write such files rather than those of programmers."""
    found = re.fullmatch(r"(?s)(.*?)(?: - at `\$\.?(.*)`)?", message)
    what, where = (found.group(1), found.group(2) or "") if found else (message, "")
    known = _type_at(where)
    name = re.fullmatch(r"Object (contains unknown|missing required) field `(.*)`", what)
    kinds = re.fullmatch(r"Expected `(.*)`, got `(.*)`", what)
    if name:
        thing = "setting" if where else "section"
        what = f"there is no {thing} called {name[2]!r}" if name[1] == "contains unknown" else f"{name[2]!r} is missing"
        if name[1] == "contains unknown":
            what += f"; there are {', '.join(get_type_hints(known))}"
    elif kinds:
        wanted = [_KINDS.get(kind, kind) for kind in kinds[1].split(" | ") if kind != "null"]
        what = f"must be {' or '.join(wanted)}, not {_KINDS.get(kinds[2], kinds[2])}"
    elif what.startswith("Invalid enum value") and get_origin(known) is Literal:
        listed = [f'"{choice}"' for choice in get_args(known)]
        what = f"must be {', '.join(listed[:-1])} or {listed[-1]}, not {what.removeprefix('Invalid enum value ')}"
    return f"{where}: {what}" if where else what


def _type_at(where: str) -> Any:
    """Give the type of what stands at a place of the file, as "roles[0].role"."""
    known: Any = Document
    for part in re.findall(r"[^.\[\]]+", where):
        known = get_args(known)[0] if get_origin(known) is list else get_type_hints(known)[part]
        if get_origin(known) in (Union, UnionType):  # what may be left out
            known = next(one for one in get_args(known) if one is not type(None))
    return known
