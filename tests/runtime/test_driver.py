"""Driver: how it ends a role, and the messages to its peers."""

import pytest

from kcagc.disclosure import Disclosure
from kcagc.errors import AgreementError, KcagcError
from kcagc.protocol.effects import Flush, Send, StoreResult, Wait
from kcagc.protocol.messages import Abort, decode
from kcagc.runtime.driver import Driver


async def listening():
    await Wait(frozenset({"bob"}))
    return "done"


def started(role):
    driver = Driver("ann", role, ("bob", "cid"))
    driver.start()
    return driver


def test_a_role_that_fails_from_outside_sends_an_abort_to_its_peers():
    driver = started(listening())
    sent = driver.fail(KcagcError("the line is dead"))
    assert [to for to, _ in sent] == ["bob", "cid"]
    assert decode(sent[0][1], "ann") == Abort("ann", "aborted")
    assert driver.finished
    assert [entry.kind for entry in driver.ledger] == ["message/abort"] * 2


async def releasing():
    await Send("bob", b"first", Disclosure("ann", "bob", "message/hello", "hello", (), 5))
    await Flush()
    await StoreResult("long", lambda: b"done")
    await Send("bob", b"second", Disclosure("ann", "bob", "message/hello", "hello", (), 6))
    await Flush()
    await Flush()  # nothing is waiting to leave
    await Wait(frozenset({"bob"}))


def test_a_flush_interrupts_a_step_so_that_messages_leave_before_a_long_computation():
    driver = Driver("ann", releasing(), ("bob",))
    driver.flushes = True
    assert driver.start() == [("bob", b"first")]
    assert driver.interrupted
    assert driver.waiting_for == frozenset()
    assert driver.go_on() == [("bob", b"second")]
    assert driver.interrupted
    assert driver.go_on() == []
    assert not driver.interrupted
    assert driver.waiting_for == {"bob"}


def test_without_flushes_a_step_is_not_interrupted():
    driver = Driver("ann", releasing(), ("bob",))
    assert driver.start() == [("bob", b"first"), ("bob", b"second")]
    assert not driver.interrupted


def test_a_finished_role_cannot_fail():
    driver = started(listening())
    driver.deliver("bob", b"")
    assert driver.result == "done"
    assert driver.fail(KcagcError("too late")) == []
    assert driver.result == "done"
    assert driver.error is None


def test_public_messages_are_cut_to_the_maximum_length():
    driver = started(listening())
    (_, payload), _ = driver.fail(AgreementError("long").with_public_message("x" * 10_000))
    message = decode(payload, "ann")
    assert set(message.reason) == {"x"}
    assert len(message.reason) == 400


def test_a_message_that_the_role_does_not_wait_for_is_not_delivered():
    driver = started(listening())
    with pytest.raises(KcagcError, match="message of cid, but does not wait"):
        driver.deliver("cid", b"")
    assert not driver.finished


def test_any_error_of_a_role_ends_the_run_of_all_roles():
    async def stumbling():
        await StoreResult("result", lambda: 1 // 0)

    driver = Driver("ann", stumbling(), ("bob",))
    ((to, payload),) = driver.start()
    assert (to, decode(payload, "ann").reason) == ("bob", "aborted")
    assert isinstance(driver.error, ZeroDivisionError)
