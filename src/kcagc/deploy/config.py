"""The configuration file of one role: its sections, how they are read, and the checks that need no other file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kcagc.data.csv_format import CsvFormat, Decimal, Thousands
from kcagc.data.files import check_labels_path
from kcagc.data.preprocessing import ColumnRule, TableRules
from kcagc.deploy.file_problems import errors_at, find_problem
from kcagc.disclosure import Policy
from kcagc.engines.choice import EngineSection
from kcagc.errors import ParameterError
from kcagc.net.tls import Credentials, split_address
from kcagc.protocol.agreement import Agreement, Participant, RoleName
from kcagc.protocol.approval import ApprovalSection, CheckedProposal
from kcagc.protocol.parameters import NO_GRAPH, MethodChoice, Parameters, PsiChoice, RunSettings
from kcagc.protocol.plan import check_enough_cells
from kcagc.runtime.journal import MAX_STORED_BYTES
from kcagc.runtime.session import Limits
from kcagc.secagg.keys import Identity
from kcagc.text import read_toml


class _Section(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A section of the file; an unknown setting is an error, because it would have no effect."""


class MeSection(_Section):
    """This role.

    Parameters
    ----------
    name : str
        The name of this role. It is one of the names in `[[participants]]`.
    identity : str
        The file with the private identity key, which signs the messages of this role. `kcagc identity` makes one.
        Keep it private.
    random_state : int or None
        For tests only: the same whole number gives the same labels. Without it, each session uses a fresh random
        seed.
    """

    name: str
    identity: str  # file
    random_state: int | None = None


class ParticipantEntry(_Section):
    """One participant, as all others know it. The list is the same, in the same order, at all roles; the aggregator
    comes last.

    Parameters
    ----------
    name : str
        The name of the role: 1 to 64 printable characters.
    role : {"party", "coordinator"}
        A party holds a table. A coordinator holds none.
    identity : str
        The public half of the role's identity key, in hexadecimal digits. No other key is accepted.
    tls_name : str
        The DNS name in the role's certificate.
    """

    name: str
    role: RoleName
    identity: str  # public key, in hexadecimal digits
    tls_name: str  # the name in its certificate


class NetworkSection(_Section):
    """The address of the aggregator, and the TLS files of this role.

    Parameters
    ----------
    ca : str
        The file with the certificates of the authorities of all roles (PEM).
    certificate : str
        The file with the certificate of this role, and the intermediate ones up to its authority (PEM).
    key : str
        The file with the private key of the certificate, without a password (PEM). Keep it private.
    address : str
        The address of the aggregator, as HOST:PORT. All roles except the aggregator need it.
    listen : str
        The address on which the aggregator listens, as HOST:PORT. Only the aggregator needs it.
    """

    ca: str
    certificate: str
    key: str
    address: str = ""  # of the aggregator, for all other roles
    listen: str = ""  # for the aggregator itself


class NewDataSection(_Section):
    """The files of a prediction (`kcagc predict`): those of the fit, with rows and edges of new nodes added.

    Parameters
    ----------
    features : str
        The party's table, one row for each node: a .csv or .parquet file, or a sparse matrix as .npz or .mtx.
    graph : str or None
        The edges that all parties share: a .csv or .parquet file, or a sparse matrix as .npz or .mtx. Without it, the
        run has no graph, and `[session]` says `graph = "none"`.
    id_column : str or None
        The column of the table with the node ids. Without it, the id of a row is its number, from 0.
    feature_ids : str or None
        For a sparse matrix: the file with the ids of its rows, one per line.
    source : str
        The column of the graph file with the id of one end of an edge.
    target : str
        The column of the graph file with the id of the other end.
    weight : str or None
        The column of the graph file with the weights of edges. Without it, every edge has the weight 1.
    graph_ids : str or None
        If the graph is a sparse matrix: the file with the ids of its rows, one per line.
    node_list : str or None
        The file with the ids of the nodes to cluster, one per line below a header, the same at all parties. Rows and
        edges of other nodes are left out; a listed node without a row gets a row of missing values.
    delimiter : str or None
        For a CSV file of the table: the character between two cells. Without it, a comma in .csv files and a tab in
        .tsv files.
    decimal : {".", ","}
        For a CSV file of the table: the decimal sign.
    thousands : {",", ".", " ", "'"} or None
        For a CSV file of the table: what separates groups of three digits. Without it, nothing does.
    encoding : str
        For a CSV file of the table: the encoding of the text, by a name that Python knows, such as `cp1252`.
    graph_csv : CsvFormat
        How the CSV file of the graph is written, by the same four settings: `graph_csv = { delimiter = ";" }`.
    """

    features: str
    graph: str | None = None
    id_column: str | None = None
    feature_ids: str | None = None
    source: str = "source"
    target: str = "target"
    weight: str | None = None
    graph_ids: str | None = None
    node_list: str | None = None
    delimiter: str | None = None
    decimal: Decimal = "."
    thousands: Thousands | None = None
    encoding: str = "utf-8"
    graph_csv: CsvFormat = CsvFormat()

    def csv(self) -> CsvFormat:
        """Return how the file of the table is written, if it is a CSV file."""
        return CsvFormat(**{name: getattr(self, name) for name in CsvFormat.__struct_fields__})


