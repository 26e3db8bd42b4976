"""A role is deterministic from its recorded local result on: replayed from its inbox, it sends the same bytes."""

import copy
from collections import Counter, defaultdict, deque
from dataclasses import replace

import pytest

from collaborations import EVERYTHING, parameters, random_parties
from kcagc.cluster import held_out, joint
from kcagc.errors import MaskReuseError
from kcagc.graph.filters import SearchedFilter
from kcagc.protocol.aggregator import aggregator_of_party, coordinator
from kcagc.protocol.components import Components
from kcagc.protocol.effects import combine_halves
from kcagc.protocol.fit import fit_party
from kcagc.protocol.fit_result import SweepResult
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Masked, Padded, decode
from kcagc.protocol.search import search_plans
from kcagc.runtime.driver import Driver, MemoryStore
from kcagc.runtime.in_process import run_together
from kcagc.secagg.keys import Secrets
from kcagc.simulation import SimulatedRoles

MODES = [
    {"method": "basic"},
    {"method": "cells"},
    {"method": "tree", "fan_in": 2},
    {"method": "cells", "aggregator": "party"},
    {"method": "tree", "fan_in": 2, "aggregator": "party"},
    {"method": "joint", "joint_rows": "shares", "max_iter": 3},
    {"method": "joint", "joint_rows": "coordinator"},
    {"method": "joint", "joint_rows": "shares", "max_iter": 2, "sample": 15},  # nodes; the others are assigned later
    {"method": "joint", "joint_rows": "coordinator", "sample": 15},
    {"method": "joint", "max_iter": 2, "orders": (1, 3)},
    {"method": "joint", "most_clusters": 4},
    {"method": "joint", "most_clusters": 4, "orders": (1, 3)},
]
SEARCHED = SearchedFilter("half")


