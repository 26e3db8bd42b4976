"""An enemy with a party's certificate, and even with its identity key: refused in one line, and nobody else notices."""

import msgspec
import pytest

from kcagc.net.frames import Ack, Missing, Open, Part, Ping, Pong, Welcome, encode_frame, parts
from kcagc.net.frames import Challenge as ChallengeFrame
from kcagc.protocol.handshake import own_hello
from kcagc.protocol.messages import Finished, encode
from kcagc.secagg.identity import Identity
from kcagc.secagg.session import Secrets
from network.adversaries import Client
from network.roles import Collaboration, assert_one_line

TERABYTE = 1 << 40
INVISIBLE = "kcagc\x1b[2J\x1b]0;x\x07\n00:00:00 coordinator: \u202eall"


def changed_inputs(enemy, **changes):
    agreement = enemy.task.agreement
    parameters = msgspec.structs.replace(agreement.parameters, **changes)
    return msgspec.msgpack.encode(msgspec.structs.replace(agreement, parameters=parameters))


def with_field(frame):
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(encode_frame(frame)), "more": 1})


# What an enemy may say first, the reason it is given, and what it and the log are told.
FIRST_WORDS = {
    "garbage": (lambda enemy, heard: bytes(range(256)), "misbehaviour", "cannot be read"),
    "nothing inside": (lambda enemy, heard: b"", "misbehaviour", "cannot be read"),
    "half an opening": (lambda enemy, heard: encode_frame(enemy.opening(heard))[:-9], "misbehaviour", "cannot be read"),
    "a field more": (lambda enemy, heard: with_field(enemy.opening(heard)), "misbehaviour", "cannot be read"),
    "a field full of escapes": (
        lambda enemy, heard: msgspec.msgpack.encode({"frame": "ping", INVISIBLE: 1}),
        "misbehaviour",
        "cannot be read",
    ),
    "an abyss": (lambda enemy, heard: b"\x91" * 200_000, "misbehaviour", "cannot be read"),
    "a long name": (lambda enemy, heard: enemy.opening(heard, name="a" * 65), "misbehaviour", "cannot be read"),
    "a welcome": (lambda enemy, heard: Welcome(b"", 0, 0, 0, b""), "misbehaviour", "another frame than an opening"),
    "a challenge": (lambda enemy, heard: heard, "misbehaviour", "another frame than an opening"),
    "a part": (lambda enemy, heard: Part(1, 4, 0, b"data"), "misbehaviour", "another frame than an opening"),
    "another key": (
        lambda enemy, heard: enemy.opening(heard, key=Identity.generate()),
        "identity",
        "not signed by the identity key",
    ),
    "no signature": (
        lambda enemy, heard: msgspec.structs.replace(enemy.opening(heard), signature=b""),
        "identity",
        "not signed by the identity key",
    ),
    "another nonce": (
        lambda enemy, heard: enemy.opening(msgspec.structs.replace(heard, nonce=b"n" * 32)),
        "identity",
        "not signed by the identity key",
    ),
    "the name of b": (lambda enemy, heard: enemy.opening(heard, name="b"), "identity", "the certificate is for"),
    "a stranger": (
        lambda enemy, heard: enemy.opening(heard, name="z\x1b\n"),
        "identity",
        r"'z\\x1b\\n' is not a party",
    ),
    "the aggregator": (lambda enemy, heard: enemy.opening(heard, name="coordinator"), "identity", "is not a party"),
    "another version": (lambda enemy, heard: enemy.opening(heard, link="kcagc-link/0"), "agreement", "kcagc-link/0"),
    "an invisible version": (lambda enemy, heard: enemy.opening(heard, link=INVISIBLE), "agreement", "speaks"),
    "inputs that are none": (
        lambda enemy, heard: enemy.opening(heard, inputs=b"\xc1"),
        "misbehaviour",
        "cannot be read",
    ),
    "other inputs": (
        lambda enemy, heard: enemy.opening(heard, inputs=changed_inputs(enemy, n_clusters=7)),
        "agreement",
        "n_clusters: coordinator has 3, a has 7",
    ),
    "inputs full of escapes": (
        lambda enemy, heard: enemy.opening(heard, inputs=changed_inputs(enemy, filter=INVISIBLE * 50)),
        "agreement",
        "filter: coordinator has",
    ),
    "another session": (lambda enemy, heard: enemy.opening(heard, bound=b"b" * 32), "session", "that session is over"),
    "messages never sent, safe": (lambda enemy, heard: enemy.opening(heard, safe=3), "session", "older copy"),
    "messages never sent, arrived": (lambda enemy, heard: enemy.opening(heard, arrived=3), "session", "older copy"),
}


