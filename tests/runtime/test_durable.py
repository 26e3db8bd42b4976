"""A role is killed at any moment and resumes from its journal: the run ends as an undisturbed run."""

import random
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np
import pytest

from collaborations import EVERYTHING, parameters, random_parties
from kcagc.engines import LocalEngine
from kcagc.errors import AbortedError, EngineError, SessionError
from kcagc.protocol import party as protocol_party
from kcagc.protocol.aggregator import aggregator_of_party, coordinator
from kcagc.protocol.effects import combine_halves
from kcagc.protocol.fit import fit_party
from kcagc.protocol.messages import (
    AnonymousClusters,
    Answer,
    Finished,
    Hellos,
    Masked,
    PackedLabels,
    Padded,
    RunStage,
    Split,
    Step,
    decode,
    decode_content,
    encode,
)
from kcagc.runtime.durable import DurableRole, PeerQueue
from kcagc.runtime.journal import Journal, open_session
from kcagc.simulation import SimulatedRoles

MODES = [
    {"method": "cells"},
    {"method": "basic"},
    {"method": "tree", "fan_in": 2},
    {"method": "cells", "aggregator": "party"},
    {"method": "joint", "joint_rows": "shares", "max_iter": 4},
    {"method": "joint", "joint_rows": "coordinator"},
]


class Run:
    """All roles with journals on disk; their connections lose everything when a role is killed."""

    def __init__(self, folder, mode, seed=0):
        self.data = random_parties(7, 4 if mode["method"] == "tree" else 3, n_nodes=24)
        self.simulated = SimulatedRoles.of(parameters(**mode), tuple(self.data))
        self.aggregator, self.folder = self.simulated.agreement.aggregator, folder
        self.names = [one.name for one in self.simulated.agreement.participants]
        self.random = random.Random(seed)  # noqa: S311
        self.journals, self.roles = {}, {}
        self.received = {}  # by (party, group, number): all bytes that the aggregator received
        self.crashes = 0
        for name in self.names:
            self.begin(name)

    def begin(self, name):
        self.journals[name] = journal = Journal(self.folder / f"{name}.sqlite")
        drawn = open_session(journal, {"the data": b"same"}, 11).randomness
        peers = (
            [one for one in self.simulated.agreement.parties if one != self.aggregator]
            if name == self.aggregator
            else [self.aggregator]
        )
        queues = {peer: PeerQueue(peer) for peer in peers}
        self.roles[name] = DurableRole(
            name, self.coroutine(name, drawn), queues, journal, aggregator=name == self.aggregator
        )
        self.roles[name].resume()

    def coroutine(self, name, drawn):
        agreement, identity = self.simulated.agreement, self.simulated.identities[name]
        if name not in self.data:
            return coordinator(name, agreement, identity, drawn.secrets)
        membership = self.simulated.context(name, EVERYTHING)
        object.__setattr__(membership, "secrets", drawn.secrets)
        member = fit_party(membership, self.data[name], seed=drawn.seed)
        return combine_halves(aggregator_of_party(name, agreement), member, name) if name == self.aggregator else member

    def crash(self, name):
        """Drop the journal's uncommitted step and everything in memory, as SIGKILL does."""
        self.journals[name].roll_back()
        self.journals[name].close()
        self.crashes += 1
        self.begin(name)

    def pairs(self):
        for party in self.simulated.agreement.parties:
            if party != self.aggregator:
                yield party, self.aggregator
                yield self.aggregator, party

    def waiting(self):
        """Return the messages that were sent and have not arrived, by connection."""
        found = []
        for sender, receiver in self.pairs():
            queue, theirs = self.roles[sender].queues[receiver], self.roles[receiver].queues[sender]
            queue.acknowledge(theirs.safe)
            if queue.sent > theirs.arrived:
                found.append((sender, receiver, theirs.arrived + 1))
        return found

    def step(self):
        ready = self.waiting()
        if not ready:
            return False
        sender, receiver, number = self.random.choice(ready)
        payload = self.roles[sender].queues[receiver].outbox[number]
        message = decode(payload, sender)
        if receiver == self.aggregator and isinstance(message, Masked):
            self.received.setdefault((sender, message.group, message.number), set()).add(payload)
        if isinstance(message, Padded | Split | AnonymousClusters):
            self.received.setdefault((sender, receiver, type(message), number), set()).add(payload)
        self.roles[receiver].receive(sender, number, payload)
        return True

    def play(self, crash_rate=0.0):
        while self.step():
            if self.random.random() < crash_rate:
                self.crash(self.random.choice(self.names))
        errors = [role.driver.error for role in self.roles.values() if role.driver.error]
        assert not errors, errors
        assert all(role.finished for role in self.roles.values()), {
            n: r.driver.waiting_for for n, r in self.roles.items()
        }
        return {name: self.roles[name].driver.result.labels for name in self.data}

    def close(self):
        for journal in self.journals.values():
            journal.close()