class Recorded(Driver):
    """A driver that keeps what came in and what went out, message by message."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.inbox, self.outbox, self.snapshots = [], [], []
        self.steps, self.padded = ("directions",), Counter()

    def has_kept(self, sender, message):
        """Whether the store has what the aggregator computed from a vector: it asks for the vector no more."""
        if isinstance(message, Padded):
            self.padded[sender] += 1
            return self._store.load_result(self.steps[self.padded[sender] - 1]) is not None
        return isinstance(message, Masked) and (
            self._store.load_result(f"answer {message.group} {message.number}") is not None
        )

    def start(self):
        self.outbox.append(super().start())
        return self.outbox[-1]

    def deliver(self, sender, payload):
        self.inbox.append((sender, payload))
        self.snapshots.append(copy.deepcopy(self._store))
        self.outbox.append(super().deliver(sender, payload))
        return self.outbox[-1]


class Roles:
    """All roles of a run, which can be set up again with the same secrets."""

    def __init__(self, mode):
        self.data = random_parties(7, 3, n_nodes=24)
        if mode.get("orders"):
            self.data = {name: replace(one, filter=SEARCHED) for name, one in self.data.items()}
            mode = {"filter": repr(SEARCHED)} | mode
        self.simulated = SimulatedRoles.of(parameters(**mode), tuple(self.data))
        self.members = {name: self.simulated.context(name, EVERYTHING) for name in self.data}
        self.aggregator = self.simulated.agreement.aggregator
        self.aggregator_secrets = Secrets.fresh()

    def driver(self, name, store, data=None):
        agreement = self.simulated.agreement
        if name in self.data:
            role = fit_party(self.members[name], (data or self.data)[name], seed=5)
            if name == self.aggregator:
                role = combine_halves(aggregator_of_party(name, agreement), role, name)
        else:
            role = coordinator(name, agreement, self.simulated.identities[name], self.aggregator_secrets)
        peers = tuple(other for other in self.names if other != name) if name == self.aggregator else (self.aggregator,)
        driver = Recorded(name, role, peers, store=store)
        driver.steps = (*(f"directions{one.purpose}" for one in search_plans(agreement.parameters)), "directions")
        return driver

    @property
    def names(self):
        return tuple(dict.fromkeys([*self.data, self.aggregator]))


@pytest.fixture(params=MODES, ids=lambda mode: " ".join(map(str, mode.values())))
def played(request, monkeypatch):
    mode = dict(request.param)
    if "sample" in mode:
        monkeypatch.setattr(joint, "MIN_SAMPLE", mode.pop("sample"))
        monkeypatch.setattr(joint, "SAMPLE_VALUES", 1)
        mode["min_local_size"] = 1
    monkeypatch.setattr(held_out, "LEAST_EDGES", 1)
    play = Roles(mode)
    stores = {name: MemoryStore() for name in play.names}
    drivers = [play.driver(name, stores[name]) for name in play.names]
    results = run_together(drivers)
    return play, stores, {driver.name: driver for driver in drivers}, results


def test_a_role_replayed_from_its_inbox_sends_the_same_bytes(played):
    play, stores, drivers, results = played
    for name, first in drivers.items():
        again = play.driver(name, stores[name])
        again.start()
        for sender, payload in first.inbox:
            replayed(again, sender, payload)
        assert sent_by(again) == sent_by(first)
        assert again.finished
        if name in play.data:
            assert found_by(again.result) == found_by(results[name])


def test_a_role_that_crashed_after_any_message_continues_after_replay(played):
    """With the store as it was at the crash: what came later was not there yet."""
    play, _, drivers, results = played
    for name, first in drivers.items():
        for crashed_before, store in enumerate(first.snapshots):
            again = play.driver(name, copy.deepcopy(store))
            again.start()
            for sender, payload in first.inbox[:crashed_before]:
                replayed(again, sender, payload)
            for sender, payload in first.inbox[crashed_before:]:
                again.deliver(sender, payload)
            assert sent_by(again) == sent_by(first)
            if name in play.data:
                assert found_by(again.result) == found_by(results[name])


def test_an_aggregator_is_replayed_without_the_masked_vectors_that_it_answered(played):
    play, stores, drivers, _ = played
    first = drivers[play.aggregator]
    again = play.driver(play.aggregator, stores[play.aggregator])
    again.start()
    for sender, payload in first.inbox:
        if not isinstance(decode(payload, sender), Masked | Padded):
            again.deliver(sender, payload)
    assert again.finished
    assert again.error is None
    assert sent_by(again) == sent_by(first)
    assert again.ledger.of("opened/") == first.ledger.of("opened/")


def test_an_aggregator_ignores_a_repeated_vector_that_it_answered(played):
    """A party that did not get the answer before the crash sends its vector or its components again."""
    play, stores, drivers, _ = played
    first = drivers[play.aggregator]
    again = play.driver(play.aggregator, stores[play.aggregator])
    again.start()
    queues = defaultdict(deque)
    for sender, payload in first.inbox:
        queues[sender].append(payload)
    while ready := [sender for sender in sorted(again.waiting_for) if queues[sender]]:
        again.deliver(ready[0], queues[ready[0]].popleft())
    assert again.error is None
    assert again.finished
    assert sent_by(again) == sent_by(first)


def found_by(result):
    """Give the labels, or the curves of a sweep."""
    return repr((result.sweep, result.psi_search)) if isinstance(result, SweepResult) else result.labels.tolist()


def replayed(driver, sender, payload):
    """Hand over a recorded message, unless it is a vector whose answer the aggregator has kept."""
    kept = driver.has_kept(sender, decode(payload, sender))
    if sender in driver.waiting_for and not kept:
        driver.deliver(sender, payload)


def sent_by(driver):
    """Give what went to each peer, in order."""
    found = {}
    for batch in driver.outbox:
        for to, payload in batch:
            found.setdefault(to, []).append(payload)
    return found


def test_other_data_under_the_same_session_send_nothing_that_was_hidden_before(played):
    """A store that lost the local result but kept the labels: the replay must stop before it masks another vector."""
    play, stores, drivers, _ = played
    name = "party-1"
    forgetful = MemoryStore()
    forgetful.labels = dict(stores[name].labels)
    moved = {
        party: PartyData(one.graph, one.features + (party == name) * one.features**2, one.filter)
        for party, one in play.data.items()
    }
    again = play.driver(name, forgetful, moved)
    again.start()
    for sender, payload in drivers[name].inbox:
        if again.finished:
            break
        again.deliver(sender, payload)
    assert isinstance(again.error, MaskReuseError)
    sent = [payload for batch in again.outbox for _, payload in batch]
    before = [payload for batch in drivers[name].outbox for _, payload in batch]
    assert set(sent[:-1]) <= set(before)
    assert b"aborted" in sent[-1]


@pytest.mark.parametrize("form", ["shares", "coordinator"])
def test_components_that_change_after_a_crash_change_nothing_that_has_left(form, monkeypatch):
    """Another processor or number of threads may change last bits; here the components change by a thousandth.

    After a crash before any message, the party sends the same bytes as before, or nothing and the run ends.
    """
    play = Roles({"method": "joint", "joint_rows": form, "max_iter": 3})
    drivers = {name: play.driver(name, MemoryStore()) for name in play.names}
    run_together(list(drivers.values()))
    plain = Components.rows
    monkeypatch.setattr(Components, "rows", property(lambda own: plain.fget(own) * 1.001))
    for name in play.data:
        first = drivers[name]
        for crashed_before, store in enumerate(first.snapshots):
            again = play.driver(name, copy.deepcopy(store))
            again.start()
            for sender, payload in first.inbox[:crashed_before]:
                again.deliver(sender, payload)
            before = [payload for batch in first.outbox[: crashed_before + 1] for _, payload in batch]
            assert again.error is None
            assert [payload for batch in again.outbox for _, payload in batch] == before
            for sender, payload in first.inbox[crashed_before:]:
                if not again.finished:
                    again.deliver(sender, payload)
            for label, content in store.labels.items():
                assert again._store.labels[label] == content


def test_two_sessions_have_no_masked_bytes_in_common():
    def masked_bytes(play):
        drivers = [play.driver(name, MemoryStore()) for name in play.names]
        run_together(drivers)
        return [payload for one in drivers for batch in one.outbox for _, payload in batch if b"masked" in payload[:20]]

    first, second = (masked_bytes(Roles({"method": "cells"})) for _ in range(2))
    assert first
    assert not set(first) & set(second)
