"""The borrowed primitives once more, in plain Python from the text of their RFCs: slow, short, and of another origin.

Vectors made with them agree with the code under test only if both understand the RFCs in the same way. Not for use with
secrets: nothing here runs in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

FIELD_PRIME = 2**255 - 19
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493


def framed(fields: list[bytes | str | int]) -> bytes:
    """Count of fields; for each a letter for its kind, its length and its bytes; all numbers big-endian, 64 bits."""
    out = struct.pack(">Q", len(fields))
    for field in fields:
        if type(field) is str:
            kind, value = b"s", field.encode("utf-8")
        elif type(field) is int:
            kind, value = b"i", struct.pack(">q", field)
        else:
            kind, value = b"b", field
        out += kind + struct.pack(">Q", len(value)) + value
    return out


def hkdf(secret: bytes, salt: bytes, info: bytes, length: int = 32) -> bytes:
    """RFC 5869 with SHA-256."""
    extracted = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    block, out, number = b"", b"", 1
    while len(out) < length:
        block = hmac.new(extracted, block + info + bytes([number]), hashlib.sha256).digest()
        out += block
        number += 1
    return out[:length]


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & 0xFFFFFFFF


def _quarter_round(state: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[x] = (state[x] + state[y]) & 0xFFFFFFFF
        state[z] = _rotated(state[z] ^ state[x], bits)


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, section 2.3."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter]
    start += struct.unpack("<3I", nonce)
    state = list(start)
    columns = [(i, 4 + i, 8 + i, 12 + i) for i in range(4)]
    diagonals = [(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4)]
    for _ in range(10):
        for places in columns + diagonals:
            _quarter_round(state, *places)
    return struct.pack("<16I", *((x + y) & 0xFFFFFFFF for x, y in zip(state, start, strict=True)))


def chacha20(key: bytes, counter: int, nonce: bytes, length: int) -> bytes:
    """Blocks of the stream one after the other, cut to `length` bytes."""
    blocks = -(-length // 64)
    return b"".join(chacha20_block(key, counter + i, nonce) for i in range(blocks))[:length]


def poly1305(key: bytes, message: bytes) -> bytes:
    """RFC 8439, section 2.5."""
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(message), 16):
        total = (total + int.from_bytes(message[at : at + 16] + b"\1", "little")) * r % (2**130 - 5)
    return ((total + int.from_bytes(key[16:], "little")) % 2**128).to_bytes(16, "little")


def sealed(key: bytes, nonce: bytes, content: bytes, beside: bytes) -> bytes:
    """AEAD_CHACHA20_POLY1305 of RFC 8439, section 2.8: the content encrypted, then the tag."""
    stream = chacha20(key, 1, nonce, len(content))
    encrypted = bytes(x ^ y for x, y in zip(content, stream, strict=True))
    filled = beside + bytes(-len(beside) % 16) + encrypted + bytes(-len(encrypted) % 16)
    tag = poly1305(chacha20_block(key, 0, nonce)[:32], filled + struct.pack("<QQ", len(beside), len(encrypted)))
    return encrypted + tag


def x25519(private: bytes, public: bytes) -> bytes:
    """RFC 7748, section 5; a point of small order gives 32 zero bytes."""
    p = FIELD_PRIME
    scalar = int.from_bytes(private, "little") & ~7 & (2**254 - 1) | 2**254
    u = int.from_bytes(public, "little") % 2**255 % p
    x2, z2, x3, z3, swapped = 1, 0, u, 1, 0
    for bit in range(254, -1, -1):
        wanted = scalar >> bit & 1
        if wanted != swapped:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swapped = wanted
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a % p, c * b % p, a * a % p, b * b % p
        x3, z3 = (da + cb) ** 2 % p, u * (da - cb) ** 2 % p
        x2, z2 = aa * bb % p, (aa - bb) * (aa + 121665 * (aa - bb)) % p
    if swapped:
        x2, z2 = x3, z3
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


_D = -121665 * pow(121666, -1, FIELD_PRIME) % FIELD_PRIME


def x_coordinate(y: int, odd: int) -> int | None:
    """Solve the curve's equation for x, RFC 8032, section 5.1.3; None where no point has this y."""
    p = FIELD_PRIME
    square = (y * y - 1) * pow(_D * y * y + 1, -1, p) % p
    x = pow(square, (p + 3) // 8, p)
    if (x * x - square) % p:
        x = x * pow(2, (p - 1) // 4, p) % p
    if (x * x - square) % p or (x == 0 and odd):
        return None
    return x if x % 2 == odd else p - x


_BASE_Y = 4 * pow(5, -1, FIELD_PRIME) % FIELD_PRIME
_BASE = (x_coordinate(_BASE_Y, 0), _BASE_Y)


def _added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    p, (x1, y1), (x2, y2) = FIELD_PRIME, one, other
    product = _D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, p) % p
    return x, (y1 * y2 + x1 * x2) * pow(1 - product, -1, p) % p


def _encoded_multiple(scalar: int) -> bytes:
    total, power = (0, 1), _BASE
    while scalar:
        if scalar & 1:
            total = _added(total, power)
        power, scalar = _added(power, power), scalar >> 1
    return (total[1] | (total[0] & 1) << 255).to_bytes(32, "little")


def ed25519_public(private: bytes) -> bytes:
    """RFC 8032, section 5.1.5."""
    return _encoded_multiple(_signing_scalar(private))


def _signing_scalar(private: bytes) -> int:
    half = int.from_bytes(hashlib.sha512(private).digest()[:32], "little")
    return half & ~7 & (2**254 - 1) | 2**254


def ed25519_signature(private: bytes, message: bytes) -> bytes:
    """RFC 8032, section 5.1.6."""
    prefix = hashlib.sha512(private).digest()[32:]
    nonce = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % ED25519_ORDER
    commitment = _encoded_multiple(nonce)
    challenge = hashlib.sha512(commitment + ed25519_public(private) + message).digest()
    response = nonce + int.from_bytes(challenge, "little") * _signing_scalar(private)
    return commitment + (response % ED25519_ORDER).to_bytes(32, "little")
