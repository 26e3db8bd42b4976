"""False signs and false distances: an aggregator that does not answer by the signs is noticed, and so is noise."""

from functools import cache

import msgspec
import numpy as np
import pytest

from adversaries import COORDINATOR, FILTER, Changing, Scenario, but, data_of, fit, parameters, prediction
from kcagc.errors import AbortedError, PeerError
from kcagc.protocol import aggregator
from kcagc.protocol.local import PartyData
from kcagc.protocol.messages import Answer, Masked, decode, encode, pack
from kcagc.protocol.secure_sum import MIN_LENGTH, SecureSums

OTHER_CAUSE = "coordinator answered wrongly, or a party sent numbers that are not its distances"
FITS = {
    "cells": (3, {}),
    "two parties": (2, {"n_init": 1}),
    "basic": (3, {"method": "basic", "n_init": 2}),
    "tree": (4, {"method": "tree", "n_init": 2}),
    "many clusters": (3, {"n_clusters": 7, "n_local_clusters": 8, "n_init": 2}),
}


class LyingAggregator:
    """Adds vectors as it should, and tells all members the same lie, from the sum with number `first` on.

    A lie gets the opened sums and a source of randomness, and returns signs.
    """

    def __init__(self, lie, *, first=0, seed=0):
        self.lie, self.first, self.random = lie, first, np.random.RandomState(seed)
        self.totals, self.told = {}, {}

    def __call__(self, sender, receiver, payload):
        message = decode(payload, sender)
        if isinstance(message, Masked):
            words = np.frombuffer(message.words, dtype="<u8").astype(np.uint64)
            key = (message.group, message.number)
            self.totals[key] = self.totals.get(key, np.uint64(0)) + words
        if isinstance(message, Answer) and message.number >= self.first:
            payload = self.told.setdefault((message.group, message.number), self._answer(message))
        return [(sender, receiver, payload)]

    def _answer(self, message):
        sums = self.totals[message.group, message.number][:-2].view(np.int64)
        signs = np.asarray(self.lie(sums, self.random), dtype=np.int64)
        return encode(msgspec.structs.replace(message, signs=pack(signs, 2)))


def smallest(share):
    """Return a lie that changes the signs of the sums with the smallest magnitudes."""

    def lie(sums, _):
        size = np.abs(sums.astype(float))
        return (sums > 0) ^ (size <= np.quantile(size, share))

    return lie


def largest(share):
    def lie(sums, _):
        size = np.abs(sums.astype(float))
        return (sums > 0) ^ (size >= np.quantile(size, 1 - share))

    return lie


def some(share):
    return lambda sums, random: (sums > 0) ^ (random.uniform(size=len(sums)) < share)


LIES = {
    "at random": lambda sums, random: random.uniform(size=len(sums)) < 0.5,
    "the opposite": lambda sums, _: sums < 0,
    "always positive": lambda sums, _: np.ones(len(sums)),
    "never positive": lambda sums, _: np.zeros(len(sums)),
    "by the lowest bit": lambda sums, _: sums & 1,
    "one in four": some(0.25),
    "small magnitudes": smallest(0.25),
    "large magnitudes": largest(0.25),
    "in another order": lambda sums, _: sums[::-1] > 0,
    "the answer before, moved by one": lambda sums, _: np.roll(sums, 1) > 0,
}


def ended_in_sum(outcome, number, group=None):
    """Whether the parties themselves ended the run in this sum, and named the aggregator and the other cause."""
    assert not outcome.labels
    assert outcome.origins
    for name, error in outcome.origins.items():
        assert name != COORDINATOR
        assert type(error) is PeerError
        assert error.peer == COORDINATOR
        assert OTHER_CAUSE in str(error)
    for error in outcome.errors.values():
        assert isinstance(error, PeerError | AbortedError)
    words = f"(group {group}, sum {number})" if group else f"sum {number})"
    return any(words in str(error) for error in outcome.origins.values())


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", FITS)
def test_an_aggregator_that_does_not_answer_by_the_signs_ends_the_fit_in_the_same_sum(name, lie):
    """Answers at random pass 64 probes with a probability of 2^-64, and a quarter of lies with 10^-8."""
    count, changes = FITS[name]
    outcome = fit(LyingAggregator(LIES[lie]), count=count, **changes)
    assert ended_in_sum(outcome, 0)
    numbers = {entry.stage.split()[-1] for entry in outcome.ledger.of("opened/")}
    assert numbers == {"0"}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("first", [1, 2])
