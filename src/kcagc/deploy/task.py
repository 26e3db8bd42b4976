"""One run of a role, put together from its configuration, its data and, for a prediction, its model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from kcagc._types import IntArray
from kcagc.deploy import fingerprints
from kcagc.deploy.config import Config
from kcagc.deploy.party_input import PartyInput, read_input
from kcagc.deploy.results import Places
from kcagc.deploy.saved_model import SavedModel
from kcagc.errors import DataError, ParameterError
from kcagc.graph.graph import Graph
from kcagc.inputs import seeds_of
from kcagc.net.tls import Credentials, digest_of
from kcagc.protocol.aggregator import aggregator_of_party, coordinator
from kcagc.protocol.agreement import Agreement
from kcagc.protocol.effects import Role, beside
from kcagc.protocol.fit import fit_party
from kcagc.protocol.local import PartyData
from kcagc.protocol.party import PartyContext
from kcagc.protocol.predict import predict_party
from kcagc.runtime.journal import Journal
from kcagc.runtime.session import Drawn, Session, open_session
from kcagc.runtime.stream_handshake import Card
from kcagc.secagg.framing import digest
from kcagc.secagg.identity import Identity

Kind = Literal["fit", "predict"]


def journal_of(config: Config, kind: Kind) -> Path:
    """Give where the journal of a kind of run lies."""
    return config.file(config.document.output.state) / f"{kind}.sqlite"


def places_of(config: Config, kind: Kind) -> Places:
    """Give where the results of a kind of run go."""
    folder = config.file(config.document.output.folder)
    return Places(folder if kind == "fit" else folder / "prediction", config.document.output.labels)


@dataclass(frozen=True, eq=False)
class Task:
    """A fit, or a prediction where there is a model."""

    config: Config
    model: SavedModel | None = None

    @classmethod
    def predict(cls, config: Config, model: Path) -> Task:
        """Give the run that places new nodes."""
        if config.role == "party" and config.document.predict is None:
            raise ParameterError(f"{config.path}: a prediction needs a section [predict], with the tables of new nodes")
        return cls(config, SavedModel.load(model, config.me))

    @property
    def kind(self) -> Kind:
        """What it is called."""
        return "fit" if self.model is None else "predict"

    @cached_property
    def agreement(self) -> Agreement:
        """What all roles must agree on."""
        return self.config.agreement(None if self.model is None else self.model.prediction())

    @cached_property
    def identity(self) -> Identity:
        """The key of this role."""
        return self.config.identity()

    @cached_property
    def credentials(self) -> Credentials:
        """What this role shows to TLS, and whom it trusts."""
        return self.config.credentials()

    @property
    def card(self) -> Card:
        """What this role shows of itself."""
        certificate = digest_of(self.credentials.certificate)
        return Card(self.config.me, self.identity, self.agreement, self.config.tls_names(), certificate)

    @property
    def journal(self) -> Path:
        """Where the journal lies."""
        return journal_of(self.config, self.kind)

    @property
    def places(self) -> Places:
        """Where results go."""
        return places_of(self.config, self.kind)

    @property
    def data(self) -> PartyData | None:
        """A party's table and graph, read and checked; a coordinator has none."""
        return None if self.input is None else self.input.data

    @property
    def columns(self) -> list[str] | None:
        """What the columns of a party's table are called."""
        return None if self.input is None else self.input.columns

    @cached_property
    def input(self) -> PartyInput | None:
        """A party's files, read, checked and made into numbers; a coordinator has none."""
        document = self.config.document
        section = document.data if self.model is None else document.predict
        if self.config.role != "party" or section is None:
            return None
        if self.model is None:
            return read_input(self.config, section)
        try:
            return read_input(self.config, section, self.model.table)
        except DataError as error:
            raise DataError(f"{error} (for a prediction, both files have what was fitted and what is new)") from error

    @property
    def graph(self) -> Graph | None:
        """The graph that this role knows."""
        return None if self.data is None else self.data.graph

    @cached_property
    def new_rows(self) -> IntArray | None:
        """The rows to place, in a prediction."""
        if self.model is None or self.data is None:
            return None
        return self.model.new_rows(self.data.graph, f"{self.config.me}: {self.config.path}: predict")

    def check(self) -> None:
        """Refuse, before anybody is spoken to, what makes no run or what the policy does not allow."""
        self.agreement.check()
        self._membership(Drawn.fresh(0, 0)).check()
        self.check_data()

    def check_data(self) -> None:
        """Refuse files that cannot be used, or that are too small for what was asked."""
        if self.data is not None:
            self.data.check_filter(self.config.me, self.agreement.parameters.filter)
            clusters, nodes = self.agreement.parameters.n_clusters, self.data.graph.n_nodes
            if clusters > nodes:
                raise DataError(f"{self.config.me}: n_clusters: {clusters} clusters of {nodes} nodes")
        _ = self.new_rows

    @cached_property
    def made_from(self) -> dict[str, bytes]:
        """Digests of all that must not change while a session lasts; a large table is hashed once."""
        document = self.config.document
        prints = {
            "the role": digest("role", self.config.me, self.config.role),
            "the configuration": fingerprints.of_configuration(
                self.agreement, document.policy.accept, document.me.random_state
            ),
            "the installed packages": fingerprints.of_packages(),
        }
        if self.data is not None:
            share = b"" if self.model is None else digest("model", msgspec.msgpack.encode(self.model.share))
            prints["the data"] = fingerprints.of_data(self.data, share)
        return prints

    def open_session(self, journal: Journal) -> Session:
        """Begin a session, or take up the one in the journal."""
        return open_session(journal, self.made_from, self.seeds)

    @cached_property
    def seeds(self) -> tuple[int, int]:
        """The seeds of all that is not secret, drawn once: a session that begins anew tells the same local clusters."""
        return seeds_of(self.config.document.me.random_state)

    def role(self, drawn: Drawn) -> Role[Any]:
        """Make the coroutine of this role."""
        name, aggregator = self.config.me, self.agreement.aggregator
        if self.config.role == "coordinator":
            return coordinator(name, self.agreement, self.identity, drawn.secrets, seed=drawn.aggregator_seed)
        member = self._member(drawn)
        if name != aggregator:
            return member
        return beside(aggregator_of_party(name, self.agreement, seed=drawn.aggregator_seed), member, name)

    def _member(self, drawn: Drawn) -> Role[Any]:
        membership, data = self._membership(drawn), self.data
        if data is None:
            raise ParameterError(f"{self.config.me}: has no data")
        if self.model is None:
            return fit_party(membership, data, seed=drawn.seed)
        if self.model.share is None or self.new_rows is None:
            raise ParameterError(f"{self.config.me}: the model has no share of this party")
        return predict_party(membership, data, self.model.share, self.new_rows)

    def _membership(self, drawn: Drawn) -> PartyContext:
        return PartyContext(self.config.me, self.agreement, self.identity, drawn.secrets, self.config.policy())
