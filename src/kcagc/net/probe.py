"""Why a connection does not come about, in words: gRPC tells most causes by the same "socket closed".

One TLS handshake with Python's own means, as far as the first frame of HTTP/2. It blocks; call it from a thread.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from dataclasses import dataclass
from enum import Enum

from kcagc.errors import ParameterError
from kcagc.net.address import split_address
from kcagc.net.tls import Credentials

# What a client of HTTP/2 says first: the preface and a SETTINGS frame that sets nothing.
_FIRST_WORDS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_FRAME_HEADER = 9
_LISTENING = 1.0  # seconds
_SETTINGS = 4


class Kind(Enum):
    """How far a connection came."""

    ACCEPTED = "accepted"
    MISCONFIGURED = "misconfigured"  # the address, the name or our own files
    NAME_UNKNOWN = "name unknown"
    REFUSED = "refused"  # nobody listens
    UNREACHABLE = "unreachable"  # no way there, or none in time
    SILENT = "silent"  # connected, and then nothing
    CLOSED = "closed"  # connected, and closed before TLS was up
    NOT_TLS = "not TLS"
    OLD_TLS = "old TLS"
    SERVER_UNTRUSTED = "server untrusted"
    SERVER_EXPIRED = "server expired"
    SERVER_MISNAMED = "server misnamed"
    NOT_GRPC = "not gRPC"
    CERTIFICATE_REFUSED = "certificate refused"  # ours, by the server


# OpenSSL's numbers for what can be wrong with a server's certificate; all others mean that it is not trusted.
_DISTRUST = {
    9: Kind.SERVER_EXPIRED,  # not yet valid
    10: Kind.SERVER_EXPIRED,
    62: Kind.SERVER_MISNAMED,
    64: Kind.SERVER_MISNAMED,  # another IP address
}

_WORDS = {
    Kind.ACCEPTED: "the aggregator accepts our certificate ({detail})",
    Kind.MISCONFIGURED: "this is not tried: {detail}",
    Kind.NAME_UNKNOWN: "no host of this name is known ({detail}): check its spelling, or see to DNS",
    Kind.REFUSED: "nobody listens there: is the aggregator running, and is this its port?",
    Kind.UNREACHABLE: "cannot be reached ({detail}): see to the network, and to firewalls here and there",
    Kind.SILENT: "somebody listens but {detail} did not come in time: is this the aggregator's port, and is it busy?",
    Kind.CLOSED: "the connection ends as soon as TLS begins ({detail}): another kind of server, or a proxy before none",
    Kind.NOT_TLS: "what answers does not speak TLS ({detail}): is this the aggregator's port?",
    Kind.OLD_TLS: "an old version of TLS ({detail}), not TLSv1.3 as from an aggregator: something between opens it",
    Kind.SERVER_UNTRUSTED: "no authority in {mine.ca_file} vouches for the server's certificate ({detail}): "
    "another server, another authority than agreed, or something between that opens the connection",
    Kind.SERVER_EXPIRED: "the server's certificate, or its authority's, is out of its time ({detail}): "
    "it must be renewed, unless the clock of this machine is wrong",
    Kind.SERVER_MISNAMED: "the server's certificate is not for {name!r}: another server, or another name than agreed",
    Kind.NOT_GRPC: "a TLS server, but none for gRPC ({detail}): is this the aggregator's port?",
    # gRPC closes without a word, so what we came with is said as well
    Kind.CERTIFICATE_REFUSED: "the aggregator does not accept our certificate {mine.certificate_file} ({detail}). "
    "It is for {names} until {mine.expires:%Y-%m-%d}: ask whether the `ca` of the aggregator has its authority",
}


@dataclass(frozen=True)
class Probe:
    """What came of it, in one word for programs and in a sentence for people."""

    kind: Kind
    words: str
    tls_version: str | None = None  # "TLSv1.3", once agreed

    @property
    def accepted(self) -> bool:
        """Whether a gRPC server speaks with us."""
        return self.kind is Kind.ACCEPTED


def probe(address: str, credentials: Credentials, server_name: str, timeout: float = 5.0) -> Probe:
    """Connect to `host:port` as a party would, and say what happens; nothing is raised.

    The server must show a certificate for `server_name`. All steps together take at most `timeout` seconds, but for the
    search for the host's name, which takes as long as the system lets it.
    """
    kind, detail, version = _attempt(address, credentials, server_name, _Clock(timeout))
    names = ", ".join(sorted(credentials.names))
    words = _WORDS[kind].format(detail=detail, mine=credentials, name=server_name, names=names)
    return Probe(kind, f"{address}: {words}", version)


def _attempt(address: str, credentials: Credentials, server_name: str, clock: _Clock) -> tuple[Kind, str, str | None]:
    try:
        host, port = split_address(address)
        context = _context(credentials, server_name)
    except ParameterError as error:
        return Kind.MISCONFIGURED, str(error), None
    try:
        raw = _connected(host, port, clock)
    except (OSError, ValueError) as error:
        return *_no_connection(error), None
    with raw:
        try:
            raw.settimeout(clock.left())
            tls = context.wrap_socket(raw, server_hostname=server_name)
        except OSError as error:
            return *_no_handshake(error), None
    with tls:
        version = tls.version()  # which is forgotten when the other side closes
        return *_first_frame(tls, clock), version


class _Clock:
    """What is left of the time allowed."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return max(self._end - time.monotonic(), 0.001)  # zero would mean: do not wait for anything, ever


