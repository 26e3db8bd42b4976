"""The journal: a step completely or not at all, one process at a time, and no secrets after the end of the run."""

import os
import sqlite3
import stat
import subprocess
import sys

import pytest

from kcagc.disclosure import Disclosure
from kcagc.errors import MaskReuseError, PeerError, SessionError
from kcagc.runtime.journal import InvalidJournalError, Journal, open_session

HELLO = Disclosure("alice", "aggregator", "message/hello", "hello", (), 10)
ABORT = Disclosure("alice", "aggregator", "message/abort", "abort", (2, 3), 4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "fit.sqlite"


@pytest.fixture
def journal(path):
    journal = Journal(path)
    yield journal
    journal.close()


def killed_after(path, statements):
    """Run statements on a journal in a process that is then killed."""
    code = f"""
import os, signal
from pathlib import Path
from kcagc.runtime.journal import Journal
from kcagc.runtime.journal import open_session
journal = Journal(Path({str(path)!r}))
{statements}
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr


def test_a_kill_keeps_committed_steps_and_undoes_uncommitted_ones(path):
    killed_after(
        path,
        """
journal.store_incoming("aggregator", 1, b"digest", b"payload")
journal.store_result("local result", lambda: b"computed")
journal.commit_mask(b"label", b"digest of it")
journal.store_outgoing("aggregator", 1, b"out")
journal.commit()
journal.store_incoming("aggregator", 2, b"digest", b"payload")
journal.store_result("another", lambda: b"computed")
journal.commit_mask(b"another label", b"digest of it")
journal.store_outgoing("aggregator", 2, b"out")
""",
    )
    journal = Journal(path)
    assert [(one.number, one.payload) for one in journal.incoming()] == [(1, b"payload")]
    assert [(one.number, one.payload) for one in journal.outgoing()] == [(1, b"out")]
    assert journal.load_result("local result") == b"computed"
    assert journal.load_result("another") is None
    journal.commit_mask(b"another label", b"anything")
    with pytest.raises(MaskReuseError):
        journal.commit_mask(b"label", b"another digest")
    journal.close()


def test_only_its_owner_can_read_a_journal(journal, path):
    os.umask(os.umask(0))  # any umask
    journal.set_fact("status", b"running")
    journal.commit()
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_second_process_cannot_open_a_journal(journal, path):
    with pytest.raises(SessionError, match="another process is using this journal"):
        Journal(path)
    journal.close()
    Journal(path).close()


def test_a_stored_result_is_never_computed_again(journal):
    assert journal.store_result("a", lambda: b"first") == b"first"
    assert journal.store_result("a", lambda: b"second") == b"first"


def test_a_different_message_under_a_sent_number_stops_the_replay(journal):
    journal.store_outgoing("aggregator", 1, b"these bytes")
    journal.store_outgoing("aggregator", 1, b"these bytes")
    with pytest.raises(SessionError, match=r"message 1 to aggregator differs.*--new-session"):
        journal.store_outgoing("aggregator", 1, b"other bytes")


def test_only_the_digest_stays_of_a_message_that_the_peer_has_committed(journal):
    for number in (1, 2, 3):
        journal.store_outgoing("aggregator", number, bytes([number]))
    journal.drop_outgoing("aggregator", 2)
    journal.commit()
    assert [one.payload for one in journal.outgoing()] == [None, None, b"\x03"]
    with pytest.raises(SessionError, match="differs"):
        journal.store_outgoing("aggregator", 1, b"other")


def test_the_end_of_a_session_erases_secrets_from_the_file_and_its_log(journal, path):
    secrets = [os.urandom(32) for _ in range(5)]
    journal.set_fact("randomness", secrets[0])
    journal.store_result("local result", lambda: secrets[1] * 1000)
    journal.commit_mask(secrets[2], secrets[2])
    journal.store_incoming("aggregator", 1, b"digest", secrets[3] * 100)
    journal.store_outgoing("aggregator", 1, secrets[4] * 100)
    journal.commit()
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert all(secret in held for secret in secrets)
    journal.end("finished", {"summary": b"well"})
    held = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert not any(secret in held for secret in secrets)
    assert (journal.status, journal.fact("summary"), journal.fact("randomness")) == ("finished", b"well", None)


def test_a_replay_records_no_disclosure_twice(journal, path):
    journal.record(HELLO)
    journal.commit()
    first = journal.ledger()
    journal.close()
    again = Journal(path)
    again.record(HELLO)  # the replay
    again.record(ABORT)
    again.commit()
    assert [entry for _, entry in again.ledger()] == [HELLO, ABORT]
    assert again.ledger()[0] == first[0]  # with the original time
    again.close()


def test_a_failed_write_raises_an_error_and_undoes_the_step(journal, path, monkeypatch):
    journal.set_fact("status", b"running")
    journal.commit()

    class Full:
        in_transaction = True

        def execute(self, *_):
            raise sqlite3.OperationalError("database or disk is full")

    real = journal._db
    monkeypatch.setattr(journal, "_db", Full())
    with pytest.raises(SessionError, match=r"fit\.sqlite: the journal cannot be written: database or disk is full"):
        journal.commit()
    monkeypatch.setattr(journal, "_db", real)


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to look at", bytes(100)])
def test_a_file_that_is_not_a_journal_is_refused(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(SessionError, match=r"fit\.sqlite"):
        Journal(path)


@pytest.mark.parametrize("before", ["2", "0", ""])
def test_a_journal_of_another_format_is_refused_with_the_remedy(journal, path, before):
    journal.set_fact("format", before.encode())
    journal.commit()
    journal.close()
    words = (
        rf"another version of kcagc wrote this journal \(format {before}; this version uses 3\)\. Finish the run with "
    )
    with pytest.raises(InvalidJournalError, match=f"{words}that version, or start all roles with --new-session"):
        Journal(path)


def test_a_new_session_has_nothing_of_the_old_one(journal):
    journal.set_fact("status", b"running")
    journal.store_result("local result", lambda: b"old")
    journal.record(HELLO)
    journal.commit()
    journal.erase()
    assert journal.status == "new"
    assert journal.load_result("local result") is None
    assert journal.ledger() == []


def test_opening_a_journal_twice_in_one_process_keeps_the_lock(journal, path):
    with pytest.raises(SessionError):
        Journal(path)
    code = f"from pathlib import Path; from kcagc.runtime.journal import Journal; Journal(Path({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another process is using this journal" in done.stderr


def test_a_message_that_is_too_long_for_the_journal_is_refused(journal, monkeypatch):
    monkeypatch.setattr("kcagc.runtime.journal.MAX_STORED_BYTES", 100)
    with pytest.raises(PeerError, match="aggregator: sent a message of 101 bytes"):
        journal.store_incoming("aggregator", 1, b"digest", bytes(101))
    with pytest.raises(SessionError, match="a message of 101 bytes is too long to send"):
        journal.store_outgoing("aggregator", 1, bytes(101))
    journal.store_incoming("aggregator", 1, b"digest", bytes(100))


def test_disclosures_of_a_failed_session_stay_in_the_ledger(journal):
    journal.record(HELLO)
    journal.commit()
    journal.fail("trouble")
    assert journal.status == "failed"
    open_session(journal, {}, (1, 2))
    journal.record(ABORT)
    journal.commit()
    assert [entry for _, entry in journal.ledger()] == [HELLO, ABORT]


def test_disclosures_of_a_connection_stay_in_the_ledger_after_a_replay(journal):
    journal.record_connection("alice", "aggregator", "link/opening")
    journal.record(HELLO)
    journal.record_connection("alice", "aggregator", "link/opening")
    journal.commit()
    assert [entry.kind for _, entry in journal.ledger()] == ["link/opening", "message/hello", "link/opening"]


def test_a_damaged_journal_raises_an_error_wherever_it_is_read(journal, path):
    for _ in range(300):
        journal.record(ABORT)
        journal.store_result(f"result {_}", lambda: bytes(1000))
    journal.commit()
    journal.close()
    content = bytearray(path.read_bytes())
    content[8192:] = os.urandom(len(content) - 8192)
    path.write_bytes(bytes(content))

    def read():
        again = Journal(path)
        try:
            again.ledger()
            again.incoming()
            again.load_result("result 7")
        finally:
            again.close()

    with pytest.raises(SessionError, match=r"fit\.sqlite: the journal cannot be"):
        read()


def test_a_closed_journal_raises_an_error(journal):
    journal.set_fact("status", b"running")
    journal.close()
    for act in (lambda: journal.fact("status"), lambda: journal.set_fact("a", b""), journal.commit, journal.ledger):
        with pytest.raises(SessionError, match="the journal is closed"):
            act()
    journal.close()


def test_the_name_of_a_session_that_a_peer_knew_is_kept_when_it_ends_without_a_result(tmp_path):
    journal = Journal(tmp_path / "fit.sqlite")
    known = open_session(journal, {}, 1)
    known.bind("coordinator", b"theirs")
    journal.fail("a reason")
    unknown = open_session(journal, {}, 1)
    assert unknown.position.ended == known.position.attempt
    journal.fail("another reason")
    last = open_session(journal, {}, 1)
    assert last.position.ended == known.position.attempt
    assert open_session(journal, {}, 1).position == last.position
    last.bind("coordinator", b"theirs")
    journal.erase()
    assert open_session(journal, {}, 1).position.ended == last.position.attempt
    journal.end("finished", {})
    assert open_session(journal, {}, 1).position.ended == b""
    journal.close()
