"""Roles that lie: what a lying party learns, and when a lying coordinator is noticed."""

import numpy as np
import pytest

from attacks import liars, party
from attacks.liars import STRATEGIES, Liar, WrongAnswers, bisect, careless, noticed, one, some
from attacks.party import correlation, truth
from attacks.transcripts import Case, record, record_prediction, recorded
from kcagc.errors import PeerError

FEW = Case(settings=(("n_init", 2), ("max_iter", 8)))
ALWAYS = [name for name, (*_, always) in STRATEGIES.items() if always]


@pytest.fixture(scope="module")
def lied():
    liar = Liar(max_iter=8)
    with liar.takes_part():
        run = record(FEW)
    return liar, run


def test_a_party_that_lies_consistently_is_not_noticed_and_learns_the_others_centres(lied):
    liar, run = lied
    claims, known = liar.claim(run)
    (group,) = run.inside.joint
    assert run.error is None
    assert liar.rounds == 8
    assert correlation(claims, truth(run, known, group)) > 0.95


def test_what_a_liar_learns_is_true(lied):
    """The answers compare its own numbers, not its distances, with the others' distances."""
    liar, run = lied
    _, known = liar.claim(run)
    (joint,) = run.inside.joint.values()
    rows = np.hstack([joint.rows[name] for name in known.codes])
    total = known.own + party._part(rows, known.weights).T
    true = total[known.first, known.row] - known.factor * total[known.second, known.row]
    clear = np.abs(true) > 1e-5
    np.testing.assert_array_equal((true > 0)[clear], known.positive[clear])


def test_a_party_that_sends_random_numbers_and_costs_ends_the_run():
    with careless():
        run = record(FEW)
    assert isinstance(run.error, PeerError)
    assert "cost" in str(run.error)


def test_the_same_party_is_not_noticed_without_the_check_of_costs(monkeypatch):
    """Planted: costs that never seem to rise."""
    real = liars.joint_kmeans._Costs.read

    def read(costs, signs):
        changed = signs.copy()
        changed[len(costs._pairs()) + len(costs._rivals()) :] = True
        return real(costs, changed)

    monkeypatch.setattr(liars.joint_kmeans._Costs, "read", read)
    with careless():
        assert record(FEW).error is None


@pytest.mark.parametrize("how", ALWAYS)
def test_a_coordinator_that_lies_often_is_named_in_the_same_sum(how):
    choose, first, *_ = STRATEGIES[how]
    change = WrongAnswers(choose, first)
    run = record(FEW, change)
    assert noticed(run)
    assert change.lied == {first}
    assert change.sums_after == 0


@pytest.mark.parametrize("nodes", [np.arange(1), np.array([4, 4]), np.arange(40)], ids=len)
def test_so_is_one_that_lies_in_a_prediction(nodes):
    change = WrongAnswers(some(0.5))
    run = record_prediction(recorded(FEW), nodes, change=change)
    assert noticed(run)
    assert change.sums_after == 0


def test_a_single_wrong_answer_is_noticed_in_some_runs_and_not_in_others():
    """It is a probe, or it has a copy, or it contradicts others, or it is none of these."""
    fitted = recorded(FEW)
    runs = [
        record_prediction(fitted, np.arange(40), session, WrongAnswers(one, seed=session, only_first=True))
        for session in range(1, 13)
    ]
    assert 0 < sum(map(noticed, runs)) < len(runs)
    assert all(run.error is None for run in runs if not noticed(run))


def test_an_honest_coordinator_is_not_accused():
    change = WrongAnswers(some(0.0))
    run = record(FEW, change)
    assert run.error is None
    assert not change.lied
    assert len(change.answered) > 3


def test_each_prediction_of_the_same_nodes_reveals_more_to_a_liar():
    fitted, nodes = recorded(FEW), np.arange(0, 600, 40)
    true = party.others_distances(fitted, nodes)
    found = [party.within_rows(claim, true) for claim in bisect(fitted, nodes, 8)]
    assert found[0] < found[3] < found[7]
    assert found[7] > 0.99


def test_every_lie_supports_a_sentence():
    some_of_them = ("random answers", "1 % flipped")
    chosen = [case for case in liars.cases(short=True) if case.get("how", some_of_them[0]) in some_of_them]
    found = [figure for case in chosen for figure in liars.attack(case)]
    assert {figure.sentence for figure in found} == set(liars.SENTENCES)
    assert all(figure.holds for figure in found)
