"""Every role ends with the cause: which role, what happened, and what to do. Real processes."""

import re
import signal

import pytest

from kcagc.runtime.journal import Journal
from network.roles import AGGREGATOR

BRIEF = "peer_timeout = 1\nmessage_timeout = 25"
STREAM = {"kcagc.net.frames.STREAM_PROTOCOL": "kcagc-stream/99"}
REPAIR = "When the cause is repaired, start every role that ended with the same command"


def another_graph(roles, name):
    roles.write(name, "edges", roles.read(name, "edges")[:-1])


def fewer_nodes(roles, name):
    rows = roles.read(name, "features")
    last = rows[-1].partition(",")[0]
    roles.write(name, "features", rows[:-1])
    roles.write(name, "edges", [line for line in roles.read(name, "edges") if last not in line])


def another_parameter(roles, name):
    roles.edit(name, "n_clusters = 3", "n_clusters = 4")


def refused_policy(roles, name):
    for one in roles.configs:
        roles.edit(one, r"# joint_rows = .*", 'joint_rows = "coordinator"')
    for one in roles.parties:
        if one != name:
            roles.edit(one, r"accept = \[\]", 'accept = ["anonymous-geometry"]')


def refused_sums(roles, name):
    roles.edit(name, r"accept = \[.*\]", "accept = []")


def useless_data(roles, name):
    head, *rows = roles.read(name, "features")
    roles.write(name, "features", [head, *(f"{row.partition(',')[0]},0,0,0" for row in rows)])


def nothing(*_):
    pass


EDGES = r"{me} has 42 edges, {culprit} has 41 edges \(.*kcagc check --config F counts the nodes and edges of a party\)"
NODES = r"{me} has 24, {culprit} has 23 \(.*kcagc match"
CASES = {  # how one party differs, its exit code, what the other parties read, and what a coordinator reads
    "graph": (another_graph, {}, 5, f"{{me}} and {{culprit}} do not have the same graph: {EDGES}", "the same graph"),
    "nodes": (fewer_nodes, {}, 5, f"the same number of nodes: {NODES}", "the same number of nodes"),
    "parameter": (another_parameter, {}, 5, "n_clusters: .* has 3, {culprit} has 4", "n_clusters"),
    "version": (nothing, STREAM, 5, "'kcagc-stream/99': install the same version", "install the same version"),
    "policy": (refused_policy, {}, 4, "its policy refuses this run", "its policy refuses this run"),
    "data": (useless_data, {}, 3, "its data cannot be used", "its data cannot be used"),
    "crash": (
        nothing,
        {"kcagc.protocol.components.rotation": None, "kcagc.protocol.local.store": None},
        1,
        "aborted, for a reason that only its own log gives",
        "aborted, for a reason that only its own log gives",
    ),
}


@pytest.mark.parametrize(
    ("case", "aggregator"),
    [*((case, AGGREGATOR) for case in CASES), *((case, "c") for case in ("graph", "policy", "crash"))],
)
def test_all_roles_end_with_the_cause_of_a_party_that_does_not_come_back(collaborate, case, aggregator):
    change, patches, code, for_parties, for_coordinator = CASES[case]
    roles, culprit = collaborate(limits=BRIEF, aggregator=aggregator), "b"
    (refused_sums if case == "policy" and aggregator != AGGREGATOR else change)(roles, culprit)
    others = [roles.start_aggregator(), roles.start("a")]
    others += [roles.start("c")] if aggregator == AGGREGATOR else []
    assert roles.start(culprit, patches=patches).ends() == code
    for role in others:
        assert role.ends() == 7, role.log
        last = role.log.splitlines()[-1]
        expected = for_coordinator if role.name == AGGREGATOR else for_parties.format(me=role.name, culprit=culprit)
        assert re.search(f"^kcagc: {culprit} ended the run: .*{expected}", last), last
        assert "It has not come back" in last
        assert last.endswith(REPAIR)


def test_an_interrupted_party_tells_the_others(collaborate):
    roles = collaborate("a", "b", limits=BRIEF)
    aggregator = roles.start_aggregator()
    a, b = roles.start_parties()
    b.wait_for_line("connected to")
    b.signal(signal.SIGSTOP)  # so that the run does not end
    a.wait_for_line("connected to")
    a.signal(signal.SIGTERM)
    assert a.ends() == 130
    aggregator.wait_for_line("a has ended: it was interrupted; the same command there resumes the run")
    b.signal(signal.SIGCONT)
    for role in (aggregator, b):
        assert role.ends() == 7, role.log
        assert "kcagc: a ended the run: it was interrupted; the same command" in role.log.splitlines()[-1]


def test_an_interrupted_aggregator_tells_the_parties(collaborate):
    roles = collaborate("a", "b", limits=BRIEF)
    aggregator, party = roles.start_aggregator(), roles.start("a")
    party.wait_for_line("connected to")
    aggregator.signal(signal.SIGTERM)
    assert aggregator.ends() == 130
    party.wait_for_line("coordinator has ended: it was interrupted; the same command there resumes the run")
    assert party.ends() == 10
    assert "it has ended: it was interrupted; the same command there" in party.log.splitlines()[-1]


def test_a_party_that_does_not_begin_records_that_it_told_the_aggregator(collaborate):
    roles = collaborate("a", "b")
    roles.write("a", "features", ["id,f0", "n00,word"])
    aggregator = roles.start_aggregator()
    assert roles.start("a").ends() == 3
    aggregator.wait_for_line("a has ended: its data cannot be used")
    journal = Journal(roles.task("a").journal)
    assert [entry.kind for _, entry in journal.ledger()] == ["link/opening"]
    journal.close()
