"""The attacks on searches read transcripts rightly, and find planted leaks."""

import numpy as np
import pytest

from attacks import joint_search
from attacks.joint import replay, truth
from attacks.joint_search import linked, nearest_spectrum, replay_search, search_case, separated
from attacks.party import ME
from attacks.transcripts import recorded
from kcagc.protocol.search import search_plans


@pytest.fixture(scope="module")
def run():
    return recorded(search_case("demo", 3, "psi"))


def test_the_transcript_of_a_party_tells_the_answers_of_the_search_and_of_the_fit(run):
    (plan,) = search_plans(run.case.parameters())
    blocks, number = replay_search(run.of(ME), plan)
    assert len(blocks) == plan.blocks
    assert all(len(one.labels) == plan.schedule.restarts * plan.schedule.rounds for one in blocks)
    known, units = replay(run.of(ME), number), truth(run).units
    centers = known.weights @ units
    scores = 2 * units @ centers.T - (centers**2).sum(axis=1)
    assert (scores[known.row, known.near] - scores[known.row, known.far]).min() > -1e-4
    np.testing.assert_array_equal(known.final, run.results[ME].labels)


def planted(turned):
    """Return three blocks of rows along graph vectors, in one basis or each in its own."""
    random = np.random.default_rng(0)
    vectors = np.linalg.qr(random.normal(size=(80, 80)))[0]
    table, values = random.normal(size=(80, 6)), np.append(np.linspace(1.0, 0.9, 6), np.full(74, 0.3))
    blocks = []
    for order in (2, 6, 14):
        rows = vectors @ ((values**order)[:, None] * table)
        blocks.append(rows @ (np.linalg.qr(random.normal(size=(6, 6)))[0] if turned else np.eye(6)))
    return blocks, np.stack([one.T @ one for one in blocks]), vectors


def test_covariances_in_one_basis_are_found():
    together, alone = separated(*planted(turned=False))
    assert together > alone + joint_search._BLOCK_MARGIN
    together, alone = separated(*planted(turned=True))
    assert together < alone + joint_search._BLOCK_MARGIN


def test_rows_of_one_node_with_their_true_lengths_are_found():
    random = np.random.default_rng(0)
    nodes = np.tile(np.arange(300), 4)
    lengths = random.normal(size=300)[nodes] + 1e-5 * random.normal(size=1200)
    shown, chance = linked(lengths, nodes)
    assert shown > 0.5
    assert chance < 0.01
    hidden, _ = linked(lengths + random.uniform(0, 26, size=1200), nodes)
    assert hidden < chance + joint_search._MARGIN


def test_the_nearest_singular_values_are_found():
    blocks, shown, _ = planted(turned=True)
    assert [nearest_spectrum(shown, one.T @ one * 3.0) for one in blocks] == [0, 1, 2]


def test_the_short_form_of_the_suite_runs():
    found = [one for case in joint_search.cases(short=True) for one in joint_search.attack(case)]
    assert {one.sentence for one in found} == set(joint_search.SENTENCES)
    assert all(one.holds for one in found)
