"""What two roles sign when a stream opens between them, so that no proxy or stolen certificate speaks for either."""

from __future__ import annotations

import os

from kcagc.secagg.framing import framed

TOKEN_BYTES = 32


def fresh_token() -> bytes:
    """Ask the operating system for a name that nobody else has: a nonce, or a role's name of a session."""
    return os.urandom(TOKEN_BYTES)


def opening(
    aggregator: str,
    nonce: bytes,
    link: str,
    name: str,
    attempt: bytes,
    bound: bytes,
    counts: tuple[int, ...],
    inputs: bytes,
) -> bytes:
    """Give what a party signs: the aggregator's nonce, and all that it says of itself."""
    return framed("kcagc link open", aggregator, nonce, link, name, attempt, bound, *counts, inputs)


def welcoming(aggregator: str, opened: bytes, attempt: bytes, counts: tuple[int, ...]) -> bytes:
    """Give what the aggregator signs: what the party signed, and its own name of the session and counts."""
    return framed("kcagc link welcome", aggregator, opened, attempt, *counts)
