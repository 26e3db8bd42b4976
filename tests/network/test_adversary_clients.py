"""An adversary with a party's certificate, or even its identity key, is rejected; the real roles still succeed."""

import msgspec
import pytest

from kcagc.net.frames import Ack, MessagePart, Open, Ping, Pong, WaitingFor, Welcome, encode_frame, split
from kcagc.net.frames import Challenge as ChallengeFrame
from kcagc.net.grpc_client import PROTOCOL_KEY
from kcagc.protocol.agreement import own_hello
from kcagc.protocol.messages import Finished, encode
from kcagc.secagg.keys import Identity, Secrets
from network.adversaries import Client
from network.roles import PATIENT, Collaboration, assert_one_line

TERABYTE = 1 << 40
INVISIBLE = "kcagc\x1b[2J\x1b]0;x\x07\n00:00:00 coordinator: \u202eall"


def changed_inputs(adversary, **changes):
    agreement = adversary.task.agreement
    parameters = msgspec.structs.replace(agreement.parameters, **changes)
    return msgspec.msgpack.encode(msgspec.structs.replace(agreement, parameters=parameters))


def inputs_of_version(adversary, version):
    """Return inputs of another version, with a parameter that this version does not have."""
    inputs = msgspec.msgpack.decode(adversary.task.agreement.inputs())
    return msgspec.msgpack.encode(
        inputs | {"protocol": version, "parameters": inputs["parameters"] | {"seeding": "common"}}
    )


def with_field(frame):
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(encode_frame(frame)), "more": 1})


# The first frame of the adversary, the reason of the rejection, and the text in the log.
FIRST_FRAMES = {
    "garbage": (lambda adversary, challenge: bytes(range(256)), "misbehaviour", "cannot be read"),
    "nothing inside": (lambda adversary, challenge: b"", "misbehaviour", "cannot be read"),
    "half an opening": (
        lambda adversary, challenge: encode_frame(adversary.opening(challenge))[:-9],
        "misbehaviour",
        "cannot be read",
    ),
    "a field more": (
        lambda adversary, challenge: with_field(adversary.opening(challenge)),
        "misbehaviour",
        "cannot be read",
    ),
    "a field full of escapes": (
        lambda adversary, challenge: msgspec.msgpack.encode({"frame": "ping", INVISIBLE: 1}),
        "misbehaviour",
        "cannot be read",
    ),
    "deep nesting": (lambda adversary, challenge: b"\x91" * 200_000, "misbehaviour", "cannot be read"),
    "a long name": (
        lambda adversary, challenge: adversary.opening(challenge, name="a" * 65),
        "misbehaviour",
        "cannot be read",
    ),
    "a welcome": (
        lambda adversary, challenge: Welcome(b"", 0, 0, 0, b""),
        "misbehaviour",
        "instead of an opening",
    ),
    "a challenge": (lambda adversary, challenge: challenge, "misbehaviour", "instead of an opening"),
    "a part": (
        lambda adversary, challenge: MessagePart(1, 4, 0, b"data"),
        "misbehaviour",
        "instead of an opening",
    ),
    "another key": (
        lambda adversary, challenge: adversary.opening(challenge, key=Identity.generate()),
        "identity",
        "not signed by the identity key",
    ),
    "no signature": (
        lambda adversary, challenge: msgspec.structs.replace(adversary.opening(challenge), signature=b""),
        "identity",
        "not signed by the identity key",
    ),
    "another nonce": (
        lambda adversary, challenge: adversary.opening(msgspec.structs.replace(challenge, nonce=b"n" * 32)),
        "identity",
        "not signed by the identity key",
    ),
    "the name of b": (
        lambda adversary, challenge: adversary.opening(challenge, name="b"),
        "identity",
        "the certificate is for",
    ),
    "a stranger": (
        lambda adversary, challenge: adversary.opening(challenge, name="z\x1b\n"),
        "identity",
        r"'z\\x1b\\n' is not a party",
    ),
    "the aggregator": (
        lambda adversary, challenge: adversary.opening(challenge, name="coordinator"),
        "identity",
        "is not a party",
    ),
    "another version": (
        lambda adversary, challenge: adversary.opening(challenge, protocol="kcagc-stream/1"),
        "agreement",
        "kcagc-stream/1",
    ),
    "an invisible version": (
        lambda adversary, challenge: adversary.opening(challenge, protocol=INVISIBLE),
        "agreement",
        "uses",
    ),
    "inputs that are none": (
        lambda adversary, challenge: adversary.opening(challenge, inputs=b"\xc1"),
        "misbehaviour",
        "cannot be read",
    ),
    "other inputs": (
        lambda adversary, challenge: adversary.opening(challenge, inputs=changed_inputs(adversary, n_clusters=7)),
        "agreement",
        "n_clusters: coordinator has 3, a has 7",
    ),
    "inputs full of escapes": (
        lambda adversary, challenge: adversary.opening(
            challenge, inputs=changed_inputs(adversary, filter=INVISIBLE * 50)
        ),
        "agreement",
        "filter: coordinator has",
    ),
    "inputs of the version before": (
        lambda adversary, challenge: adversary.opening(challenge, inputs=inputs_of_version(adversary, "kcagc/5")),
        "agreement",
        "coordinator uses protocol kcagc/8, a uses kcagc/5: install the same version of kcagc",
    ),
    "inputs of an invisible version": (
        lambda adversary, challenge: adversary.opening(challenge, inputs=inputs_of_version(adversary, INVISIBLE)),
        "agreement",
        "coordinator uses protocol kcagc/8, a uses ",
    ),
    "another session": (
        lambda adversary, challenge: adversary.opening(challenge, bound=b"b" * 32),
        "over",
        "that session is over",
    ),
    "messages never sent, safe": (
        lambda adversary, challenge: adversary.opening(challenge, safe=3),
        "session",
        "old copy",
    ),
    "messages never sent, arrived": (
        lambda adversary, challenge: adversary.opening(challenge, arrived=3),
        "session",
        "old copy",
    ),
}


