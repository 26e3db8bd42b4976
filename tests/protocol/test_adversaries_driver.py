"""Policy and driver: what is refused before it begins, never sent twice, and never told."""

import hashlib
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from adversaries import (
    ALL_ACCEPTED,
    COORDINATOR,
    FILTER,
    Changing,
    Scenario,
    data_of,
    fit,
    parameters,
    prediction,
    tables,
)
from kcagc.disclosure import RISKS, Disclosure, Ledger, Policy
from kcagc.disclosure.texts import ANONYMOUS_GEOMETRY, TEXTS
from kcagc.errors import AbortedError, DataError, KcagcError, MaskReuseError, ParameterError, PeerError, PolicyError
from kcagc.protocol.effects import CommitMask, Disclose, Send, Wait
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Abort, Masked, decode
from kcagc.runtime.driver import Driver, MemoryStore
from kcagc.runtime.in_process import run_together
from kcagc.secagg.masks import Group

TWO, LABELLED, LOCAL = "two-party-sum", "labelled-sums", "local-means"

# Which names a run needs: (parties, parameters, names). Written by hand from the paper's protocols.
NEEDS = [
    *[(count, {"method": "joint"}, set()) for count in (2, 3, 5)],
    *[(count, {"method": "joint", "joint_rows": "coordinator"}, {ANONYMOUS_GEOMETRY}) for count in (2, 3)],
    *[(count, {"method": method}, set()) for count in (2, 3, 4, 5) for method in ("cells", "tree", "basic")],
    (2, {"method": "cells", "aggregator": "party"}, {TWO, LABELLED}),
    (2, {"method": "tree", "aggregator": "party"}, {TWO, LABELLED}),
    (2, {"method": "basic", "aggregator": "party"}, {TWO, LABELLED}),
    (3, {"method": "cells", "aggregator": "party"}, {LABELLED}),
    (3, {"method": "tree", "aggregator": "party"}, {LABELLED}),
    (3, {"method": "basic", "aggregator": "party"}, {LABELLED}),
    (4, {"method": "cells", "aggregator": "party"}, {LABELLED}),
    (4, {"method": "tree", "aggregator": "party"}, {TWO, LABELLED}),  # the third and the last party sum alone
    (4, {"method": "tree", "fan_in": 3, "aggregator": "party"}, {LABELLED}),
    (4, {"method": "basic", "aggregator": "party"}, {LABELLED}),
    (5, {"method": "cells", "aggregator": "party"}, {LABELLED}),
    (5, {"method": "tree", "aggregator": "party"}, {LABELLED}),
    (5, {"method": "tree", "fan_in": 3, "aggregator": "party"}, {TWO, LABELLED}),
    (5, {"method": "basic", "aggregator": "party"}, {LABELLED}),
    (3, {"method": "cells", "virtual_nodes": "local"}, set()),
    (4, {"method": "tree", "virtual_nodes": "local"}, set()),
    (3, {"method": "basic", "virtual_nodes": "local"}, set()),
    (3, {"method": "cells", "virtual_nodes": "local", "aggregator": "party"}, {LABELLED, LOCAL}),
    (2, {"virtual_nodes": "local", "aggregator": "party"}, {TWO, LABELLED, LOCAL}),
]
PREDICTION_NEEDS = [
    (2, {"aggregator": "party"}, {TWO, LABELLED}),
    (3, {"aggregator": "party"}, {LABELLED}),
    (4, {"aggregator": "party", "method": "tree"}, {LABELLED}),
    (5, {"aggregator": "party", "method": "basic"}, {LABELLED}),
    (2, {}, set()),
    (3, {"virtual_nodes": "local"}, set()),
]


def nothing_left_but_aborts(outcome, names=None):
    for entry in outcome.ledger:
        assert entry.kind == "message/abort" or (names is not None and entry.sender not in names)
    for sender, _, payload in outcome.sent:
        assert isinstance(decode(payload, sender), Abort) or (names is not None and sender not in names)