def awaiting_a(roles):
    """Start an aggregator and b, which waits; a is the enemy's at first, and then itself."""
    aggregator = roles.start_aggregator(
        patches={"kcagc.runtime.stream_handshake._SECONDS": 1.0, "kcagc.runtime.runner._LINGER": 0.5}
    )
    b = roles.start("b")
    aggregator.wait_for_line("b is connected")
    return roles, aggregator, b


@pytest.fixture
def stage(collaborate):
    return awaiting_a(collaborate("a", "b"))


@pytest.fixture(scope="module")
def siege(fork_server, tmp_path_factory):
    """A stage that one enemy after the other has tried to spoil when at last the real a comes."""
    roles = Collaboration(
        tmp_path_factory.mktemp("siege"), fork_server, ("a", "b"), limits="peer_timeout = 200\nmessage_timeout = 200"
    )
    try:
        stage = awaiting_a(roles)
        yield stage
        assert_undisturbed(stage)
    finally:
        roles.close()


def assert_undisturbed(stage):
    """See that the real a comes in and all end well, and that nothing but plain lines was written."""
    roles, aggregator, b = stage
    roles.assert_finishes(aggregator, b, roles.start("a"))
    for role in roles.roles:
        assert "Traceback" not in role.log
        assert all(letter.isprintable() or letter == "\n" for letter in role.log)


def refusals(aggregator, since=0):
    return aggregator.lines("refused|without a word", since)


@pytest.mark.parametrize("words", FIRST_WORDS)
def test_first_words_that_are_no_opening_are_refused_in_one_line(siege, words):
    roles, aggregator, _ = siege
    since = aggregator.n_lines
    say, reason, told = FIRST_WORDS[words]
    with Client(roles) as enemy:
        enemy.say(say(enemy, enemy.hear()))
        given, heard = enemy.refused()
    assert given == reason
    assert_one_line(aggregator, f"refused a stream from .*{told}", since)
    assert len(refusals(aggregator, since)) == 1
    assert len(heard) <= 2000


def test_an_opening_that_was_heard_elsewhere_opens_nothing(siege):
    roles, aggregator, _ = siege
    since = aggregator.n_lines
    with Client(roles) as first, Client(roles) as second:
        opening = first.opening(first.hear())
        second.hear()
        second.say(opening)
        assert second.refused()[0] == "identity"
    assert_one_line(aggregator, "refused a stream from .*not signed by the identity key", since)
    assert_one_line(aggregator, "ended without a word", since)


def test_who_says_nothing_is_sent_away(stage):
    roles, aggregator, _ = stage
    with Client(roles) as enemy:
        assert enemy.refused() == ("misbehaviour", "says nothing")
    assert_one_line(aggregator, "refused a stream from .*says nothing")
    assert_undisturbed(stage)


def test_a_message_beyond_the_limit_of_grpc_is_not_read(stage):
    roles, aggregator, _ = stage
    before = aggregator.memory
    with Client(roles) as enemy:
        enemy.hear()
        enemy.say(bytes(64 << 20))
        _, words = enemy.refused()
    assert "larger than max" in words
    assert aggregator.memory - before < 16 << 20
    assert_one_line(aggregator, "stream from .* ended without a word")
    assert_undisturbed(stage)


def test_another_method_is_not_there(siege):
    roles, _, _ = siege
    with Client(roles, path="/kcagc.Relay/Other") as enemy:
        assert "Method not found" in enemy.refused()[1]


# ---- with the identity key as well: the enemy is let in, and then misbehaves

