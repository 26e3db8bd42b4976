"""Folders to begin with: for each role a commented configuration, an identity key and, for trials, a certificate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kcagc.errors import ParameterError
from kcagc.files.atomic import PRIVATE, write_bytes, write_text
from kcagc.net.trial_authority import trial_authority
from kcagc.protocol.parameters import RunSettings
from kcagc.secagg.keys import Identity
from kcagc.secagg.masks import MAX_PARTIES

CONFIG = "kcagc.toml"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


@dataclass(frozen=True)
class Plan:
    """Who takes part and where the aggregator listens; the aggregator comes last, as in every roster."""

    parties: tuple[str, ...]
    coordinator: str | None
    address: str
    listen: str
    n_clusters: int
    psi: int

    @classmethod
    def of(
        cls,
        parties: list[str],
        *,
        aggregator: str | None = None,
        coordinator: str = "coordinator",
        address: str,
        listen: str,
        n_clusters: int,
        psi: int,
    ) -> Plan:
        """Check who takes part."""
        for name in (*parties, coordinator):
            if not _NAME.fullmatch(name):
                raise ParameterError(f"{name!r} is no name here: use small letters, digits and -, at most 32 of them")
        roles = [*parties, coordinator] if aggregator is None else parties
        again = {name for name in roles if roles.count(name) > 1}
        if again:
            raise ParameterError(f"{again.pop()!r} is the name of two roles")
        if not 2 <= len(parties) <= MAX_PARTIES:
            raise ParameterError(f"--parties: {len(parties)} parties; there must be 2 to {MAX_PARTIES}")
        if aggregator is None:
            return cls(tuple(parties), coordinator, address, listen, n_clusters, psi)
        if aggregator not in parties:
            raise ParameterError(f"--aggregator: {aggregator!r} is not one of the parties")
        last = [*(name for name in parties if name != aggregator), aggregator]
        return cls(tuple(last), None, address, listen, n_clusters, psi)

    @property
    def roles(self) -> tuple[str, ...]:
        """All roles, the aggregator last."""
        return self.parties if self.coordinator is None else (*self.parties, self.coordinator)


def write_folders(folder: Path, plan: Plan) -> dict[str, Path]:
    """Write a folder for each role, and give their configuration files.

    The key of the trial authority signs the certificates and is kept nowhere.
    """
    taken = [name for name in plan.roles if (folder / name).exists()]
    if taken:
        raise ParameterError(f"{folder / taken[0]}: is there already; nothing was written")
    authority = trial_authority("kcagc trial")
    identities = {name: Identity.generate() for name in plan.roles}
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
        public = {one: identity.public.hex() for one, identity in identities.items()}
        write_text(role / CONFIG, configuration(plan, name, public))
        written[name] = role / CONFIG
    return written


def tls_name(name: str) -> str:
    """Give the name in a trial certificate: one that can be no host's on the Internet."""
    return f"{name}.kcagc.internal"


def configuration(plan: Plan, name: str, public: dict[str, str]) -> str:
    """Write the configuration of one role, with a comment on everything that a person might change."""
    listens, party = name == plan.roles[-1], name in plan.parties
    parts = [_head(plan, name), _session(plan), _roster(plan, public), _network(plan, listens)]
    if party:
        parts += [_data(), _policy(plan)]
    parts += [_output(party), _waiting()]
    return "\n".join(parts)


def _head(plan: Plan, name: str) -> str:
    what = "a data party" if name in plan.parties else "the coordinator, which holds no data"
    command = "party" if name in plan.parties else "coordinator"
    return f'''# kcagc: the configuration of {name}, {what}.
# Check it with:  kcagc check --config {CONFIG}
# Run it with:    kcagc {command} --config {CONFIG}
# Files named here are relative to this file. An option of the command or an environment variable goes before it.

[me]
name = "{name}"
# The key that signs what this role says. It never leaves this folder; the others list its public half under roles.
identity = "private/identity.pem"
# For tests only: the same whole number gives the same labels again. In earnest leave it out, and it is drawn anew:
# two runs on the same starts, with a party more or less, would tell that party's values.
# random_state = 0
'''


def _session(plan: Plan) -> str:
    aggregator = "coordinator" if plan.coordinator else "party"
    local = RunSettings(n_clusters=plan.n_clusters).local_clusters(len(plan.parties))
    multiple = f"{local // plan.n_clusters}k".removeprefix("1")
    return f'''[session]
# Everything in this section must be the same at all roles; a difference is found before anything is sent.
n_clusters = {plan.n_clusters}
# Steps of smoothing along the graph: more where neighbours are alike (the paper uses 2 to 60).
psi = {plan.psi}
# Who sums: a "coordinator" without data, or the last "party" (the paper's way, which opens more; see [policy]).
aggregator = "{aggregator}"
# What else can be set, with its default:
# n_local_clusters = {f'"{multiple}"':<10}# clusters of each party alone; "2k" up to 3 parties, "k" for more
# method = "auto"              # "cells" up to 3 parties, "tree" beyond; or "basic": every node, many more sums
# filter = "half"              # or "norm"
# n_components = {plan.n_clusters:<14}# singular vectors of each party; as many as clusters
# scaling = "unit"             # or "U", "US" (divided by unit)
# unit = 1.0
# virtual_nodes = "cell"       # or "local"
# seeding = "common"           # or "d2"
# fan_in = 4
# max_iter = 100
# n_init = 10
# graph = "shared"             # all parties have the same edges; "own": each has its own
'''