@pytest.fixture(params=MODES, ids=lambda mode: "-".join(map(str, mode.values())))
def mode(request):
    return request.param


@pytest.fixture
def runs(tmp_path):
    begun = []

    def begin(mode, seed=0):
        folder = tmp_path / str(len(begun))
        folder.mkdir()
        begun.append(Run(folder, mode, seed))
        return begun[-1]

    yield begin
    for run in begun:
        run.close()


def test_crashes_at_random_moments_change_nothing(runs, mode):
    undisturbed, crashes = runs(mode).play(), 0
    for seed in range(4):
        run = runs(mode, seed)
        labels = run.play(crash_rate=0.2)
        crashes += run.crashes
        for name, found in labels.items():
            np.testing.assert_array_equal(found, undisturbed[name])
        # One vector under one mask: every repeated message has the same bytes.
        assert run.received
        assert all(len(payloads) == 1 for payloads in run.received.values())
    assert crashes > 10


@pytest.mark.parametrize("mode", [MODES[0], *MODES[-2:]], indirect=True, ids=["cells", "shares", "coordinator"])
def test_a_crash_after_every_single_message_changes_nothing(runs, mode):
    undisturbed = runs(mode).play()
    labels = runs(mode, 1).play(crash_rate=1.0)
    for name, found in labels.items():
        np.testing.assert_array_equal(found, undisturbed[name])


class KilledError(BaseException):
    """Stands for SIGKILL."""


def killed(name):
    raise KilledError(name)


class LostOnceEngine(LocalEngine):
    """An engine whose cluster is lost the first time."""

    def __init__(self):
        self.calls = 0

    def smooth(self, *values, **more):
        self.calls += 1
        if self.calls == 1:
            raise EngineError("engine: the connection to the Dask scheduler is lost")
        return super().smooth(*values, **more)


def begin_and_go_on(run, name):
    """Begin a role again; it fails at its first step, or at a later one."""
    run.crash(name)
    while run.step():
        pass


def test_a_lost_cluster_ends_one_process_and_the_same_command_resumes_its_role(runs, mode):
    """No other role hears of it, and the journal goes on where it was."""
    undisturbed = runs(mode).play()
    run = runs(mode, 5)
    name, engine = next(iter(run.data)), LostOnceEngine()
    run.data[name] = replace(run.data[name], engine=engine)
    with pytest.raises(EngineError):
        begin_and_go_on(run, name)
    assert engine.calls == 1
    assert [one for one, role in run.roles.items() if one != name and role.driver.error] == []
    assert run.journals[name].status != "failed"
    run.crash(name)
    for party, found in run.play().items():
        np.testing.assert_array_equal(found, undisturbed[party])


def test_a_role_killed_at_a_flush_resumes(runs, mode):
    """The rest of the step is lost; the messages that have left do not change."""
    undisturbed = runs(mode).play()
    run, going = runs(mode, 2), True
    while going:
        for name, role in run.roles.items():
            role.on_flush = partial(killed, name)
        try:
            going = run.step()
        except KilledError as kill:
            run.crash(kill.args[0])
    for name, found in run.play().items():
        np.testing.assert_array_equal(found, undisturbed[name])
    assert all(len(payloads) == 1 for payloads in run.received.values())
    # What basic and joint send with the comparison of data comes from features: they compute first.
    assert (run.crashes > 0) == (mode["method"] not in ("basic", "joint"))


def test_data_are_compared_while_a_party_computes(runs):
    run, seen = runs({"method": "cells"}), {}

    def note(name):
        (queue,) = run.roles[name].queues.values()
        seen[name] = queue.outbox[queue.sent], run.journals[name].load_result("local rows")

    for name in run.data:
        run.roles[name].on_flush = partial(note, name)
    run.play()
    assert set(seen) == set(run.data)
    for name, (payload, local) in seen.items():
        assert str(decode(payload, name).stage) == "confirmation"
        assert local is None


def test_an_aggregating_party_sends_its_messages_before_it_computes(runs):
    run, seen = runs({"method": "cells", "aggregator": "party"}), []
    role = run.roles[run.aggregator]

    def note():
        seen.append({decode(queue.outbox[queue.sent], run.aggregator).__class__ for queue in role.queues.values()})

    role.on_flush = note
    run.play()
    assert {Hellos} in seen  # before its own filter, projection and clusters
    assert {Answer} in seen  # before its own next distances


