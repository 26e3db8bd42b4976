"""The probe distinguishes every cause of a failed connection, with real servers and sockets."""

import asyncio
import socket
import ssl
import threading
import time
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from kcagc.errors import ParameterError
from kcagc.net.probe import ProbeOutcome, probe
from kcagc.net.tls import Credentials, split_address
from kcagc.net.trial_authority import Authority, trial_authority

OURS, THEIRS = trial_authority("ours"), trial_authority("theirs")
NAME = "agg.example"
PAST = datetime.now(UTC) - timedelta(days=30)
PATIENCE = 5.0
IMPATIENCE = 0.3


def stored(folder, authority, pair):
    folder.mkdir()
    paths = [folder / name for name in ("ca.pem", "tls.pem", "tls.key")]
    for path, content in zip(paths, (authority.certificate_pem, *pair), strict=True):
        path.write_bytes(content)
        path.chmod(0o600)
    return paths


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "bank"
    return Credentials.load(*stored(folder, OURS, OURS.issue("bank.example", client=True)), owner="bank")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Credentials that trust our authority, with a certificate of another one."""
    folder = tmp_path_factory.mktemp("keys")
    own = Credentials.load(*stored(folder / "s", THEIRS, THEIRS.issue("shop.example", client=True)), owner="shop")
    return Credentials(**{**vars(own), "ca": OURS.certificate_pem})


@pytest.fixture(scope="module")
def late(tmp_path_factory, bank):
    """Credentials of bank with a certificate that expired during the run."""
    pair = OURS.issue("bank.example", client=True, start=PAST, days=5)
    _, certificate, key = stored(tmp_path_factory.mktemp("keys") / "late", OURS, pair)
    return Credentials(**{**vars(bank), "certificate_file": certificate, "key_file": key})


@pytest.fixture(scope="module")
def aggregator():
    """Start real gRPC servers; yield a function that returns the address of a new server."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers = []

    async def start(pair, host):
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        certificate, key = pair
        trusted = grpc.ssl_server_credentials([(key, certificate)], OURS.certificate_pem, require_client_auth=True)
        port = server.add_secure_port(f"{host}:0", trusted)
        await server.start()
        servers.append(server)
        return f"{host}:{port}"

    def serving(authority=OURS, name=NAME, host="127.0.0.1", **options):
        pair = authority.issue(name, **{"server": True, **options})
        return asyncio.run_coroutine_threadsafe(start(pair, host), loop).result(PATIENCE)

    async def stop():
        for server in servers:
            await server.stop(None)

    yield serving
    asyncio.run_coroutine_threadsafe(stop(), loop).result(PATIENCE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    loop.close()


@contextmanager
def answering(answer):
    """Start a server that calls `answer` for every connection; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:  # the test is over
                    return
                with connection:
                    connection.settimeout(PATIENCE)
                    with suppress(OSError):
                        answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closing does not
            thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory):
    """Return a function that creates contexts of Python's own TLS server, which sends alerts, unlike gRPC."""
    numbers = iter(range(100))

    def context(*, alpn=("h2",), trusting=OURS, version=None, name=NAME):
        folder = tmp_path_factory.mktemp("server") / str(next(numbers))
        _, certificate, key = stored(folder, OURS, OURS.issue(name, server=True))
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(certificate, key)
        made.set_alpn_protocols(list(alpn))
        if trusting:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(cadata=trusting.certificate_pem.decode())
        if version:
            made.maximum_version = version
        return made

    return context


def over_tls(context, then):
    def answer(connection):
        with context.wrap_socket(connection, server_side=True) as tls:
            then(tls)

    return answer


def greet(tls):
    tls.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    while tls.recv(100):
        pass


def found(address, credentials, outcome, *words, name=NAME, timeout=PATIENCE):
    """Probe and check the outcome, the words of the message, and that it names the address."""
    seen = probe(address, credentials, name, timeout)
    assert seen.outcome is outcome, seen
    assert seen.message.startswith(f"{address}: ")
    assert all(word in seen.message for word in words), seen
    assert "{" not in seen.message
    return seen


# ---- a real aggregator


def test_an_aggregator_accepts_a_valid_certificate_over_tls_1_3(aggregator, bank):
    assert found(aggregator(), bank, ProbeOutcome.ACCEPTED, "accepts", "TLSv1.3").accepted


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_addresses_of_ipv6_work(aggregator, bank):
    assert probe(aggregator(host="[::1]"), bank, NAME).accepted


def test_a_host_is_found_under_any_of_its_addresses(aggregator, bank):
    """The first of localhost is often ::1, where this one does not listen."""
    port = aggregator().rpartition(":")[2]
    assert probe(f"localhost:{port}", bank, NAME).accepted


def test_simultaneous_probes_are_all_accepted(aggregator, bank):
    """Eight probes run at the same time."""
    address = aggregator()
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(probe(address, bank, NAME).outcome)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert outcomes == [ProbeOutcome.ACCEPTED] * 8


def test_an_unknown_authority_of_our_certificate_shows_at_the_first_read(aggregator, stranger):
    """The handshake itself succeeds in TLS 1.3, and gRPC closes without an alert."""
    seen = found(
        aggregator(), stranger, ProbeOutcome.CERTIFICATE_REJECTED, "shop.example", str(stranger.certificate_file)
    )
    assert not seen.accepted


def test_our_expired_certificate_is_rejected(aggregator, late):
    found(aggregator(), late, ProbeOutcome.CERTIFICATE_REJECTED, "does not accept our certificate")


def test_a_server_certificate_of_a_client_is_rejected(aggregator, bank, tmp_path):
    _, certificate, key = stored(tmp_path / "keys", OURS, OURS.issue("bank.example", server=True))
    wrong = Credentials(**{**vars(bank), "certificate_file": certificate, "key_file": key})
    found(aggregator(), wrong, ProbeOutcome.CERTIFICATE_REJECTED)


def test_a_server_of_another_authority_is_not_trusted(aggregator, bank):
    found(aggregator(THEIRS), bank, ProbeOutcome.SERVER_UNTRUSTED, str(bank.ca_file))


def test_an_intermediate_authority_is_trusted_as_in_grpc(aggregator, bank):
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("root", "between")]
    builder = x509.CertificateBuilder(*names, key.public_key(), 1, PAST, datetime.now(UTC) + timedelta(days=500))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    between = Authority(builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()), key)
    trusting = Credentials(**{**vars(bank), "ca": between.certificate_pem})
    found(aggregator(between), trusting, ProbeOutcome.ACCEPTED)


