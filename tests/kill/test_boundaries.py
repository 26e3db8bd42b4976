"""SIGKILL at every message boundary: a role that is started again goes on, and the run ends as if nothing had been."""

import itertools
import random

import pytest

from kill import evidence
from kill.scenarios import KILLED, SCRIPTS

pytestmark = pytest.mark.timeout(1800)
EVERY_ROLE = [(name, role) for name, script in SCRIPTS.items() for role in script.roles]


def well_chosen(reference, script):
    """Moments that differ: the first word, the local result, a box, a vector, an answer, the end."""
    party, aggregator = script.parties[0], script.aggregator
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
        {aggregator: [("message arrives", 2 * len(script.parties))]},
        {aggregator: [("commit done", commits[aggregator] // 2)]},
        {aggregator: [("part leaves", parts[aggregator] - 4)]},
        {aggregator: [("part left", parts[aggregator])]},
        {aggregator: [("results begins", 1)]},
    ]


def test_roles_that_are_killed_at_well_chosen_moments_go_on(stage):
    kills = well_chosen(stage.reference("coordinator"), SCRIPTS["coordinator"])
    done, failed = stage.campaign([("coordinator", kill) for kill in kills], stage.killed)
    assert failed == []
    assert done == len(kills)


def test_an_answer_that_was_committed_and_not_sent_is_sent_by_the_next_process(stage):
    """Twice, and the third process sends it; its vectors are not asked for again."""
    reference = stage.reference("coordinator")
    first_answer = len(SCRIPTS["coordinator"].parties) * 3 + 1  # after hellos, comparisons and labels
    assert reference.of("coordinator", "part leaves")[first_answer - 1] == ("part leaves", first_answer)
    kills = {"coordinator": [("part leaves", first_answer), ("part leaves", 1)]}
    assert stage.killed("coordinator", kills) == 2


def test_a_vector_that_was_not_answered_is_sent_again_in_the_same_bytes(stage):
    """The aggregator keeps vectors in memory only, and asks for them again when it has lost them."""
    reference = stage.reference("coordinator")
    with stage.run("coordinator") as run:
        run.plans["coordinator"] = [{"kill": ("message done", 11)}]  # hellos, comparisons, labels, and two vectors
        run.start_all()
        run.to_the_end()
        evidence.check(run, reference.labels)
        assert run.codes["coordinator"] == [KILLED, 0]
        assert sum(evidence.repeated(run, party) for party in run.script.parties) == 2


def test_a_party_that_sums_goes_on(stage):
    kills = [{"c": [("commit done", number)]} for number in (3, 8, 12)]
    done, failed = stage.campaign([("party sums", kill) for kill in kills], stage.killed)
    assert failed == []
    assert done == len(kills)


@pytest.mark.kill
@pytest.mark.parametrize(("script", "role"), EVERY_ROLE, ids=lambda value: value.replace(" ", "-"))
def test_a_role_that_is_killed_at_any_boundary_goes_on(stage, script, role):
    # The tree has many merges that are alike, and six roles: its boundaries are taken in turns.
    boundaries = stage.reference(script).of(role)[:: 3 if script == "tree" else 1]
    done, failed = stage.campaign([(script, {role: [one]}) for one in boundaries], stage.killed)
    assert failed == []
    # How acknowledgements are gathered differs from run to run, so that the last of a kind may not come.
    assert done >= 0.9 * len(boundaries)


@pytest.mark.kill
@pytest.mark.parametrize("script", ["coordinator", "party sums", "tree"])
def test_two_roles_may_be_killed_in_one_run(stage, script):
    reference, chance = stage.reference(script), random.Random(1)  # noqa: S311
    pairs = list(itertools.permutations(SCRIPTS[script].roles, 2)) * 4
    cases = [(script, {role: [chance.choice(reference.of(role))] for role in pair}) for pair in pairs]
    done, failed = stage.campaign(cases, stage.killed)
    assert failed == []
    assert done >= 1.6 * len(cases)


@pytest.mark.kill
@pytest.mark.parametrize("script", ["coordinator", "party sums", "tree"])
def test_a_role_may_be_killed_again_and_again_also_while_it_replays(stage, script):
    reference, chance = stage.reference(script), random.Random(2)  # noqa: S311
    cases = []
    for role in SCRIPTS[script].roles:
        for first in reference.of(role, "commit done")[2::3]:
            replaying = ("step begins", chance.randint(1, max(first[1] // 3, 1)))
            reopening = ("commit begins", 1)
            resending = ("part leaves", 1)
            cases.append((script, {role: [first, replaying, replaying, reopening, resending]}))
    done, failed = stage.campaign(cases, stage.killed)
    assert failed == []
    assert done >= 2.5 * len(cases)


@pytest.mark.kill
def test_an_answer_is_sent_however_often_its_sending_is_prevented(stage):
    parts = len(stage.reference("coordinator").of("coordinator", "part leaves"))
    cases = [
        ("coordinator", {"coordinator": [("part leaves", number), *[("part leaves", 1)] * 3]})
        for number in range(1, parts + 1)
    ]
    done, failed = stage.campaign(cases, stage.killed)
    assert failed == []
    assert done >= 3 * len(cases)


@pytest.mark.kill
@pytest.mark.parametrize("script", SCRIPTS)
def test_roles_may_be_killed_at_random_times(stage, script):
    cases = [(script, seed) for seed in range(60 if script == "coordinator" else 20)]
    done, failed = stage.campaign(cases, stage.killed_at_random_times)
    assert failed == []
    assert done >= len(cases)
