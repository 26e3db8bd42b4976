"""What gRPC writes to stderr about connections it refuses, as lines of our own.

A client whose certificate the TLS layer refuses never reaches Python; gRPC's only word about it is a line on the
process's stderr. While an aggregator listens, those lines are read here: known ones become one plain sentence, repeated
ones are counted and not repeated, and everything else goes where it was going.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator

_CAUSES = (
    ("certificate has expired", "its certificate has expired"),
    ("certificate is not yet valid", "its certificate is not valid yet"),
    ("unsupported certificate purpose", "its certificate is not for connecting"),
    ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "it showed no certificate"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not signed by an authority that we know"),
    ("HTTP_REQUEST", "it speaks plain HTTP, not TLS"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS"),
    ("No match found for server name", "it asked for a server of another name"),
    ("", "the TLS handshake failed"),
)
_GRPC_LINE = re.compile(r"^[IWEF]\d{4} .*\.cc:\d+\] ")
_QUIET = 10.0  # seconds in which the same sentence is not said again


@contextlib.contextmanager
def plain_refusals(log: Callable[[str], None]) -> Iterator[None]:
    """Turn gRPC's lines on stderr into calls of `log`, as long as this lasts."""
    sys.stderr.flush()
    real = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    before = sys.stderr
    # Python's own stderr goes past the pipe: it stays a terminal where it was one, and keeps its order.
    sys.stderr = os.fdopen(real, "w", encoding=before.encoding, errors=before.errors, buffering=1, closefd=False)
    reader = threading.Thread(target=_read, args=(reading, real, _Sayings(log)), daemon=True)
    reader.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before
        os.dup2(real, 2)  # which closes the writing end, and so ends the reader
        reader.join(timeout=1)
        os.close(real)


def _read(reading: int, real: int, sayings: _Sayings) -> None:
    with os.fdopen(reading, "rb") as lines:
        for raw in lines:
            line = raw.decode("utf-8", "replace")
            if _GRPC_LINE.match(line):
                sayings.hear(line)
            else:
                with contextlib.suppress(OSError):
                    os.write(real, raw)


class _Sayings:
    """Says each thing once in a while, and how often it was not said."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._said: dict[str, tuple[float, int]] = {}

    def hear(self, line: str) -> None:
        cause = next(words for sign, words in _CAUSES if sign in line)
        now = time.monotonic()
        when, kept_back = self._said.get(cause, (-_QUIET, 0))
        if now - when < _QUIET:
            self._said[cause] = (when, kept_back + 1)
            return
        self._said[cause] = (now, 0)
        more = f" ({kept_back} more like it before)" if kept_back else ""
        self._log(f"refused a connection: {cause}{more}")
