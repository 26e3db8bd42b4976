"""The configuration of one role: read, checked, and turned into what a run is made of."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kcagc.deploy.sections import Document
from kcagc.deploy.wording import said
from kcagc.disclosure import Policy
from kcagc.errors import ParameterError
from kcagc.files.labels import check_labels_path
from kcagc.inputs import parameters_of
from kcagc.net.address import split_address
from kcagc.net.tls import Credentials
from kcagc.protocol.agreement import Agreement, Parameters, Participant, RoleName
from kcagc.protocol.plan import check_enough_cells
from kcagc.runtime.journal import LARGEST
from kcagc.runtime.runner import Waiting
from kcagc.secagg.identity import Identity
from kcagc.tables.rules import ColumnRule


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
        _check_columns(path, content)
        try:
            document = msgspec.convert(content, type=Document)
        except msgspec.ValidationError as error:
            raise ParameterError(f"{path}: {said(str(error))}") from error
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
            if document.data is not None:
                document.data.rules().checked("data.")
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
            seats.append(Participant(one.name, one.role, key))
        return Agreement(participants=tuple(seats), parameters=parameters or self.parameters())

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
        limits = self.document.waiting
        return Waiting(limits.missing, limits.silent, limits.largest_message)

    def file(self, name: str) -> Path:
        """Give a file that the configuration names, relative to where the configuration is."""
        return self.path.parent / Path(name).expanduser()


def _put(content: dict[str, Any], name: str, value: Any) -> None:
    section, _, key = name.partition(".")
    inner = content.setdefault(section, {})
    if isinstance(inner, dict):
        inner[key] = value


def _check_columns(path: Path, content: dict[str, Any]) -> None:
    """Look at the rules of columns one by one: an error about all of them would not say which column it means."""
    data = content.get("data")
    columns = data.get("columns") if isinstance(data, dict) else None
    for name, rule in (columns if isinstance(columns, dict) else {}).items():
        try:
            msgspec.convert(rule, type=ColumnRule)
        except msgspec.ValidationError as error:
            told = said(str(error), root=ColumnRule, inside=f"data.columns.{name}")
            raise ParameterError(f"{path}: {told}") from error
