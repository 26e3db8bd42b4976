"""Codes that an operator types, pastes or reads over the telephone: invitations, and fingerprints of keys.

A code consists of groups of five characters, four of content and one that checks the group, so that an error names the
group with the mistake. The alphabet has no I, L, O and U; the first three are read as 1, 1 and 0.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from kcagc.errors import ParameterError
from kcagc.net.tls import split_address
from kcagc.secagg.keys import digest

Kind = Literal["admission", "invitation"]

SECRET_BYTES = 16
FINGERPRINT_BYTES = 16
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ALIKE = str.maketrans("ILO", "110")
_KINDS: dict[int, Kind] = {0x11: "admission", 0x12: "invitation"}  # first byte: version 1, and the kind
_WHOSE = {
    "admission": "the one that `kcagc serve` writes to admission.txt",
    "invitation": "the one that `kcagc invite` prints",
}
_CHECK_BYTES = 4
_FIXED_BYTES = 1 + SECRET_BYTES + FINGERPRINT_BYTES
_MAX_CHARACTERS = 1000
_CONTENT = 4  # characters of a group without the one that checks it


@dataclass(frozen=True)
class Code:
    """The content of a code.

    An *admission* lets an operator open an invitation at a coordinator; an *invitation* lets a role join a federation.
    `fingerprint` is that of the identity keys that the coordinator must have, see `identities_fingerprint`.
    """

    kind: Kind
    secret: bytes
    fingerprint: bytes
    address: str
    federation: str = ""

    @classmethod
    def fresh(cls, kind: Kind, fingerprint: bytes, address: str, federation: str = "") -> Code:
        """Return a code with a new secret."""
        split_address(address)
        return cls(kind, os.urandom(SECRET_BYTES), fingerprint, address, federation)

    def text(self) -> str:
        """Return the code as an operator passes it on."""
        kind = next(number for number, name in _KINDS.items() if name == self.kind)
        name = self.federation.encode()
        content = bytes([kind]) + self.secret + self.fingerprint + bytes([len(name)]) + name + self.address.encode()
        characters = _in_base32(content + _check(content))
        groups = [characters[start : start + _CONTENT] for start in range(0, len(characters), _CONTENT)]
        return "-".join(group + _check_character(number, group) for number, group in enumerate(groups))

    @classmethod
    def read(cls, text: str, kind: Kind) -> Code:
        """Read a code of this kind; upper and lower case, spaces, line ends and hyphens do not matter."""
        content = _content_of(text)
        found = _KINDS.get(content[0])
        if found is None:
            raise ParameterError(f"code: its version is {content[0]:#x}, which this version of kcagc cannot read")
        if found != kind:
            raise ParameterError(f"code: this is an {found} code; enter the {kind} code, {_WHOSE[kind]}")
        secret, fingerprint = content[1 : 1 + SECRET_BYTES], content[1 + SECRET_BYTES : _FIXED_BYTES]
        end = _FIXED_BYTES + 1 + content[_FIXED_BYTES]
        try:
            federation, address = content[_FIXED_BYTES + 1 : end].decode(), content[end:].decode()
        except UnicodeDecodeError as error:
            raise ParameterError("code: its name or address cannot be read; ask for a new code") from error
        split_address(address, "code: address")
        return cls(kind, secret, fingerprint, address, federation)

    def __repr__(self) -> str:
        return f"Code({self.kind}, {self.federation!r}, {self.address!r}, …)"


def identities_fingerprint(*identities: bytes) -> bytes:
    """Return the part of a code that binds it to identity keys: the coordinator's, then the inviter's."""
    return digest("kcagc code identities", *identities)[:FINGERPRINT_BYTES]


def fingerprint(key: bytes) -> str:
    """Return the fingerprint of a public key or a digest as eight groups of five digits, to be read aloud."""
    found = digest("kcagc fingerprint", key)
    return " ".join(f"{int.from_bytes(found[start : start + 2], 'big'):05}" for start in range(0, FINGERPRINT_BYTES, 2))


def _content_of(text: str) -> bytes:
    """Return the bytes of a code without its checks; an error names the group with a mistake."""
    typed = re.sub(r"[\s-]+", "", text[: 2 * _MAX_CHARACTERS]).upper().translate(_ALIKE)
    strange = re.search(f"[^{_ALPHABET}]", typed)
    if strange:
        raise ParameterError(f"code: {strange.group()!r} is not a character of a code; compare it with the original")
    if not _FIXED_BYTES * 8 // 5 < len(typed) < _MAX_CHARACTERS:
        raise ParameterError(f"code: it has {len(typed)} characters, which is no code; copy the whole code")
    size = _CONTENT + 1
    characters = ""
    for number, start in enumerate(range(0, len(typed), size)):
        group = typed[start : start + size]
        if len(group) < 2 or _check_character(number, group[:-1]) != group[-1]:
            raise ParameterError(
                f"code: there is a typing error in group {number + 1} ({group}), or a character is missing or extra in "
                "it; compare it with the original"
            )
        characters += group[:-1]
    value = 0
    for character in characters:
        value = value << 5 | _ALPHABET.index(character)
    spare = len(characters) * 5 % 8
    content = (value >> spare).to_bytes(len(characters) * 5 // 8, "big")
    content, check = content[:-_CHECK_BYTES], content[-_CHECK_BYTES:]
    if len(content) <= _FIXED_BYTES or _check(content) != check or value & ((1 << spare) - 1):
        raise ParameterError("code: there is a typing error, or a part is missing; compare it with the original")
    return content


def _in_base32(content: bytes) -> str:
    spare = -len(content) * 8 % 5
    value = int.from_bytes(content, "big") << spare
    count = (len(content) * 8 + spare) // 5
    return "".join(_ALPHABET[value >> 5 * place & 31] for place in reversed(range(count)))


def _check_character(number: int, group: str) -> str:
    """Return the character that checks a group; odd factors find every wrong character."""
    return _ALPHABET[(number + sum((2 * place + 1) * _ALPHABET.index(one) for place, one in enumerate(group))) % 32]


def _check(content: bytes) -> bytes:
    return digest("kcagc code check", content)[:_CHECK_BYTES]