class DataSection(NewDataSection):
    """The files of a fit, and the party's own rules for its columns; a prediction uses the rules of the fit.

    Parameters
    ----------
    default : ColumnRule
        The rule for all columns that `columns` does not name.
    columns : dict of str to ColumnRule
        Rules for single columns, by name, for example `columns.age`.
    """

    default: ColumnRule = ColumnRule()
    columns: dict[str, ColumnRule] = {}

    def rules(self) -> TableRules:
        """Return the rules of all columns."""
        return TableRules(self.default, self.columns)


class PolicySection(_Section):
    """The risks that this organisation accepts, by name.

    Parameters
    ----------
    accept : list of str
        The names of the additional disclosures that this party accepts. A run that needs any other one stops before
        anything is sent. The [threat model](../threat-model.md) lists the names.
    """

    accept: list[str] = []


class OutputSection(_Section):
    """The folders of the results and of the journal.

    Parameters
    ----------
    folder : str
        The folder of the results: labels, model, ledger, report.
    labels : str
        The name of the file with the cluster of each node. Its ending decides the format: .csv or .parquet.
    state : str
        The folder of the journal, from which an interrupted run resumes, and of the record of earlier sessions. Keep
        it private, and never run a role from two copies of it.
    """

    folder: str = "result"
    labels: str = "labels.csv"
    state: str = "state"


class LimitsSection(_Section):
    """Time limits in seconds, and the largest message in bytes.

    Parameters
    ----------
    peer_timeout : float
        How many seconds to wait for a participant that is not connected.
    message_timeout : float
        How many seconds to wait for the next message of a connected participant.
    max_message_bytes : int
        The largest message that this role accepts, in bytes; at most 900 million. If a run needs more, the error
        names the size.
    """

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
    engine: EngineSection = msgspec.field(default_factory=EngineSection)
    policy: PolicySection = msgspec.field(default_factory=PolicySection)
    approval: ApprovalSection = msgspec.field(default_factory=ApprovalSection)
    output: OutputSection = msgspec.field(default_factory=OutputSection)
    limits: LimitsSection = msgspec.field(default_factory=LimitsSection)


@dataclass(frozen=True, eq=False)
class Config:
    """A configuration that was read and checked; its paths are relative to its file.

    With an approved proposal, the document has the settings of that proposal.
    """

    path: Path
    document: Document
    approved: CheckedProposal | None = None

    @classmethod
    def load(cls, path: Path, changes: dict[str, Any] | None = None) -> Config:
        """Read a file; `changes`, by dotted name, come from options and the environment and override it."""
        try:
            content = read_toml(path.read_text(encoding="utf-8"))
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
        with errors_at(f"{self.path}: "):
            self.agreement().check()
            check_enough_cells(self.agreement())
            with errors_at("policy."):
                self.policy()
            if self.me not in [one.name for one in document.participants]:
                raise ParameterError(f"me.name: {self.me!r} is not among the participants")
            if (document.data is None) == (self.role == "party"):
                needed = self.role == "party"
                raise ParameterError(
                    "a party needs a section [data]" if needed else "a coordinator has no section [data]"
                )
            if self.role == "coordinator" and document.engine != EngineSection():
                raise ParameterError("a coordinator has no section [engine]: it has no work of its own")
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
            document.engine.located(self.file).check(others=self.file(document.network.ca))
            self._check_files()
            if document.approval.required and document.participants[-1].role != "coordinator":
                raise ParameterError(
                    "approval.required: needs a coordinator that stays (kcagc serve), and there is none"
                )
            if not 0 <= (document.me.random_state or 0) < 2**32:
                raise ParameterError("me.random_state: must be a whole number from 0 to 2^32 - 1")

    def _check_files(self) -> None:
        """Raise an error if the sections of the files cannot be used."""
        document = self.document
        if document.data is not None:
            document.data.rules().checked("data.")
            with errors_at("output.labels: "):
                check_labels_path(document.output.labels)
        for name, section in (("data", document.data), ("predict", document.predict)):
            if section is not None:
                section.csv().checked(f"{name}.")
                section.graph_csv.checked(f"{name}.graph_csv.")
                if self.role == "party":
                    self._check_graph(name, section)

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
        return Agreement(
            participants=tuple(participants),
            parameters=parameters or self.parameters(),
            approval=b"" if self.approved is None else self.approved.digest,
        )

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
        names = [name for name in NewDataSection.__struct_fields__ if name not in CsvFormat.__struct_fields__]
        used = {name: getattr(section, name) for name in names} | {"csv": section.csv(), "graph_csv": section.graph_csv}
        return used | {name: self.file(used[name]) for name in paths if used[name] is not None}
