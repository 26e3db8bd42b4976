"""Roles of different versions refuse each other with a remedy: what version 0.5.0 sends is recorded."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from adversaries import agreement_of, parameters
from kcagc.errors import AgreementError
from kcagc.net.frames import STREAM_PROTOCOL, Challenge, decode_frame, encode_frame
from kcagc.protocol.agreement import PROTOCOL, compare_inputs
from kcagc.runtime.connection import receive_challenge
from kcagc.runtime.journal import FORMAT

TESTS = Path(__file__).parents[1]
RECORDED = json.loads((TESTS / "recorded" / "0.5.0-handshake.json").read_text(encoding="utf-8"))
CHALLENGE, INPUTS = (bytes.fromhex(RECORDED[name]) for name in ("challenge", "inputs"))


def refusal_of(challenge):
    """Return the error of a party whose coordinator begins with this challenge."""

    async def receive():
        return decode_frame(challenge, "coordinator")

    stream, endpoint = SimpleNamespace(receive=receive), SimpleNamespace(name="alice")
    with pytest.raises(AgreementError) as caught:
        asyncio.run(receive_challenge(stream, endpoint, "coordinator"))
    return caught.value


def test_a_party_names_the_version_of_a_coordinator_of_version_0_5_0():
    error = refusal_of(CHALLENGE)
    assert str(error) == (
        f"coordinator uses the protocol of version 0.5.0 or earlier, alice {STREAM_PROTOCOL}: install the same version "
        "of kcagc"
    )
    assert error.peer == "coordinator"


def test_a_party_reads_the_version_of_a_later_coordinator_whatever_else_its_challenge_holds():
    later = {**msgspec.msgpack.decode(encode_frame(Challenge("coordinator", b"", "kcagc-stream/9"))), "more": [1]}
    assert "coordinator uses 'kcagc-stream/9'" in str(refusal_of(msgspec.msgpack.encode(later)))


def test_the_inputs_of_version_0_5_0_are_refused_by_their_version():
    mine = agreement_of(parameters(), 2)
    with pytest.raises(AgreementError, match=f"coordinator uses protocol {PROTOCOL}, alice uses kcagc/2: install the"):
        compare_inputs("coordinator", mine, "alice", INPUTS)


def test_the_page_about_versions_states_what_this_version_speaks():
    page = (TESTS.parent / "docs" / "howto" / "upgrade.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert any(f"`{PROTOCOL}`" in row and f"`{STREAM_PROTOCOL}`" in row and f"| {FORMAT} |" in row for row in rows)
