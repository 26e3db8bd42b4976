"""Sessions and journals of a role: seeds, the ledger of an interrupted run, and `kcagc forget`."""

import json

import pytest
from click.testing import CliRunner

from deploy.collaboration import made, task
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.deploy.results import keep_earlier_results
from kcagc.deploy.run import RoleRun, open_journal
from kcagc.disclosure import Disclosure
from kcagc.runtime.journal import Journal

LABELS = Disclosure("alice", "bob", "encrypted/labels", "labels 1.1", (), 99)
PRIVATE = b"rows that are nobody's business"


@pytest.fixture
def interrupted(tmp_path):
    """A party that was killed after its labels had left."""
    config = made(tmp_path)["alice"]
    task = RoleRun(Config.load(config))
    journal = Journal(task.journal)
    task.open_session(journal)
    journal.store_result("local result", lambda: PRIVATE)
    journal.record(LABELS)
    journal.commit()
    journal.close()
    return task


def kinds(folder):
    lines = (folder / "ledger.jsonl").read_text().splitlines()
    return [json.loads(line)["kind"] for line in lines]


def test_a_new_session_keeps_the_ledger_of_a_killed_one(interrupted):
    open_journal(interrupted, new_session=True).close()
    keep_earlier_results(interrupted.files)
    (aside,) = (interrupted.files.folder / "earlier").iterdir()
    assert kinds(aside) == ["encrypted/labels"]
    assert not interrupted.files.ledger.exists()


def test_forget_erases_private_data_and_keeps_the_ledger(interrupted):
    assert PRIVATE in b"".join(path.read_bytes() for path in interrupted.journal.parent.iterdir())
    done = CliRunner().invoke(cli, ["forget", "--config", str(interrupted.config.path)])
    assert done.exit_code == 0
    assert f"erased {interrupted.journal}" in done.output
    assert list(interrupted.journal.parent.iterdir()) == []
    assert kinds(interrupted.files.folder) == ["encrypted/labels"]
    again = CliRunner().invoke(cli, ["forget", "--config", str(interrupted.config.path)])
    assert (again.exit_code, "there is no journal" in again.output) == (0, True)


def test_forget_refuses_a_journal_in_use(interrupted):
    journal = Journal(interrupted.journal)
    done = CliRunner().invoke(cli, ["forget", "--config", str(interrupted.config.path)])
    assert "another process is using this journal" in str(done.exception)
    assert journal.load_result("local result") == PRIVATE
    journal.close()


@pytest.mark.parametrize("content", [b"not a journal, but long enough to be looked at" * 9, b"SQLite format 3\0"])
def test_a_new_session_replaces_a_damaged_journal(interrupted, content):
    for path in interrupted.journal.parent.iterdir():
        path.unlink()
    interrupted.journal.write_bytes(content)
    journal = open_journal(interrupted, new_session=True)
    assert journal.status == "new"
    journal.close()


def test_all_sessions_of_one_process_have_the_same_seed_and_other_secrets(tmp_path):
    one = task(made(tmp_path)["alice"])
    journal = Journal(one.journal)
    first = one.open_session(journal).randomness
    journal.fail("bob has another graph")
    second = one.open_session(journal).randomness
    assert first.seed == second.seed
    assert first.private != second.private
    assert first.shuffling != second.shuffling
    journal.close()


def test_another_process_draws_a_seed_of_its_own(tmp_path):
    configs = made(tmp_path)
    assert task(configs["alice"]).seed != task(configs["alice"]).seed
