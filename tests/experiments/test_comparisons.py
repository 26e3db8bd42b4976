"""Prototypes of comparisons on shares: right on every value, and nothing that a role receives alone says anything."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.comparisons import blinded_signs, function_shares, magnitudes, replicated_shares
from experiments.comparisons.__main__ import METHODS, summary, terms_of
from experiments.comparisons.links import COORDINATOR, Links
from experiments.paper.store import RESULTS, ROOT, Records


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("count", [4, 63, 1000])
@pytest.mark.parametrize("method", METHODS)
def test_every_sign_is_right(method, count, parties):
    sums, terms = terms_of(count, parties, np.random.default_rng(count))
    np.testing.assert_array_equal(METHODS[method].compare(terms, Links()), sums > 0)


def test_shares_of_a_comparison_function_add_up_around_the_threshold():
    threshold = np.array([0, 1, 127, 128, 2**24, 2**31 - 1], dtype=np.uint32)
    keys = function_shares.deal(threshold)
    for offset in (-1, 0, 1):
        x = ((threshold.astype(np.int64) + offset) % 2**31).astype(np.uint32)
        shares = [function_shares.evaluate(party, keys, x) for party in (0, 1)]
        np.testing.assert_array_equal(shares[0] ^ shares[1], x < threshold)


class Recording(Links):
    """Links that keep what one role receives."""

    def __init__(self, role):
        super().__init__()
        self.role, self.received = role, []

    def send(self, sender, receiver, array):
        if receiver == self.role:
            self.received.append(np.ascontiguousarray(array).view(np.uint8).ravel())
        return super().send(sender, receiver, array)


@pytest.mark.parametrize("method", [replicated_shares, blinded_signs], ids=["replicated shares", "signs"])
def test_the_bits_that_the_coordinator_receives_are_balanced(method):
    sums = np.full(4096, 5)
    links = Recording(COORDINATOR)
    method.compare([np.zeros_like(sums), sums], links)
    bits = np.unpackbits(np.concatenate(links.received))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(bits))


def test_the_coordinator_receives_nothing_where_it_deals():
    links = Recording(COORDINATOR)
    _, terms = terms_of(100, 3, np.random.default_rng(0))
    function_shares.compare(terms, links)
    assert links.received == []


def test_a_relayed_message_takes_two_delays_and_two_links():
    links = Links()
    links.send("party 0", "party 1", np.zeros(4, dtype=np.uint8))
    links.end_round()
    assert (links.delays, links.sent.total()) == (2, 8)
    links.send("party 1", COORDINATOR, np.zeros(1, dtype=np.uint8))
    links.end_round()
    assert links.delays == 3


def test_more_octaves_leak_less():
    random = np.random.default_rng(0)
    values = 2 * random.integers(1, 2**25, 50_000) + 1
    found = [magnitudes.leak(values, octaves, random) for octaves in (4, 24, 90)]
    assert [one["bits"] for one in found] == sorted((one["bits"] for one in found), reverse=True)
    assert found[0]["bits"] > 0.2
    assert found[2]["rank_correlation"] < 0.06 < found[0]["rank_correlation"]


def test_the_threat_model_shows_the_stored_figures():
    assert summary(Records(RESULTS / "comparisons.json")) in (ROOT / "docs" / "threat-model.md").read_text("utf-8")
