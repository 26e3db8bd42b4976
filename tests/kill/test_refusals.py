"""A role that restarts with other data, twice, or with an old journal is rejected, and sends nothing."""

import shutil
import sqlite3

import pytest

from kill import evidence
from kill.scenarios import CONFIG, KILLED

ENDED_BY_ANOTHER, REJECTED = 7, 12
MIDDLE = ("message arrives", 5)  # of a party: it has sent its labels and two vectors, and answers are on their way


class Interrupted:
    """A run whose party b was killed; the other roles wait for b."""

    def __init__(self, campaign, run, boundary=MIDDLE):
        self.run, self._labels = run, campaign.reference("coordinator").labels
        run.plans["b"] = [{"kill": boundary}]
        run.start_all()
        assert run.end_of("b") == KILLED

    @property
    def folder(self):
        return self.run.folder / "b"

    @property
    def state(self):
        return self.folder / "state"

    def assert_rejected(self, *words, role="b"):
        """Assert that the role ends with this error, that none of its messages arrives, and that the others wait."""
        before = evidence.received(self.run, "coordinator", role)
        self.run.start(role)
        assert self.run.end_of(role) == REJECTED, self.run.logs(role)
        said = self.run.logs(role)
        assert all(word in said for word in words), said
        assert "Traceback" not in said
        assert evidence.received(self.run, "coordinator", role) == before
        assert all(self.run.still_running(other) for other in self.run.running)

    def assert_continues(self):
        self.run.start("b")
        self.run.run_to_end()
        evidence.check(self.run, self._labels)


@pytest.fixture
def interrupted(campaign):
    with campaign.run("coordinator") as run:
        yield Interrupted(campaign, run)


def test_a_changed_feature_is_rejected_until_it_is_restored(interrupted):
    table = interrupted.folder / "data" / "features.csv"
    before = table.read_text()
    head, first, rest = before.split("\n", 2)
    table.write_text("\n".join([head, first.rpartition(",")[0] + ",0.25", rest]))
    interrupted.assert_rejected("the data changed since this session started", "nothing was sent")
    table.write_text(before)
    interrupted.assert_continues()


def test_a_changed_number_of_local_clusters_is_rejected_until_it_is_restored(interrupted):
    config = interrupted.folder / CONFIG
    before = config.read_text()
    config.write_text(before.replace("[session]\n", "[session]\nn_local_clusters = 4\n"))
    interrupted.assert_rejected("the configuration changed since this session started")
    config.write_text(before)
    interrupted.assert_continues()


def test_a_second_process_is_rejected_while_the_first_runs(campaign):
    with campaign.run("coordinator") as run:
        for role in ("a", "b", "coordinator"):
            run.start(role)
        run.wait_for("coordinator", ("message done", 2))  # the hellos of a and b; c is missing
        elsewhere = run.folder / "elsewhere"
        shutil.copytree(run.folder / "b", elsewhere)
        before = evidence.received(run, "coordinator", "b")
        first = run.running.pop("b")
        for folder, why in ((elsewhere, "another process of b is connected"), (None, "another process is using")):
            run.start("b", folder=folder)
            assert run.end_of("b") == REJECTED
            assert why in (run.logs("b") if folder is None else (elsewhere / "log.txt").read_text())
        run.running["b"] = first
        assert evidence.received(run, "coordinator", "b") == before
        run.start("c")
        run.run_to_end()
        evidence.check(run, campaign.reference("coordinator").labels)


def test_a_party_without_its_journal_is_rejected(interrupted):
    aside = interrupted.state.rename(interrupted.folder / "aside")
    interrupted.assert_rejected("in an earlier session with b")
    shutil.rmtree(interrupted.state)
    aside.rename(interrupted.state)
    interrupted.assert_continues()


@pytest.mark.kill
def test_a_journal_may_be_lost_before_anything_about_data_was_sent(campaign):
    """All roles restart the session by themselves."""
    with campaign.run("coordinator") as run:
        early = Interrupted(campaign, run, ("message arrives", 1))
        shutil.rmtree(early.state)
        early.assert_continues()


@pytest.mark.kill
def test_a_coordinator_without_its_journal_begins_a_new_session_with_the_same_commands(campaign):
    with campaign.run("coordinator") as run:
        run.plans["coordinator"] = [{"kill": ("part left", 10)}]
        run.start_all()
        assert run.end_of("coordinator") == KILLED
        shutil.rmtree(run.folder / "coordinator" / "state")
        run.start("coordinator")
        for party in run.scenario.parties:
            assert run.end_of(party) == ENDED_BY_ANOTHER, run.logs(party)
            assert "coordinator ended the run: it has started another session" in run.logs(party)
            assert run.still_running("coordinator")
            run.start(party)
        run.run_to_end()
        assert run.labels() == campaign.reference("coordinator").labels
        evidence.check_sent(run)