def test_an_aggregator_stores_no_masked_vector(runs):
    run = runs({"method": "cells"})
    run.play()
    kept = [one.payload for one in run.journals[run.aggregator].incoming() if one.payload is not None]
    assert kept
    assert not [one for one in kept if isinstance(decode(one, "x"), Masked)]
    digests = [one for one in run.journals[run.aggregator].incoming() if one.payload is None]
    assert len(digests) == len(run.received)


def test_a_coordinator_stores_neither_padded_components_nor_scores(runs):
    run = runs({"method": "joint", "max_iter": 6})
    run.play()
    journal = run.journals[run.aggregator]
    kept = [one for one in journal.incoming() if one.payload is not None]
    assert kept
    assert not [one for one in kept if isinstance(decode(one.payload, one.peer), Masked | Padded)]
    rows = journal._rows("SELECT value FROM results WHERE name LIKE 'answer %'")
    stored = [msgspec.msgpack.decode(value) for (value,) in rows]
    centers = [one for one in stored if one["step"] == Step.SCORES]
    assert centers
    assert all(len(one["payload"]) == 8 * one["length"] for one in centers)


def test_a_crash_does_not_change_the_ledger(runs):
    ledgers = []
    for crash_rate in (0.0, 0.3):
        run = runs({"method": "cells"}, 3)
        run.play(crash_rate)
        ledgers.append({name: [entry for _, entry in journal.ledger()] for name, journal in run.journals.items()})
    assert ledgers[0] == ledgers[1]


def test_an_abort_ends_a_role_that_waits_for_another_peer(runs):
    run = runs({"method": "cells"})
    while not run.received:
        run.step()
    run.roles["party-3"].fail(OwnTroubleError("full disk"))
    while run.step():
        pass
    for name in ("party-1", "party-2", run.aggregator):
        error = run.roles[name].driver.error
        assert isinstance(error, AbortedError)
        assert (error.peer, error.reason) == ("party-3", "aborted")


class OwnTroubleError(ValueError):
    """An unexpected error, whose text does not leave the role."""


def test_equivocation_ends_the_run(runs):
    run = runs({"method": "cells"})
    while not run.received:
        run.step()
    run.roles[run.aggregator].receive("party-1", 1, encode(Finished("1.1")))
    assert "party-1: sent two different messages under number 1" in str(run.roles[run.aggregator].driver.error)
    while run.step():
        pass
    assert {run.roles[name].driver.error.peer for name in run.data} == {run.aggregator}


def test_a_journal_with_other_data_sends_nothing(runs):
    run = runs({"method": "cells"})
    while not run.received:
        run.step()
    journal = run.journals["party-1"]
    before = [(one.number, one.digest) for one in journal.outgoing()]
    open_session(journal, {"the data": b"same"}, 11).bind(run.aggregator, b"its attempt")
    with pytest.raises(
        SessionError, match=r"the data changed since this session started; nothing was sent.*--new-session"
    ):
        open_session(journal, {"the data": b"other"}, (11, 12))
    assert [(one.number, one.digest) for one in journal.outgoing()] == before


def test_a_role_can_start_over_until_it_sends_a_vector(runs):
    run = runs({"method": "cells"})
    assert all(role.can_start_over() for role in run.roles.values())
    run.play()
    assert not any(role.can_start_over() for role in run.roles.values())


def stages_of(role):
    return {entry.stage for entry in role.driver.ledger.of("message/")}


def test_a_role_can_start_over_after_local_labels_but_not_after_vectors(runs):
    run = runs({"method": "cells"})
    role = run.roles["party-1"]
    while "labels 1.1" not in stages_of(role):
        run.step()
    assert role.can_start_over()
    assert not role.driver.ledger.of("message/masked")
    while not role.driver.ledger.of("message/masked"):
        run.step()
    assert not role.can_start_over()
    while not run.roles[run.aggregator].driver.ledger.of("message/answer"):
        run.step()
    assert not run.roles[run.aggregator].can_start_over()


def test_an_aggregator_cannot_start_over_after_it_received_a_vector(runs):
    run = runs({"method": "cells"})
    while not run.received:
        run.step()
    ((sender, _, _),) = run.received
    aggregator = run.roles[run.aggregator]
    assert stages_of(aggregator) == {"hello", "confirmation", "labels 1.1"}
    assert not aggregator.can_start_over()
    assert aggregator.can_start_over(besides=sender)


def test_a_role_cannot_start_over_after_labels_of_a_merge(runs):
    run = runs({"method": "tree", "fan_in": 2})
    role = run.roles["party-1"]
    while "labels 2.1" not in stages_of(role):
        run.step()
    assert not role.can_start_over()
    assert not RunStage(Step.LABELS, "2.1", 2).is_early
    assert RunStage(Step.LABELS, "1.12", 1).is_early


