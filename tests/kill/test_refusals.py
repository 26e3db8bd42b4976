"""A role that comes back as another one, or twice, or from the past is refused, and nothing of it is sent."""

import shutil
import sqlite3

import pytest

from kill import evidence
from kill.scenarios import CONFIG, KILLED

REFUSED = 12
MIDDLE = ("message arrives", 5)  # of a party: its labels and two vectors have left, and the answers are on their way


class Interrupted:
    """A run in the middle, whose party b was killed; the others wait for it."""

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

    def refuses(self, *words, role="b"):
        """Start the role: it ends, says why, and nothing of it arrives; the others wait on."""
        before = evidence.received(self.run, "coordinator", role)
        self.run.start(role)
        assert self.run.end_of(role) == REFUSED, self.run.logs(role)
        said = self.run.logs(role)
        assert all(word in said for word in words), said
        assert "Traceback" not in said
        assert evidence.received(self.run, "coordinator", role) == before
        assert all(self.run.still_running(other) for other in self.run.running)

    def goes_on(self):
        self.run.start("b")
        self.run.run_to_end()
        evidence.check(self.run, self._labels)


@pytest.fixture
def interrupted(campaign):
    with campaign.run("coordinator") as run:
        yield Interrupted(campaign, run)


def test_another_feature_is_refused_until_it_is_undone(interrupted):
    table = interrupted.folder / "data" / "features.csv"
    before = table.read_text()
    head, first, rest = before.split("\n", 2)
    table.write_text("\n".join([head, first.rpartition(",")[0] + ",0.25", rest]))
    interrupted.refuses("the data changed since this session began", "nothing was sent")
    table.write_text(before)
    interrupted.goes_on()


def test_another_number_of_local_clusters_is_refused_until_it_is_undone(interrupted):
    config = interrupted.folder / CONFIG
    before = config.read_text()
    config.write_text(before.replace("[session]\n", "[session]\nn_local_clusters = 4\n"))
    interrupted.refuses("the configuration changed since this session began")
    config.write_text(before)
    interrupted.goes_on()


def test_a_second_process_is_refused_while_the_first_runs(campaign):
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
            assert run.end_of("b") == REFUSED
            assert why in (run.logs("b") if folder is None else (elsewhere / "log.txt").read_text())
        run.running["b"] = first
        assert evidence.received(run, "coordinator", "b") == before
        run.start("c")
        run.run_to_end()
        evidence.check(run, campaign.reference("coordinator").labels)


def test_a_party_without_its_journal_is_refused(interrupted):
    aside = interrupted.state.rename(interrupted.folder / "aside")
    interrupted.refuses("in an earlier session with b")
    shutil.rmtree(interrupted.state)
    aside.rename(interrupted.state)
    interrupted.goes_on()


@pytest.mark.kill
def test_before_anything_about_data_has_left_a_journal_may_be_lost(campaign):
    """All begin anew, without anybody's doing."""
    with campaign.run("coordinator") as run:
        early = Interrupted(campaign, run, ("message arrives", 1))
        shutil.rmtree(early.state)
        early.goes_on()


@pytest.mark.kill
def test_a_coordinator_without_its_journal_ends_the_session_of_everybody(campaign):
    with campaign.run("coordinator") as run:
        run.plans["coordinator"] = [{"kill": ("part left", 10)}]
        run.start_all()
        assert run.end_of("coordinator") == KILLED
        shutil.rmtree(run.folder / "coordinator" / "state")
        run.start("coordinator")
        for party in run.scenario.parties:
            assert run.end_of(party) == REFUSED, run.logs(party)
            assert "that session is over: coordinator has begun another" in run.logs(party)
        assert run.still_running("coordinator")
        evidence.check_sent(run)


@pytest.mark.kill
@pytest.mark.parametrize("damage", ["garbage", "cut", "emptied", "zeroed", "other pages"])
def test_a_damaged_journal_is_refused(interrupted, damage):
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
    interrupted.refuses("b")
    shutil.rmtree(interrupted.state)
    aside.rename(interrupted.state)
    interrupted.goes_on()


@pytest.mark.parametrize("other", [pytest.param("a", marks=pytest.mark.kill), "coordinator"])
def test_the_journal_of_another_role_is_refused(interrupted, other):
    aside = interrupted.state.rename(interrupted.folder / "aside")
    shutil.copytree(interrupted.run.folder / other / "state", interrupted.state)
    interrupted.refuses("changed since this session began")
    shutil.rmtree(interrupted.state)
    aside.rename(interrupted.state)
    interrupted.goes_on()


def test_an_older_copy_of_a_journal_is_refused(interrupted):
    """It knows less than was sent: going on from it could put another vector under a mask that was used."""
    run = interrupted.run
    older = interrupted.folder / "older"
    shutil.copytree(interrupted.state, older)
    run.start("b", kill=("message arrives", 2))  # the answer to a vector of which the copy does not know
    assert run.end_of("b") == KILLED
    newer = interrupted.state.rename(interrupted.folder / "newer")
    older.rename(interrupted.state)
    interrupted.refuses("copy", "--new-session")
    shutil.rmtree(interrupted.state)
    newer.rename(interrupted.state)
    interrupted.goes_on()


@pytest.mark.kill
def test_nobody_goes_on_with_a_coordinator_from_the_past(campaign):
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
        assert set(codes.values()) == {REFUSED}, run.logs()
        assert "older copy" in run.logs("a")
        evidence.check_sent(run)


@pytest.mark.parametrize(
    ("role", "full"),
    [
        ("b", ("commit begins", 8, 1000)),
        ("b", ("write into labels", 6, 6)),  # for a moment: afterwards there is room to write that the run has failed
        pytest.param("b", ("write into results", 1, 1), marks=pytest.mark.kill),
        pytest.param("b", ("write into outgoing", 4, 1000), marks=pytest.mark.kill),
        pytest.param("coordinator", ("commit begins", 14, 1000), marks=pytest.mark.kill),
        pytest.param("coordinator", ("write into ledger", 9, 9), marks=pytest.mark.kill),
        ("coordinator", ("write into results", 2, 2)),
    ],
)
def test_a_role_whose_disk_is_full_stops_before_it_sends_and_goes_on_later(campaign, role, full):
    with campaign.run("coordinator") as run:
        run.plans[role] = [{"disk full": full}]
        run.start_all()
        assert run.end_of(role) == REFUSED, run.logs(role)
        assert "disk is full" in run.logs(role)
        assert "Traceback" not in run.logs(role)
        assert all(run.still_running(other) for other in run.running)
        run.start(role)
        run.run_to_end()
        evidence.check(run, campaign.reference("coordinator").labels)


@pytest.mark.kill
@pytest.mark.parametrize("threads", ["1", "3"])
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
    """Bring everything into the one file."""
    database = sqlite3.connect(journal)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
