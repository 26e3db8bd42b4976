"""An adversary at the address of the aggregator, with its certificate: a party sends it nothing about data."""

import grpc
import msgspec
import pytest

from kcagc.net.frames import Close, MessagePart, Open, Ping, WaitingFor, Welcome, encode_frame
from kcagc.net.grpc_client import REASON_KEY
from kcagc.secagg.keys import Identity
from network.adversaries import Aggregator, challenge
from network.roles import AGGREGATOR, Collaboration, assert_one_line

INVISIBLE = "kcagc\x1b[2J\x1b]0;x\x07\nkcagc: \u202eall"


@pytest.fixture(scope="module")
def roles(fork_server, tmp_path_factory):
    roles = Collaboration(tmp_path_factory.mktemp("adversary"), fork_server, ("a", "b"))
    yield roles
    roles.close()


def opened(requests):
    """Return the party's opening."""
    return next(requests)


def sending(*frames):
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


def signing_another_opening(aggregator, requests, context):
    yield challenge()
    yield aggregator.welcome(b"n" * 32, msgspec.structs.replace(opened(requests), name="b"))


def refusing(reason, words, code=grpc.StatusCode.ABORTED):
    def answer(aggregator, requests, context):
        yield challenge()
        opened(requests)
        context.set_trailing_metadata(((REASON_KEY, reason),) if reason else ())
        context.abort(code, words)

    return answer


# The behaviour of the adversary, the exit code of the party, and the text of its error.
ADVERSARIES = {
    "another key": (welcoming(key=Identity.generate()), 11, "does not have the identity key that a has pinned"),
    "no signature": (sending(Welcome(b"x" * 32, 0, 0, 0, b"")), 11, "does not have the identity key"),
    "a welcome for another": (signing_another_opening, 11, "does not have the identity key"),
    "more messages arrived than sent": (welcoming(counts=(0, 7, 0)), 12, "do not match"),
    "more messages safe than sent": (welcoming(counts=(7, 0, 0)), 12, "do not match"),
    "a huge welcome": (sending(bytes(8 << 20)), 6, "too long"),
    "a welcome that is too long": (sending(encode_frame(Welcome(b"x" * 33, 0, 0, 0, b""))), 6, "cannot be read"),
    "garbage for a welcome": (sending(b"\xc1\x00"), 6, "cannot be read"),
    "a part for a welcome": (sending(MessagePart(1, 4, 0, b"data")), 6, "instead of a welcome"),
    "a close frame for a welcome": (sending(Close()), 6, "instead of a welcome"),
    "garbage for a challenge": (beginning(b"\xc1\x00"), 6, "cannot be read"),
    "a welcome for a challenge": (beginning(Welcome(b"", 0, 0, 0, b"")), 6, "instead of a challenge"),
    "another version": (beginning(challenge(protocol="kcagc-stream/9")), 5, "coordinator uses 'kcagc-stream/9'"),
    "an invisible version": (beginning(challenge(protocol=INVISIBLE)), 5, r"coordinator uses 'kcagc\\x1b"),
    "another name": (beginning(challenge(name="b\n")), 11, r"coordinator: 'b\\n' listens at its address"),
    "a refusal in escapes": (refusing("identity", INVISIBLE), 11, r"coordinator: rejects this role: kcagc\?\[2J"),
    "words in escapes": (
        refusing("", INVISIBLE, grpc.StatusCode.UNIMPLEMENTED),
        5,
        r"not an aggregator of kcagc \(kcagc\?\[2J",
    ),
    "an unknown reason": (refusing("tomorrow", "no"), 10, "coordinator: not connected"),
    "silence": (beginning(), 10, "coordinator: not connected"),
    "an immediate end": (lambda aggregator, requests, context: iter(()), 10, "coordinator: not connected"),
    "always later": (refusing("retry", "not now"), 10, "coordinator: not connected"),
}


def run_against(roles, answer, **how):
    """Connect a to the adversary; return a, when it has ended, and the frames that the adversary received."""
    with Aggregator(roles, answer, **how) as adversary:
        changed = {"kcagc.runtime.connection._HANDSHAKE_TIMEOUT": 0.6}
        party = roles.start("a", "--new-session", "--peer-timeout", "0.8", port=adversary.port, patches=changed)
        party.ends()
        return party, adversary.received


