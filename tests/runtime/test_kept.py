"""A kept result is on the disk before anything that depends on it leaves, and later sessions return it."""

import pytest

from kcagc.disclosure import Disclosure
from kcagc.errors import SessionError
from kcagc.protocol.effects import Send, StoreResult, Wait
from kcagc.protocol.messages import Finished, decode, encode
from kcagc.runtime import kept
from kcagc.runtime.driver import Driver, MemoryStore
from kcagc.runtime.durable import DurableRole, PeerQueue
from kcagc.runtime.journal import Journal, open_session
from kcagc.runtime.kept import KeptResults

KEY = b"\x01" * 32
ROSTER = {"ann": b"a" * 32, "bob": b"b" * 32}


class KilledError(BaseException):
    """Stands for SIGKILL."""


async def telling(labels):
    """Wait for a message, then send local labels, computed or kept, and wait for another."""
    await Wait(frozenset(["bob"]))
    found = await StoreResult("labels", lambda: labels, keep=KEY)
    payload = encode(Finished(found.decode()))
    await Send("bob", payload, Disclosure("ann", "bob", "message/finished", "end", (), len(payload)))
    await Wait(frozenset(["bob"]))


class Ann:
    """A role with a journal and kept results in one folder."""

    def __init__(self, folder, labels, *, new_session=False):
        self.kept = KeptResults(folder / "kept", b"data", ROSTER)
        self.journal = Journal(folder / "fit.sqlite")
        if new_session:
            self.journal.erase()
        self.journal.kept = self.kept
        open_session(self.journal, {}, 0)
        self.queue = PeerQueue("bob")
        self.role = DurableRole("ann", telling(labels), {"bob": self.queue}, self.journal, aggregator=False)

    def told(self):
        """Start the role, with a message that it waits for; return the labels that may leave."""
        try:
            self.role.resume()
            if not self.queue.arrived:
                self.role.receive("bob", 1, encode(Finished("begin")))
        except KilledError:
            self.journal.roll_back()
            raise
        finally:
            self.journal.close()
        return [decode(payload, "ann").group for payload in self.queue.outbox.values()]


@pytest.mark.parametrize("boundary", ["labels are kept", "session is counted", "commit begins", "commit done"])
def test_a_role_killed_at_any_boundary_of_a_kept_result_sends_the_kept_one(tmp_path, monkeypatch, boundary):
    write, commit, written = kept.write_bytes, Journal.commit, []

    def writing(path, data, *, mode):
        write(path, data, mode=mode)
        written.append(path)
        if boundary == ["labels are kept", "session is counted"][len(written) - 1]:
            raise KilledError

    def committing(journal):
        if boundary == "commit begins" and written:
            raise KilledError
        commit(journal)
        if boundary == "commit done" and written:
            raise KilledError

    monkeypatch.setattr(kept, "write_bytes", writing)
    monkeypatch.setattr(Journal, "commit", committing)
    ann = Ann(tmp_path, b"first")
    with pytest.raises(KilledError):
        ann.told()
    assert not ann.queue.outbox  # the result was durable before anything left
    assert ann.kept.load(KEY) == b"first"
    monkeypatch.undo()
    assert Ann(tmp_path, b"second").told() == ["first"]
    assert ann.kept.counts() == {"with_these_data": 1, "with_these_parties": 1}


def test_a_role_killed_before_its_result_is_kept_has_told_nothing(tmp_path, monkeypatch):
    def killed(*_, **__):
        raise KilledError

    monkeypatch.setattr(kept, "write_bytes", killed)
    ann = Ann(tmp_path, b"first")
    with pytest.raises(KilledError):
        ann.told()
    assert not ann.queue.outbox
    assert ann.kept.counts() == {"with_these_data": 0, "with_these_parties": 0}


def test_a_new_session_sends_the_kept_result_and_counts(tmp_path):
    assert Ann(tmp_path, b"first").told() == ["first"]
    again = Ann(tmp_path, b"second", new_session=True)
    assert again.told() == ["first"]
    assert again.kept.counts() == {"with_these_data": 2, "with_these_parties": 2}


def test_a_replay_needs_no_kept_result(tmp_path):
    """The journal holds what was sent, also after the folder of kept results is gone or damaged."""
    ann = Ann(tmp_path, b"first")
    assert ann.told() == ["first"]
    for path in ann.kept.folder.iterdir():
        path.write_bytes(b"damaged")
    assert Ann(tmp_path, b"second").told() == ["first"]


def test_a_full_disk_stops_the_role_before_anything_leaves(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "write_bytes", full)
    ann = Ann(tmp_path, b"first")
    with pytest.raises(SessionError, match=r"kept.*cannot be written: No space left on device; nothing was sent"):
        ann.told()
    assert not ann.queue.outbox
    monkeypatch.undo()
    assert Ann(tmp_path, b"second").told() == ["second"]


def test_a_store_in_memory_keeps_results_only_with_a_place_for_them():
    def told(store, labels):
        driver = Driver("ann", telling(labels), ("bob",), store=store)
        driver.start()
        ((_, payload),) = driver.deliver("bob", encode(Finished("begin")))
        return decode(payload, "ann").group

    assert [told(MemoryStore(), labels) for labels in (b"first", b"second")] == ["first", "second"]
    place = {}
    assert [told(MemoryStore(place), labels) for labels in (b"first", b"second")] == ["first", "first"]
    assert place == {KEY: b"first"}
