"""Errors carry their meaning in fields; a name that looks like the beginning of a message changes nothing."""

import copy
import pickle

import pytest

from kcagc.errors import (
    AbortedError,
    AgreementError,
    DataError,
    EquivocationError,
    KcagcError,
    PeerError,
    PeerTimeoutError,
    RejectedError,
)
from kcagc.protocol.messages import Abort, decode
from kcagc.runtime.driver import Driver

NAMES = ("bank", "bank: north", "north: sent a hello", "")


async def _waiting():
    raise AssertionError  # the role is ended before it starts


@pytest.mark.parametrize("kind", [PeerError, EquivocationError, PeerTimeoutError, RejectedError])
@pytest.mark.parametrize("name", NAMES)
def test_an_error_shows_its_peer_and_keeps_it_as_a_field(kind, name):
    error = kind("sent too much", peer=name)
    assert error.peer == name
    assert str(error) == (f"{name}: sent too much" if name else "sent too much")


@pytest.mark.parametrize(
    "error",
    [
        PeerError("m", peer="bank: north"),
        AbortedError("m", peer="bank: north"),
        AgreementError("m", peer="bank: north"),
        DataError("m", party="bank: north"),
    ],
)
def test_copies_of_an_error_keep_its_fields(error):
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - made here
        assert vars(again) == vars(error)
        assert str(again) == str(error)


def test_an_aborted_run_names_the_role_that_ended_it():
    error = AbortedError("its data cannot be used", peer="bank: north")
    assert (error.peer, error.reason) == ("bank: north", "its data cannot be used")
    assert str(error) == "bank: north ended the run: its data cannot be used"


@pytest.mark.parametrize("culprit", ["bank", "bank: north"])
def test_peers_learn_which_role_broke_the_rules_whatever_its_name(culprit):
    """The name of one party is the beginning of the other's, and of messages about it."""
    driver = Driver("coordinator", _waiting(), ("bank", "bank: north", "shop"))
    sent = dict(driver.fail(PeerError("north: sent a hello that is not signed", peer=culprit)))
    assert decode(sent["shop"], "coordinator") == Abort(culprit, "it broke the rules, says coordinator")


@pytest.mark.parametrize(
    "error",
    [
        EquivocationError("sent two messages", peer="bank"),
        PeerError("bank: sent a hello that is not signed"),
        PeerError("sent a hello that is not signed", peer="elsewhere"),
    ],
)
def test_only_a_peer_that_may_correct_itself_is_named_to_others(error):
    driver = Driver("coordinator", _waiting(), ("bank", "shop"))
    sent = dict(driver.fail(error))
    assert decode(sent["shop"], "coordinator") == Abort("coordinator", error.public_message)


def test_a_public_message_replaces_that_of_the_class():
    assert KcagcError("secret").public_message == "aborted"
    assert KcagcError("secret").with_public_message("chosen").public_message == "chosen"
    assert KcagcError.public_message == "aborted"