def assert_nothing_disclosed(roles, received):
    """Assert that the adversary received openings only, which hold agreed values, and that there are no labels."""
    agreed = roles.task("a").agreement.inputs()
    assert all(isinstance(frame, Open) and frame.inputs == agreed for frame in received), received
    assert (roles.folder("a") / "result" / "labels.csv").exists() is False


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_party_sends_nothing_about_data_to_an_adversary_in_place_of_the_aggregator(roles, adversary):
    answer, code, words = ADVERSARIES[adversary]
    party, received = run_against(roles, answer)
    assert party.code == code, party.log
    assert_one_line(party, f"^kcagc: .*{words}")
    assert "Traceback" not in party.log
    assert all(letter.isprintable() or letter == "\n" for letter in party.log)
    assert len(party.log.splitlines()) <= 4
    assert_nothing_disclosed(roles, received)


def test_a_welcome_recorded_in_an_earlier_stream_is_rejected(roles):
    """The adversary is a proxy that ends TLS and has recorded a real welcome of the same party."""
    kept = []

    def record(aggregator, requests, context):
        yield challenge()
        kept.append(aggregator.welcome(b"n" * 32, opened(requests)))
        yield kept[0]

    def replay(aggregator, requests, context):
        yield challenge()  # with the same nonce: the party's own is another
        opened(requests)
        yield kept[0]

    run_against(roles, record)
    party, received = run_against(roles, replay)
    assert party.code == 11
    assert_one_line(party, "does not have the identity key")
    assert_nothing_disclosed(roles, received)


def test_a_party_sends_nothing_to_a_server_with_the_certificate_of_a_party(roles):
    pem, key = roles.authority.issue("b.kcagc.internal", server=True)
    folder = roles.root / "impostor"
    (folder / "private").mkdir(parents=True)
    (folder / "certificate.pem").write_bytes(pem)
    (folder / "private" / "tls-key.pem").write_bytes(key)
    party, received = run_against(roles, sending(), certificate_of="impostor")
    assert party.code == 11
    assert_one_line(party, "server's certificate is not for 'coordinator.kcagc.internal'")
    assert received == []


# ---- with the aggregator's identity key as well: the party accepts the stream, and invalid frames end its run

LATER_FRAMES = {
    "garbage": (b"\xc1", 6, "cannot be read"),
    "a terabyte": (MessagePart(1, 1 << 40, 0, b"data"), 6, "announced a message of"),
    "a welcome": (Welcome(b"", 0, 0, 0, b""), 6, "in the middle of a stream"),
    "a message that is none": (
        MessagePart(1, 0, 0, b"", bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")),
        6,
        "cannot be read",
    ),
}


@pytest.mark.parametrize("words", LATER_FRAMES)
def test_invalid_frames_of_an_aggregator_end_the_run(roles, words):
    frame, code, logged = LATER_FRAMES[words]

    def answer(aggregator, requests, context):
        yield challenge()
        yield from (aggregator.welcome(b"n" * 32, opened(requests)), frame)
        next(frame for frame in requests if isinstance(frame, MessagePart) and b"abort" in frame.data)

    party, _ = run_against(roles, answer)
    assert party.code == code
    assert_one_line(party, f"^kcagc: coordinator: .*{logged}")


def test_names_of_missing_parties_are_printed_without_control_characters(roles):
    def answer(aggregator, requests, context):
        yield challenge()
        yield from (aggregator.welcome(b"n" * 32, opened(requests)), WaitingFor((INVISIBLE, "b")), Ping())
        for _ in requests:
            pass

    with Aggregator(roles, answer) as adversary:
        changed = {"kcagc.runtime.session._LOG_AFTER": 0.1}
        party = roles.start("a", "--new-session", port=adversary.port, patches=changed)
        party.wait_for_line("waiting for .*, b")
        party.kill()
    assert all(letter.isprintable() or letter == "\n" for letter in party.log)
    assert len(party.lines(AGGREGATOR)) >= 1
