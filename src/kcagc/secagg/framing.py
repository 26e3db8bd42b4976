"""Fields as bytes of which no two different lists give the same: what is hashed, signed or fed to a key derivation."""

from __future__ import annotations

import hashlib

Field = bytes | str | int


def framed(*fields: Field) -> bytes:
    """Write the number of fields, then each with its kind and its length before it; integers take eight bytes."""
    parts = [len(fields).to_bytes(8, "big")]
    for field in fields:
        if isinstance(field, str):
            kind, value = b"s", field.encode()
        elif isinstance(field, int):
            kind, value = b"i", field.to_bytes(8, "big", signed=True)
        else:
            kind, value = b"b", field
        parts += [kind, len(value).to_bytes(8, "big"), value]
    return b"".join(parts)


def digest(*fields: Field) -> bytes:
    """Give the SHA-256 of framed fields."""
    return hashlib.sha256(framed(*fields)).digest()