def awaiting_a(roles):
    """Start an aggregator and b. The adversary connects as a before the real a does."""
    aggregator = roles.start_aggregator(
        patches={"kcagc.runtime.connection._HANDSHAKE_TIMEOUT": 1.0, "kcagc.runtime.session._LINGER": 0.5}
    )
    b = roles.start("b")
    aggregator.wait_for_line("b is connected")
    return roles, aggregator, b


@pytest.fixture
def new_run(collaborate):
    return awaiting_a(collaborate("a", "b"))


@pytest.fixture(scope="module")
def waiting_run(fork_server, tmp_path_factory):
    """A run that all adversaries attack, one after the other, before the real a connects."""
    roles = Collaboration(tmp_path_factory.mktemp("waiting_run"), fork_server, ("a", "b"), limits=PATIENT)
    try:
        run = awaiting_a(roles)
        yield run
        assert_undisturbed(run)
    finally:
        roles.close()


def assert_undisturbed(run):
    """Assert that the real a connects, all roles succeed, and the logs are printable."""
    roles, aggregator, b = run
    roles.assert_finishes(aggregator, b, roles.start("a"))
    for role in roles.roles:
        assert "Traceback" not in role.log
        assert all(letter.isprintable() or letter == "\n" for letter in role.log)


def refusals(aggregator, since=0):
    return aggregator.lines("rejected|before a valid frame", since)


@pytest.mark.parametrize("words", FIRST_FRAMES)
def test_a_first_frame_other_than_a_valid_opening_is_rejected_with_one_line_in_the_log(waiting_run, words):
    roles, aggregator, _ = waiting_run
    since = aggregator.n_lines
    first_frame, reason, logged = FIRST_FRAMES[words]
    with Client(roles) as adversary:
        adversary.send(first_frame(adversary, adversary.receive()))
        given, text = adversary.rejected()
    assert given == reason
    assert_one_line(aggregator, f"rejected a stream from .*{logged}", since)
    assert len(refusals(aggregator, since)) == 1
    assert len(text) <= 2000


