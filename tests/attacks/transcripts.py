"""Recorded runs: what each role sent and received, which is all that an attack may read.

An attack is a function of a `Transcript`. It reads messages with the public types of `kcagc.protocol.messages`. A party
also has its own data, its own secrets, and the content of the messages that it encrypted and decrypted.
`Recording.inside` is for evaluators only: it holds the truth that claims are compared with.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from attacks.coordinator_truth import Blinded, watch
from experiments.paper.configurations import dataset, order_of
from kcagc.datasets.dataset import Dataset
from kcagc.datasets.generator import generate
from kcagc.disclosure import RISKS, Ledger, Policy
from kcagc.errors import KcagcError
from kcagc.graph import Graph, HalfFilter
from kcagc.graph.filters import SearchedFilter
from kcagc.protocol import fit, messages, party, search
from kcagc.protocol import joint as joint_method
from kcagc.protocol.agreement import Agreement, id_of
from kcagc.protocol.local import PartyData, PartyModel
from kcagc.protocol.messages import Confirmation, Hellos, Masked, RunStage
from kcagc.protocol.parameters import RunSettings
from kcagc.protocol.predict import predict_parameters
from kcagc.runtime import in_process
from kcagc.secagg.keys import Identity, Secrets
from kcagc.secagg.masks import CHECK_WORDS
from kcagc.simulation import COORDINATOR, SimulatedRoles, simulate_fit, simulate_predict

EVERYTHING = Policy(RISKS)

# Returns the bytes that arrive instead of a message; the message itself if nothing changes.
Change = Callable[[str, str, bytes], bytes]


@dataclass(frozen=True)
class Case:
    """One run to attack: dataset, number of parties, method ("cells", "tree", "basic", "joint"), settings that differ
    from the default, and a number that makes keys and seeds different from those of another session of the same case.

    The dataset "narrow" is generated: 12 columns of 0 and 1 for each party; in "narrow-4", the others have 4.
    """

    data: str = "demo"
    parties: int = 3
    method: str = "cells"
    session: int = 0
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"party-{number}" for number in range(1, self.parties + 1))

    def parameters(self) -> Any:
        k = self.dataset().n_classes
        settings = RunSettings(**({"n_clusters": k, "psi": self.order, "method": self.method} | dict(self.settings)))
        return settings.resolve(self.parties)

    def dataset(self) -> Dataset:
        """Return the graph and all columns."""
        return _narrow(self.data, self.parties) if self.data.startswith("narrow") else dataset(self.data)

    @property
    def order(self) -> int:
        """The order of the filter."""
        return 2 if self.data.startswith("narrow") else order_of(self.data)

    def tables(self) -> list[Any]:
        """Return the table of each party: the dataset's own, or its columns split evenly."""
        own = self.dataset()
        return list(own.parties()[: self.parties] if own.party_columns else own.parties(self.parties))

    def party_data(self) -> dict[str, PartyData]:
        graph = _graph(self)
        order = dict(self.settings).get("psi", self.order)
        filter_ = SearchedFilter("half") if order == "auto" else HalfFilter(int(order))
        return {
            name: PartyData.build(name, graph, table, filter_)
            for name, table in zip(self.names, self.tables(), strict=True)
        }


@lru_cache(maxsize=4)
def _graph(case: Case) -> Graph:
    return Graph.from_matrix(case.dataset().adjacency)


@lru_cache(maxsize=4)
def _narrow(name: str, n_parties: int) -> Dataset:
    """Return a table with few columns of 0 and 1 for each party."""
    width = int(name.partition("-")[2] or 12)
    columns = (12, *[width] * (n_parties - 1))
    return generate(1500, 4, degree=6, homophily=0.7, signal=2.0, sparsity=0.75, features=columns, seed=1, name=name)


@dataclass(frozen=True)
class Event:
    """One message on its way: who sent it to whom, its bytes, and when it left (seconds since the start)."""

    sender: str
    receiver: str
    payload: bytes
    at: float

    @property
    def message(self) -> Any:
        return messages.decode(self.payload, self.sender)


@dataclass(frozen=True)
class Content:
    """The content of one encrypted message, as the role `known_to` knows it: its sender or its receiver."""

    sender: str
    receiver: str
    content: Any
    known_to: str


@dataclass(frozen=True)
class Sum:
    """One secure sum that opened to the coordinator: its group, step and number, and the opened integers."""

    group: str
    step: str
    number: int
    values: np.ndarray
    asked: Masked

    @property
    def key(self) -> tuple[str, int]:
        return self.group, self.number