def test_a_session_that_starts_over_sends_the_same_local_labels(runs, monkeypatch):
    """They disclose nothing new; keys and encrypted messages are different."""
    told, sealed = [], protocol_party.encrypt

    def noted(pair, label, content):
        box = sealed(pair, label, content)
        if isinstance(decode_content(content, pair.me), PackedLabels):
            told.append((pair.me, pair.other, content, box))
        return box

    monkeypatch.setattr(protocol_party, "encrypt", noted)
    first, second = runs({"method": "cells"}, 1), runs({"method": "cells"}, 2)
    for run in (first, second):
        run.play()
    half = len(told) // 2
    before, after = (
        {(me, other): (content, box) for me, other, content, box in part} for part in (told[:half], told[half:])
    )
    assert len(before) == 6
    assert before.keys() == after.keys()
    for both, (content, box) in before.items():
        assert after[both][0] == content
        assert after[both][1] != box


def test_an_aggregator_killed_after_every_answer_sends_each_answer_in_the_same_bytes(runs):
    """It does not ask again: what the parties decide depends on answers before the kill."""
    mode = {"method": "basic", "n_init": 6, "n_clusters": 4}
    whole, killed_often = runs(mode), runs(mode)
    answered = []
    for run, kill in ((whole, False), (killed_often, True)):
        told = {}
        while run.step():
            before = len(told)
            for queue in run.roles[run.aggregator].queues.values():
                for payload in queue.outbox.values():
                    if isinstance(message := decode(payload, run.aggregator), Answer):
                        told.setdefault(message.number, set()).add(payload)
            if kill and len(told) > before:
                run.crash(run.aggregator)
        assert all(role.finished and role.driver.error is None for role in run.roles.values())
        assert all(len(payloads) == 1 for payloads in told.values())
        answered.append(sorted(told))
    assert killed_often.crashes == len(answered[1]) > 2
    assert answered[0] == answered[1]
    for name in whole.data:
        labels = [run.roles[name].driver.result.labels.tolist() for run in (whole, killed_often)]
        assert labels[0] == labels[1]


class FullDisk(Journal):
    """Return a journal whose n-th commit fails, as on a full disk."""

    commits_left = None

    def commit(self):
        if self.commits_left is not None and self._db.in_transaction:
            self.commits_left -= 1
            if self.commits_left < 0:
                raise SessionError("the journal cannot be written: disk full")
        super().commit()


@pytest.mark.parametrize("victim", ["party-2", "coordinator"])
@pytest.mark.parametrize("commits", range(4))
def test_a_role_whose_journal_fails_stops_and_resumes_when_the_disk_has_space(runs, victim, commits):
    undisturbed = runs({"method": "cells"}).play()
    run = runs({"method": "cells"}, 5)
    while not run.received:
        run.step()
    role, journal = run.roles[victim], run.journals[victim]
    journal.__class__ = FullDisk
    journal.commits_left = commits
    failed = False
    while not failed and run.waiting():
        try:
            run.step()
        except SessionError:
            failed = True
    assert failed
    before = {peer: (queue.safe, queue.sent) for peer, queue in role.queues.items()}
    for peer, queue in role.queues.items():  # the role neither accepts nor acknowledges any message now
        with pytest.raises(SessionError, match="the journal has failed"):
            role.receive(peer, queue.arrived + 1, encode(Finished("1.1")))
    assert {peer: (queue.safe, queue.sent) for peer, queue in role.queues.items()} == before
    run.crash(victim)
    for name, found in run.play().items():
        np.testing.assert_array_equal(found, undisturbed[name])
    assert all(len(payloads) == 1 for payloads in run.received.values())


@pytest.mark.parametrize("victim", ["party-1", "coordinator"])
def test_a_role_killed_while_it_fails_starts_a_new_session(runs, victim):
    run = runs({"method": "cells"})
    while not run.received:
        run.step()
    run.roles[victim].fail(OwnTroubleError("trouble"))
    before = run.journals[victim].fact("attempt")
    run.crash(victim)
    assert run.journals[victim].fact("attempt") != before
    assert not run.roles[victim].finished
    assert run.roles[victim].queues[next(iter(run.roles[victim].queues))].arrived == 0


def test_a_role_cannot_start_over_after_proposed_starts(runs):
    run = runs({"method": "basic"})
    while not run.roles["party-1"].driver.ledger.of("encrypted/confirmation.starts"):
        run.step()
    assert not run.roles["party-1"].can_start_over()
    assert {entry.stage for entry in run.roles["party-1"].driver.ledger.of("message/")} == {"hello", "confirmation"}