def check_needs(scenario, needs):
    scenario.policy = Policy(needs)
    accepted = scenario.run()
    assert accepted.raised is None
    assert len({str(labels) for labels in accepted.labels.values()}) == 1
    for missing in sorted(needs):
        scenario.policy = Policy(needs - {missing})
        refused = scenario.run()
        assert type(refused.raised) is PolicyError
        assert f'"{missing}"' in str(refused.raised)
        for other in needs - {missing}:
            assert f'"{other}"' not in str(refused.raised)
        nothing_left_but_aborts(refused)
    return accepted


@pytest.mark.parametrize(("count", "changes", "needs"), NEEDS)
def test_a_run_needs_exactly_these_names_and_sends_nothing_without_one(count, changes, needs):
    accepted = check_needs(Scenario(parameters(n_init=1, **changes), count), needs)
    weaker = {entry.kind for entry in accepted.ledger if entry.weaker}
    assert bool(weaker) == bool(needs), weaker


@pytest.mark.parametrize(("count", "changes", "needs"), PREDICTION_NEEDS)
def test_a_prediction_needs_exactly_these_names_and_sends_nothing_without_one(count, changes, needs):
    accepted = check_needs(prediction(count, **changes), needs)
    assert any(entry.weaker for entry in accepted.ledger) == bool(needs)


@pytest.mark.parametrize("lacking", ["party-1", "party-2", "party-3"])
def test_a_party_cannot_accept_a_risk_for_another(lacking):
    scenario = Scenario(parameters(aggregator="party"))
    scenario.policies[lacking] = Policy()
    outcome = scenario.run()
    assert type(outcome.raised) is PolicyError
    assert type(outcome.errors[lacking]) is PolicyError
    nothing_left_but_aborts(outcome, {lacking})
    assert not outcome.about_data()
    for name, error in outcome.errors.items():
        if name not in (lacking, "party-3"):
            assert isinstance(error, AbortedError)
            assert error.peer == lacking
            assert error.reason == "its policy refuses this run"


def test_a_group_of_one_cannot_be_made():
    for members in ((), ("a",), ("a", "a")):
        with pytest.raises(ParameterError, match="two different parties"):
            Group(members, COORDINATOR, 1, 1)


@pytest.mark.parametrize("accept", ["labelled-sums", ["labelled sums"], ["everything"], [""]])
def test_names_that_mean_nothing_are_refused(accept):
    with pytest.raises(ParameterError, match="accept: "):
        Policy(accept)


def test_every_risk_is_needed_by_some_run():
    elsewhere = {"revealing-labels", "changed-roster", "partial-matches"}  # test_label_policy, test_kept, test_match
    assert set().union(*(needs for _, _, needs in NEEDS)) == set(RISKS) - elsewhere


# Labels and what they hide


class Writing(MemoryStore):
    """Keeps what was committed, in order."""

    def __init__(self):
        super().__init__()
        self.used = []

    def commit_mask(self, label, digest):
        self.used.append((label, digest))
        super().commit_mask(label, digest)


async def sends(*words, to="other", label=b"label"):
    for word in words:
        await CommitMask(label, hashlib.sha256(word).digest())
        await Send(to, word, Disclosure("one", to, "message/masked", "", (), len(word)))


def test_a_label_hides_one_content_only_and_the_second_does_not_leave():
    store = MemoryStore()
    driver = Driver("one", sends(b"first", b"second"), ("other",), store=store)
    sent = driver.start()
    assert isinstance(driver.error, MaskReuseError)
    assert [payload for _, payload in sent if payload in (b"first", b"second")] == [b"first"]
    assert [entry.kind for entry in driver.ledger] == ["message/masked", "message/abort"]
    again = Driver("one", sends(b"first"), ("other",), store=store)  # the same content may go again
    assert again.start() == [("other", b"first")]
    third = Driver("one", sends(b"second"), ("other",), store=store)
    assert b"second" not in [payload for _, payload in third.start()]
    assert isinstance(third.error, MaskReuseError)


