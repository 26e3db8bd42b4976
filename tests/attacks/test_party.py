"""The curious party's attack reads every answer rightly, finds a planted leak, and finds nothing in coin flips."""

from dataclasses import replace

import numpy as np
import pytest

from attacks import party
from attacks.party import ME, Learned, correlation, estimate, replay, replay_prediction, truth
from attacks.transcripts import Case, record_prediction, recorded
from kcagc.cluster.lloyd import squared_distances

RESTARTS = (("n_init", 2),)
RUNS = [Case(settings=RESTARTS), Case(parties=2, settings=RESTARTS), Case(method="basic", settings=RESTARTS)]


@pytest.mark.parametrize("case", RUNS, ids=lambda case: f"{case.method}-{case.parties}")
def test_the_transcript_of_a_party_tells_what_each_answer_compares(case):
    run = recorded(case)
    known = replay(run.of(ME))
    (joint,) = run.inside.joint.values()
    distances = sum(squared_distances(rows, known.weights @ rows) for rows in joint.rows.values())
    true = distances[known.row, known.first] - known.factor * distances[known.row, known.second]
    clear = np.abs(true) > 1e-5
    np.testing.assert_array_equal((true > 0)[clear], known.positive[clear])
    np.testing.assert_array_equal(known.labels, joint.labels)
    assert len(known.row) > 1000


def test_a_prediction_tells_a_party_what_each_answer_compares():
    fitted, nodes = recorded(RUNS[0]), np.array([3, 5, 5, 80])
    own = party.distances_of(fitted.data[ME], fitted.models[ME], nodes)
    known = replay_prediction(record_prediction(fitted, nodes).of(ME), own)
    total = own + party.others_distances(fitted, nodes)
    true = total[known.row, known.first] - total[known.row, known.second]
    np.testing.assert_array_equal(true > 0, known.positive)
    assert set(known.row) == {0, 1, 2, 3}


def planted(n_answers):
    """Return a run whose answers compare the other's distances with random numbers, and the true distances."""
    random = np.random.default_rng(5)
    m, q, n_centres = 120, 4, 60
    code = random.integers(8, size=m)
    points = random.normal(size=(8, q))[code] * 0.5 + random.normal(size=(m, q)) * 0.05
    weights = random.dirichlet(np.full(m, 0.02), size=n_centres)
    own = random.uniform(0, 1, size=(n_centres, m))
    row, first, second = (random.integers(high, size=n_answers) for high in (m, n_centres, n_centres))
    total = own.T + squared_distances(points, weights @ points)
    known = Learned(
        members=(ME, "party-2"),
        sizes=np.ones(m, dtype=np.int64),
        codes={"party-2": code},
        own_rows=random.normal(size=(m, q)) * 0.5,
        labels=code,
        n_components=q,
        weights=weights,
        own=own,
        row=row,
        first=first,
        second=second,
        factor=np.ones(n_answers),
        positive=total[row, first] > total[row, second],
        numbers=np.zeros(n_answers, dtype=np.int64),
    )
    model = party.Points(known)
    return known, {"party-2": party.between(model.centres(points, code))}


def test_the_attack_finds_a_planted_leak_and_more_answers_reveal_more():
    few, many = (correlation(estimate(known), true) for known, true in map(planted, (300, 20_000)))
    assert many > 0.98
    assert many > few


def test_coin_flips_instead_of_answers_reveal_nothing():
    known, true = planted(20_000)
    flips = np.random.default_rng(1).integers(2, size=len(known.row)).astype(bool)
    assert abs(correlation(estimate(replace(known, positive=flips)), true)) < 0.5


def test_the_attack_gains_over_the_final_clusters():
    run = recorded(Case(settings=(("n_init", 4),)))
    known = replay(run.of(ME))
    (group,) = run.inside.joint
    true = truth(run, known, group)
    assert correlation(estimate(known), true) > correlation(estimate(known.final_only()), true) + 0.05


def test_the_short_form_of_the_suite_runs():
    found = [one for case in party.cases(short=True) for one in party.attack(case)]
    assert {one.sentence for one in found} == set(party.SENTENCES)
    assert all(one.figure <= 1 for one in found)
