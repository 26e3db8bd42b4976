"""A link that tests can cut: it passes bytes between the parties and the aggregator."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading

_RESET = struct.pack("ii", 1, 0)  # linger for no time: closing sends RST


class Link:
    """A proxy on a port of its own: `cut` resets all connections, `freeze` keeps them and passes nothing."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.RLock()
        self._open, self._frozen, self._ended = True, False, False
        self.connections = 0
        self.passed = 0  # bytes
        self._cut_after: int | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join(10)
        self.cut()
        self._listener.close()

    def cut(self, *, reset: bool = True, stay: bool = False) -> None:
        """End all connections, by reset or by an orderly close; with `stay`, accept no new connections."""
        with self._lock:
            self._open = not stay
            for one in list(self._pairs):
                if reset:
                    with contextlib.suppress(OSError):
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                one.close()
            self._pairs.clear()

    def cut_after(self, n_bytes: int) -> None:
        """Cut after this many bytes, also inside a message."""
        self._cut_after = n_bytes

    @property
    def cut_is_due(self) -> bool:
        """Whether a requested cut is still to come."""
        return self._cut_after is not None

    def freeze(self) -> None:
        """Keep all connections and pass nothing."""
        self._frozen = True

    def restore(self) -> None:
        with self._lock:
            self._open, self._frozen = True, False

    def _work(self) -> None:
        while not self._ended:
            with self._lock:
                watched = [] if self._frozen else [self._listener, *self._pairs]
                ready, _, _ = select.select(watched, [], [], 0)
                for one in ready:
                    if one is self._listener:
                        self._let_in()
                    elif one in self._pairs:
                        self._pass_on(one)
            if not ready:
                threading.Event().wait(0.001)

    def _let_in(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            client.close()
            return
        if not self._open:
            client.close()
            server.close()
            return
        self.connections += 1
        for one, other in ((client, server), (server, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[one] = other

    def _pass_on(self, one: socket.socket) -> None:
        other = self._pairs[one]
        try:
            data = one.recv(1 << 16)
            if self._cut_after is not None and self.passed + len(data) >= self._cut_after:
                other.sendall(data[: self._cut_after - self.passed])
                self._cut_after = None
                self.cut()
                return
            self.passed += len(data)
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        for end in (one, other):
            self._pairs.pop(end, None)
            end.close()