def _roster(plan: Plan, public: dict[str, str]) -> str:
    entries = "\n".join(
        f'''[[participants]]
name = "{name}"
role = "{"party" if name in plan.parties else "coordinator"}"
identity = "{public[name]}"
tls_name = "{tls_name(name)}"
'''
        for name in plan.roles
    )
    return f"""# Who takes part, in this order; the one who sums is the last. `identity` is the public half of
# each one's identity key, `tls_name` the name that its certificate must have.
{entries}"""


def _network(plan: Plan, listens: bool) -> str:
    where = (
        f"""# Where to listen. All others must be able to connect to it.
listen = "{plan.listen}"
"""
        if listens
        else f"""# Where {plan.roles[-1]} listens. Nothing has to be opened on this side.
address = "{plan.address}"
"""
    )
    return f"""[network]
{where}# For a trial these files were made by an authority whose key was thrown away. In earnest each organisation
# brings its own certificate: `ca` holds the authorities of all roles, one after the other; `certificate` this role's
# certificate, and those between it and its authority; `key` its unencrypted key. Its name goes into `tls_name` above,
# in everybody's file.
ca = "ca.pem"
certificate = "certificate.pem"
key = "private/tls-key.pem"
"""


def _data() -> str:
    return """[data]
# One row a node: .csv, .parquet, or a sparse matrix as .npz or .mtx.
features = "data/features.csv"
# The column that names the node. Rows may be in any order; without a column they are called 0, 1, 2, ...
id_column = "id"
# feature_ids = "data/ids.csv"     # the names of a sparse matrix's rows, one a line
# The edges that all parties share: .csv or .parquet with these columns, or a sparse matrix.
graph = "data/edges.csv"
source = "source"
target = "target"
# weight = "weight"
# graph_ids = "data/ids.csv"
# Where organisations do not have the same nodes: a file of ids, one a line below a header, that all agree on and all
# have here. Rows and edges of other nodes are left out, and a node of the list that has no row here is a row in which
# everything is missing. `kcagc nodes` makes a list of the nodes that all have: for that, each organisation tells the
# others which nodes of the graph it has, outside of kcagc, knowingly. A list of all nodes tells nobody anything.
# node_list = "data/nodes.csv"
# Every column is a number that is not missing, unless a rule says otherwise. The rules are this organisation's own,
# nobody else is told, and they are kept in its model for `kcagc predict`. What a rule may say:
#   kind = "number", "categorical" (a column of 0 and 1 for each level) or "drop"
#   missing = "error", "mean", "median", "zero", or "indicator": the mean (or a level) and where it was missing
#   scale = "none", "standard", "minmax" or "log1p", for numbers; a sparse matrix is divided only, not centred
#   max_levels = 50, for categorical columns: the most frequent are kept, the rest become one, "other"
# default = {}                  # columns that are not named, as { missing = "mean", scale = "standard" }
# columns.age = { missing = "median", scale = "standard" }
# columns.city = { kind = "categorical", missing = "indicator", max_levels = 50 }
# columns.note = { kind = "drop" }

# For `kcagc predict`: the same files, with rows and edges of new nodes added to those of the fit.
# [predict]
# features = "data/more-features.csv"
# graph = "data/more-edges.csv"
# id_column = "id"
"""


def _policy(plan: Plan) -> str:
    needed = "" if plan.coordinator else _needed_risks(plan)
    return f"""[policy]
# What this organisation accepts beyond the default mode, by name; a run that would open more is refused before anything
# is sent. The names: "two-party-sum", "labelled-sums", "local-means".
{needed}accept = []
"""


def _needed_risks(plan: Plan) -> str:
    needed = '"two-party-sum", "labelled-sums"' if len(plan.parties) == 2 else '"labelled-sums"'
    return f"""# Here a party sums, as in the paper: it learns more than a coordinator would, and each must accept that:
# accept = [{needed}]
"""


def _output(party: bool) -> str:
    labels = 'labels = "labels.csv"        # or labels.parquet\n' if party else ""
    return f"""[output]
folder = "result"
{labels}# The journal, from which an interrupted run goes on. Keep it private, and never run from two copies of it.
state = "state"
"""


def _waiting() -> str:
    return """[limits]
peer_timeout = 600           # seconds to wait for a participant that is not connected
message_timeout = 3600       # seconds to wait for the next message of a connected participant
# max_message_bytes = 268435456  # the basic method on many nodes needs more, at most 900 million
"""
