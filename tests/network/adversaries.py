"""Adversaries at one end of a stream: they hold real certificates and send arbitrary frames."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
from concurrent import futures
from contextlib import closing, suppress

import grpc
import msgspec

from kcagc.deploy.folders import tls_name
from kcagc.net.frames import STREAM_PROTOCOL, Challenge, Frame, Open, Welcome, decode_frame, encode_frame
from kcagc.net.grpc_client import PATH, PROTOCOL_KEY, REASON_KEY, SERVICE, STREAM
from kcagc.runtime.connection import _unsigned
from kcagc.secagg.keys import opening_statement, random_token, welcome_statement
from network.roles import AGGREGATOR, PATIENCE

NOTHING = (0, 0, 0)  # safe, arrived and sent of a session that has just started


def as_bytes(frame):
    return encode_frame(frame) if isinstance(frame, Frame) else frame


class Client:
    """A stream to the aggregator with a party's certificate and, where needed, its identity key."""

    def __init__(self, roles, name="a", path=PATH, metadata=((PROTOCOL_KEY, STREAM_PROTOCOL),)):
        self.task = roles.task(name)
        self._channel = grpc.secure_channel(
            f"127.0.0.1:{roles.port}",
            grpc.ssl_channel_credentials(*self.credentials_of(roles)),
            options=[("grpc.ssl_target_name_override", tls_name(AGGREGATOR)), ("grpc.use_local_subchannel_pool", 1)],
        )
        self._queue = queue.SimpleQueue()
        self._call = self._channel.stream_stream(path)(iter(self._queue.get, None), timeout=PATIENCE, metadata=metadata)

    def credentials_of(self, roles):
        """Return the authority, the key and the certificate of the stream."""
        mine = self.task.config.credentials()
        return mine.ca, mine.key, mine.certificate

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._queue.put(None)
        self._call.cancel()
        self._channel.close()

    def send(self, *frames):
        for frame in frames:
            self._queue.put(as_bytes(frame))

    def receive(self):
        return decode_frame(next(self._call), AGGREGATOR)

    def opening(self, challenge, *, key=None, **changes):
        """Return a signed opening; the signature covers the changes."""
        agreement = self.task.agreement
        said = {
            "protocol": STREAM_PROTOCOL,
            "name": self.task.config.me,
            "nonce": random_token(),
            "attempt": random_token(),
            "bound": b"",
        }
        said["certificate"] = self.task.endpoint.certificate
        said |= dict(zip(("safe", "arrived", "sent"), NOTHING, strict=True))
        said |= {"inputs": agreement.inputs(), "signature": b""} | changes
        signed = opening_statement(AGGREGATOR, challenge.nonce, _unsigned(Open(**said)))
        return Open(**{**said, "signature": (key or self.task.identity).sign(signed)})

    def enter(self, **changes):
        """Open the stream as the party would; return the welcome."""
        self.send(self.opening(self.receive(), **changes))
        answer = self.receive()
        assert isinstance(answer, Welcome)
        return answer

    def rejected(self):
        """Read the stream to its end; return the reason and the text of the rejection."""
        try:
            while True:
                next(self._call)
        except grpc.RpcError as error:
            reason = dict(error.trailing_metadata() or ()).get(REASON_KEY)
            return reason or error.code(), error.details()
        except StopIteration:
            return None, ""


class Aggregator:
    """An aggregator that answers every caller by `answer(aggregator, requests, context)`, a generator of frames."""

    def __init__(self, roles, answer, *, certificate_of=AGGREGATOR):
        self.task = roles.task(AGGREGATOR)
        self.received = []  # frames, in any order
        self._answer = answer
        folder = roles.folder(certificate_of)
        key, certificate = (folder / "private" / "tls-key.pem").read_bytes(), (folder / "certificate.pem").read_bytes()
        secure = grpc.ssl_server_credentials(
            [(key, certificate)], roles.authority.certificate_pem, require_client_auth=True
        )
        pool = futures.ThreadPoolExecutor(4)
        self._server = grpc.server(pool, options=[("grpc.max_send_message_length", -1)])
        stream = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {STREAM: stream}),))
        self.port = self._server.add_secure_port("127.0.0.1:0", secure)
        self._server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stop(None).wait(PATIENCE)

    def _serve(self, requests, context):
        with suppress(Exception):
            for said in self._answer(self, self._kept(requests), context):
                yield as_bytes(said)

    def _kept(self, requests):
        for payload in requests:
            self.received.append(decode_frame(payload, "party"))
            yield self.received[-1]

    def welcome(self, nonce, opened, *, key=None, attempt=b"x" * 32, counts=NOTHING):
        """Return a signed welcome."""
        said = Welcome(attempt, *counts, b"")
        statement = welcome_statement(
            AGGREGATOR, opening_statement(AGGREGATOR, nonce, _unsigned(opened)), _unsigned(said)
        )
        return msgspec.structs.replace(said, signature=(key or self.task.identity).sign(statement))


def challenge(**changes):
    return Challenge(**({"protocol": STREAM_PROTOCOL, "name": AGGREGATOR, "nonce": b"n" * 32} | changes))


# ---- below gRPC

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def h2_frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def call_headers(path=PATH):
    """Return the HEADERS frame that opens the stream, without compression."""
    fields = [(":method", "POST"), (":scheme", "https"), (":path", path), (":authority", "a"), ("te", "trailers")]
    fields += [("content-type", "application/grpc"), (PROTOCOL_KEY, STREAM_PROTOCOL)]
    packed = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields
    )
    return h2_frame(1, 4, 1, packed)


def tls(roles, name="a", *, certificate=True, version=None, files=None):
    """Open a TLS connection to the aggregator with Python's ssl module."""
    folder = files or roles.folder(name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=roles.authority.certificate_pem.decode())
    context.set_alpn_protocols(["h2"])
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if certificate:
        context.load_cert_chain(folder / "certificate.pem", folder / "private" / "tls-key.pem")
    raw = socket.create_connection(("127.0.0.1", roles.port), PATIENCE)
    try:
        return context.wrap_socket(raw, server_hostname=tls_name(AGGREGATOR))
    except BaseException:
        raw.close()
        raise


def answer_to(connection, words):
    """Send bytes; return all that arrives until the other side closes."""
    received = b""
    with closing(connection), suppress(ConnectionError, ssl.SSLError):
        connection.settimeout(PATIENCE)
        connection.sendall(words)
        while part := connection.recv(65536):
            received += part
    return received


class OtherServer:
    """A server of another protocol: it answers every request with the same bytes and closes."""

    def __init__(self, answer):
        self._answer, self._listener = answer, socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        self._listener.close()

    def _serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):
                    connection.settimeout(1)
                    connection.recv(4096)
                    connection.sendall(self._answer)
