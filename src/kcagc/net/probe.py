"""Find out why a connection to an aggregator fails: gRPC reports most causes with the same "socket closed".

`probe` performs one TLS handshake with Python's own `ssl` and reads the first HTTP/2 frame. It blocks; call it from a
thread.
"""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from enum import Enum

from kcagc.errors import ParameterError
from kcagc.net.frames import ConnectionLost
from kcagc.net.tls import Credentials, split_address

# The first bytes of an HTTP/2 client: the preface and an empty SETTINGS frame.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME_HEADER = 9
_SETTINGS = 4
_LISTEN_FIRST = 1.0  # seconds


class ProbeOutcome(Enum):
    """How far a connection got; the value is the message for people."""

    ACCEPTED = "the aggregator accepts our certificate ({detail})"
    MISCONFIGURED = "no connection was tried: {detail}"
    UNKNOWN_HOST = "the host name cannot be resolved ({detail}): check its spelling and DNS"
    NOT_LISTENING = "no server listens there: start the aggregator, or correct the port"
    UNREACHABLE = "the host cannot be reached ({detail}): check the network and the firewalls at both ends"
    NO_ANSWER = "a server listens, but {detail} did not arrive in time: check that this is the aggregator's port"
    CLOSED = (
        "the server closes the connection during the TLS handshake ({detail}): it may be another kind of server, or a "
        "proxy without an aggregator behind it"
    )
    NOT_TLS = "the server does not use TLS ({detail}): check that this is the aggregator's port"
    OLD_TLS = "the connection uses {detail}, but an aggregator uses TLSv1.3: a device in between decrypts traffic"
    SERVER_UNTRUSTED = (
        "the server's certificate is not signed by an authority in {own.ca_file} ({detail}): it is another server, it "
        "uses another authority than agreed, or a device in between decrypts the connection"
    )
    SERVER_EXPIRED = (
        "the server's certificate or its authority's is not valid now ({detail}): ask for its renewal, or correct the "
        "clock of this machine"
    )
    SERVER_MISNAMED = (
        "the server's certificate is not for {name!r}: it is another server, or uses another name than agreed"
    )
    NOT_GRPC = "the server uses TLS, but not gRPC ({detail}): check that this is the aggregator's port"
    # gRPC closes without an alert, so the message also states what we presented.
    CERTIFICATE_REJECTED = (
        "the aggregator does not accept our certificate {own.certificate_file} ({detail}). It is for {names} until "
        "{own.expires:%Y-%m-%d}: ask whether the aggregator's `ca` contains its authority"
    )


_TRANSIENT = {
    ProbeOutcome.UNKNOWN_HOST,
    ProbeOutcome.NOT_LISTENING,
    ProbeOutcome.UNREACHABLE,
    ProbeOutcome.NO_ANSWER,
    ProbeOutcome.CLOSED,
}
# `SSLCertVerificationError.verify_code`; every other code means that the server is not trusted.
_VERIFY_CODES = {
    9: ProbeOutcome.SERVER_EXPIRED,  # X509_V_ERR_CERT_NOT_YET_VALID
    10: ProbeOutcome.SERVER_EXPIRED,  # X509_V_ERR_CERT_HAS_EXPIRED
    62: ProbeOutcome.SERVER_MISNAMED,  # X509_V_ERR_HOSTNAME_MISMATCH
    64: ProbeOutcome.SERVER_MISNAMED,  # X509_V_ERR_IP_ADDRESS_MISMATCH
}
# `SSLError.reason` of alerts and local errors; any other reason means that the server does not use TLS.
_REASONS = {
    ProbeOutcome.OLD_TLS: "TLSV1_ALERT_PROTOCOL_VERSION UNSUPPORTED_PROTOCOL",
    ProbeOutcome.CERTIFICATE_REJECTED: "SSLV3_ALERT_BAD_CERTIFICATE SSLV3_ALERT_CERTIFICATE_EXPIRED "
    "SSLV3_ALERT_CERTIFICATE_REVOKED SSLV3_ALERT_CERTIFICATE_UNKNOWN SSLV3_ALERT_UNSUPPORTED_CERTIFICATE "
    "TLSV1_ALERT_ACCESS_DENIED TLSV1_ALERT_UNKNOWN_CA TLSV13_ALERT_CERTIFICATE_REQUIRED",
    ProbeOutcome.CLOSED: "SSLV3_ALERT_HANDSHAKE_FAILURE SSLV3_ALERT_ILLEGAL_PARAMETER TLSV1_ALERT_DECODE_ERROR "
    "TLSV1_ALERT_INTERNAL_ERROR TLSV1_ALERT_USER_CANCELLED TLSV1_UNRECOGNIZED_NAME",
}
_OUTCOMES = {reason: outcome for outcome, reasons in _REASONS.items() for reason in reasons.split()}


@dataclass(frozen=True)
class Probe:
    """The result: `outcome` for programs, `message` for people."""

    outcome: ProbeOutcome
    message: str

    @property
    def accepted(self) -> bool:
        """Whether a gRPC server accepts our certificate."""
        return self.outcome is ProbeOutcome.ACCEPTED

    @property
    def transient(self) -> bool:
        """Whether a later attempt may succeed without a change of settings."""
        return self.outcome in _TRANSIENT


def probe(address: str, credentials: Credentials, server_name: str, timeout: float = 5.0) -> Probe:
    """Connect to `host:port` as a party does, and return what happens; raise nothing.

    The server must present a certificate for `server_name`. All steps together take at most `timeout` seconds, except
    for the name lookup, whose time the system limits.
    """
    outcome, detail = _attempt(address, credentials, server_name, _Clock(timeout))
    names = ", ".join(sorted(credentials.names))
    message = outcome.value.format(detail=detail, own=credentials, name=server_name, names=names)
    return Probe(outcome, f"{address}: {message}")


