"""What two roles sign when a stream opens between them, so that nobody in between speaks for either.

Both add something fresh. The party also signs which TLS certificate it uses: whoever ends the connection in the middle
and opens another, with a certificate that some authority has made out in the party's name, passes the words on in vain.
"""

from __future__ import annotations

import os

from kcagc.secagg.framing import framed

TOKEN_BYTES = 32


def fresh_token() -> bytes:
    """Ask the operating system for a name that nobody else has: a nonce, or a role's name of a session."""
    return os.urandom(TOKEN_BYTES)


def opening(aggregator: str, nonce: bytes, said: bytes) -> bytes:
    """Give what a party signs: the aggregator's nonce, and all that it says of itself."""
    return framed("kcagc link open", aggregator, nonce, said)


def welcoming(aggregator: str, opened: bytes, said: bytes) -> bytes:
    """Give what the aggregator signs: what the party signed, and all that it answers."""
    return framed("kcagc link welcome", aggregator, opened, said)
