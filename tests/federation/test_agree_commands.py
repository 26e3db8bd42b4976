"""The commands `kcagc propose`, `approve` and `revoke`, with a standing coordinator in a thread of this process."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

from federation.agreeing_roles import Agreeing
from kcagc.cli.main import cli
from kcagc.cli.roles import agreed_config, load_config
from kcagc.deploy.agreed import ProposalFolder
from kcagc.deploy.match import MatchRun
from kcagc.errors import AgreementError, ParameterError, PolicyError


@pytest.fixture
def agreeing(tmp_path):
    """Run a coordinator until the test has ended."""
    found, opened, done = Agreeing(tmp_path), threading.Event(), threading.Event()

    async def run():
        async with found.serving():
            opened.set()
            await asyncio.to_thread(done.wait)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(asyncio.run, run())
        assert opened.wait(30) or running.result(0)
        yield found
        done.set()


def invoke(agreeing, name, command, *options, **more):
    config = agreeing.configs.get(name, agreeing.coordinator)
    return CliRunner().invoke(cli, [command, *map(str, options), "--config", str(config)], **more)


def test_an_operator_reads_what_is_proposed_and_disclosed_and_answers(agreeing):
    proposed = invoke(agreeing, "alice", "propose", "--psi", 1, "--n-clusters", 4, "--runs", 2)
    assert proposed.exit_code == 0, proposed.output
    assert "It waits for the approval of bob." in proposed.output
    undecided = invoke(agreeing, "bob", "approve", input="n\n")
    assert "Proposal 1 of alice" in undecided.output
    assert "2 runs of fit" in undecided.output
    assert "n_clusters        4   (here: 3)" in undecided.output
    assert "# What this run discloses: page for bob" in undecided.output
    assert "neither approved nor declined" in undecided.output
    assert ProposalFolder.of(agreeing.config("bob")).read(1).undecided == ["bob"]
    unanswered = invoke(agreeing, "bob", "approve")
    assert isinstance(unanswered.exception, ParameterError)
    assert "use --yes or --decline" in str(unanswered.exception)
    approved = invoke(agreeing, "bob", "approve", input="y\n")
    assert approved.exit_code == 0, approved.output
    assert "All have approved it. Each party can start the run: kcagc party" in approved.output
    again = json.loads(invoke(agreeing, "alice", "approve", "--json").output)
    assert [one["name"] for one in again["decisions"]] == ["alice", "bob", "east-coordinator"]
    checked = invoke(agreeing, "alice", "check", "--offline")
    assert "all have approved proposal 1 of alice" in checked.output


def test_an_operator_declines_or_names_what_it_accepts(agreeing):
    weak = ("--psi", 1, "--method", "joint", "--joint-rows", "coordinator")
    assert isinstance(invoke(agreeing, "alice", "propose", *weak).exception, PolicyError)
    accepted = invoke(agreeing, "alice", "propose", *weak, "--accept", "anonymous-geometry")
    assert "alice approves, and accepts anonymous-geometry" in accepted.output
    refused = invoke(agreeing, "bob", "approve", "--yes")
    assert isinstance(refused.exception, PolicyError)
    assert "--accept anonymous-geometry" in str(refused.exception)
    declined = invoke(agreeing, "bob", "approve", "--decline", "--reason", "not with the coordinator")
    assert "bob declines: not with the coordinator" in declined.output
    assert "bob has declined it." in declined.output
    checked = invoke(agreeing, "alice", "check", "--offline")
    assert "the next run needs a proposal that all approve" in checked.output
    assert isinstance(invoke(agreeing, "bob", "approve", "--yes", "--reason", "x").exception, ParameterError)


def test_a_revoked_participant_is_named(agreeing):
    stranger = invoke(agreeing, "alice", "revoke", "mallory")
    assert "'mallory' is not another participant; these are bob, east-coordinator" in str(stranger.exception)
    done = invoke(agreeing, "alice", "revoke", "bob", "--reason", "stolen")
    assert "the identity key of bob was revoked here on" in done.output
    assert "(stolen)" in done.output
    checked = invoke(agreeing, "alice", "check", "--offline")
    assert checked.exit_code == 11
    assert "No run of this federation starts any more" in " ".join(checked.output.split())


def test_a_proposal_needs_a_federation_whose_coordinator_stays(agreeing):
    done = invoke(agreeing, "east-coordinator", "propose")
    assert "is the configuration of a coordinator; a party proposes" in str(done.exception)
    none_yet = invoke(agreeing, "bob", "approve")
    assert "there is no proposal yet. One party makes it with kcagc propose" in str(none_yet.exception)


def test_a_matching_at_another_address_asks_for_proposals_where_the_coordinator_stays(agreeing):
    invoke(agreeing, "alice", "propose", "--task", "match")
    approved = invoke(agreeing, "bob", "approve", "--yes")
    assert "All have approved it. Every role starts it, the coordinator too: kcagc match" in approved.output
    assert "kcagc party" not in approved.output
    run = MatchRun(load_config(agreeing.configs["alice"], address="127.0.0.1:1"))  # nothing listens there
    config, new_session = agreed_config(run, new_session=False)
    assert config.approved is not None
    assert config.approved.decisions["bob"].approves
    assert config.document.network.address == "127.0.0.1:1"
    assert not new_session


def test_a_matching_at_the_address_of_a_coordinator_that_stays_says_what_to_do(agreeing):
    invoke(agreeing, "alice", "propose", "--task", "match")
    invoke(agreeing, "bob", "approve", "--yes")
    done = invoke(agreeing, "alice", "match")
    assert isinstance(done.exception, AgreementError)
    assert "task: east-coordinator has 'fit', alice has 'match'" in str(done.exception)
    assert "kcagc serve takes part in fits only" in str(done.exception)
    assert "the parties name this port with --address" in str(done.exception)
