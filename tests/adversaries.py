"""Scenarios: runs of all roles with an adversary that reads, changes, holds back or forges any message.

Keys and nonces are derived from names here, so that a run can be repeated to the byte and a failure comes back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from kcagc.datasets import generate
from kcagc.disclosure import Ledger, Policy
from kcagc.disclosure.texts import RISKS
from kcagc.errors import AbortedError, KcagcError
from kcagc.graph.filters import HalfFilter
from kcagc.graph.graph import Graph
from kcagc.graph.ids import NodeIds
from kcagc.protocol import messages, party
from kcagc.protocol.aggregator import aggregator_of_party, coordinator
from kcagc.protocol.agreement import Agreement, Participant, graph_digest, ids_digest, ids_kind, open_session
from kcagc.protocol.effects import combine_halves
from kcagc.protocol.fit import fit_party
from kcagc.protocol.local import PartyData, compute_labels, compute_rows
from kcagc.protocol.match import match_parameters, match_party
from kcagc.protocol.parameters import MATCHING, Parameters, RunSettings
from kcagc.protocol.party import PartyContext
from kcagc.protocol.predict import predict_parameters, predict_party
from kcagc.runtime import in_process
from kcagc.runtime.driver import Driver, MemoryStore
from kcagc.runtime.in_process import MemoryNetwork
from kcagc.secagg.keys import ChaCha20Poly1305, Identity, Secrets, digest, framed

COORDINATOR = "coordinator"
ALL_ACCEPTED = Policy(RISKS)
FILTER = HalfFilter(2)
SEED = 7

# Returns what arrives instead of one message: any number of (sender, receiver, payload).
Adversary = Callable[[str, str, bytes], list[tuple[str, str, bytes]]]


def parameters(**changes: Any) -> Parameters:
    chosen: dict[str, Any] = {
        "method": "cells",
        "n_clusters": 3,
        "n_local_clusters": 0 if changes.get("method") in ("basic", "joint") else 3,
        "filter": repr(FILTER),
        "n_components": 3,
        "min_local_size": 1,
        "n_init": 3,
        "max_iter": 20,
    }
    return msgspec.structs.replace(RunSettings(n_clusters=3, fan_in=2).resolve(3), **(chosen | changes))


def party_names(count: int) -> tuple[str, ...]:
    return tuple(f"party-{number}" for number in range(1, count + 1))


def tables(count: int, n: int = 36) -> tuple[Any, ...]:
    return tables_with((3,) * count, n)


@cache
def tables_with(widths: tuple[int, ...], n: int) -> tuple[Any, ...]:
    """Return the adjacency matrix, and tables with these numbers of columns."""
    made = generate(n, 3, degree=3, homophily=0.6, signal=1.5, features=widths, seed=len(widths))
    return (made.adjacency, *(np.asarray(table) for table in made.parties()))


def data_of(count: int, n: int = 36) -> dict[str, PartyData]:
    return data_with((3,) * count, n)


def data_with(widths: tuple[int, ...], n: int = 36) -> dict[str, PartyData]:
    """Return the data of parties with these numbers of columns."""
    adjacency, *features = tables_with(widths, n)
    graph = Graph.from_matrix(adjacency)
    return {
        name: PartyData.build(name, graph, table, FILTER)
        for name, table in zip(party_names(len(widths)), features, strict=True)
    }


def hashed(*words: Any) -> bytes:
    return hashlib.sha256(repr(words).encode()).digest()


def identity_of(name: str) -> Identity:
    return Identity(hashed("identity", name))


def secrets_of(name: str, session: int = 0) -> Secrets:
    return Secrets(hashed("nonce", name, session), hashed("private", name, session), hashed("order", name, session))


def agreement_of(chosen: Parameters, count: int) -> Agreement:
    names = party_names(count)
    aggregator = (COORDINATOR,) if chosen.aggregator == "coordinator" else ()
    participants = tuple(
        Participant(name, "party" if name in names else "coordinator", identity_of(name).public)
        for name in (*names, *aggregator)
    )
    return Agreement(participants=participants, parameters=chosen)


@cache
def _local(chosen: Parameters, count: int, position: int, n: int) -> dict[str, bytes]:
    if chosen.method == "joint":  # its components depend on the session
        return {}
    data = data_of(count, n)[party_names(count)[position]]
    rows = compute_rows(data, chosen)
    labels = compute_labels(data, rows, chosen, SEED + position)
    return {"local rows": msgspec.msgpack.encode(rows), "local labels": msgspec.msgpack.encode(labels)}


@dataclass
class Outcome:
    """How a run ended: each role's result or error, every message as it was sent, and the record of all roles.

    `opened` are the decrypted messages, as (sender, receiver, content).
    """

    drivers: dict[str, Driver]
    ledger: Ledger
    sent: list[tuple[str, str, bytes]]
    raised: KcagcError | None
    opened: list[tuple[str, str, Any]] = field(default_factory=list)

    @property
    def results(self) -> dict[str, Any]:
        return {name: one.result for name, one in self.drivers.items() if one.finished and one.error is None}

    @property
    def errors(self) -> dict[str, KcagcError]:
        return {name: one.error for name, one in self.drivers.items() if one.error is not None}

    @property
    def origins(self) -> dict[str, KcagcError]:
        return {name: error for name, error in self.errors.items() if not isinstance(error, AbortedError)}

    @property
    def waiting(self) -> list[str]:
        return [name for name, one in self.drivers.items() if not one.finished]

    @property
    def labels(self) -> dict[str, list[int]]:
        return {name: one.labels.tolist() for name, one in self.results.items() if hasattr(one, "labels")}

    def kinds(self) -> set[str]:
        return {entry.kind for entry in self.ledger}

    def about_data(self, *, but: str = "") -> set[str]:
        """What could be read that was computed from features, of all parties and by all parties `but` one.

        Labels leave early, encrypted: they count where a party decrypted them.
        """
        left = {entry.kind for entry in self.ledger if entry.sender != but}
        labels = {
            "encrypted/labels"
            for sender, receiver, content in self.opened
            if isinstance(content, messages.PackedLabels) and but not in (sender, receiver)
        }
        return labels | left & {"message/masked", "message/plain", "message/padded"}

    def messages(self, kind: type) -> list[tuple[str, str, Any]]:
        read = [(sender, receiver, messages.decode(payload, sender)) for sender, receiver, payload in self.sent]
        return [(sender, receiver, message) for sender, receiver, message in read if isinstance(message, kind)]


def together(drivers: list[Driver], ledger: Ledger, adversary: Adversary | None = None) -> Outcome:
    """Run all drivers, with the adversary on every connection."""
    sent: list[tuple[str, str, bytes]] = []
    opened: list[tuple[str, str, Any]] = []
    decrypt = party.decrypt

    def decrypted(pair: Any, label: bytes, ciphertext: bytes) -> bytes:
        content = decrypt(pair, label, ciphertext)
        opened.append((pair.other, pair.me, messages.decode_content(content, pair.other)))
        return content

    class Wire(MemoryNetwork):
        def post(self, sender: str, receiver: str, payload: bytes) -> None:
            sent.append((sender, receiver, payload))
            arriving = [(sender, receiver, payload)] if adversary is None else adversary(sender, receiver, payload)
            for one in arriving:
                super().post(*one)

    raised = None
    with patch.object(in_process, "MemoryNetwork", Wire), patch.object(party, "decrypt", decrypted):
        try:
            in_process.run_together(drivers)
        except KcagcError as error:
            raised = error
        finally:
            for driver in drivers:
                driver._role.close()
    for driver in drivers:
        if not isinstance(driver.error, KcagcError | None):
            raise driver.error  # an unexpected exception is a defect
    return Outcome({driver.name: driver for driver in drivers}, ledger, sent, raised, opened)


def about(data: PartyData, *, shared: bool = True, subject: bytes = b"") -> bytes:
    """Return the digest of data that encryption after the confirmations depends on."""
    graph = graph_digest(data.graph) if shared else b""
    return digest("about", data.graph.n_nodes, ids_kind(data.graph), ids_digest(data.graph), graph, subject)


@dataclass
class Scenario:
    """All that a run needs; change a field before `run` to make the roles differ."""

    parameters: Parameters
    count: int = 3
    n: int = 36
    session: int = 0
    policy: Policy = ALL_ACCEPTED
    agreements: dict[str, Agreement] = field(default_factory=dict)
    identities: dict[str, Identity] = field(default_factory=dict)
    policies: dict[str, Policy] = field(default_factory=dict)
    secrets: dict[str, Secrets] = field(default_factory=dict)
    data: dict[str, PartyData] = field(default_factory=dict)
    stores: dict[str, MemoryStore] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.agreement = agreement_of(self.parameters, self.count)
        self.aggregator = self.agreement.aggregator
        self.parties = self.agreement.parties

    def membership(self, name: str) -> PartyContext:
        return PartyContext(
            name,
            self.agreements.get(name, self.agreement),
            self.identities.get(name) or identity_of(name),
            self.secrets_of(name),
            self.policies.get(name, self.policy),
        )

    def secrets_of(self, name: str) -> Secrets:
        return self.secrets.get(name) or secrets_of(name, self.session)

    def store(self, name: str) -> MemoryStore:
        """What a party computes alone is the same in every run, so it is computed once for all tests."""
        if name in self.stores:
            return self.stores[name]
        store = MemoryStore()
        same = self.agreements.get(name, self.agreement).parameters == self.parameters
        if name in self.parties and name not in self.data and not self.models and same:
            position = self.parties.index(name)
            store.results |= _local(self.parameters, self.count, position, self.n)
        return store

    def role(self, name: str, all_data: dict[str, PartyData]) -> Any:
        data = self.data.get(name, all_data[name])
        if self.models:
            return predict_party(self.membership(name), data, self.models[name], self.nodes[name])
        return fit_party(self.membership(name), data, seed=SEED + self.parties.index(name))

    def run(self, adversary: Adversary | None = None) -> Outcome:
        ledger = Ledger()
        all_data = data_of(self.count, self.n)
        roles = {name: self.role(name, all_data) for name in self.parties}
        aggregator_inputs = self.agreements.get(self.aggregator, self.agreement)
        if self.aggregator in roles:
            roles[self.aggregator] = combine_halves(
                aggregator_of_party(self.aggregator, aggregator_inputs), roles[self.aggregator], self.aggregator
            )
        else:
            own = self.identities.get(self.aggregator) or identity_of(self.aggregator)
            roles[self.aggregator] = coordinator(
                self.aggregator, aggregator_inputs, own, self.secrets_of(self.aggregator)
            )
        drivers = [
            Driver(
                name,
                role,
                tuple(other for other in roles if other != self.aggregator)
                if name == self.aggregator
                else (self.aggregator,),
                store=self.store(name),
                common=ledger,
            )
            for name, role in roles.items()
        ]
        return together(drivers, ledger, adversary)


def fit(adversary: Adversary | None = None, *, count: int = 3, **changes: Any) -> Outcome:
    """Roles a fit of `count` parties."""
    return Scenario(parameters(**changes), count).run(adversary)


def prediction(count: int = 3, **changes: Any) -> Scenario:
    """Prepare a prediction of the last six nodes by a model of all."""
    scenario = Scenario(parameters(**changes), count)
    fitted = scenario.run().results
    models = {name: fitted[name].model for name in scenario.parties}
    chosen = predict_parameters(models[scenario.parties[0]])
    nodes = np.arange(30, 36)
    return Scenario(chosen, count, session=1, models=models, nodes=dict.fromkeys(scenario.parties, nodes))


@dataclass
class Matching(Scenario):
    """A matching of these ids, one list for each party."""

    ids: list[list[Any]] = field(default_factory=list)

    @classmethod
    def of(cls, *ids: list[Any], counts_only: bool = False, **changes: Any) -> Matching:
        chosen = match_parameters(parameters(**changes), counts_only=counts_only)
        return cls(chosen, len(ids), ids=[list(one) for one in ids])

    def store(self, name: str) -> MemoryStore:
        return MemoryStore()

    def role(self, name: str, all_data: dict[str, PartyData]) -> Any:
        return match_party(self.membership(name), NodeIds.of(self.ids[self.parties.index(name)], where=name))


class Changing:
    """Replaces the fields of messages of one kind, on their way to some receivers; `at` counts among those."""

    def __init__(
        self,
        kind: type,
        edit: Callable[[Any], Any],
        *,
        sender: str | None = None,
        to: str | None = None,
        at: int | None = None,
        where: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        self.kind, self.edit, self.sender, self.to, self.at, self.where = kind, edit, sender, to, at, where
        self.seen = 0
        self.done = 0

    def __call__(self, sender: str, receiver: str, payload: bytes) -> list[tuple[str, str, bytes]]:
        message = messages.decode(payload, sender)
        if (
            not isinstance(message, self.kind)
            or (self.sender is not None and sender != self.sender)
            or (self.to is not None and receiver != self.to)
            or not self.where(message)
        ):
            return [(sender, receiver, payload)]
        self.seen += 1
        if self.at is not None and self.seen - 1 != self.at:
            return [(sender, receiver, payload)]
        self.done += 1
        changed = self.edit(message)
        if changed is None:
            return []
        every = changed if isinstance(changed, list) else [changed]
        return [(sender, receiver, one if isinstance(one, bytes) else messages.encode(one)) for one in every]


def but(**fields: Any) -> Callable[[Any], Any]:
    """Return an edit that replaces these fields."""
    return lambda message: msgspec.structs.replace(message, **fields)


class Insider:
    """An adversary that is one of the parties: with the secrets of that party it decrypts and encrypts its messages."""

    def __init__(self, scenario: Scenario, name: str, stage_text: str, edit: Callable[[str, Any], Any]) -> None:
        self.scenario, self.name, self.stage_text, self.edit = scenario, name, stage_text, edit
        self.pairs: dict[str, Any] = {}
        self.done = 0
        own = scenario.data.get(name) or data_of(scenario.count, scenario.n)[name]
        known = about(own, shared=scenario.parameters.graph == "shared")
        early = stage_text == "confirmation" or scenario.parameters.task in MATCHING
        self.about = b"" if early else known

    def __call__(self, sender: str, receiver: str, payload: bytes) -> list[tuple[str, str, bytes]]:
        message = messages.decode(payload, sender)
        if isinstance(message, messages.Hellos) and receiver == self.name:
            secrets = self.scenario.secrets_of(self.name)
            self.pairs = open_session(self.name, self.scenario.agreement, secrets, message.hellos).pairs
        if (
            isinstance(message, messages.EncryptedMessages)
            and sender == self.name
            and str(message.stage) == self.stage_text
        ):
            ciphertexts = tuple((to, self._changed(to, ciphertext)) for to, ciphertext in message.ciphertexts)
            payload = messages.encode(messages.EncryptedMessages(message.stage, ciphertexts))
        return [(sender, receiver, payload)]

    def _changed(self, to: str, ciphertext: bytes) -> bytes:
        label = framed("box", self.stage_text, self.name, to, self.about)
        cipher = ChaCha20Poly1305(self.pairs[to].encryption_key(self.name, to, label))
        content = messages.decode_content(cipher.decrypt(bytes(12), ciphertext, label), self.name)
        changed = self.edit(to, content)
        self.done += changed != content
        return cipher.encrypt(bytes(12), messages.encode(changed), label)
