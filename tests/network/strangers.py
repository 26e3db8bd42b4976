"""Strangers: many connections that prove no identity. They send nothing, or begin a TLS handshake and do not end it."""

from __future__ import annotations

import selectors
import socket
import ssl
import time

from network.roles import PATIENCE


def half_a_handshake() -> bytes:
    """Return the first message of TLS, without its end."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    leaving = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), leaving, server_hostname="coordinator")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return leaving.read()[:-7]
    raise AssertionError("TLS had nothing to ask")


class Strangers:
    """Connections to one port; `tls` of them begin a handshake, the others send nothing."""

    def __init__(self, port: int, *, silent: int, tls: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.open = 0
        first = half_a_handshake()
        for number in range(silent + tls):
            one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            if number < tls:
                one.sendall(first)
            one.setblocking(False)
            self._selector.register(one, selectors.EVENT_READ)
            self.open += 1

    def __enter__(self) -> Strangers:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()

    def wait_until_at_most(self, number: int, seconds: float = PATIENCE) -> None:
        """Wait until the server has closed all but so many."""
        end = time.monotonic() + seconds
        while self.open > number:
            assert time.monotonic() < end, f"{self.open} connections are still open"
            for key, _ in self._selector.select(0.1):
                try:
                    closed = not key.fileobj.recv(4096)
                except BlockingIOError:
                    continue
                except OSError:
                    closed = True
                if closed:
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()
                    self.open -= 1
