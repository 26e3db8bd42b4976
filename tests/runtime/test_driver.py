"""A station from outside: how it ends a role, and what its peers are told."""

import pytest

from kcagc.disclosure import Disclosure
from kcagc.errors import AgreementError, KcagcError
from kcagc.protocol.effects import Send, flush, perform, stored_result, wait
from kcagc.protocol.messages import Abort, decode
from kcagc.runtime.driver import Driver


async def listening():
    await wait(["bob"])
    return "done"


def started(role):
    station = Driver("ann", role, ("bob", "cid"))
    station.start()
    return station


def test_a_role_that_is_ended_from_outside_tells_its_peers():
    station = started(listening())
    sent = station.fail(KcagcError("the line is dead"))
    assert [to for to, _ in sent] == ["bob", "cid"]
    assert decode(sent[0][1], "ann") == Abort("ann", "aborted")
    assert station.finished
    assert [entry.kind for entry in station.ledger] == ["message/abort"] * 2


async def releasing():
    await perform(Send("bob", b"first", Disclosure("ann", "bob", "message/hello", "hello", (), 5)))
    await flush()
    await stored_result("long", lambda: b"done")
    await perform(Send("bob", b"second", Disclosure("ann", "bob", "message/hello", "hello", (), 6)))
    await flush()
    await flush()  # nothing is waiting to leave
    await wait(["bob"])


def test_what_was_said_leaves_before_what_takes_long():
    station = Driver("ann", releasing(), ("bob",))
    station.flushes = True
    assert station.start() == [("bob", b"first")]
    assert station.interrupted
    assert station.waiting_for == frozenset()
    assert station.go_on() == [("bob", b"second")]
    assert station.interrupted
    assert station.go_on() == []
    assert not station.interrupted
    assert station.waiting_for == {"bob"}


def test_who_does_not_ask_for_it_gets_a_step_whole():
    station = Driver("ann", releasing(), ("bob",))
    assert station.start() == [("bob", b"first"), ("bob", b"second")]
    assert not station.interrupted


def test_a_role_that_has_ended_cannot_be_ended_again():
    station = started(listening())
    station.deliver("bob", b"")
    assert station.result == "done"
    assert station.fail(KcagcError("too late")) == []
    assert station.result == "done"
    assert station.error is None


def test_words_for_others_are_cut_to_what_they_will_read():
    station = started(listening())
    (_, payload), _ = station.fail(AgreementError("long").with_public_message("x" * 10_000))
    message = decode(payload, "ann")
    assert set(message.reason) == {"x"}
    assert len(message.reason) == 400


def test_a_message_that_is_not_awaited_is_not_handed_over():
    station = started(listening())
    with pytest.raises(KcagcError, match="message of cid, but does not wait"):
        station.deliver("cid", b"")
    assert not station.finished


def test_any_error_of_a_role_ends_it_for_all():
    async def stumbling():
        await stored_result("result", lambda: 1 // 0)

    station = Driver("ann", stumbling(), ("bob",))
    ((to, payload),) = station.start()
    assert (to, decode(payload, "ann").reason) == ("bob", "aborted")
    assert isinstance(station.error, ZeroDivisionError)