@dataclass(frozen=True)
class Transcript:
    """All that one role, or several roles together, sent and received."""

    roles: tuple[str, ...]
    events: tuple[Event, ...]
    contents: tuple[Content, ...] = ()
    data: dict[str, PartyData] = field(default_factory=dict)
    secrets: dict[str, Secrets] = field(default_factory=dict)

    def messages(self, kind: type) -> Iterator[tuple[Event, Any]]:
        """Return the messages of one type, with sender and receiver."""
        for event in self.events:
            message = event.message
            if isinstance(message, kind):
                yield event, message

    def opened(self) -> list[Sum]:
        """Return the sums that the aggregator opens: the total of the masked vectors of a group."""
        totals: dict[tuple[str, int], tuple[Masked, np.ndarray]] = {}
        for _, message in self.messages(Masked):
            words = np.frombuffer(message.words, dtype="<u8").astype(np.uint64)
            _, total = totals.get((message.group, message.number), (message, np.zeros_like(words)))
            totals[message.group, message.number] = message, total + words
        return [
            Sum(group, str(asked.step), number, total[:-CHECK_WORDS].view(np.int64), asked)
            for (group, number), (asked, total) in totals.items()
        ]

    def session_id(self) -> bytes:
        """Return the id of the session, which every role computes from the hellos."""
        _, hellos = next(self.messages(Hellos))
        agreement = msgspec.msgpack.decode(hellos.hellos[0].inputs, type=Agreement)
        return id_of(agreement, hellos.hellos)

    def group_keys(self) -> dict[str, bytes]:
        """Return the keys of groups that one of these roles sent or received in a confirmation."""
        found: dict[str, bytes] = {}
        for one in self.contents:
            if isinstance(one.content, Confirmation):
                found |= one.content.group_keys
        return found


@dataclass
class Joint:
    """What each member of a group put into one joint k-means, and its result: for evaluators."""

    sizes: np.ndarray
    k: int
    starts: np.ndarray | None
    rows: dict[str, np.ndarray] = field(default_factory=dict)
    labels: np.ndarray | None = None


@dataclass
class Inside:
    """The truth behind a run, for evaluators."""

    joint: dict[str, Joint] = field(default_factory=dict)
    blinded: dict[tuple[str, int], Blinded] = field(default_factory=dict)  # by group and number of a sum
    blocks: dict[str, np.ndarray] = field(default_factory=dict)  # by party: turned components of the search for ψ
    shares: dict[str, Any] = field(default_factory=dict)  # by party: its shares of joint rows and directions
    weights: dict[str, np.ndarray] = field(default_factory=dict)  # by party: those that opened to it


@dataclass
class Recording:
    """A run: every message, every role's result, the error that ended the run if one did, and the truth."""

    case: Case
    events: list[Event] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    data: dict[str, PartyData] = field(default_factory=dict)
    secrets: dict[str, Secrets] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    error: KcagcError | None = None
    ledger: Ledger = field(default_factory=Ledger)
    inside: Inside = field(default_factory=Inside)

    def of(self, *roles: str) -> Transcript:
        """Return the transcript of a role, or of several roles that put theirs together."""
        return Transcript(
            roles,
            tuple(one for one in self.events if one.sender in roles or one.receiver in roles),
            tuple(one for one in self.contents if one.known_to in roles),
            {name: self.data[name] for name in roles if name in self.data},
            {name: self.secrets[name] for name in roles if name in self.secrets},
        )

    def coordinator(self) -> Transcript:
        """Return the transcript of the coordinator."""
        return self.of(COORDINATOR)

    @property
    def models(self) -> dict[str, PartyModel]:
        return {name: result.model for name, result in self.results.items()}


def record(case: Case, change: Change | None = None, data: dict[str, PartyData] | None = None) -> Recording:
    """Run a fit and record it; keys and seeds follow from the case, so that the same case gives the same bytes."""
    found = Recording(case, data=data or case.party_data())
    with _recorded(found, change) as run:
        run(
            lambda: simulate_fit(
                case.parameters(),
                found.data,
                policy=EVERYTHING,
                seeds=dict.fromkeys(found.data, case.session),
                ledger=found.ledger,
            )
        )
    return found


def record_prediction(
    fitted: Recording, nodes: np.ndarray, session: int = 1, change: Change | None = None
) -> Recording:
    """Run a prediction of nodes with the model of a recorded fit, and record it."""
    settings = (*fitted.case.settings, ("nodes", tuple(int(node) for node in nodes)))  # other nodes, other keys
    case = Case(fitted.case.data, fitted.case.parties, "prediction", session, settings)
    found = Recording(case, data=fitted.data)
    models = fitted.models
    with _recorded(found, change) as run:
        run(
            lambda: simulate_predict(
                predict_parameters(next(iter(models.values()))),
                found.data,
                models,
                np.asarray(nodes, dtype=np.int64),
                policy=EVERYTHING,
                ledger=found.ledger,
            )
        )
    return found


