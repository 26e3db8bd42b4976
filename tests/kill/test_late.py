"""A role that comes back after the others have stopped waiting: the same commands complete the run."""

import json
import shutil

import pytest

from kill import evidence
from kill.late import AGAIN, LATE_SCENARIOS, RESULTS, Late, assert_complete, late_points, run_late
from kill.scenarios import KILLED, SCENARIOS

pytestmark = pytest.mark.timeout(1800)
BRIEFLY = ("--peer-timeout", "0.3")


def stop_waiting(run, role):
    """Replace the process of a role by one that soon stops waiting."""
    if role in run.running:
        run.kill(role)
    run.start(role, options=BRIEFLY)
    assert run.end_of(role) == AGAIN[1], run.logs(role)


@pytest.mark.parametrize(
    ("scenario", "late", "boundary"),
    [
        ("joint two parties", "a", ("message arrives", 3)),
        ("two parties", "a", ("message arrives", 5)),  # b aggregates
        pytest.param("coordinator", "b", ("message arrives", 5), marks=pytest.mark.kill),
    ],
)
def test_a_party_that_comes_back_late_joins_the_new_session(campaign, scenario, late, boundary):
    with campaign.run(scenario) as run:
        run.plans[late] = [{"kill": boundary}]
        run.start_all()
        assert run.end_of(late) == KILLED
        stop_waiting(run, run.scenario.aggregator)
        run.start(run.scenario.aggregator)
        run.start(late)
        run.run_to_end(again=AGAIN)
        assert "it has started another session; waiting for a new session" in run.logs(late)
        assert_complete(campaign, run)


@pytest.mark.parametrize("scenario", [pytest.param("coordinator", marks=pytest.mark.kill), "party aggregates"])
def test_an_aggregator_that_comes_back_twice_is_joined_by_all_parties(campaign, scenario):
    """First it waits for parties that have stopped waiting, and gives up the session in which they still are."""
    with campaign.run(scenario) as run:
        aggregator = run.scenario.aggregator
        run.plans[aggregator] = [{"kill": ("message done", 8)}]
        run.start_all()
        assert run.end_of(aggregator) == KILLED
        for party in run.scenario.roles[:-1]:
            stop_waiting(run, party)
        stop_waiting(run, aggregator)
        run.start_all()
        run.run_to_end(again=AGAIN)
        assert_complete(campaign, run)


def test_a_party_that_misses_only_the_result_gets_it_later(campaign):
    """The others have finished; the aggregator keeps the last messages for the party."""
    with campaign.run("two parties") as run:
        arriving = campaign.reference("two parties").of("a", "message arrives")
        run.plans["a"] = [{"kill": arriving[-1]}]
        run.start_all()
        assert run.end_of("a") == KILLED
        stop_waiting(run, "b")
        assert "a did not confirm within 0 s" in run.logs("b")
        assert (run.results("b") / "labels.csv").exists()
        run.start_all()
        run.run_to_end()
        evidence.check(run, campaign.reference("two parties").labels)


def test_a_party_without_its_journal_begins_a_new_session_of_all(campaign):
    """The coordinator goes on by itself; the other parties do with the same command."""
    with campaign.run("coordinator") as run:
        run.plans["b"] = [{"kill": ("message arrives", 5)}]
        run.start_all()
        assert run.end_of("b") == KILLED
        shutil.rmtree(run.folder / "b" / "state")
        run.start("b", options=["--new-session"])
        assert [run.end_of(party) for party in "ac"] == [AGAIN[0]] * 2, run.logs()
        for party in "ac":
            assert "b ended the run: it has started another session. When the cause" in run.logs(party)
            run.start(party)
        run.run_to_end()
        assert run.codes["coordinator"] == [0]
        assert_complete(campaign, run)


@pytest.mark.parametrize(("scenario", "late", "way"), [("party aggregates", "a", "interrupt")])
def test_the_same_commands_complete_an_interrupted_run_after_all_timeouts(campaign, scenario, late, way):
    """One of the many cases of `make test-late`."""
    at = late_points(campaign, scenario, late)
    assert run_late(campaign, Late(scenario, late, at[len(at) // 2], way)) > 0


def test_the_kept_figures_are_of_completed_runs():
    kept = json.loads(RESULTS.read_text())["scenarios"]
    assert list(kept) == list(LATE_SCENARIOS)
    for name, figures in kept.items():
        assert figures["roles"] == list(SCENARIOS[name].roles)
        assert figures["completed"] == figures["cases"] >= 2 * len(figures["roles"])
        assert figures["failed"] == []
