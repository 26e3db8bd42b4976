"""The sections of a role's configuration file: which settings there are, and what they are unless set."""

from __future__ import annotations

import msgspec

from kcagc.cluster.local import Scaling
from kcagc.protocol.agreement import AggregatorKind, GraphSharing, RoleName, Seeding, VirtualNodes
from kcagc.tables.rules import ColumnRule, TableRules


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
    aggregator: AggregatorKind = "coordinator"
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


class NewData(_Section):
    """A party's table and the shared graph: which files, and what is what in them."""

    features: str
    graph: str
    id_column: str | None = None
    feature_ids: str | None = None
    source: str = "source"
    target: str = "target"
    weight: str | None = None
    graph_ids: str | None = None
    node_list: str | None = None


class Data(NewData):
    """The files of a fit, and the party's own rules for its columns; a prediction takes those of the fit."""

    default: ColumnRule = ColumnRule()
    columns: dict[str, ColumnRule] = {}

    def rules(self) -> TableRules:
        """Give the rules of all columns."""
        return TableRules(self.default, self.columns)


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
    predict: NewData | None = None
    policy: PolicySection = msgspec.field(default_factory=PolicySection)
    output: Output = msgspec.field(default_factory=Output)
    waiting: WaitingSection = msgspec.field(default_factory=WaitingSection)
