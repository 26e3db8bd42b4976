"""Matching of ids: the exact common ids, nothing drawn anew, and every wrong or shortened result is noticed."""

import hashlib
import re
import sys
from functools import partial

import msgspec
import numpy as np
import pytest

from adversaries import Changing, Insider, Matching, but
from kcagc.disclosure import Policy
from kcagc.errors import AgreementError, DataError, ParameterError, PeerError, PolicyError
from kcagc.protocol.messages import EncryptedMessages, HiddenIds, RelayedMessages, pack
from kcagc.secagg.matching import POINT_BYTES, IdCipher, join_points, split_points


def found_by_all(scenario):
    run = scenario.run()
    assert run.raised is None
    results = [run.results[name] for name in scenario.parties]
    (found,) = {tuple(one.ids.tolist()) for one in results}
    return list(found), results


def drawn(seed, n_parties, size, kind):
    random = np.random.default_rng(seed)
    lists = [random.choice(size * 2, size + 3 * party, replace=False) for party in range(n_parties)]
    return [[kind(one) for one in ids] for ids in lists]


@pytest.mark.parametrize("n_parties", [2, 3, 5])
@pytest.mark.parametrize("kind", [int, "n{}".format])
@pytest.mark.parametrize("aggregator", ["coordinator", "party"])
def test_the_common_ids_are_the_intersection(n_parties, kind, aggregator):
    lists = drawn(n_parties, n_parties, 60, kind)
    found, results = found_by_all(Matching.of(*lists, aggregator=aggregator))
    assert found == sorted(set(lists[0]).intersection(*lists[1:]))
    assert [one.n_own for one in results] == list(map(len, lists))
    other = [one.n_other for one in results]
    assert other == ([len(lists[1]), len(lists[0])] if n_parties == 2 else [None] * n_parties)


@pytest.mark.parametrize(("first", "second"), [("abcd", "cdx"), ("abc", "abc"), ("ab", "xy")])
def test_common_ids_can_be_counted_and_stay_unknown(first, second):
    scenario = Matching.of(first, second, counts_only=True)
    run = scenario.run()
    assert run.raised is None
    for name, own, other in zip(scenario.parties, (first, second), (second, first), strict=True):
        result = run.results[name]
        assert (result.n_common, result.n_own, result.n_other) == (len({*first} & {*second}), len(own), len(other))
        assert result.ids is None
    answers = [content.points for _, _, content in run.opened if hasattr(content, "points")][2:]
    assert all(split_points(one, "") == sorted(split_points(one, "")) for one in answers)


def test_the_same_secrets_give_the_same_bytes():
    """So a journal can be replayed."""
    lists = drawn(1, 3, 20, str)
    first, again = (Matching.of(*lists).run().sent for _ in range(2))
    assert first == again


def test_another_session_hides_the_same_ids_as_other_points():
    scenarios = [Matching.of("abc", "bcd") for _ in range(2)]
    scenarios[1].session = 1
    hidden = [{one.points for _, _, one in each.run().opened if isinstance(one, HiddenIds)} for each in scenarios]
    assert len(set.union(*hidden)) == 4


def test_the_order_of_points_is_secret_and_another_one_for_each_party():
    cipher = IdCipher(b"s" * 32, b"session")
    orders = [cipher.order(other, 200).tolist() for other in ("bob", "carol")]
    assert orders[0] != orders[1]
    for order in orders:
        assert sorted(order) == list(range(200))
        assert abs(np.corrcoef(order, range(200))[0, 1]) < 0.3
    assert cipher.hide(["a", "b"]) == list(reversed(cipher.hide(["b", "a"])))


def test_only_two_secret_numbers_make_equal_points():
    one, two, three = (IdCipher(hashlib.sha256(bytes([number])).digest(), b"session") for number in range(3))
    assert two.hide_again(one.hide(["x"]), "one") == one.hide_again(two.hide(["x"]), "two")
    assert two.hide_again(one.hide(["x"]), "one") != three.hide_again(one.hide(["x"]), "one")
    assert one.hide(["x"]) != two.hide(["x"])


# ---- parties that lie


def edited(edit):
    """Return an edit of the points in a message."""

    def change(_, content):
        return msgspec.structs.replace(content, points=join_points(edit(split_points(content.points, ""))))

    return change