@pytest.mark.parametrize("mode", ["coordinator", "party"])
@pytest.mark.parametrize("method", ["cells", "basic"])
def test_a_party_that_begins_again_with_other_data_and_the_same_keys_sends_nothing_under_old_masks(method, mode):
    scenario = Scenario(parameters(method=method, aggregator=mode, n_init=1))
    store = Writing()
    store.results = scenario.store("party-2").results
    scenario.stores["party-2"] = store
    first = scenario.run()
    assert first.raised is None
    assert scenario.run().sent == first.sent  # from its store it says the same again
    store.results = {}  # lost, and the table has changed meanwhile
    other = tables(3)[2][::-1]
    scenario.data["party-2"] = PartyData.build("party-2", data_of(3)["party-2"].graph, other, FILTER)
    outcome = scenario.run()
    assert type(outcome.raised) is MaskReuseError
    before = {payload for _, _, payload in first.sent}
    masked = [one for sender, _, one in outcome.sent if sender == "party-2" and isinstance(decode(one, sender), Masked)]
    assert set(masked) <= before


@pytest.mark.parametrize("mode", ["coordinator", "party"])
@pytest.mark.parametrize("method", ["cells", "basic", "tree"])
def test_no_label_is_used_twice_in_a_run_by_one_party(method, mode):
    scenario = Scenario(parameters(method=method, aggregator=mode), 4)
    for name in scenario.parties:
        scenario.stores[name] = Writing()
    assert scenario.run().raised is None
    for name in scenario.parties:
        labels = [label for label, _ in scenario.stores[name].used]
        assert len(labels) == len(set(labels))
        assert labels


def test_every_vector_and_every_ciphertext_is_committed_before_it_leaves():
    """One commitment for each masked vector and each ciphertext, as the record counts them, and one for the cost."""
    scenario = Scenario(parameters(method="tree"), 4)
    for name in scenario.parties:
        scenario.stores[name] = Writing()
    outcome = scenario.run()
    for name in scenario.parties:
        left = [entry for entry in outcome.ledger if entry.sender == name and entry.kind != "message/hello"]
        counted = [one for one in left if one.kind == "message/masked" or one.kind.startswith("encrypted/")]
        assert len(scenario.stores[name].used) == len(counted) + 1


def test_masked_vectors_are_never_the_same_twice():
    outcome = fit()
    words = [one.words for _, _, one in outcome.messages(Masked)]
    assert len(set(words)) == len(words)
    tails = [one[-16:] for one in words]
    assert all(tail != bytes(16) for tail in tails)
    assert all(one[:8] != other[:8] for one, other in pairwise(words))


# How a role ends


async def failing(error):
    await Wait(frozenset({"peer"}))
    raise error


def test_peers_learn_which_role_ended_the_run_and_nothing_about_data():
    secret = DataError("bank: features: the value in row 17, column 3 is 123.456")
    ledger = Ledger()
    driver = Driver("bank", failing(secret), ("peer", "another"), ledger=ledger)
    assert driver.start() == []
    sent = driver.deliver("peer", b"")
    assert [to for to, _ in sent] == ["peer", "another"]
    for _, payload in sent:
        message = decode(payload, "bank")
        assert message == Abort("bank", "its data cannot be used")
        for value in (b"123.456", b"17", b"column"):
            assert value not in payload
    assert [entry.kind for entry in ledger] == ["message/abort"] * 2
    assert [entry.bytes for entry in ledger] == [len(payload) for _, payload in sent]
    assert driver.error is secret
    assert driver.finished


def every_error():
    return [kind for kind in _below(KcagcError) if kind is not AbortedError]


def _below(kind):
    return [kind, *(one for sub in kind.__subclasses__() for one in _below(sub))]


