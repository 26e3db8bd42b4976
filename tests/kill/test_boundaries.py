"""SIGKILL at every message boundary: a restarted role continues, and the run ends as an undisturbed run."""

import itertools
import random

import pytest

from kill import evidence
from kill.scenarios import KILLED, SCENARIOS

pytestmark = pytest.mark.timeout(1800)
EVERY_ROLE = [
    (name, role) for name, scenario in SCENARIOS.items() if scenario.at_every_boundary for role in scenario.roles
]


def chosen_kills(reference, scenario):
    """Return kills at different moments: opening, local result, encrypted message, vector, answer, end."""
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
        {party: [("file done", 1)]},  # the labels are kept, and the session is not counted yet
        {party: [("file done", 2)]},  # the session is counted, and the step is not committed yet
        {party: [("file done", 4)]},  # the second file of the results
        {party: [("end done", 2)]},
        {aggregator: [("challenge left", 1)]},
        {aggregator: [("part leaves", 1)]},
        {aggregator: [("message arrives", 2 * len(scenario.parties))]},
        {aggregator: [("commit done", commits[aggregator] // 2)]},
        {aggregator: [("part leaves", parts[aggregator] - 4)]},
        {aggregator: [("part left", parts[aggregator])]},
        {aggregator: [("results begins", 1)]},
    ]


def test_roles_killed_at_chosen_moments_continue(campaign):
    kills = chosen_kills(campaign.reference("coordinator"), SCENARIOS["coordinator"])
    done, failed = campaign.run_all([("coordinator", kill) for kill in kills], campaign.run_with_kills)
    assert failed == []
    assert done == len(kills)


def test_an_answer_committed_and_not_sent_is_sent_by_the_next_process(campaign):
    """Two processes are killed before they send it; the third sends it and requests no vectors again."""
    reference = campaign.reference("coordinator")
    first_answer = len(SCENARIOS["coordinator"].parties) * 3 + 1  # after hellos, comparisons and labels
    assert reference.of("coordinator", "part leaves")[first_answer - 1] == ("part leaves", first_answer)
    kills = {"coordinator": [("part leaves", first_answer), ("part leaves", 1)]}
    assert campaign.run_with_kills("coordinator", kills) == 2


def test_a_vector_without_an_answer_is_sent_again_with_the_same_bytes(campaign):
    """The aggregator keeps vectors in memory only, and requests them again after a restart."""
    reference = campaign.reference("coordinator")
    with campaign.run("coordinator") as run:
        run.plans["coordinator"] = [{"kill": ("message done", 11)}]  # hellos, comparisons, labels, and two vectors
        run.start_all()
        run.run_to_end()
        evidence.check(run, reference.labels)
        assert run.codes["coordinator"] == [KILLED, 0]
        assert sum(evidence.repeated(run, party) for party in run.scenario.parties) == 2


def test_a_party_that_aggregates_continues(campaign):
    kills = [{"c": [("commit done", number)]} for number in (3, 8, 12)]
    done, failed = campaign.run_all([("party aggregates", kill) for kill in kills], campaign.run_with_kills)
    assert failed == []
    assert done == len(kills)


@pytest.mark.parametrize("scenario", ["joint shares", "joint coordinator"])
def test_roles_of_the_joint_method_killed_at_chosen_moments_continue(campaign, scenario):
    """Before and after components, directions, rows and centres leave; the next process computes other last bits."""
    reference, coordinator = campaign.reference(scenario), SCENARIOS[scenario].aggregator
    commits = {role: len(reference.of(role, "commit done")) for role in SCENARIOS[scenario].roles}
    kills = [
        {"a": [("part leaves", 3)]},  # padded components
        {"b": [("part left", 3)]},
        {"b": [("commit done", commits["b"] // 2)]},
        {"a": [("commit begins", commits["a"] - 2)]},
        {coordinator: [("message arrives", 8)]},  # hellos, confirmations, and two padded components
        {coordinator: [("part leaves", 8)]},  # directions
        {coordinator: [("commit done", commits[coordinator] // 2)]},
        {"a": [("part left", 4)], "b": [("part leaves", 4)], coordinator: [("part leaves", 11)]},
    ]
    done, failed = campaign.run_all([(scenario, kill) for kill in kills], campaign.run_with_other_bits)
    assert failed == []
    assert done >= len(kills)


JOINT_PARTIES = [
    (name, role) for name, scenario in SCENARIOS.items() if name.startswith("joint") for role in scenario.parties
]


@pytest.mark.kill
@pytest.mark.parametrize(("scenario", "role"), JOINT_PARTIES, ids=lambda value: value.replace(" ", "-"))
def test_one_pad_hides_one_content_whatever_a_party_computes_after_a_kill(campaign, scenario, role):
    boundaries = campaign.reference(scenario).of(role, "commit begins", "commit done", "part leaves", "part left")
    done, failed = campaign.run_all([(scenario, {role: [one]}) for one in boundaries], campaign.run_with_other_bits)
    assert failed == []
    assert done >= 0.9 * len(boundaries)


@pytest.mark.kill
@pytest.mark.parametrize(("scenario", "role"), EVERY_ROLE, ids=lambda value: value.replace(" ", "-"))
def test_a_role_killed_at_any_boundary_continues(campaign, scenario, role):
    # The tree has six roles and many similar merges: every third boundary is enough.
    boundaries = campaign.reference(scenario).of(role)[:: 3 if scenario == "tree" else 1]
    done, failed = campaign.run_all([(scenario, {role: [one]}) for one in boundaries], campaign.run_with_kills)
    assert failed == []
    # The number of acknowledgements differs between runs, so a run may end before the last boundary of a name.
    assert done >= 0.9 * len(boundaries)


@pytest.mark.kill
@pytest.mark.parametrize("scenario", ["coordinator", "party aggregates", "tree", "joint shares"])
def test_two_roles_may_be_killed_in_one_run(campaign, scenario):
    reference, chance = campaign.reference(scenario), random.Random(1)  # noqa: S311
    pairs = list(itertools.permutations(SCENARIOS[scenario].roles, 2)) * 4
    cases = [(scenario, {role: [chance.choice(reference.of(role))] for role in pair}) for pair in pairs]
    done, failed = campaign.run_all(cases, campaign.run_with_kills)
    assert failed == []
    assert done >= 1.6 * len(cases)


@pytest.mark.kill
@pytest.mark.parametrize("scenario", ["coordinator", "party aggregates", "tree", "joint shares"])
def test_a_role_may_be_killed_several_times_also_while_it_replays(campaign, scenario):
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
def test_an_answer_is_sent_after_several_kills_before_its_sending(campaign):
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