class _recorded:  # noqa: N801
    """Record everything that happens inside: messages, contents, secrets, and the truth for evaluators."""

    def __init__(self, into: Recording, change: Change | None) -> None:
        self.into, self.change, self.stack = into, change, ExitStack()

    def __enter__(self) -> Callable[[Callable[[], dict[str, Any]]], None]:
        into, change, begin = self.into, self.change, time.perf_counter()

        class Network(in_process.MemoryNetwork):
            def post(self, sender: str, receiver: str, payload: bytes) -> None:
                sent = change(sender, receiver, payload) if change else payload
                into.events.append(Event(sender, receiver, sent, time.perf_counter() - begin))
                super().post(sender, receiver, sent)

        drawn = {"identity": 0, "secrets": 0}

        def draw(what: str) -> int:
            drawn[what] += 1
            return drawn[what]

        def seeded(*words: Any) -> bytes:
            return hashlib.sha256(repr((into.case, words)).encode()).digest()

        def identity() -> Identity:
            return Identity(seeded("identity", draw("identity")))

        def fresh() -> Secrets:
            number = draw("secrets")
            return Secrets(*(seeded(what, number) for what in ("nonce", "private", "shuffling")))

        def context(real: Callable[..., Any]) -> Callable[..., Any]:
            def made(roles: Any, name: str, policy: Policy) -> Any:
                found = real(roles, name, policy)
                into.secrets[name] = found.secrets
                return found

            return made

        decrypt, encode_ = party.decrypt, party.Party._encrypted
        search_subspace = search.find_subspace
        joint, subspace, opened = fit.joint_kmeans, joint_method.find_subspace, joint_method.open_weights

        def spied_decrypt(pair: Any, label: bytes, ciphertext: bytes) -> bytes:
            content = decrypt(pair, label, ciphertext)
            read = messages.decode_content(content, pair.other)
            into.contents.append(Content(pair.other, pair.me, read, pair.me))
            return content

        async def spied_encrypt(self: Any, to: str, stage: RunStage, content: Any, kind: str) -> bytes:
            into.contents.append(Content(self.name, to, content, self.name))
            return await encode_(self, to, stage, content, kind)

        async def spied_joint(sums: Any, rows: Any, *rest: Any) -> Any:
            known = inspect.signature(joint).bind(sums, rows, *rest).arguments
            one = into.inside.joint.setdefault(sums.group.name, Joint(known["sizes"], known["k"], known.get("starts")))
            one.rows[sums.channel.me] = rows
            result = await joint(sums, rows, *rest)
            one.labels = result.labels
            return result

        async def spied_subspace(party: Any, *rest: Any) -> Any:
            into.inside.shares[party.name] = await subspace(party, *rest)
            return into.inside.shares[party.name]

        async def spied_search(party: Any, sums: Any, own: Any, *rest: Any) -> Any:
            into.inside.blocks.setdefault(party.name, own)
            return await search_subspace(party, sums, own, *rest)

        async def spied_weights(party: Any, *rest: Any) -> Any:
            into.inside.weights[party.name] = await opened(party, *rest)
            return into.inside.weights[party.name]

        enter = self.stack.enter_context
        enter(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        enter(patch.object(in_process, "MemoryNetwork", Network))
        enter(patch.object(Identity, "generate", staticmethod(identity)))
        enter(patch.object(Secrets, "fresh", staticmethod(fresh)))
        enter(patch.object(SimulatedRoles, "context", context(SimulatedRoles.context)))
        enter(patch.object(party, "decrypt", spied_decrypt))
        enter(patch.object(party.Party, "_encrypted", spied_encrypt))
        enter(patch.object(fit, "joint_kmeans", spied_joint))
        enter(patch.object(joint_method, "find_subspace", spied_subspace))
        enter(patch.object(search, "find_subspace", spied_search))
        enter(patch.object(joint_method, "open_weights", spied_weights))
        enter(watch(into.inside.blinded))
        return self.run

    def run(self, start: Callable[[], dict[str, Any]]) -> None:
        try:
            self.into.results = start()
        except KcagcError as error:
            self.into.error = error

    def __exit__(self, *details: object) -> None:
        self.stack.close()


@lru_cache(maxsize=3)
def recorded(case: Case) -> Recording:
    """Return the recording of an honest run, computed once for each process."""
    found = record(case)
    if found.error is not None:
        raise found.error
    return found


def has_data(name: str) -> bool:
    """Return whether a dataset is there without a download."""
    return name == "demo" or bool(os.environ.get("KCAGC_DATA"))
