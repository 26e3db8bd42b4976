"""Sessions and journals of a role: seeds, the ledger of an interrupted run, and `kcagc forget`."""

import json

import pytest
from click.testing import CliRunner

from deploy.collaboration import made, task
from kcagc.cli.main import cli
from kcagc.deploy.config import Config
from kcagc.deploy.results import AUDIT, ResultFiles, keep_earlier_results
from kcagc.deploy.run import RoleRun, execute, open_journal
from kcagc.disclosure import Disclosure
from kcagc.errors import AbortedError, ParameterError
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


def test_results_of_a_finished_run_are_kept_before_the_ledger_of_an_unfinished_one_is_written(interrupted):
    """An attempt with another output folder leaves a journal that has not moved the results in this one."""
    folder = interrupted.files.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in (AUDIT, "ledger.jsonl", "labels.csv"):
        (folder / name).write_text("of a finished run")
    open_journal(interrupted, new_session=True).close()
    (aside,) = (folder / "earlier").iterdir()
    assert {path.name: path.read_text() for path in aside.iterdir()} == dict.fromkeys(
        (AUDIT, "ledger.jsonl", "labels.csv"), "of a finished run"
    )
    assert kinds(folder) == ["encrypted/labels"]


def test_results_of_a_finished_run_are_kept_by_an_attempt_that_resumes(interrupted, monkeypatch):
    folder = interrupted.files.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / AUDIT).write_text("of a finished run")
    monkeypatch.setattr("kcagc.deploy.run._run_on_network", stops)
    with pytest.raises(AbortedError):
        execute(interrupted, new_session=False)
    (aside,) = (folder / "earlier").iterdir()
    assert [path.name for path in aside.iterdir()] == [AUDIT]


async def stops(*_):
    raise AbortedError("it was stopped", peer="bob")


def test_a_node_list_that_a_configuration_may_name_stays_until_there_is_a_new_one(tmp_path):
    files = ResultFiles.of(tmp_path, "nodes.csv")
    for path in (files.labels, files.ledger):
        path.write_text("first")
    keep_earlier_results(files, list_stays=True)
    (aside,) = (tmp_path / "earlier").iterdir()
    assert {path.name for path in aside.iterdir()} == {"nodes.csv", "ledger.jsonl"}
    assert files.labels.read_text() == "first"
    assert not files.ledger.exists()


def test_a_folder_that_takes_no_results_ends_the_role_before_it_connects(tmp_path):
    config, place = made(tmp_path)["alice"], tmp_path / "file"
    place.write_text("no folder")
    done = CliRunner().invoke(cli, ["party", "--config", str(config), "--output", str(place / "result")])
    assert isinstance(done.exception, ParameterError)
    message = str(done.exception)
    assert message.startswith(f"alice: {place / 'result'}: no results can be written here (Not a directory)")
    assert "nothing was sent" in message
    assert "--output" in message


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