@pytest.mark.kill
@pytest.mark.parametrize("damage", ["garbage", "cut", "emptied", "zeroed", "other pages"])
def test_a_damaged_journal_is_rejected(interrupted, damage):
    journal = interrupted.state / "fit.sqlite"
    aside = interrupted.folder / "aside"
    shutil.copytree(interrupted.state, aside)
    flush(journal)
    whole = journal.read_bytes()
    journal.write_bytes(
        {
            "garbage": b"no database at all" * 1000,
            "cut": whole[: len(whole) // 2],
            "emptied": b"",
            "zeroed": whole[:4096] + bytes(len(whole) - 4096),
            "other pages": whole[:8192] + whole[4096 : len(whole) - 4096],
        }[damage]
    )
    interrupted.assert_rejected("b")
    shutil.rmtree(interrupted.state)
    aside.rename(interrupted.state)
    interrupted.assert_continues()


@pytest.mark.parametrize("other", [pytest.param("a", marks=pytest.mark.kill), "coordinator"])
def test_the_journal_of_another_role_is_rejected(interrupted, other):
    aside = interrupted.state.rename(interrupted.folder / "aside")
    shutil.copytree(interrupted.run.folder / other / "state", interrupted.state)
    interrupted.assert_rejected("changed since this session started")
    shutil.rmtree(interrupted.state)
    aside.rename(interrupted.state)
    interrupted.assert_continues()


def test_an_older_copy_of_a_journal_is_rejected(interrupted):
    """The copy lacks sent messages: a run that continues from it could hide another vector under a used mask."""
    run = interrupted.run
    older = interrupted.folder / "older"
    shutil.copytree(interrupted.state, older)
    run.start("b", kill=("message arrives", 2))  # the answer to a vector of which the copy does not know
    assert run.end_of("b") == KILLED
    newer = interrupted.state.rename(interrupted.folder / "newer")
    older.rename(interrupted.state)
    interrupted.assert_rejected("copy", "--new-session")
    shutil.rmtree(interrupted.state)
    newer.rename(interrupted.state)
    interrupted.assert_continues()


@pytest.mark.kill
def test_parties_end_when_the_coordinator_has_an_older_copy_of_its_journal(campaign):
    with campaign.run("coordinator") as run:
        state = run.folder / "coordinator" / "state"
        run.plans["coordinator"] = [{"kill": ("part left", 10)}]
        run.start_all()
        assert run.end_of("coordinator") == KILLED
        older = shutil.copytree(state, run.folder / "older")
        run.start("coordinator", kill=("part left", 7))
        assert run.end_of("coordinator") == KILLED
        for party in run.scenario.parties:
            run.wait_for(party, ("message done", 4))
        shutil.rmtree(state)
        older.rename(state)
        run.start("coordinator")
        codes = {party: run.end_of(party) for party in run.scenario.parties}
        assert set(codes.values()) == {REJECTED}, run.logs()
        assert "old copy" in run.logs("a")
        evidence.check_sent(run)


@pytest.mark.parametrize(
    ("role", "full"),
    [
        ("b", ("commit begins", 8, 1000)),
        ("b", ("write into labels", 6, 6)),  # once: afterwards there is space to write that the run has failed
        pytest.param("b", ("write into results", 1, 1), marks=pytest.mark.kill),
        pytest.param("b", ("write into outgoing", 4, 1000), marks=pytest.mark.kill),
        pytest.param("coordinator", ("commit begins", 14, 1000), marks=pytest.mark.kill),
        pytest.param("coordinator", ("write into ledger", 9, 9), marks=pytest.mark.kill),
        ("coordinator", ("write into results", 2, 2)),
    ],
)
def test_a_role_with_a_full_disk_stops_before_it_sends_and_continues_later(campaign, role, full):
    with campaign.run("coordinator") as run:
        run.plans[role] = [{"disk full": full}]
        run.start_all()
        assert run.end_of(role) == REJECTED, run.logs(role)
        assert "disk is full" in run.logs(role)
        assert "Traceback" not in run.logs(role)
        assert all(run.still_running(other) for other in run.running)
        run.start(role)
        run.run_to_end()
        evidence.check(run, campaign.reference("coordinator").labels)


@pytest.mark.kill
@pytest.mark.parametrize("threads", ["2", "3"])  # the fork server's roles have one
def test_another_number_of_threads_gives_the_same_bytes(campaign, threads):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    with campaign.run("coordinator") as run:
        run.plans["b"] = [{"kill": MIDDLE}, {"environment": dict.fromkeys(names, threads)}]
        run.plans["coordinator"] = [{"kill": ("part left", 12)}, {"environment": dict.fromkeys(names, threads)}]
        run.start_all()
        run.run_to_end()
        assert run.codes["b"] == run.codes["coordinator"] == [KILLED, 0]
        evidence.check(run, campaign.reference("coordinator").labels)


def flush(journal):
    """Write the whole journal into one file."""
    database = sqlite3.connect(journal)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
