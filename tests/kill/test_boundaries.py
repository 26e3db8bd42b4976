"""SIGKILL at every message boundary: a role that is started again goes on, and the run ends as if nothing had been."""

import itertools
import random

import pytest

from kill import evidence
from kill.scenarios import KILLED, SCENARIOS

pytestmark = pytest.mark.timeout(1800)
EVERY_ROLE = [(name, role) for name, scenario in SCENARIOS.items() for role in scenario.roles]


def well_chosen(reference, scenario):
    """Moments that differ: the first word, the local result, a box, a vector, an answer, the end."""
    party, aggregator = scenario.parties[0], scenario.aggregator
    commits = {role: len(reference.of(role, "commit done")) for role in (party, aggregator)}
    parts = {role: len(reference.of(role, "part left")) for role in (party, aggregator)}
    return [
        {party: [("open left", 1)]},
        {party: [("part leaves", 1)]},
        {party: [("message arrives", 1)]},
        {party: [("commit begins", commits[party] // 2)]},
        {party: [("commit done", commits[party] // 2)]},
        {party: [("part left", parts[party] - 2)]},
        {party: [("file done", 2)]},
        {party: [("end done", 2)]},
        {aggregator: [("challenge left", 1)]},
        {aggregator: [("part leaves", 1)]},
        {aggregator: [("message arrives", 2 * len(scenario.parties))]},
        {aggregator: [("commit done", commits[aggregator] // 2)]},
        {aggregator: [("part leaves", parts[aggregator] - 4)]},
        {aggregator: [("part left", parts[aggregator])]},
        {aggregator: [("results begins", 1)]},
    ]


def test_roles_that_are_killed_at_well_chosen_moments_go_on(campaign):
    kills = well_chosen(campaign.reference("coordinator"), SCENARIOS["coordinator"])
    done, failed = campaign.run_all([("coordinator", kill) for kill in kills], campaign.run_with_kills)
    assert failed == []
    assert done == len(kills)


def test_an_answer_that_was_committed_and_not_sent_is_sent_by_the_next_process(campaign):
    """Twice, and the third process sends it; its vectors are not asked for again."""
    reference = campaign.reference("coordinator")
    first_answer = len(SCENARIOS["coordinator"].parties) * 3 + 1  # after hellos, comparisons and labels
    assert reference.of("coordinator", "part leaves")[first_answer - 1] == ("part leaves", first_answer)
    kills = {"coordinator": [("part leaves", first_answer), ("part leaves", 1)]}
    assert campaign.run_with_kills("coordinator", kills) == 2


def test_a_vector_that_was_not_answered_is_sent_again_in_the_same_bytes(campaign):
    """The aggregator keeps vectors in memory only, and asks for them again when it has lost them."""
    reference = campaign.reference("coordinator")
    with campaign.run("coordinator") as run:
        run.plans["coordinator"] = [{"kill": ("message done", 11)}]  # hellos, comparisons, labels, and two vectors
        run.start_all()
        run.run_to_end()
        evidence.check(run, reference.labels)
        assert run.codes["coordinator"] == [KILLED, 0]
        assert sum(evidence.repeated(run, party) for party in run.scenario.parties) == 2


def test_a_party_that_sums_goes_on(campaign):
    kills = [{"c": [("commit done", number)]} for number in (3, 8, 12)]
    done, failed = campaign.run_all([("party aggregates", kill) for kill in kills], campaign.run_with_kills)
    assert failed == []
    assert done == len(kills)


@pytest.mark.kill
@pytest.mark.parametrize(("scenario", "role"), EVERY_ROLE, ids=lambda value: value.replace(" ", "-"))
def test_a_role_that_is_killed_at_any_boundary_goes_on(campaign, scenario, role):
    # The tree has many merges that are alike, and six roles: its boundaries are taken in turns.
    boundaries = campaign.reference(scenario).of(role)[:: 3 if scenario == "tree" else 1]
    done, failed = campaign.run_all([(scenario, {role: [one]}) for one in boundaries], campaign.run_with_kills)
    assert failed == []
    # How acknowledgements are gathered differs from run to run, so that the last of a kind may not come.
    assert done >= 0.9 * len(boundaries)


@pytest.mark.kill
@pytest.mark.parametrize("scenario", ["coordinator", "party aggregates", "tree"])
def test_two_roles_may_be_killed_in_one_run(campaign, scenario):
    reference, chance = campaign.reference(scenario), random.Random(1)  # noqa: S311
    pairs = list(itertools.permutations(SCENARIOS[scenario].roles, 2)) * 4
    cases = [(scenario, {role: [chance.choice(reference.of(role))] for role in pair}) for pair in pairs]
    done, failed = campaign.run_all(cases, campaign.run_with_kills)
    assert failed == []
    assert done >= 1.6 * len(cases)


@pytest.mark.kill
@pytest.mark.parametrize("scenario", ["coordinator", "party aggregates", "tree"])
def test_a_role_may_be_killed_again_and_again_also_while_it_replays(campaign, scenario):
    reference, chance = campaign.reference(scenario), random.Random(2)  # noqa: S311
    cases = []
    for role in SCENARIOS[scenario].roles:
        for first in reference.of(role, "commit done")[2::3]:
            replaying = ("step begins", chance.randint(1, max(first[1] // 3, 1)))
            reopening = ("commit begins", 1)
            resending = ("part leaves", 1)
            cases.append((scenario, {role: [first, replaying, replaying, reopening, resending]}))
    done, failed = campaign.run_all(cases, campaign.run_with_kills)
    assert failed == []
    assert done >= 2.5 * len(cases)


@pytest.mark.kill
def test_an_answer_is_sent_however_often_its_sending_is_prevented(campaign):
    parts = len(campaign.reference("coordinator").of("coordinator", "part leaves"))
    cases = [
        ("coordinator", {"coordinator": [("part leaves", number), *[("part leaves", 1)] * 3]})
        for number in range(1, parts + 1)
    ]
    done, failed = campaign.run_all(cases, campaign.run_with_kills)
    assert failed == []
    assert done >= 3 * len(cases)


@pytest.mark.kill
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_roles_may_be_killed_at_random_times(campaign, scenario):
    cases = [(scenario, seed) for seed in range(60 if scenario == "coordinator" else 20)]
    done, failed = campaign.run_all(cases, campaign.run_with_random_kills)
    assert failed == []
    assert done >= len(cases)
