"""Start and end of runs between processes: waiting, timeouts, interrupts, aborts, success, and new sessions."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kcagc.runtime.journal import SessionRandomness
from network.roles import AGGREGATOR, PATIENCE, assert_one_line

AT_ONCE = {"kcagc.runtime.session._LOG_AFTER": 0.1}


# ---- parties that are not connected


def test_a_party_that_never_connects_is_named_and_ends_the_run_after_the_timeout(collaborate):
    roles = collaborate()
    aggregator = roles.start_aggregator("--peer-timeout", "2", patches=AT_ONCE)
    parties = [roles.start(name, patches=AT_ONCE) for name in "ab"]
    for role in (aggregator, *parties):
        role.wait_for_line("waiting for c$")
    assert aggregator.ends() == 10
    assert_one_line(aggregator, "^kcagc: c: not connected for 2 s")
    for party in parties:
        assert party.ends() == 7
        assert_one_line(party, "^kcagc: coordinator ended the run: c: not connected for 2 s")


def test_a_party_waits_for_an_aggregator_that_starts_later(collaborate):
    roles = collaborate("a", "b")
    aggregator = roles.start_aggregator()
    port = roles.port
    aggregator.signal(signal.SIGKILL)
    aggregator.ends()
    parties = roles.start_parties()
    for party in parties:
        party.wait_for_line("cannot reach coordinator yet: .*no server listens there")
    roles.assert_finishes(roles.start(AGGREGATOR, "--listen", f"127.0.0.1:{port}"), *parties)
    for party in parties:
        assert len(party.lines("cannot reach")) == 1


def test_a_party_stops_waiting_after_the_timeout(collaborate):
    roles = collaborate("a", "b")
    party = roles.start("a", "--peer-timeout", "0.5", port=9)
    assert party.ends() == 10
    assert_one_line(party, "^kcagc: coordinator: not connected for")


# ---- interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_continues_with_the_same_command(collaborate, number):
    roles = collaborate()
    aggregator = roles.start_aggregator()
    a, b, c = roles.start_parties()
    # c is stopped during its work, so that the others wait during theirs
    c.wait_for_line("filtering")
    c.signal(signal.SIGSTOP)
    a.wait_for_line("exchanging labels|filtering")
    a.signal(number)
    assert a.ends() == 130
    assert a.log.splitlines()[-1] == "kcagc: interrupted"
    aggregator.wait_for_line("a disconnected")
    aggregator.signal(number)
    assert aggregator.ends() == 130
    assert aggregator.log.splitlines()[-1] == "kcagc: interrupted"
    again = roles.start(AGGREGATOR, "--listen", f"127.0.0.1:{roles.port}")
    assert_one_line(again, "resuming the interrupted session")
    back = roles.start("a")
    assert_one_line(back, "resuming the interrupted session")
    c.signal(signal.SIGCONT)
    roles.assert_finishes(again, back, b, c)
    assert [role.log for role in roles.roles if "Traceback" in role.log] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_without_the_fork_server_ends_in_the_same_way(collaborate, number):
    roles = collaborate("a", "b")
    command = [Path(sys.executable).with_name("kcagc"), "coordinator", "--listen", "127.0.0.1:0"]
    command += ["--config", str(roles.configs[AGGREGATOR])]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert "listening on" in process.stderr.readline()
        process.send_signal(number)
        assert process.stderr.read().splitlines()[-1] == "kcagc: interrupted"
    assert process.returncode == 130


# ---- ended by one party


def test_when_one_party_aborts_all_others_report_its_name_and_the_reason(collaborate):
    roles = collaborate()
    aggregator = roles.start_aggregator()
    a, b = roles.start_parties("a", "b")
    # Fails when it is called, after the first answers: the session cannot restart by itself then.
    c = roles.start("c", patches={"kcagc.protocol.joint._model": None})
    assert c.ends() == 1
    for role in (aggregator, a, b):
        assert role.ends() == 7
        assert_one_line(role, "^kcagc: c ended the run: aborted")


def test_after_a_party_corrects_its_graph_the_other_roles_continue(collaborate):
    roles = collaborate()
    edges = roles.read("c", "edges")
    roles.write("c", "edges", edges[:-1])
    aggregator = roles.start_aggregator()
    a, b, other = roles.start_parties()
    assert other.ends() == 5
    assert_one_line(other, "^kcagc: c and a do not have the same graph")
    for role in (aggregator, a, b):
        role.wait_for_line("waiting for a new session")
    roles.write("c", "edges", edges)
    corrected = roles.start("c")
    roles.assert_finishes(aggregator, a, b, corrected)
    assert_one_line(corrected, "the last run ended with: c and a do not have the same graph")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda rows: rows[:-1], "graph|number of nodes|id"),
        (lambda rows: [row.replace("n03", "n99") for row in rows], "node ids|no node has the id"),
    ],
    ids=["a row less", "another id"],
)
def test_after_a_party_corrects_its_nodes_the_other_roles_continue(collaborate, change, field):
    roles = collaborate()
    rows, edges = roles.read("c", "features"), roles.read("c", "edges")
    roles.write("c", "features", change(rows))
    last = rows[-1].partition(",")[0]
    roles.write("c", "edges", [line for line in edges if last not in line and "n03" not in line])
    aggregator = roles.start_aggregator()
    a, b, other = roles.start_parties()
    assert other.ends() == 5, other.log
    assert_one_line(other, f"^kcagc: c and a do not have the same ({field})")
    roles.write("c", "features", rows)
    roles.write("c", "edges", edges)
    roles.assert_finishes(aggregator, a, b, roles.start("c"))


def test_two_parties_with_different_graphs_both_end_with_an_error(collaborate):
    roles = collaborate("a", "b")
    roles.write("b", "edges", roles.read("b", "edges")[:-1])
    aggregator = roles.start_aggregator()
    parties = roles.start_parties()
    for party in parties:
        assert party.ends() == 5, party.log
        assert_one_line(party, "^kcagc: . and . do not have the same graph")
    aggregator.wait_for_line("do not have the same graph")


# ---- finished, and new sessions


def journals(roles, name):
    return sorted(path for path in (roles.folder(name) / "state").rglob("*") if path.is_file())  # kept results, too


def drawn_by(roles, name, folder):
    """Read a role's secrets from a copy of its journal, as the file itself is locked."""
    folder.mkdir()
    for path in journals(roles, name):
        (folder / path.name).write_bytes(path.read_bytes())
    with sqlite3.connect(folder / "fit.sqlite") as journal:
        (drawn,) = journal.execute("SELECT value FROM facts WHERE name = 'randomness'").fetchone()
        sent = [bytes(row[0]) for row in journal.execute("SELECT payload FROM outgoing WHERE payload IS NOT NULL")]
    journal.close()
    return msgspec.msgpack.decode(drawn, type=SessionRandomness), sent


