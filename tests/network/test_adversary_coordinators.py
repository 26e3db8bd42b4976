"""An enemy where the aggregator should be, with its certificate: a party ends with a word, and tells it nothing."""

import grpc
import msgspec
import pytest

from kcagc.net.frames import Leave, Missing, Open, Part, Ping, Welcome, encode_frame
from kcagc.net.grpc_options import REASON_KEY
from kcagc.secagg.identity import Identity
from network.adversaries import Aggregator, challenge
from network.roles import AGGREGATOR, Collaboration, assert_one_line

INVISIBLE = "kcagc\x1b[2J\x1b]0;x\x07\nkcagc: \u202eall"


@pytest.fixture(scope="module")
def roles(fork_server, tmp_path_factory):
    roles = Collaboration(tmp_path_factory.mktemp("enemy"), fork_server, ("a", "b"))
    yield roles
    roles.close()


def opened(requests):
    """Wait for the party's opening."""
    return next(requests)


def saying(*frames):
    def answer(aggregator, requests, context):
        yield challenge()
        opened(requests)
        yield from frames

    return answer


def beginning(*frames):
    def answer(aggregator, requests, context):
        yield from frames
        next(requests)

    return answer


def welcoming(**how):
    def answer(aggregator, requests, context):
        yield challenge()
        yield aggregator.welcome(b"n" * 32, opened(requests), **how)
        next(requests)

    return answer


def signing_what_was_not_said(aggregator, requests, context):
    yield challenge()
    yield aggregator.welcome(b"n" * 32, msgspec.structs.replace(opened(requests), name="b"))


def refusing(reason, words, code=grpc.StatusCode.ABORTED):
    def answer(aggregator, requests, context):
        yield challenge()
        opened(requests)
        context.set_trailing_metadata(((REASON_KEY, reason),) if reason else ())
        context.abort(code, words)

    return answer


# What the enemy does, the party's exit code, and its last words.
ENEMIES = {
    "another key": (welcoming(key=Identity.generate()), 11, "does not have the identity key that a has pinned"),
    "no signature": (saying(Welcome(b"x" * 32, 0, 0, 0, b"")), 11, "does not have the identity key"),
    "a welcome for another": (signing_what_was_not_said, 11, "does not have the identity key"),
    "more messages arrived than sent": (welcoming(counts=(0, 7, 0)), 12, "not of the same age"),
    "more messages safe than sent": (welcoming(counts=(7, 0, 0)), 12, "not of the same age"),
    "a huge welcome": (saying(bytes(8 << 20)), 6, "longer than allowed"),
    "a welcome that is too long": (saying(encode_frame(Welcome(b"x" * 33, 0, 0, 0, b""))), 6, "cannot be read"),
    "garbage for a welcome": (saying(b"\xc1\x00"), 6, "cannot be read"),
    "a part for a welcome": (saying(Part(1, 4, 0, b"data")), 6, "something else than a welcome"),
    "a farewell for a welcome": (saying(Leave()), 6, "something else than a welcome"),
    "garbage for a challenge": (beginning(b"\xc1\x00"), 6, "cannot be read"),
    "a welcome for a challenge": (beginning(Welcome(b"", 0, 0, 0, b"")), 6, "another frame than a challenge"),
    "another version": (beginning(challenge(link="kcagc-link/9")), 5, "coordinator speaks 'kcagc-link/9'"),
    "an invisible version": (beginning(challenge(link=INVISIBLE)), 5, r"coordinator speaks 'kcagc\\x1b"),
    "another name": (beginning(challenge(name="b\n")), 11, r"coordinator: 'b\\n' listens at its address"),
    "a refusal in escapes": (refusing("identity", INVISIBLE), 11, r"coordinator refuses: kcagc\?\[2J"),
    "words in escapes": (
        refusing("", INVISIBLE, grpc.StatusCode.UNIMPLEMENTED),
        5,
        r"not an aggregator of kcagc \(kcagc\?\[2J",
    ),
    "a reason of tomorrow": (refusing("tomorrow", "no"), 10, "coordinator: not connected"),
    "silence": (beginning(), 10, "coordinator: not connected"),
    "a closed door": (lambda aggregator, requests, context: iter(()), 10, "coordinator: not connected"),
    "always later": (refusing("later", "not now"), 10, "coordinator: not connected"),
}