def test_a_server_certificate_outside_its_validity_is_reported(aggregator, bank):
    found(aggregator(start=PAST, days=5), bank, ProbeOutcome.SERVER_EXPIRED, "expired", "clock")
    soon = datetime.now(UTC) + timedelta(days=5)
    found(aggregator(start=soon, days=5), bank, ProbeOutcome.SERVER_EXPIRED, "not yet valid", "clock")


def test_a_server_of_another_name_is_reported_with_the_expected_name(aggregator, bank):
    found(aggregator(), bank, ProbeOutcome.SERVER_MISNAMED, "'other.example'", name="other.example")


def test_a_client_that_poses_as_the_aggregator_is_not_trusted(aggregator, bank):
    """Every party has a certificate of the same authority."""
    address = aggregator(server=False, client=True)
    found(address, bank, ProbeOutcome.SERVER_UNTRUSTED, "purpose")


# ---- before TLS


def test_a_port_without_a_server_is_reported(bank):
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    found(f"127.0.0.1:{port}", bank, ProbeOutcome.NOT_LISTENING, "no server listens")


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "a..b"])
def test_an_unknown_host_is_reported(bank, host):
    found(f"{host}:7443", bank, ProbeOutcome.UNKNOWN_HOST, "DNS")


def test_a_host_without_an_answer_is_reported_in_time(bank):
    """A listener whose queue is full answers to nothing, as a firewall does."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(listener.getsockname())
        time.sleep(0.05)
        started = time.monotonic()
        found(f"127.0.0.1:{listener.getsockname()[1]}", bank, ProbeOutcome.UNREACHABLE, "firewall", timeout=IMPATIENCE)
        assert time.monotonic() - started < IMPATIENCE + 1
        for each in waiting:
            each.close()


def test_a_silent_server_is_reported_in_time(bank):
    with answering(lambda connection: connection.recv(1) and time.sleep(2 * IMPATIENCE)) as address:
        started = time.monotonic()
        found(address, bank, ProbeOutcome.NO_ANSWER, "TLS handshake", timeout=IMPATIENCE)
        assert time.monotonic() - started < IMPATIENCE + 1


def test_a_server_that_closes_at_once_is_reported(bank):
    with answering(lambda connection: None) as address:
        found(address, bank, ProbeOutcome.CLOSED, "during the TLS handshake")
    with answering(lambda connection: connection.recv(10_000)) as address:
        found(address, bank, ProbeOutcome.CLOSED, "during the TLS handshake")


@pytest.mark.parametrize(
    "greeting",
    [b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", bytes(40), b"\xff" * 40],
)
def test_a_plain_text_server_is_reported(bank, greeting):
    def answer(connection):
        connection.sendall(greeting)
        connection.recv(10_000)

    with answering(answer) as address:
        found(address, bank, ProbeOutcome.NOT_TLS, "does not use TLS")


def test_a_grpc_server_without_tls_is_reported(bank):
    async def attempt():
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            await asyncio.to_thread(found, f"127.0.0.1:{port}", bank, ProbeOutcome.NOT_TLS, "does not use TLS")
        finally:
            await server.stop(None)

    asyncio.run(attempt())


@settings(max_examples=30)
@given(content=st.binary(max_size=60))
def test_no_bytes_of_a_server_raise_an_error(bank, content):
    def answer(connection):
        connection.sendall(content)
        connection.recv(10_000)

    with answering(answer) as address:
        assert probe(address, bank, NAME, PATIENCE).outcome in {
            ProbeOutcome.NOT_TLS,
            ProbeOutcome.CLOSED,
            ProbeOutcome.OLD_TLS,
        }


# ---- other TLS servers


ALERTS = {"unknown ca": "stranger", "certificate expired": "late"}


@pytest.mark.parametrize("version", [None, ssl.TLSVersion.TLSv1_2])
@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_about_our_certificate_is_reported(tls_server, request, alert, version):
    credentials = request.getfixturevalue(ALERTS[alert])
    with answering(over_tls(tls_server(version=version), greet)) as address:
        found(address, credentials, ProbeOutcome.CERTIFICATE_REJECTED, alert)


def test_a_web_server_is_not_an_aggregator(tls_server, bank):
    with answering(over_tls(tls_server(alpn=["http/1.1"]), greet)) as address:
        found(address, bank, ProbeOutcome.NOT_GRPC, "no HTTP/2")


def test_a_server_without_http_2_settings_is_not_an_aggregator(tls_server, bank):
    with answering(over_tls(tls_server(), lambda tls: tls.sendall(b"HTTP/1.1 400 Bad Request"))) as address:
        found(address, bank, ProbeOutcome.NOT_GRPC, "SETTINGS")


def test_a_server_that_waits_for_the_preface_gets_it(tls_server, bank):
    heard = []

    def wait(tls):
        heard.append(tls.recv(100))
        greet(tls)

    with answering(over_tls(tls_server(), wait)) as address:
        found(address, bank, ProbeOutcome.ACCEPTED, timeout=2 * IMPATIENCE)
    assert heard == [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])]


def test_a_frame_in_pieces_is_joined(tls_server, bank):
    def drip(tls):
        for byte in bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]):
            tls.sendall(bytes([byte]))
        tls.recv(100)

    with answering(over_tls(tls_server(), drip)) as address:
        found(address, bank, ProbeOutcome.ACCEPTED)


def test_a_frame_that_arrives_too_slowly_is_reported_in_time(tls_server, bank):
    """Each byte comes well within the time; all of them together do not."""

    def drip(tls):
        for _ in range(9):
            tls.sendall(b"\0")
            time.sleep(IMPATIENCE / 3)

    with answering(over_tls(tls_server(), drip)) as address:
        started = time.monotonic()
        found(address, bank, ProbeOutcome.NO_ANSWER, "gRPC", timeout=IMPATIENCE)
        assert time.monotonic() - started < IMPATIENCE + 1


def test_an_old_version_of_tls_is_reported(tls_server, bank):
    with answering(over_tls(tls_server(version=ssl.TLSVersion.TLSv1_2), greet)) as address:
        found(address, bank, ProbeOutcome.OLD_TLS, "TLSv1.2")


def test_other_alerts_are_reported(bank):
    def alert(number):
        def answer(connection):
            connection.recv(10_000)
            connection.sendall(bytes([21, 3, 3, 0, 2, 2, number]))

        return answer

    with answering(alert(40)) as address:
        found(address, bank, ProbeOutcome.CLOSED, "handshake failure")
    with answering(alert(70)) as address:
        found(address, bank, ProbeOutcome.OLD_TLS, "protocol version")


# ---- what is wrong on our side


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":7443", "host:0", "host:65536", "host:-1", "::1:7443", "[::1]", "a b:1", 'a"b:1'],
)
def test_an_invalid_address_is_reported_and_not_tried(bank, address):
    found(address, bank, ProbeOutcome.MISCONFIGURED, "host:port")
    with pytest.raises(ParameterError, match="host:port"):
        split_address(address)


def test_addresses_are_split_into_host_and_port():
    assert split_address("agg.example:7443") == ("agg.example", 7443)
    assert split_address("192.0.2.1:1") == ("192.0.2.1", 1)
    assert split_address("[2001:db8::1]:65535") == ("2001:db8::1", 65535)


@pytest.mark.parametrize("name", ["", ".example", "a" * 70, "a\0b"])
def test_an_invalid_server_name_is_reported(aggregator, bank, name):
    found(aggregator(), bank, ProbeOutcome.MISCONFIGURED, "name", name=name)


def test_changed_files_are_reported(aggregator, bank, tmp_path):
    paths = stored(tmp_path / "keys", OURS, OURS.issue("bank.example", client=True))
    own = Credentials.load(*paths, owner="bank")
    address = aggregator()
    assert probe(address, own, NAME).accepted
    paths[2].write_bytes(bank.key)
    found(address, own, ProbeOutcome.MISCONFIGURED, "key values mismatch")
    paths[2].unlink()
    found(address, own, ProbeOutcome.MISCONFIGURED, "No such file")


def test_an_encrypted_key_is_not_asked_for_on_the_terminal(aggregator, bank, tmp_path):
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(bank.key, None)
    path = tmp_path / "tls.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    found(aggregator(), Credentials(**{**vars(bank), "key_file": path}), ProbeOutcome.MISCONFIGURED)