LIES = {
    "a shorter answer": ("answers", lambda points: points[:-1], PeerError, "answered 3 hidden ids, but received 4"),
    "a longer answer": ("answers", lambda points: [*points, b"\2" * POINT_BYTES], PeerError, "answered 5 hidden ids"),
    "an answer twice": ("answers", lambda points: [*points[:-1], points[0]], PeerError, "same hidden id twice"),
    "other answers": ("answers", lambda points: [b"\2" + one[1:] for one in points], AgreementError, "not the same"),
    "another order": ("answers", lambda points: points[1:] + points[:1], AgreementError, "not the same"),
    "no points": ("ids", lambda points: [bytes(POINT_BYTES) for _ in points[:1]], PeerError, "not points of the curve"),
    "fewer ids": ("ids", lambda points: points[:1], PeerError, "answered 1 hidden ids, but received 4|received 1"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_of_one_of_two_parties_is_noticed_by_the_other(lie):
    step, edit, error, words = LIES[lie]
    scenario = Matching.of("abcd", "bcdx")
    insider = Insider(scenario, "party-2", f"{step} party-1+party-2", edited(edit))
    run = scenario.run(insider)
    assert insider.done
    assert not {"party-1", "party-2"} & run.results.keys()
    assert isinstance(run.raised, error)
    assert any(isinstance(one, error) and re.search(words, str(one)) for one in run.origins.values())


def test_half_a_point_is_noticed():
    scenario = Matching.of("abcd", "bcdx")
    cut = lambda _, content: msgspec.structs.replace(content, points=content.points[:-1])  # noqa: E731
    run = scenario.run(Insider(scenario, "party-2", "ids party-1+party-2", cut))
    assert "no whole number of hidden ids" in str(run.origins["party-1"])


def test_a_first_party_that_goes_on_with_fewer_ids_is_noticed():
    """Also if it does so from the beginning of a step, and says the same to everybody in the end."""
    scenario = Matching.of("abcdef", "bcdef", "cdefx")
    fewer = edited(lambda points: points[:-1])
    run = scenario.run(Insider(scenario, "party-1", "ids party-1+party-3", fewer))
    assert "does not go on with the ids in common with party-2: these are 5, and it sent 4" in str(run.raised)


def test_a_first_party_that_goes_on_with_other_ids_is_noticed():
    scenario = Matching.of("abcdef", "bcdef", "cdefx")
    made_up = IdCipher(b"x" * 32, b"session").hide(["other"])
    other = edited(lambda points: [*points[:-1], *made_up])
    run = scenario.run(Insider(scenario, "party-1", "ids party-1+party-3", other))
    assert "does not go on with the ids in common with party-2: these are 5, and it sent 5" in str(run.raised)


@pytest.mark.parametrize("told", [[1, 0, 1, 1, 1], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
def test_a_first_party_that_tells_another_result_is_noticed(told):
    scenario = Matching.of("abcdef", "bcdef", "cdefx")
    edit = lambda _, content: msgspec.structs.replace(content, bits=pack(np.array(told), 2))  # noqa: E731
    run = scenario.run(Insider(scenario, "party-1", "common", edit))
    assert isinstance(run.origins["party-2"], AgreementError)
    assert "not the same" in str(run.raised)


def test_a_party_that_reports_another_result_is_noticed():
    scenario = Matching.of("abc", "bcd", "bc")
    run = scenario.run(Insider(scenario, "party-2", "receipt", lambda _, one: msgspec.structs.replace(one, count=7)))
    assert "party-2 7" in str(run.raised)
    assert run.raised.peer == "party-2"


def test_what_the_aggregator_cuts_or_swaps_is_noticed():
    def shortened(message):
        ((other, data), *rest) = message.ciphertexts
        return msgspec.structs.replace(message, ciphertexts=((other, data[:-POINT_BYTES]), *rest))

    for kind in (EncryptedMessages, RelayedMessages):
        run = Matching.of("abc", "bcd").run(Changing(kind, shortened, at=0))
        assert "cannot be decrypted" in str(run.raised)
    run = Matching.of("abc", "bcd").run(Changing(RelayedMessages, but(ciphertexts=()), at=0))
    assert "relayed other encrypted messages" in str(run.raised)


# ---- what cannot be matched


def test_ids_of_different_kinds_are_named():
    run = Matching.of([1, 2], ["1", "2"]).run()
    assert isinstance(run.raised, AgreementError)
    assert "the ids of party-1 are numbers, those of party-2 are strings" in str(run.origins["party-1"])


def test_lists_without_a_common_id_end_the_run():
    for lists in (("ab", "cd"), ("ab", "bc", "cd")):
        run = Matching.of(*lists).run()
        assert isinstance(run.raised, DataError)
        assert "no id is in the lists of all parties" in str(run.raised)


def test_more_than_two_parties_accept_the_partial_matches():
    scenario = Matching.of("ab", "bc", "bd")
    scenario.policies["party-3"] = Policy()
    run = scenario.run()
    assert isinstance(run.origins["party-3"], PolicyError)
    assert "agree on a list of nodes in another way" in str(run.origins["party-3"])
    assert not run.ledger.of("encrypted/")
    scenario = Matching.of("ab", "bc")
    scenario.policy = Policy()
    assert scenario.run().raised is None


def test_only_two_parties_can_count():
    with pytest.raises(ParameterError, match="two parties, but there are 3"):
        raise Matching.of("ab", "bc", "bd", counts_only=True).run().raised


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "private_set_intersection.python", None)
    with pytest.raises(ParameterError, match=r"Install kcagc\[psi\]"):
        raise Matching.of("ab", "bc").run().raised


def test_a_session_of_a_fit_is_not_one_of_a_matching():
    scenario = Matching.of("ab", "bc")
    scenario.agreements["party-2"] = Matching.of("ab", "bc", counts_only=True).agreement
    raised = scenario.run().raised
    assert isinstance(raised, AgreementError)
    assert "task: " in str(raised)


split = partial(split_points, sender="bob")


def test_points_travel_one_behind_the_other():
    points = [bytes([number]) * POINT_BYTES for number in range(3)]
    assert split(join_points(points)) == points
    assert split(b"") == []