LATER_WORDS = {
    "garbage": ([b"\xc1\xff\x00"], "cannot be read"),
    "half a frame": ([encode_frame(Part(1, 4, 0, b"data"))[:-2]], "cannot be read"),
    "a field more": ([with_field(Ping())], "cannot be read"),
    "a number below zero": ([msgspec.msgpack.encode({"frame": "ack", "number": -1})], "cannot be read"),
    "a terabyte": ([Part(1, TERABYTE, 0, b"data")], "announced a message of 1,099,511,627,776 bytes"),
    "a part too long": ([Part(1, 3, 0, b"data")], "longer than its message"),
    "an empty part": ([Part(1, 3, 0, b"")], "longer than its message, or empty"),
    "a part in the middle": ([Part(1, 8, 4, b"data")], "does not follow"),
    "a part of another message": ([Part(1, 8, 0, b"data"), Part(2, 8, 4, b"data")], "does not follow"),
    "another length": ([Part(1, 8, 0, b"data"), Part(1, 9, 4, b"data")], "does not follow"),
    "another digest": ([Part(1, 4, 0, b"data", b"d" * 32)], "does not have the digest"),
    "no digest": ([Part(1, 4, 0, b"data")], "does not have the digest"),
    "a second opening": ([Open("", "", b"", b"", b"", b"", 0, 0, 0, b"", b"")], "in the middle of a stream"),
    "a challenge": ([ChallengeFrame("", "", b"")], "in the middle of a stream"),
    "an ack of what was not sent": ([Ack(1)], "only 0 were sent"),
    "a gap": ([*parts(2, b"data")], "sent message 2 where 1 was due"),
    "number nought": ([*parts(0, b"data")], "sent message 0 where 1 was due"),
}


@pytest.mark.parametrize("words", LATER_WORDS)
def test_frames_that_no_role_sends_end_their_stream_only(siege, words):
    roles, aggregator, _ = siege
    since = aggregator.n_lines
    frames, told = LATER_WORDS[words]
    with Client(roles) as enemy:
        enemy.enter()
        enemy.say(*frames)
        assert enemy.refused()[0] == "misbehaviour"
    assert_one_line(aggregator, f"refused a stream from .*({told})", since)
    assert len(refusals(aggregator, since)) == 1
    aggregator.wait_for_line("a is gone", since=since)


def test_an_announcement_takes_no_memory(siege):
    roles, aggregator, _ = siege
    before = aggregator.memory
    with Client(roles) as enemy:
        enemy.enter()
        enemy.say(Part(1, 1 << 28, 0, b"data"), Ping())
        while not isinstance(enemy.hear(), Pong):
            pass
        assert aggregator.memory - before < 16 << 20


def hello_of(enemy):
    task = enemy.task
    return encode(own_hello("a", task.agreement, task.identity, Secrets.fresh()))


def test_a_replayed_message_counts_once(stage):
    roles, aggregator, _ = stage
    with Client(roles) as enemy:
        enemy.enter()
        hello = hello_of(enemy)
        enemy.say(*parts(1, hello), *parts(1, hello), Ping())
        while not isinstance(enemy.hear(), Pong):
            pass
    assert refusals(aggregator) == []
    assert_undisturbed(stage)


@pytest.mark.parametrize("second", ["another hello", "garbage"])
def test_two_messages_under_one_number_end_the_run(stage, second):
    roles, aggregator, b = stage
    with Client(roles) as enemy:
        enemy.enter()
        enemy.say(*parts(1, hello_of(enemy)))
        enemy.say(*parts(1, hello_of(enemy) if second == "another hello" else b"\xc1"))
        assert b.ends() == 7
    assert aggregator.ends() == 6
    assert_one_line(aggregator, "kcagc: a: sent two different messages under number 1")
    assert_one_line(b, "kcagc: coordinator ended the run: a sent two different messages under one number")


@pytest.mark.parametrize("message", [b"", b"\xc1", b"\x91" * 100_000, encode(Finished("1.1"))], ids=len)
def test_a_message_that_is_no_hello_begins_the_session_anew(stage, message):
    roles, aggregator, b = stage
    with Client(roles) as enemy:
        enemy.enter()
        enemy.say(*parts(1, message))
        while not (isinstance(heard := enemy.hear(), Part) and b"abort" in heard.data):
            pass  # it is told, too, that and why the run ends
        aggregator.wait_for_line("a: sent .*; waiting for a new start")
        b.wait_for_line("a ended the run: it broke the rules, says coordinator; waiting for a new start")
    assert_undisturbed(stage)


def test_what_a_party_says_of_who_is_missing_is_not_believed(siege):
    roles, aggregator, _ = siege
    with Client(roles) as enemy:
        enemy.enter()
        enemy.say(Missing((INVISIBLE, "the moon")))
        assert enemy.refused()[0] == "misbehaviour"
    assert_one_line(aggregator, "refused a stream from .*who is missing")
    assert aggregator.lines("moon") == []