@pytest.mark.parametrize(
    ("claimed", "shown"),
    [(None, "version 0.10.0 or earlier"), ("kcagc-stream/9", "'kcagc-stream/9'"), ("x" * 5000, "'" + "x" * 64 + "'")],
    ids=["none", "later", "long"],
)
def test_another_version_is_rejected_before_the_first_frame_with_a_remedy(waiting_run, claimed, shown):
    """Version 0.5.0 cannot read the challenge of today, but every version reads why it is rejected."""
    roles, aggregator, _ = waiting_run
    since = aggregator.n_lines
    with Client(roles, metadata=() if claimed is None else ((PROTOCOL_KEY, claimed),)) as adversary:
        given, text = adversary.rejected()
    assert given == "agreement"
    assert "certificate of a.kcagc.internal" in text
    assert shown in text
    assert text.endswith("install the same version of kcagc at all roles")
    assert_one_line(aggregator, "rejected a stream from .*the aggregator uses kcagc-stream/4", since)


def test_an_opening_recorded_on_another_stream_is_rejected(waiting_run):
    roles, aggregator, _ = waiting_run
    since = aggregator.n_lines
    with Client(roles) as first, Client(roles) as second:
        opening = first.opening(first.receive())
        second.receive()
        second.send(opening)
        assert second.rejected()[0] == "identity"
    assert_one_line(aggregator, "rejected a stream from .*not signed by the identity key", since)
    assert_one_line(aggregator, "ended before a valid frame", since)


def test_a_silent_client_is_rejected(new_run):
    roles, aggregator, _ = new_run
    with Client(roles) as adversary:
        assert adversary.rejected() == ("misbehaviour", "no opening arrived in time")
    assert_one_line(aggregator, "rejected a stream from .*no opening arrived in time")
    assert_undisturbed(new_run)


def test_a_message_above_the_limit_of_grpc_is_not_read(new_run):
    roles, aggregator, _ = new_run
    before = aggregator.memory
    with Client(roles) as adversary:
        adversary.receive()
        adversary.send(bytes(64 << 20))
        _, words = adversary.rejected()
    assert "larger than max" in words
    assert aggregator.memory - before < 16 << 20
    assert_one_line(aggregator, "stream from .* ended before a valid frame")
    assert_undisturbed(new_run)


def test_the_server_has_no_other_method(waiting_run):
    roles, _, _ = waiting_run
    with Client(roles, path="/kcagc.Relay/Other") as adversary:
        assert "Method not found" in adversary.rejected()[1]


# ---- with the identity key as well: the adversary is admitted, and then breaks the protocol

LATER_FRAMES = {
    "garbage": ([b"\xc1\xff\x00"], "cannot be read"),
    "half a frame": ([encode_frame(MessagePart(1, 4, 0, b"data"))[:-2]], "cannot be read"),
    "a field more": ([with_field(Ping())], "cannot be read"),
    "a number below zero": ([msgspec.msgpack.encode({"frame": "ack", "number": -1})], "cannot be read"),
    "a terabyte": ([MessagePart(1, TERABYTE, 0, b"data")], "announced a message of 1,099,511,627,776 bytes"),
    "a part too long": ([MessagePart(1, 3, 0, b"data")], "longer than its message"),
    "an empty part": ([MessagePart(1, 3, 0, b"")], "empty or longer than its message"),
    "a part in the middle": ([MessagePart(1, 8, 4, b"data")], "does not follow"),
    "a part of another message": ([MessagePart(1, 8, 0, b"data"), MessagePart(2, 8, 4, b"data")], "does not follow"),
    "another length": ([MessagePart(1, 8, 0, b"data"), MessagePart(1, 9, 4, b"data")], "does not follow"),
    "another digest": ([MessagePart(1, 4, 0, b"data", b"d" * 32)], "wrong digest"),
    "no digest": ([MessagePart(1, 4, 0, b"data")], "wrong digest"),
    "a second opening": ([Open("", "", b"", b"", b"", b"", 0, 0, 0, b"", b"")], "in the middle of a stream"),
    "a challenge": ([ChallengeFrame("", b"")], "in the middle of a stream"),
    "an ack of what was not sent": ([Ack(1)], "only 0 were sent"),
    "a gap": ([*split(2, b"data")], "sent message 2 instead of 1"),
    "number nought": ([*split(0, b"data")], "sent message 0 instead of 1"),
}


