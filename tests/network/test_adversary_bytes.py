"""Attacks below gRPC: plain text, garbage, half a handshake, old TLS, many connections. The aggregator continues."""

import socket
import ssl
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from kcagc.net.grpc_client import PATH
from kcagc.net.trial_authority import trial_authority
from network.adversaries import PREFACE, SETTINGS, answer_to, call_headers, h2_frame, tls
from network.roles import PATIENCE, PATIENT, Collaboration, assert_one_line

SILENT_CONNECTIONS = 200


@pytest.fixture(scope="module")
def waiting_run(fork_server, tmp_path_factory):
    """An aggregator with one of two parties. The other party connects after all attacks, and the run succeeds."""
    roles = Collaboration(tmp_path_factory.mktemp("waiting_run"), fork_server, ("a", "b"), limits=PATIENT)
    try:
        aggregator = roles.start_aggregator()
        b = roles.start("b")
        aggregator.wait_for_line("b is connected")
        yield roles, aggregator
        roles.assert_finishes(aggregator, b, roles.start("a"))
        assert b.lines("lost|cannot reach") == []
        assert aggregator.lines("b disconnected") == []
        assert [role.log for role in roles.roles if "Traceback" in role.log] == []
    finally:
        roles.close()


def connect(roles):
    return socket.create_connection(("127.0.0.1", roles.port), PATIENCE)


PLAIN = {
    "http": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "http/2 without TLS": PREFACE + SETTINGS + call_headers(),
    "garbage": bytes(range(256)) * 8,
    "a record that is too long": b"\x16\x03\x01\xff\xff" + bytes(70_000),
    "ssh": b"SSH-2.0-OpenSSH_9.7\r\n",
}


@pytest.mark.parametrize("words", PLAIN)
def test_a_connection_without_tls_is_closed_without_an_answer(waiting_run, words):
    roles, aggregator = waiting_run
    since = aggregator.n_lines
    assert b"HTTP/1.1 200" not in answer_to(connect(roles), PLAIN[words])
    assert aggregator.lines(".", since) == []  # not even gRPC's own lines
    assert aggregator.running


def test_a_grpc_client_without_tls_gets_no_answer(waiting_run):
    roles, aggregator = waiting_run
    with grpc.insecure_channel(f"127.0.0.1:{roles.port}") as channel:
        call = channel.stream_stream(PATH)(iter([b"frame"]), timeout=PATIENCE)
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert aggregator.running


def test_a_port_scan_leaves_no_line_in_the_log(waiting_run):
    roles, aggregator = waiting_run
    since = aggregator.n_lines
    for _ in range(20):
        connect(roles).close()
    for _ in range(5):
        with connect(roles) as half:
            half.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a handshake
    assert aggregator.lines(".", since) == []
    assert aggregator.running


def certificates(roles, folder):
    """Write folders with certificates that must be rejected; return them by the reason in the log."""
    made = {}
    long_ago = datetime.now(UTC) - timedelta(days=100)
    for what, authority, dates in (
        ("signed", trial_authority("another"), {}),
        ("expired", roles.authority, {"start": long_ago, "days": 1}),
    ):
        pem, key = authority.issue("a.kcagc.internal", client=True, **dates)
        (folder / what / "private").mkdir(parents=True)
        (folder / what / "certificate.pem").write_bytes(pem)
        (folder / what / "private" / "tls-key.pem").write_bytes(key)
        made[what] = folder / what
    return made


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_a_valid_certificate_receives_no_http(waiting_run, tmp_path, version):
    roles, aggregator = waiting_run
    since = aggregator.n_lines
    ways = [{"certificate": False}, *({"files": files} for files in certificates(roles, tmp_path).values())]
    for way in ways:
        try:
            connection = tls(roles, version=version, **way)
        except (ssl.SSLError, ConnectionError):  # the server may check the certificate before the client has finished
            continue
        assert answer_to(connection, PREFACE + SETTINGS + call_headers()) == b""
    assert aggregator.lines(".", since) == []
    assert aggregator.running


def test_tls_1_2_is_rejected_by_the_handler(waiting_run):
    roles, aggregator = waiting_run
    connection = tls(roles, version=ssl.TLSVersion.TLSv1_2)
    assert connection.version() == "TLSv1.2"
    with closing(connection):
        connection.sendall(PREFACE + SETTINGS + call_headers())
        received = b""
        while b"TLS 1.3 is required" not in received:
            part = connection.recv(65536)
            assert part, received
            received += part
    assert b"challenge" not in received
    assert_one_line(aggregator, r"rejected a stream from .*uses TLSv1.2; TLS 1.3 is required")


AFTER_TLS = {
    "garbage": bytes(range(256)) * 8,
    "garbage after the preface": PREFACE + bytes(range(256)) * 8,
    "garbage after the settings": PREFACE + SETTINGS + b"\xff" * 4096,
    "a frame of 16 MB announced": PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(4096),
    "settings that lie about their length": PREFACE + h2_frame(4, 0, 0, b"12345"),
}


@pytest.mark.parametrize("words", AFTER_TLS)
def test_a_connection_that_does_not_send_http_is_closed(waiting_run, words):
    roles, aggregator = waiting_run
    before = aggregator.memory
    received = answer_to(tls(roles), AFTER_TLS[words])
    assert b"challenge" not in received
    assert aggregator.memory - before < 16 << 20
    assert aggregator.running


def test_the_aggregator_does_not_wait_for_a_message_of_4_gigabytes(waiting_run):
    roles, aggregator = waiting_run
    since, before = aggregator.n_lines, aggregator.memory
    announced = b"\0" + b"\xff" * 4 + bytes(1000)
    connection = tls(roles)
    with closing(connection):
        connection.sendall(PREFACE + SETTINGS + call_headers() + h2_frame(0, 0, 1, announced))
        received = b""
        while b"larger than max" not in received:
            part = connection.recv(65536)
            assert part, received
            received += part
    assert_one_line(aggregator, "stream from .* ended before a valid frame", since)
    assert aggregator.memory - before < 16 << 20


def test_many_silent_connections_do_not_stop_the_parties(fork_server, tmp_path):
    """The connections send nothing: before TLS, after TLS, and on an open stream."""
    roles = Collaboration(tmp_path, fork_server, ("a", "b"))
    try:
        aggregator = roles.start_aggregator()
        with ExitStack() as connections:
            for number in range(SILENT_CONNECTIONS):
                if number % 2:
                    connections.enter_context(closing(connect(roles)))
                else:
                    one = connections.enter_context(closing(tls(roles)))
                    one.sendall(PREFACE + SETTINGS + (call_headers() if number % 4 else b""))
            roles.assert_finishes(aggregator, *roles.start_parties())
        assert "Traceback" not in aggregator.log
        assert aggregator.lines("rejected") == []
    finally:
        roles.close()