def run_against(roles, answer, **how):
    """Let a come to the enemy; give it, when it has ended, and what the enemy heard."""
    with Aggregator(roles, answer, **how) as enemy:
        changed = {"kcagc.runtime.stream_handshake._SECONDS": 0.6}
        party = roles.start("a", "--new-session", "--peer-timeout", "0.8", port=enemy.port, patches=changed)
        party.ends()
        return party, enemy.heard


def assert_nothing_told(roles, heard):
    """See that the enemy heard openings only, which say what was agreed before, and nothing came out."""
    agreed = roles.task("a").agreement.inputs()
    assert all(isinstance(frame, Open) and frame.inputs == agreed for frame in heard), heard
    assert (roles.folder("a") / "result" / "labels.csv").exists() is False


@pytest.mark.parametrize("enemy", ENEMIES)
def test_a_party_tells_nothing_to_who_is_not_the_aggregator(roles, enemy):
    answer, code, words = ENEMIES[enemy]
    party, heard = run_against(roles, answer)
    assert party.code == code, party.log
    assert_one_line(party, f"^kcagc: .*{words}")
    assert "Traceback" not in party.log
    assert all(letter.isprintable() or letter == "\n" for letter in party.log)
    assert len(party.log.splitlines()) <= 4
    assert_nothing_told(roles, heard)


def test_a_welcome_that_was_heard_before_welcomes_nobody(roles):
    """A proxy that ends TLS and has heard the real aggregator welcome the same party."""
    kept = []

    def once(aggregator, requests, context):
        yield challenge()
        kept.append(aggregator.welcome(b"n" * 32, opened(requests)))
        yield kept[0]

    def again(aggregator, requests, context):
        yield challenge()  # with the same nonce: the party's own is another
        opened(requests)
        yield kept[0]

    run_against(roles, once)
    party, heard = run_against(roles, again)
    assert party.code == 11
    assert_one_line(party, "does not have the identity key")
    assert_nothing_told(roles, heard)


def test_a_server_with_the_certificate_of_a_party_is_not_spoken_to(roles):
    pem, key = roles.authority.issue("b.kcagc.internal", server=True)
    folder = roles.root / "impostor"
    (folder / "private").mkdir(parents=True)
    (folder / "certificate.pem").write_bytes(pem)
    (folder / "private" / "tls-key.pem").write_bytes(key)
    party, heard = run_against(roles, saying(), certificate_of="impostor")
    assert party.code == 11
    assert_one_line(party, "server's certificate is not for 'coordinator.kcagc.internal'")
    assert heard == []


# ---- with the aggregator's identity key as well: it is let speak, and what makes no sense ends the party's run

LATER_WORDS = {
    "garbage": (b"\xc1", 6, "cannot be read"),
    "a terabyte": (Part(1, 1 << 40, 0, b"data"), 6, "announced a message of"),
    "a welcome": (Welcome(b"", 0, 0, 0, b""), 6, "in the middle of a stream"),
    "a message that is none": (
        Part(1, 0, 0, b"", bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        6,
        "cannot be read",
    ),
}


@pytest.mark.parametrize("words", LATER_WORDS)
def test_frames_that_no_aggregator_sends_end_the_run(roles, words):
    said, code, told = LATER_WORDS[words]

    def answer(aggregator, requests, context):
        yield challenge()
        yield from (aggregator.welcome(b"n" * 32, opened(requests)), said)
        next(frame for frame in requests if isinstance(frame, Part) and b"abort" in frame.data)

    party, _ = run_against(roles, answer)
    assert party.code == code
    assert_one_line(party, f"^kcagc: coordinator: .*{told}")


def test_who_is_missing_is_said_in_plain_letters(roles):
    def answer(aggregator, requests, context):
        yield challenge()
        yield from (aggregator.welcome(b"n" * 32, opened(requests)), Missing((INVISIBLE, "b")), Ping())
        for _ in requests:
            pass

    with Aggregator(roles, answer) as enemy:
        changed = {"kcagc.runtime.runner._SAY_AFTER": 0.1}
        party = roles.start("a", "--new-session", port=enemy.port, patches=changed)
        party.wait_for_line("waiting for .*, b")
        party.kill()
    assert all(letter.isprintable() or letter == "\n" for letter in party.log)
    assert len(party.lines(AGGREGATOR)) >= 1