def test_an_aggregator_that_is_honest_at_first_is_noticed_in_the_sum_in_which_it_lies(first, lie):
    outcome = fit(LyingAggregator(LIES[lie], first=first), method="basic", n_init=2)
    assert ended_in_sum(outcome, first, "all")
    assert len(outcome.ledger.of("opened/")) == first + 1


@cache
def predicting(n_nodes):
    scenario = prediction()
    for name in scenario.parties:
        scenario.nodes[name] = np.arange(36 - n_nodes, 36)
    return scenario


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("n_nodes", [1, 2, 6])
def test_an_aggregator_that_does_not_answer_by_the_signs_ends_a_prediction(n_nodes, lie):
    """Also of one node alone: its few comparisons travel among 64 probes or more."""
    scenario = predicting(n_nodes)
    assert scenario.run().raised is None
    outcome = scenario.run(LyingAggregator(LIES[lie]))
    assert ended_in_sum(outcome, 0, "all")


def test_one_node_is_predicted_with_the_length_of_a_few():
    """The aggregator cannot tell one node from six by the length of the list."""
    lengths = {}
    for n_nodes in (1, 2, 6):
        messages = predicting(n_nodes).run().messages(Masked)
        lengths[n_nodes] = {len(one.words) // 8 - 2 for _, _, one in messages}
        assert all(length >= MIN_LENGTH for length in lengths[n_nodes])
    assert lengths[1] == lengths[2] == lengths[6]


def test_one_false_answer_in_a_hundred_is_noticed_in_most_sums_and_never_splits_the_parties():
    """A sum whose checks happen to be answered rightly goes on with a few false signs, the same for all parties."""
    scenario, noticed, first = Scenario(parameters(method="basic", n_init=2)), 0, 0
    for seed in range(30):
        outcome = scenario.run(LyingAggregator(some(0.01), seed=seed))
        if outcome.raised is None:
            assert len({str(labels) for labels in outcome.labels.values()}) == 1
        else:
            noticed += 1
            assert type(outcome.raised) is PeerError
            first += ended_in_sum(outcome, 0)
    assert first >= 20  # 128 entries of each sum or more are checked or have a copy: 1 - 0.99^128 is 0.72
    assert noticed >= 28


def test_a_single_false_answer_is_noticed_if_it_hits_a_check_or_a_comparison_with_a_copy():
    """Otherwise it changes a comparison, in the same way for all parties."""
    scenario = Scenario(parameters(n_init=1, max_iter=1))
    honest = scenario.run()
    ((length,), *_) = (entry.shape for entry in honest.ledger.of("opened/"))
    places, noticed = range(0, length, 3), 0
    for place in places:

        def lie(sums, _, place=place):
            return (sums > 0) ^ (np.arange(len(sums)) == place)

        outcome = scenario.run(LyingAggregator(lie))
        noticed += outcome.raised is not None
        assert len({str(labels) for labels in outcome.labels.values()}) <= 1
        assert outcome.raised is None or ended_in_sum(outcome, 0)
    assert 0.6 * len(places) < noticed < len(places)


def lying_party(patch, lie):
    """Let the aggregator half of a party answer by a lie; it hears the same as the others."""
    real = aggregator.pack
    patch.setattr(aggregator, "pack", lambda signs, count: real(np.asarray(lie(signs), dtype=np.int64), count))


def test_a_party_that_aggregates_and_reverses_all_answers_is_noticed_when_the_cost_rises(monkeypatch):
    """It knows the key, so its sums have no probes. The order of the costs is checked all the same."""
    lying_party(monkeypatch, lambda signs: 1 - signs)
    outcome = fit(aggregator="party", method="basic")
    assert type(outcome.raised) is PeerError
    assert outcome.raised.peer == "party-3"
    assert "the cost of a restart rose" in str(outcome.raised)
    assert not outcome.labels


def test_a_party_that_aggregates_and_answers_at_random_is_noticed_by_contradictions(monkeypatch):
    random = np.random.RandomState(0)
    lying_party(monkeypatch, lambda signs: random.randint(2, size=len(signs)))
    outcome = fit(aggregator="party", method="basic")
    assert type(outcome.raised) is PeerError
    assert outcome.raised.peer == "party-3"
    assert "answers contradict each other (group all, sum 0): party-3 answered wrongly" in str(outcome.raised)
    assert not outcome.labels


def test_lies_about_numbers_that_are_smaller_than_every_probe_hit_few_comparisons():
    """Such numbers are differences near zero, and only copies check them; a lie is the same for all parties."""
    low = 1 << 21  # 2^18, the smallest probe, times the smallest factor
    lied = opened = 0

    def lie(sums, _):
        nonlocal lied, opened
        lied, opened = lied + np.count_nonzero(np.abs(sums) < low), opened + len(sums)
        return (sums > 0) ^ (np.abs(sums) < low)

    for session in range(6):
        outcome = Scenario(parameters(method="basic", n_init=10, n_clusters=5), session=session).run(
            LyingAggregator(lie)
        )
        assert len({str(labels) for labels in outcome.labels.values()}) <= 1
        assert outcome.raised is None or OTHER_CAUSE in str(outcome.raised)
    assert 0 < lied < opened / 200


def test_an_aggregator_sees_numbers_of_either_sign_equally_often_never_zero_and_never_twice():
    """Rows are equal in pairs, so that many differences are the same."""
    scenario = Scenario(parameters(method="basic", n_init=10, n_clusters=5))
    for name, one in data_of(3).items():
        scenario.data[name] = PartyData.build(name, one.graph, np.repeat(one.features[:18], 2, axis=0), FILTER)
    curious = LyingAggregator(lambda sums, _: sums > 0)
    outcome = scenario.run(curious)
    assert outcome.raised is None
    for total in curious.totals.values():
        sums = total[:-2].view(np.int64)
        assert sums.all()
        large = np.abs(sums[np.abs(sums) > 2**32])
        assert len(np.unique(large)) == len(large) > 0.7 * len(sums)
        assert abs((sums > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(len(sums))


# Parties


def noise(seed, *, check_words):
    random = np.random.RandomState(seed)

    def edit(one):
        words = np.frombuffer(one.words, dtype="<u8").copy()
        some = slice(None) if check_words else slice(0, -2)
        words[some] += random.randint(2**63, size=len(words[some])).astype(np.uint64) * np.uint64(2)
        return but(words=words.tobytes())(one)

    return edit


@pytest.mark.parametrize("mode", ["coordinator", "party"])
@pytest.mark.parametrize("sender", ["party-1", "party-2"])
def test_a_party_that_sends_random_words_opens_nothing(sender, mode):
    outcome = fit(Changing(Masked, noise(1, check_words=True), sender=sender, at=0), aggregator=mode)
    assert type(outcome.raised) is PeerError
    assert "the masks of a sum do not cancel" in str(outcome.raised)
    assert not outcome.ledger.of("opened/")


@pytest.mark.parametrize("sender", ["party-1", "party-2", "party-3"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_party_that_hides_noise_under_valid_masks_ends_the_run_in_the_same_sum(sender, number):
    """Nobody can tell this from wrong answers: the error names the aggregator and this cause."""
    adversary = Changing(Masked, noise(1, check_words=False), sender=sender, where=lambda one: one.number == number)
    outcome = fit(adversary, method="basic")
    assert adversary.done == 1
    assert ended_in_sum(outcome, number, "all")


def random_distances(patch, seed, liar="party-2"):
    """Let one party send random distances within the bound instead of its own, with valid masks and checks."""
    random, real = np.random.RandomState(seed), SecureSums.encode

    def lying(self, distances):
        found = real(self, distances)
        return random.randint(int(self.bound) << 24, size=found.shape) if self.channel.me == liar else found

    patch.setattr(SecureSums, "encode", lying)


@pytest.mark.parametrize("method", ["basic", "cells"])
def test_a_party_that_sends_random_distances_ends_the_run_at_the_first_rising_cost(method, monkeypatch):
    """Its own checks hold, and its comparisons fit together; but no k-means on noise lowers all costs for long."""
    sums = []
    for seed in range(12):
        with monkeypatch.context() as patch:
            random_distances(patch, seed)
            outcome = fit(method=method, n_init=10, max_iter=20)
        assert type(outcome.raised) is PeerError
        assert "the cost of a restart rose, which k-means cannot do" in str(outcome.raised)
        assert outcome.raised.peer == COORDINATOR
        assert OTHER_CAUSE in str(outcome.raised)
        assert not outcome.labels
        sums.append(len(outcome.ledger.of("opened/")))
    assert max(sums) <= 7  # the first assignment, and three rounds of at most two sums


@pytest.mark.parametrize("max_iter", [1, 3])
def test_random_distances_never_get_more_rounds_than_agreed(max_iter, monkeypatch):
    for seed in range(10):
        with monkeypatch.context() as patch:
            random_distances(patch, seed)
            outcome = fit(method="basic", n_init=1, max_iter=max_iter)
        assert len(outcome.ledger.of("opened/")) <= 1 + 2 * max_iter
        if outcome.raised is None:
            assert len({str(labels) for labels in outcome.labels.values()}) == 1
        else:
            assert "the cost of a restart rose" in str(outcome.raised)