def _attempt(address: str, credentials: Credentials, server_name: str, clock: _Clock) -> tuple[ProbeOutcome, str]:
    try:
        host, port = split_address(address)
        context = _context(credentials, server_name)
    except ParameterError as error:
        return ProbeOutcome.MISCONFIGURED, str(error)
    try:
        raw = _connect(host, port, clock)
    except (socket.gaierror, ValueError) as error:  # ValueError: the name cannot be encoded for DNS
        return ProbeOutcome.UNKNOWN_HOST, _reason(error)
    except ConnectionRefusedError:
        return ProbeOutcome.NOT_LISTENING, ""
    except OSError as error:
        return ProbeOutcome.UNREACHABLE, _reason(error)
    with raw:
        try:
            raw.settimeout(clock.left())
            tls = context.wrap_socket(raw, server_hostname=server_name)
        except OSError as error:
            return _handshake_failure(error)
    with tls:
        return _first_frame(tls, clock)


def server_certificate(address: str, timeout: float = 5.0) -> bytes:
    """Return the certificate of the server at `host:port` as PEM, verified by nothing; raise `ConnectionLost`.

    The caller must verify it by other means, for example by a signature of a known key on its digest.
    """
    host, port = split_address(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    clock = _Clock(timeout)
    try:
        with _connect(host, port, clock) as raw:
            raw.settimeout(clock.left())
            with context.wrap_socket(raw) as tls:
                return ssl.DER_cert_to_PEM_cert(tls.getpeercert(binary_form=True) or b"").encode()
    except (OSError, ValueError) as error:
        raise ConnectionLost(f"{address}: no TLS server can be reached there ({_reason(error)})") from error


class _Clock:
    """The rest of the allowed time."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return max(self._end - time.monotonic(), 0.001)  # zero would make the socket non-blocking


def _context(credentials: Credentials, server_name: str) -> ssl.SSLContext:
    """Return a context that trusts what gRPC trusts: every certificate in `ca`, intermediate authorities included."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=credentials.ca.decode())
    context.set_alpn_protocols(["h2"])
    certificate, key = credentials.certificate_file, credentials.key_file
    try:
        # With a given password, OpenSSL does not ask for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # they were valid when `Credentials` read them
        raise ParameterError(
            f"{certificate} or {key} changed since the start and cannot be used ({_reason(error)})"
        ) from error
    try:
        # Without a socket: for some invalid names `wrap_socket` would leave the socket open.
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=server_name)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{server_name!r} is not a valid name of a server") from error
    return context


def _connect(host: str, port: int, clock: _Clock) -> socket.socket:
    """Try all addresses of the host in turn, each with its share of the time."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError("no address")
    for number, (*_, where) in enumerate(found):
        try:
            return socket.create_connection((str(where[0]), port), timeout=clock.left() / (len(found) - number))
        except OSError as error:
            failure = error
    raise failure


def _handshake_failure(error: OSError) -> tuple[ProbeOutcome, str]:
    match error:
        case ssl.SSLCertVerificationError():
            return _VERIFY_CODES.get(error.verify_code, ProbeOutcome.SERVER_UNTRUSTED), error.verify_message
        case TimeoutError():
            return ProbeOutcome.NO_ANSWER, "a TLS handshake"
        case ssl.SSLEOFError() | ConnectionError():
            return ProbeOutcome.CLOSED, _reason(error)
        case ssl.SSLError():
            return _OUTCOMES.get(error.reason or "", ProbeOutcome.NOT_TLS), _reason(error)
    return ProbeOutcome.UNREACHABLE, _reason(error)


def _first_frame(tls: ssl.SSLSocket, clock: _Clock) -> tuple[ProbeOutcome, str]:
    """Read the first frame: in TLS 1.3 the server checks our certificate after our side of the handshake is done."""
    if tls.selected_alpn_protocol() != "h2":
        return ProbeOutcome.NOT_GRPC, "no HTTP/2"
    try:
        received = _exchange(tls, clock)
    except TimeoutError:
        return ProbeOutcome.NO_ANSWER, "an answer over gRPC"
    except OSError as error:
        return ProbeOutcome.CERTIFICATE_REJECTED, _reason(error)
    if len(received) < _FRAME_HEADER:
        return ProbeOutcome.CERTIFICATE_REJECTED, "it closes the connection without an alert"
    if received[3] != _SETTINGS or any(received[5:]):
        return ProbeOutcome.NOT_GRPC, "its first frame is not HTTP/2 SETTINGS"
    version = str(tls.version())
    return ProbeOutcome.ACCEPTED if version == "TLSv1.3" else ProbeOutcome.OLD_TLS, version


def _exchange(tls: ssl.SSLSocket, clock: _Clock) -> bytes:
    """Return the header of the first frame, or fewer bytes if the server closes.

    gRPC servers send first, so this function listens first: sending to a server that has closed already makes the
    system discard the server's last bytes, among them an alert. A server that waits for the client gets the preface.
    """
    received, sent = b"", False
    while len(received) < _FRAME_HEADER:
        tls.settimeout(clock.left() if sent else min(_LISTEN_FIRST, clock.left() / 2))
        try:
            part = tls.recv(_FRAME_HEADER - len(received))
        except TimeoutError:
            if sent:
                raise
            tls.settimeout(clock.left())
            tls.sendall(_PREFACE)
            sent = True
            continue
        if not part:
            break
        received += part
    return received


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