@pytest.mark.parametrize("words", LATER_FRAMES)
def test_invalid_frames_end_only_the_stream_that_sent_them(waiting_run, words):
    roles, aggregator, _ = waiting_run
    since = aggregator.n_lines
    frames, logged = LATER_FRAMES[words]
    with Client(roles) as adversary:
        adversary.enter()
        adversary.send(*frames)
        assert adversary.rejected()[0] == "misbehaviour"
    assert_one_line(aggregator, f"rejected a stream from .*({logged})", since)
    assert len(refusals(aggregator, since)) == 1
    aggregator.wait_for_line("a disconnected", since=since)


def test_an_announced_length_allocates_no_memory(waiting_run):
    roles, aggregator, _ = waiting_run
    before = aggregator.memory
    with Client(roles) as adversary:
        adversary.enter()
        adversary.send(MessagePart(1, 1 << 28, 0, b"data"), Ping())
        while not isinstance(adversary.receive(), Pong):
            pass
        assert aggregator.memory - before < 16 << 20


def hello_of(adversary):
    task = adversary.task
    return encode(own_hello("a", task.agreement, task.identity, Secrets.fresh()))


def test_a_repeated_message_counts_once(new_run):
    roles, aggregator, _ = new_run
    with Client(roles) as adversary:
        adversary.enter()
        hello = hello_of(adversary)
        adversary.send(*split(1, hello), *split(1, hello), Ping())
        while not isinstance(adversary.receive(), Pong):
            pass
    assert refusals(aggregator) == []
    assert_undisturbed(new_run)


@pytest.mark.parametrize("second", ["another hello", "garbage"])
def test_two_messages_with_one_number_end_the_run(new_run, second):
    roles, aggregator, b = new_run
    with Client(roles) as adversary:
        adversary.enter()
        adversary.send(*split(1, hello_of(adversary)))
        adversary.send(*split(1, hello_of(adversary) if second == "another hello" else b"\xc1"))
        assert b.ends() == 7
    assert aggregator.ends() == 6
    assert_one_line(aggregator, "kcagc: a: sent two different messages under number 1")
    assert_one_line(b, "kcagc: coordinator ended the run: a sent two different messages under one number")


@pytest.mark.parametrize("message", [b"", b"\xc1", b"\x91" * 100_000, encode(Finished("1.1"))], ids=len)
def test_a_first_message_other_than_a_hello_restarts_the_session(new_run, message):
    roles, aggregator, b = new_run
    with Client(roles) as adversary:
        adversary.enter()
        adversary.send(*split(1, message))
        while not (isinstance(frame := adversary.receive(), MessagePart) and b"abort" in frame.data):
            pass  # the adversary receives the reason of the abort, too
        aggregator.wait_for_line("a: sent .*; waiting for a new session")
        b.wait_for_line("a ended the run: it broke the rules, says coordinator; waiting for a new session")
    assert_undisturbed(new_run)


def test_a_party_cannot_report_missing_parties(waiting_run):
    roles, aggregator, _ = waiting_run
    with Client(roles) as adversary:
        adversary.enter()
        adversary.send(WaitingFor((INVISIBLE, "the moon")))
        assert adversary.rejected()[0] == "misbehaviour"
    assert_one_line(aggregator, "rejected a stream from .*only an aggregator sends")
    assert aggregator.lines("moon") == []
