"""Repeated sessions with the same data: the same local labels, their count, and rosters that differ by one party."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from deploy.collaboration import edit, made, task, write_data
from kcagc.cli.main import cli
from kcagc.deploy.results import write_results
from kcagc.deploy.run import open_journal
from kcagc.disclosure import RISKS
from kcagc.errors import PolicyError, SessionError
from kcagc.protocol import party as protocol_party
from kcagc.protocol.messages import Confirmation, PackedLabels, decode_content
from kcagc.report.disclosures import disclosures_section
from kcagc.report.folder import RunFolder
from kcagc.runtime.durable import DurableRole, PeerQueue
from kcagc.runtime.kept import one_change
from kcagc.secagg.keys import Identity

UNSTABLE = "n_local_clusters = 9"  # on 24 nodes: other seeds find other clusters


@pytest.fixture
def sent(monkeypatch):
    """What parties tell each other about their nodes, by sender and receiver; a test empties it between sessions."""
    found, encrypt = {}, protocol_party.encrypt

    def noted(pair, label, content):
        message = decode_content(content, pair.me)
        if isinstance(message, PackedLabels):
            found[pair.me, pair.other] = (message.n_clusters, message.packed)
        elif isinstance(message, Confirmation) and message.starts:
            found[pair.me, pair.other] = message.starts
        return encrypt(pair, label, content)

    monkeypatch.setattr(protocol_party, "encrypt", noted)
    return found


@pytest.fixture
def configs(tmp_path):
    found = made(tmp_path)
    for path in found.values():
        edit(path, r"^# n_local_clusters = .*", UNSTABLE)
        edit(path, r"^# min_local_size = .*", "min_local_size = 1")  # joined, they would be the three true clusters
    return found


class DurableSession:
    """All roles of one session, with their folders, journals and kept results, and without a network."""

    def __init__(self, configs, *, new=True):
        self.tasks = {name: task(path) for name, path in configs.items()}
        for one in self.tasks.values():
            one.check()
        self.journals = {name: open_journal(one, new_session=new) for name, one in self.tasks.items()}
        self.roles = {}
        *parties, self.aggregator = self.tasks
        for name in self.tasks:
            self.start(name, parties if name == self.aggregator else [self.aggregator])

    def start(self, name, peers):
        one, journal = self.tasks[name], self.journals[name]
        queues = {peer: PeerQueue(peer) for peer in peers}
        coroutine = one.role(one.open_session(journal).randomness)
        self.roles[name] = DurableRole(name, coroutine, queues, journal, aggregator=name == self.aggregator)
        self.roles[name].resume()

    def play(self, until=lambda: False):
        """Deliver messages until a condition holds or none is left."""
        moved = True
        while moved and not until():
            moved = False
            for name, role in self.roles.items():
                for peer, queue in role.queues.items():
                    arrived = self.roles[peer].queues[name].arrived
                    if queue.sent > arrived and not until():
                        self.roles[peer].receive(name, arrived + 1, queue.outbox[arrived + 1])
                        moved = True
        return self

    def finish(self):
        """Run to the end, write the results and close."""
        self.play()
        for name, role in self.roles.items():
            assert role.driver.error is None
            write_results(self.tasks[name].files, self.tasks[name], role.driver.result, self.journals[name].ledger())
            self.journals[name].end("finished", {})
        self.close()

    def close(self):
        for journal in self.journals.values():
            journal.close()


def told_in_a_session(configs, sent):
    """Run a session; return what the parties told each other in it."""
    sent.clear()
    DurableSession(configs).finish()
    return dict(sent)


def counts(config):
    return tuple(task(config).kept.counts().values())


def files_of(config):
    return sorted(path for path in (config.parent / "state" / "kept").iterdir() if not path.suffix)


# ---- the same labels


@pytest.mark.parametrize("method", ["cells", "tree", "basic"])
def test_sessions_with_other_seeds_send_the_same_about_the_same_data(configs, sent, method):
    for path in configs.values():
        edit(path, r"^# method = .*", f'method = "{method}"')
    first, second = told_in_a_session(configs, sent), told_in_a_session(configs, sent)
    assert len(first) == 6
    assert second == first
    for name in ("alice", "bob", "carol"):
        CliRunner().invoke(cli, ["forget", "--config", str(configs[name])], catch_exceptions=False)
    assert told_in_a_session(configs, sent) != first  # so that the test can fail


def test_rows_and_edges_in_another_order_are_the_same_data(configs, sent):
    first = told_in_a_session(configs, sent)
    for number, name in enumerate(("alice", "bob", "carol")):
        write_data(configs[name].parent / "data", seed=number, shuffled=True)
    assert told_in_a_session(configs, sent) == first
    assert counts(configs["alice"]) == (2, 2)


@pytest.mark.parametrize(
    ("pattern", "changed"),
    [(UNSTABLE, "n_local_clusters = 8"), ("^psi = 1", "psi = 2"), (r"^# filter = .*", 'filter = "norm"')],
)
def test_other_settings_of_the_labels_have_results_of_their_own(configs, sent, pattern, changed):
    first = told_in_a_session(configs, sent)
    before = {name: configs[name].read_text() for name in configs}
    for path in configs.values():
        edit(path, pattern, changed)
    assert told_in_a_session(configs, sent) != first
    assert len(files_of(configs["alice"])) == 2
    for name, path in configs.items():
        path.write_text(before[name])
    assert told_in_a_session(configs, sent) == first
    assert counts(configs["alice"]) == (3, 3)


def test_changed_data_have_results_and_counts_of_their_own(configs, sent):
    first = told_in_a_session(configs, sent)
    table = configs["alice"].parent / "data" / "features.csv"
    edit(table, r"^(n003,)[^,]+", r"\g<1>7.25")
    second = told_in_a_session(configs, sent)
    assert {both for both in first if first[both] != second[both]} == {("alice", "bob"), ("alice", "carol")}
    assert (counts(configs["alice"]), counts(configs["bob"])) == ((1, 1), (2, 2))


def test_kept_files_are_private_and_their_names_show_nothing(configs, sent):
    told_in_a_session(configs, sent)
    folder = configs["alice"].parent / "state" / "kept"
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert re.fullmatch(r"[0-9a-f]{64}(\.session)?", path.name)


def test_a_coordinator_keeps_nothing(configs, sent):
    told_in_a_session(configs, sent)
    assert task(configs["coordinator"]).kept is None
    assert not (configs["coordinator"].parent / "state" / "kept").exists()


# ---- counts


def interrupted_after_labels(configs, name):
    """Run a session until the labels of a party are in its outbox."""
    session = DurableSession(configs)
    ledger = session.roles[name].driver.ledger
    session.play(until=lambda: ledger.of("encrypted/labels"))
    return session


def test_sessions_are_counted_for_check_summary_and_report(configs, sent):
    assert counts(configs["alice"]) == (0, 0)
    for number in (1, 2, 3):
        told_in_a_session(configs, sent)
        assert counts(configs["alice"]) == (number, number)
    shown = CliRunner().invoke(cli, ["check", "--offline", "--config", str(configs["alice"])])
    assert "ok    sessions     sessions with these data so far: 3 (3 with the same parties)" in shown.output
    folder = configs["alice"].parent / "result"
    assert json.loads((folder / "run.json").read_text())["sessions"] == {"with_these_data": 3, "with_these_parties": 3}
    assert "Sessions with these data: 3 (3 with the same parties)." in str(disclosures_section(RunFolder.read(folder)))
    assert "sessions" not in json.loads((configs["coordinator"].parent / "result" / "run.json").read_text())


def test_a_session_that_fails_after_the_labels_left_counts(configs, sent):
    session = interrupted_after_labels(configs, "alice")
    session.journals["alice"].fail("bob timed out")
    session.close()
    assert counts(configs["alice"]) == (1, 1)
    told_in_a_session(configs, sent)
    assert counts(configs["alice"]) == (2, 2)


def test_a_session_that_fails_before_the_labels_leave_does_not_count(configs):
    session = DurableSession(configs)
    session.play(until=lambda: session.roles["alice"].driver.ledger.of("message/hello"))
    session.close()
    assert counts(configs["alice"]) == (0, 0)


def test_a_resumed_session_counts_once(configs, sent):
    interrupted_after_labels(configs, "alice").close()
    first = {both: labels for both, labels in sent.items() if both[0] == "alice"}
    sent.clear()
    DurableSession(configs, new=False).finish()
    assert {both: labels for both, labels in sent.items() if both[0] == "alice"} == first
    assert counts(configs["alice"]) == (1, 1)


# ---- rosters


def other_roster(configs, root, parties):
    """Write folders for other parties; those with the same names have the same keys, data and state."""
    others = made(root, parties)
    for name, path in others.items():
        edit(path, r"^# n_local_clusters = .*", UNSTABLE)
        if name in configs and name != "coordinator":
            old, new = configs[name].parent, path.parent
            shutil.copy(old / "private" / "identity.pem", new / "private")
            shutil.copytree(old / "data", new / "data", dirs_exist_ok=True)
            shutil.copytree(old / "state", new / "state")
    pems = {name: path.parent / "private" / "identity.pem" for name, path in others.items()}
    keys = {name: Identity.from_pem(path.read_bytes()) for name, path in pems.items()}
    for path in others.values():
        for name, key in keys.items():
            edit(path, rf'(?s)(name = "{name}"\nrole = "\w+"\nidentity = )"\w+"', rf'\1"{key.public.hex()}"')
    return others


CHANGES = [
    (("alice", "bob", "carol", "dave"), "dave joins them now"),
    (("alice", "bob"), "carol is not among them now"),
    (("alice", "bob", "dave"), "dave replaces carol now"),
]


@pytest.mark.parametrize(("parties", "change"), CHANGES)
def test_a_roster_that_differs_by_one_party_is_refused_until_it_is_accepted(configs, sent, tmp_path, parties, change):
    told_in_a_session(configs, sent)
    others = other_roster(configs, tmp_path / "others", parties)
    sent.clear()
    with pytest.raises(PolicyError) as caught:
        task(others["alice"]).check()
    told = str(caught.value)
    assert re.search(rf"a session with alice, bob and carol on \d{{4}}-\d\d-\d\d \(UTC\), and {change}", told)
    assert f'"changed-roster": {RISKS["changed-roster"].discloses}' in told
    shown = CliRunner().invoke(cli, ["check", "--offline", "--json", "--config", str(others["alice"])])
    refused = [row for row in json.loads(shown.stdout) if not row["ok"]]
    assert [(row["check"], row["exit_code"]) for row in refused] == [("sessions", 4)]
    run = CliRunner().invoke(cli, ["party", "--config", str(others["alice"]), "--new-session"])
    assert isinstance(run.exception, PolicyError)
    assert not sent
    assert not (others["alice"].parent / "result").exists()
    for name in parties:
        edit(others[name], r"^accept = \[\]", 'accept = ["changed-roster"]')
    told_in_a_session(others, sent)
    assert counts(others["alice"]) == (2, 1)
    assert (
        json.loads((others["alice"].parent / "result" / "run.json").read_text())["sessions"]["with_these_parties"] == 1
    )


def test_a_roster_that_differs_by_two_parties_is_not_refused(configs, sent, tmp_path):
    told_in_a_session(configs, sent)
    others = other_roster(configs, tmp_path / "others", ("alice", "dave", "erin"))
    told_in_a_session(others, sent)
    assert counts(others["alice"]) == (2, 1)


def test_other_data_are_not_refused_with_another_roster(configs, sent, tmp_path):
    told_in_a_session(configs, sent)
    others = other_roster(configs, tmp_path / "others", ("alice", "bob"))
    for name in ("alice", "bob"):
        edit(others[name].parent / "data" / "features.csv", r"^(n003,)[^,]+", r"\g<1>7.25")
        task(others[name]).check()


def rosters():
    """Return a strategy for rosters: some names, each with a key of its own."""
    names = st.lists(st.sampled_from("abcde"), min_size=1, unique=True)
    keys = st.permutations([b"1", b"2", b"3", b"4", b"5"])
    return st.tuples(names, keys).map(lambda both: dict(zip(*both, strict=False)))


@given(rosters(), rosters())
def test_rosters_are_compared_by_keys_and_not_by_names(earlier, now):
    gone, new = set(earlier.values()) - set(now.values()), set(now.values()) - set(earlier.values())
    assert bool(one_change(earlier, now)) == (gone != new and len(gone) <= 1 and len(new) <= 1)


# ---- damage and erasure


def damaged(content, how):
    middle = len(content) // 2
    if how == "changed":
        return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    return {"cut": content[:middle], "empty": b"", "other format": content.replace(b"kept 1", b"kept 0")}[how]


@pytest.mark.parametrize("how", ["changed", "cut", "empty", "other format"])
@pytest.mark.parametrize("which", ["", ".session"])
def test_a_damaged_file_stops_a_session_before_anything_leaves(configs, sent, how, which):
    told_in_a_session(configs, sent)
    (path,) = [one for one in (configs["alice"].parent / "state" / "kept").iterdir() if one.suffix == which]
    found = damaged(path.read_bytes(), how)
    path.write_bytes(found)
    sent.clear()
    with pytest.raises(SessionError, match=rf"{path.name}: .*cannot be read.*nothing was sent.*backup.*kcagc forget"):
        DurableSession(configs)
    assert not sent
    assert path.read_bytes() == found
    shown = CliRunner().invoke(cli, ["check", "--offline", "--config", str(configs["alice"])])
    assert (shown.exit_code, "error sessions" in shown.output) == (12, True)


def test_forget_erases_kept_labels_and_counts(configs, sent):
    told_in_a_session(configs, sent)
    state = configs["alice"].parent / "state"
    (state / "kept" / ".left-by-a-crash.part").write_bytes(b"part of the labels")
    linked = {path.name: state.parent / f"linked-{path.name}" for path in (state / "kept").iterdir()}
    for name, link in linked.items():
        link.hardlink_to(state / "kept" / name)
    done = CliRunner().invoke(cli, ["forget", "--config", str(configs["alice"])], catch_exceptions=False)
    assert f"erased {state / 'kept'}" in done.output
    assert list(state.iterdir()) == []
    assert all(not any(link.read_bytes()) for link in linked.values())  # overwritten, not only removed
    assert counts(configs["alice"]) == (0, 0)