def _context(credentials: Credentials, server_name: str) -> ssl.SSLContext:
    """Trust as gRPC does: only what is in `ca`, an authority between included, and without the rules of the web."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=credentials.ca.decode())
    context.set_alpn_protocols(["h2"])
    certificate, key = credentials.certificate_file, credentials.key_file
    try:
        # with a password at hand, OpenSSL does not ask for one on the terminal
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # they were in order when they were loaded
        raise ParameterError(f"{certificate} and {key} have changed and cannot be used ({_reason(error)})") from error
    try:
        # without a socket, because not every kind of wrong name would close it again
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=server_name)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{server_name!r} is not a name that a server can have") from error
    return context


def _connected(host: str, port: int, clock: _Clock) -> socket.socket:
    """Try all addresses of the host in turn, each with its share of the time."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError("no address")
    for number, (*_, where) in enumerate(found):
        try:
            return socket.create_connection((str(where[0]), port), timeout=clock.left() / (len(found) - number))
        except OSError as error:
            failure = error
    raise failure


def _no_connection(error: Exception) -> tuple[Kind, str]:
    match error:
        case socket.gaierror() | ValueError():  # a ValueError where it cannot even be asked for
            return Kind.NAME_UNKNOWN, _reason(error)
        case ConnectionRefusedError():
            return Kind.REFUSED, ""
        case TimeoutError():
            return Kind.UNREACHABLE, "no answer in time"
    return Kind.UNREACHABLE, _reason(error)


def _no_handshake(error: OSError) -> tuple[Kind, str]:
    kind = Kind.UNREACHABLE
    match error:
        case ssl.SSLCertVerificationError():
            return _DISTRUST.get(error.verify_code, Kind.SERVER_UNTRUSTED), error.verify_message
        case TimeoutError():
            return Kind.SILENT, "a TLS handshake"
        case ssl.SSLEOFError() | ConnectionError():
            kind = Kind.CLOSED
        case ssl.SSLError() if alert := _alert(error):
            return _kind_of_alert(alert), f"it says {alert!r}"
        case ssl.SSLError():
            kind = Kind.OLD_TLS if error.reason == "UNSUPPORTED_PROTOCOL" else Kind.NOT_TLS
    return kind, _reason(error)


def _kind_of_alert(alert: str) -> Kind:
    if "certificate" in alert or alert in {"unknown ca", "access denied"}:
        return Kind.CERTIFICATE_REFUSED
    return Kind.OLD_TLS if alert == "protocol version" else Kind.CLOSED


def _first_frame(tls: ssl.SSLSocket, clock: _Clock) -> tuple[Kind, str]:
    """See whether the server speaks with us: in TLS 1.3 it looks at our certificate when our side is done already."""
    if tls.selected_alpn_protocol() != "h2":
        return Kind.NOT_GRPC, "no HTTP/2"
    try:
        received = _exchanged(tls, clock)
    except TimeoutError:
        return Kind.SILENT, "an answer over gRPC"
    except OSError as error:
        alert = _alert(error)
        return Kind.CERTIFICATE_REFUSED, f"it says {alert!r}" if alert else _reason(error)
    if len(received) < _FRAME_HEADER:
        return Kind.CERTIFICATE_REFUSED, "it closes without a word"
    if received[3] != _SETTINGS or any(received[5:]):
        return Kind.NOT_GRPC, "it does not begin as HTTP/2 does"
    version = str(tls.version())
    return Kind.ACCEPTED if version == "TLSv1.3" else Kind.OLD_TLS, version


def _exchanged(tls: ssl.SSLSocket, clock: _Clock) -> bytes:
    """Give the header of the first frame, or less where the server closes.

    gRPC speaks first, so we listen first: what is sent to a server that has closed already makes the system throw away
    its last words, an alert among them. A server that waits for ours gets them after a while.
    """
    received, spoken = b"", False
    while len(received) < _FRAME_HEADER:
        tls.settimeout(clock.left() if spoken else min(_LISTENING, clock.left() / 2))
        try:
            part = tls.recv(_FRAME_HEADER - len(received))
        except TimeoutError:
            if spoken:
                raise
            tls.settimeout(clock.left())
            tls.sendall(_FIRST_WORDS)
            spoken = True
            continue
        if not part:
            break
        received += part
    return received


def _alert(error: OSError) -> str:
    """Give the words of an alert from the other side, as "unknown ca"; none where the error is of another kind."""
    found = re.search(r"ALERT_(\w+)", getattr(error, "reason", None) or "")
    return found[1].replace("_", " ").lower() if found else ""


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
