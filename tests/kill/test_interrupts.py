"""Ctrl-C and SIGTERM in the middle of local work on a large table; `make test-interrupt` repeats this fifty times."""

import json

import pytest

from experiments.paper.network.fork_server import ForkServer
from kill.interrupts import ENVIRONMENT, KINDS, LIMIT, RESULTS, SERVER, LargeRun, interrupts

pytestmark = pytest.mark.timeout(600)


def test_a_party_with_a_large_table_ends_in_time_wherever_it_is_interrupted(tmp_path):
    with ForkServer(*SERVER, environment=ENVIRONMENT) as server, LargeRun(server, tmp_path) as run:
        found = list(interrupts(run, KINDS, each=5))
        assert [one for one in found if not one.orderly] == []
        assert [one.resumed for one in found] == [False] + [True] * 29
        assert sum(one.inside for one in found) >= 20  # the others had just ended their phase
        assert set(run.complete().values()) == {0}
        first, second = run.labels()
        assert [line.split(b",")[:2] for line in first.splitlines()] == [
            line.split(b",")[:2] for line in second.splitlines()
        ]


def test_the_kept_figures_are_those_of_orderly_ends():
    kept = json.loads(RESULTS.read_text())
    assert list(kept["interrupts"]) == [", ".join(kind) for kind in KINDS]
    for figures in kept["interrupts"].values():
        assert figures["interrupts"] == figures["journal closed"] == 50
        assert figures["exit codes"] == [130]
        assert figures["seconds, most"] < LIMIT
    assert {code for end in kept["exit codes at the end"].values() for code in end.values()} == {0}