@pytest.mark.parametrize("end", ["well", "badly"])
def test_the_secrets_of_a_session_are_erased_when_it_ends(collaborate, tmp_path, end):
    roles = collaborate()
    aggregator = roles.start_aggregator(*([] if end == "well" else ["--peer-timeout", "2"]))
    parties = roles.start_parties("a", "b")
    for name in "ab":
        aggregator.wait_for_line(f"{name} is connected")
    secret = []
    for name in ("a", "b", AGGREGATOR):
        drawn, sent = drawn_by(roles, name, tmp_path / f"copy-{name}")
        secret += [drawn.private, drawn.shuffling, drawn.nonce]
        secret += [payload[-64:] for payload in sent]
    kept = b"".join(one.read_bytes() for name in "ab" for one in journals(roles, name))
    assert sum(token in kept for token in secret) >= 6, "the journals held no secrets during the session"
    if end == "well":
        roles.assert_finishes(aggregator, *parties, roles.start("c"))
    else:
        assert aggregator.ends() == 10
        assert [party.ends() for party in parties] == [7, 7]
    for name in ("a", "b", AGGREGATOR):
        for path in journals(roles, name):
            content = path.read_bytes()
            assert not any(token in content for token in secret), path
            assert path.stat().st_mode & 0o077 == 0


def test_a_finished_run_is_reported_and_a_new_one_needs_an_option(collaborate):
    roles = collaborate("a", "b")
    aggregator = roles.start_aggregator()
    roles.assert_finishes(aggregator, *roles.start_parties())
    before = {name: (roles.folder(name) / "result" / "run.json").read_text() for name in "ab"}
    start = time.monotonic()
    for name in (AGGREGATOR, "a", "b"):
        again = roles.start(name, patches={"kcagc.deploy.finished._CLOSE_TIMEOUT": 0.3})
        assert again.ends() == 0, again.log
        assert_one_line(again, "this run has finished already.*--new-session")
        assert re.search("messages, .* sent", again.out)
    assert time.monotonic() - start < PATIENCE
    assert before == {name: (roles.folder(name) / "result" / "run.json").read_text() for name in "ab"}
    aggregator = roles.start_aggregator("--new-session")
    roles.assert_finishes(aggregator, *(roles.start(name, "--new-session") for name in "ab"))
    after = {name: (roles.folder(name) / "result" / "run.json").read_text() for name in "ab"}
    sessions = {re.search('"session": "(\\w+)"', text)[1] for text in (*before.values(), *after.values())}
    assert len(sessions) == 2
    np.testing.assert_array_equal(roles.labels("a"), roles.labels("b"))


# ---- repeated sessions


def test_processes_of_a_new_session_keep_the_labels_and_count_it_also_after_a_timeout(collaborate):
    roles = collaborate("a", "b")
    for name in roles.configs:
        roles.edit(name, r"random_state = 0", "# random_state = 0")  # each session has a seed of its own
        roles.edit(name, '# method = "auto"', 'method = "cells"')
    kept = roles.folder("a") / "state" / "kept"

    def labels():
        return {path.name: path.read_bytes() for path in kept.iterdir() if not path.suffix}

    aggregator = roles.start_aggregator("--peer-timeout", "1")
    a, b = roles.start_parties()
    b.wait_for_line("filtering")
    b.signal(signal.SIGSTOP)
    a.wait_for_line("exchanging labels")  # they are kept by now
    b.signal(signal.SIGKILL)
    assert aggregator.ends() == 10
    assert a.ends() == 7
    first = labels()
    assert len(first) == 1
    for _ in range(2):
        aggregator = roles.start_aggregator("--new-session")
        parties = [roles.start(name, "--new-session") for name in "ab"]
        assert [role.ends() for role in (aggregator, *parties)] == [0, 0, 0]
    assert labels() == first
    summary = json.loads((roles.folder("a") / "result" / "run.json").read_text())
    assert summary["sessions"] == {"with_these_data": 3, "with_these_parties": 3}
