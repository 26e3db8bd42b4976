"""1,500 connections of strangers at `ulimit -n 1024`: honest runs beside them complete, and little memory is used."""

from pathlib import Path

import pytest

from kcagc.net.gate import raise_descriptor_limit
from network.roles import until
from network.strangers import Strangers
from standing.campaign import Standing, held

NUMBER = 1500
MOST_OPEN = 64  # strangers that the gate keeps
MOST_MEMORY = 64  # MiB more


@pytest.fixture(scope="module", autouse=True)
def _descriptors():
    if raise_descriptor_limit() < NUMBER + 300:
        pytest.skip(f"this machine allows fewer than {NUMBER + 300:,} open files")


def open_files(role):
    return len(list(Path(f"/proc/{role.pid}/fd").iterdir()))


def test_a_run_of_a_coordinator_completes_beside_strangers(collaborate):
    roles = collaborate("a", "b")
    aggregator = roles.start_aggregator(descriptors=1024)
    before = aggregator.memory
    with Strangers(roles.port, silent=NUMBER // 2, tls=NUMBER // 2) as strangers:
        strangers.wait_until_at_most(MOST_OPEN)
        assert aggregator.memory - before < MOST_MEMORY << 20
        until(lambda: open_files(aggregator) < 512, "the aggregator to close its ends", aggregator)
        roles.assert_finishes(aggregator, *roles.start_parties())
    assert len(aggregator.lines("did not prove an identity")) <= 3
    assert "Traceback" not in aggregator.log


def test_connected_parties_keep_their_connections_when_strangers_come(collaborate):
    roles = collaborate("a", "b")
    aggregator = roles.start_aggregator(descriptors=1024)
    first = roles.start("a")
    aggregator.wait_for_line("a is connected")
    with Strangers(roles.port, silent=100, tls=100) as strangers:
        strangers.wait_until_at_most(MOST_OPEN)
        roles.assert_finishes(aggregator, first, roles.start("b"))
    assert len(aggregator.lines("a is connected")) == 1


def test_runs_of_a_standing_coordinator_complete_beside_strangers(fork_server, tmp_path):
    with Standing(tmp_path, fork_server, ["east"]) as standing:
        standing.wait_for_runs("east")
        before = standing.held().memory_mib
        with Strangers(standing.port, silent=NUMBER // 2, tls=NUMBER // 2) as strangers:
            strangers.wait_until_at_most(MOST_OPEN)
            assert standing.held().memory_mib - before < MOST_MEMORY
            until(lambda: held(standing.serve.pid).descriptors < 512, "the coordinator to close its ends")
            standing.one_run("east")
        assert "Traceback" not in standing.log("serve")