@pytest.mark.parametrize("kind", every_error())
def test_only_the_public_message_of_an_error_is_sent(kind):
    driver = Driver("bank", failing(kind("the balance of zoe is 4711")), ("peer",))
    driver.start()
    ((_, payload),) = driver.deliver("peer", b"")
    assert b"4711" not in payload
    assert b"zoe" not in payload
    chosen = Driver("bank", failing(kind("the balance of zoe is 4711").with_public_message("chosen words")), ("peer",))
    chosen.start()
    ((_, payload),) = chosen.deliver("peer", b"")
    assert decode(payload, "bank") == Abort("bank", "chosen words")


def test_an_abort_is_passed_on_with_its_origin_and_not_back_to_it():
    driver = Driver(
        "aggregator", failing(AbortedError("its data cannot be used", peer="bank")), ("bank", "shop", "telecom")
    )
    driver.start()
    sent = driver.deliver("peer", b"")
    assert [to for to, _ in sent] == ["shop", "telecom"]
    assert {decode(payload, "aggregator") for _, payload in sent} == {Abort("bank", "its data cannot be used")}


@pytest.mark.parametrize("mode", ["coordinator", "party"])
@pytest.mark.parametrize("who", ["party-1", "party-2", "party-3"])
def test_all_other_roles_learn_which_role_failed(who, mode):
    """Its table is of zeros only: that is found out alone, and told without a word about the table."""
    scenario = Scenario(parameters(aggregator=mode))
    scenario.data[who] = PartyData.build(who, data_of(3)[who].graph, np.zeros((36, 3)), FILTER)
    outcome = scenario.run()
    assert type(outcome.raised) is DataError
    assert outcome.raised.party == who
    assert not outcome.about_data()
    assert not outcome.waiting
    for name, error in outcome.errors.items():
        if name != who:
            assert isinstance(error, AbortedError)
            assert (error.peer, error.reason) == (who, "its data cannot be used")


@pytest.mark.parametrize("mode", ["coordinator", "party"])
@pytest.mark.parametrize("method", ["cells", "basic"])
def test_a_value_out_of_bounds_names_its_party_at_home_and_stays_there(method, mode):
    scenario = Scenario(parameters(scaling="US", method=method, aggregator=mode))
    large = PartyData.build("party-2", data_of(3)["party-2"].graph, tables(3)[2] * 1234.5, FILTER)
    scenario.data["party-2"] = large
    outcome = scenario.run()
    assert type(outcome.raised) is DataError
    assert "party-2" in str(outcome.raised)
    assert not [entry for entry in outcome.ledger if entry.sender == "party-2" and entry.kind == "message/masked"]
    for sender, _, payload in outcome.sent:
        message = decode(payload, sender)
        assert not isinstance(message, Abort) or message.reason in ("its data cannot be used", "aborted")


def test_the_abort_after_a_refused_message_contains_nothing_of_it():
    adversary = Changing(
        Masked, lambda one: msgspec.structs.replace(one, step="ssn 078-05-1120"), sender="party-2", at=0
    )
    outcome = fit(adversary)
    assert type(outcome.raised) is PeerError
    for _, _, one in outcome.messages(Abort):
        assert "078" not in one.reason


def test_a_driver_records_a_message_before_it_sends_it():
    class Full(Ledger):
        def record(self, entry):
            raise KcagcError("the disk is full")

    async def role():
        await Send("peer", b"x", Disclosure("one", "peer", "message/hello", "", (), 1))

    driver = Driver("one", role(), (), ledger=Full())
    assert driver.start() == []
    assert isinstance(driver.error, KcagcError)


def test_a_message_to_an_unknown_role_is_an_error():
    with pytest.raises(KcagcError, match="unknown role nobody"):
        run_together([Driver("one", sends(b"word", to="nobody"), ())])


def test_what_opens_is_recorded_without_being_sent():
    opened = next(kind for kind in TEXTS if kind.startswith("opened/"))

    async def role():
        await Disclose(Disclosure("a+b", "one", opened, "", (1,), 0))
        return "done"

    driver = Driver("one", role(), ())
    assert driver.start() == []
    assert (driver.result, [entry.kind for entry in driver.ledger]) == ("done", [opened])


def test_the_policy_of_all_names_accepts_everything():
    ALL_ACCEPTED.check(RISKS)
