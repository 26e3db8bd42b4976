"""Write the JSON files beside this one: `python make.py` here, `python make.py FOLDER` elsewhere.

Nothing of what is tested is used: keys, masks and boxes come from `primitives`, and the layout of what they are fed is
written out below a second time.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
from fractions import Fraction
from itertools import permutations
from math import floor, isqrt
from pathlib import Path

from primitives import (
    ED25519_ORDER,
    FIELD_PRIME,
    chacha20,
    ed25519_public,
    ed25519_signature,
    framed,
    hkdf,
    sealed,
    x25519,
    x_coordinate,
)
from published import AEAD, CHACHA20, ED25519, HKDF, X25519

BASE_POINT = (9).to_bytes(32, "little")
NO_NONCE = bytes(12)
OWN = (
    "Made by tests/vectors/make.py, which has its own HKDF, ChaCha20, Poly1305, X25519, Ed25519 and framing in plain "
    "Python, checked against the RFC vectors beside this file; secrets and nonces are SHA-256 of words."
)


def must(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"not reproduced: {what}")


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def fixed(*words: str) -> bytes:
    """32 bytes that anybody can make again."""
    return hashlib.sha256(" ".join(words).encode()).digest()


def published() -> dict[str, dict]:
    for case in X25519["cases"]:
        private, public, other = (unhex(case[name]) for name in ("private", "public", "other_public"))
        must(x25519(private, BASE_POINT) == public, "a public key of RFC 7748")
        must(x25519(private, other).hex() == case["shared"], "the shared secret of RFC 7748")
    for case in ED25519["cases"]:
        private = unhex(case["private"])
        must(ed25519_public(private).hex() == case["public"], "a public key of RFC 8032")
        must(ed25519_signature(private, unhex(case["message"])).hex() == case["signature"], "a signature of RFC 8032")
    for case in HKDF["cases"]:
        secret, salt, info = (unhex(case[name]) for name in ("secret", "salt", "info"))
        must(hkdf(secret, salt, info, case["length"]).hex() == case["derived"], "a key of RFC 5869")
    for case in CHACHA20["cases"]:
        must(chacha20(unhex(case["key"]), case["counter"], NO_NONCE, 64).hex() == case["block"], "a block of RFC 8439")
    for case in AEAD["cases"]:
        key, nonce, content, beside = (unhex(case[name]) for name in ("key", "nonce", "content", "beside"))
        must(sealed(key, nonce, content, beside).hex() == case["box"], "the box of RFC 8439")
    return {
        "rfc7748_x25519": X25519,
        "rfc8032_ed25519": ED25519,
        "rfc5869_hkdf": HKDF,
        "rfc8439_chacha20": CHACHA20,
        "rfc8439_aead": AEAD,
    }


def small_order() -> dict:
    """Public keys with which every private key shares 32 zero bytes."""
    p = FIELD_PRIME
    of_order_8 = (
        0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
        0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
    )
    points = [
        (0, "zero, of order 2 (and what all zero bytes say)"),
        (1, "one, of order 4"),
        (of_order_8[0], "of order 8"),
        (of_order_8[1], "of order 8"),
        (p - 1, "minus one, of order 4 on the twist"),
        (p, "zero, written as the prime"),
        (p + 1, "one, written as the prime and one"),
        (2**255, "zero with the highest bit, which is ignored"),
        (2**255 + 1, "one with the highest bit"),
        (2**255 + of_order_8[0], "of order 8 with the highest bit"),
        (2**255 + of_order_8[1], "of order 8 with the highest bit"),
        (2**255 + p - 1, "minus one with the highest bit"),
        (2**255 + p, "the prime with the highest bit"),
        (2**255 + p + 1, "the prime and one with the highest bit"),
    ]
    cases = [{"public": u.to_bytes(32, "little").hex(), "why": why} for u, why in points]
    for case in cases:
        for private in (fixed("one private key"), fixed("another private key")):
            must(not any(x25519(private, unhex(case["public"]))), f"a zero secret with {case['why']}")
    ordinary = x25519(fixed("an ordinary key"), BASE_POINT)
    cases += [
        {"public": "", "why": "no key"},
        {"public": ordinary[:31].hex(), "why": "a byte too short"},
        {"public": (ordinary + b"\0").hex(), "why": "a byte too long"},
    ]
    provenance = (
        "The coordinates of the points of small order on Curve25519 and its twist (listed at cr.yp.to/ecdh.html), in "
        "every encoding that 32 bytes allow; make.py computes that each shares 32 zero bytes with two private keys. "
        "Then keys of wrong length."
    )
    return {"provenance": provenance, "cases": cases}


NAMES = ["telecom", "bank", "Ämter", "shop"]  # the order of the participants is not the alphabet's
COORDINATOR = "adder"
INPUTS = fixed("what everybody agreed on")


def fresh(name: str) -> tuple[bytes, bytes]:
    key = b"" if name == COORDINATOR else x25519(fixed(name, "session key"), BASE_POINT)
    return fixed(name, "nonce"), key


def session() -> bytes:
    fields = ["kcagc session", INPUTS]
    for name in [*NAMES, COORDINATOR]:
        fields += [name, *fresh(name)]
    return hashlib.sha256(framed(fields)).digest()


def hellos() -> list[dict]:
    out = []
    for name in [*NAMES, COORDINATOR]:
        role = "coordinator" if name == COORDINATOR else "party"
        nonce, key = fresh(name)
        statement = framed(["kcagc hello", role, name, INPUTS, nonce, key])
        identity = fixed(name, "identity")
        out.append(
            {
                "name": name,
                "role": role,
                "nonce": nonce.hex(),
                "private": fixed(name, "session key").hex(),
                "public": key.hex(),
                "identity_private": identity.hex(),
                "identity_public": ed25519_public(identity).hex(),
                "statement": statement.hex(),
                "signature": ed25519_signature(identity, statement).hex(),
            }
        )
    return out


def shared(one: str, other: str) -> bytes:
    return x25519(fixed(one, "session key"), fresh(other)[1])


def key_for(one: str, other: str, fields: list) -> bytes:
    return hkdf(shared(one, other), session(), framed(fields))


def mask_key(one: str, other: str, group: list[str], label: bytes, length: int, transcript: bytes) -> bytes:
    first, second = min(one, other), max(one, other)
    return key_for(one, other, ["mask", first, second, framed(group), label, length, transcript])


def words_of(key: bytes, count: int) -> list[int]:
    stream = chacha20(key, 0, NO_NONCE, 8 * count)
    return [int.from_bytes(stream[at : at + 8], "little") for at in range(0, len(stream), 8)]


def hex_words(words: list[int]) -> list[str]:
    return [f"{word:016x}" for word in words]


def a_sum(group: list[str], label: bytes, transcript: bytes, values: dict[str, list[float]]) -> dict:
    """Mask what every party has, and add it up."""
    length = len(values[group[0]])
    encoded = {name: [round(Fraction(value) * 2**24) for value in values[name]] for name in group}
    masked, keys = {}, {}
    for me in group:
        total = [*encoded[me], 0, 0]
        for other in group:
            if other != me:
                key = mask_key(me, other, group, label, length, transcript)
                sign = 1 if me < other else -1
                stream = words_of(key, length + 2)
                total = [(word + sign * mask) % 2**64 for word, mask in zip(total, stream, strict=True)]
                keys[f"{min(me, other)}+{max(me, other)}"] = {"key": key.hex(), "stream": hex_words(stream)}
        masked[me] = total
    added = [sum(column) % 2**64 for column in zip(*masked.values(), strict=True)]
    must(added[-2:] == [0, 0], "check words that cancel")
    sums = [word - 2**64 if word >= 2**63 else word for word in added[:-2]]
    for place, one_sum in enumerate(sums):
        wanted = sum(Fraction(values[name][place]) for name in group) * 2**24
        must(abs(one_sum - wanted) <= Fraction(len(group), 2), "a sum within the rounding of its terms")
    return {
        "group": group,
        "label": label.hex(),
        "transcript": transcript.hex(),
        "keys": keys,
        "values": {name: values[name] for name in group},
        "encoded": {name: hex_words(words) for name, words in encoded.items()},
        "masked": {name: hex_words(words) for name, words in masked.items()},
        "sums": sums,
    }


def a_box(sender: str, receiver: str, label: bytes, content: bytes) -> dict:
    key = key_for(sender, receiver, ["box", sender, receiver, label])
    return {
        "sender": sender,
        "receiver": receiver,
        "label": label.hex(),
        "content": content.hex(),
        "key": key.hex(),
        "box": sealed(key, NO_NONCE, content, label).hex(),
    }


def powers() -> list[int]:
    """2^(i/256) for i from 0 to 256 with 30 fraction bits, rounded down: 256th roots, by eight square roots."""
    out = []
    for i in range(257):
        root = 2 ** (30 * 256 + i)
        for _ in range(8):
            root = isqrt(root)
        out.append(root)
    return out


POWERS = powers()


def factor_range(n_parties: int) -> tuple[int, int]:
    """The lowest and the highest factor in 256ths of an octave, so that no comparison leaves the ring."""
    largest = 2 * n_parties * (9 * (2**26 + 2**6) // 4 + 1) + 1
    room = 2**63 // (largest + 1)
    last = 0
    while POWERS[(last + 1) % 256] * 2 ** ((last + 1) // 256) <= room * 2**30:
        last += 1
    first = 0
    while 2**first <= n_parties + 2:
        first += 1
    return 256 * first, last


def log_uniform(word: int, first: int, last: int) -> Fraction:
    """The number between 2^(first/256) and 2^(last/256) that a random word stands for."""
    high, low = word >> 32, word % 2**32
    octave, place = divmod(first + high * (last - first) // 2**32, 256)
    mantissa = POWERS[place] + (POWERS[place + 1] - POWERS[place]) * (low // 2) // 2**31
    return Fraction(mantissa * 2**octave, 2**30)


def a_blinding(label: bytes, parts: list[list[int]]) -> dict:
    """What each party sends (without masks), what the aggregator sees, and what the parties make of its answer."""
    key, count = fixed("group key"), len(parts[0])
    first, last = factor_range(len(parts))

    def words_for(purpose: str) -> list[int]:
        return words_of(hkdf(key, session(), framed([purpose, label, count])), count)

    factors = [log_uniform(word, first, last) for word in words_for("factors")]
    signs = [-1 if word % 2 else 1 for word in words_for("factors")]
    offsets = []
    for word, factor in zip(words_for("offsets"), factors, strict=True):
        most = floor(factor) - len(parts) - 1
        offsets.append(word % (2 * most + 1) - most)
    step = 1
    while step < count:
        step *= 2
    random = words_for("order")
    order = sorted(range(count), key=lambda place: (random[place] // step, place))
    sent, seen = [], [0] * count
    for party, own in enumerate(parts):
        blinded = [
            sign * (floor(factor * part) + (0 if party else offset))
            for sign, factor, part, offset in zip(signs, factors, own, offsets, strict=True)
        ]
        seen = [total + blinded[place] for total, place in zip(seen, order, strict=True)]
        sent.append(hex_words([blinded[place] % 2**64 for place in order]))
    must(all(abs(value) < 2**63 for value in seen), "sums that stay in the ring")
    positive = [value > 0 for value in seen]
    restored = [False] * count
    for place, answer in zip(order, positive, strict=True):
        restored[place] = answer == (signs[place] > 0)
    must(restored == [sum(column) > 0 for column in zip(*parts, strict=True)], "the signs of the differences")
    return {
        "key": key.hex(),
        "label": label.hex(),
        "steps": [first, last],
        "factors": [str(factor) for factor in factors],
        "negative": [sign < 0 for sign in signs],
        "order": order,
        "parts": parts,
        "words": sent,
        "seen": seen,
        "positive": positive,
        "restored": restored,
    }


def odd_parts(n_parties: int, seen: list[int]) -> list[list[int]]:
    """Parts of comparisons: the largest that there are, the smallest, and some between; the first party's are odd."""
    largest = 2 * (9 * (2**26 + 2**6) // 4)
    parts = [[largest] * 2 + [0] * len(seen) for _ in range(n_parties)]
    parts[0] = [largest + 1, -largest - 1, *(2 * value + 1 for value in seen)]
    for party in range(1, n_parties):
        parts[party][1] = -largest
        parts[party][2:] = [2 * (value * 7919 * party % 1001 - 500) for value in seen]
    return parts


def some_positions(label: bytes, count: int, among: int) -> dict:
    key = fixed("group key")
    words = words_of(hkdf(key, session(), framed(["positions", label, count])), count)
    drawn = sorted({word % among for word in words}) if among > count else list(range(among))
    return {"key": key.hex(), "label": label.hex(), "count": count, "among": among, "positions": drawn}


def some_probes(label: bytes, count: int) -> dict:
    key = fixed("group key")
    words = words_of(hkdf(key, session(), framed(["probes", label, count])), count)
    drawn = [floor(log_uniform(word, 22 * 256, 28 * 256)) // 2 * 2 + 1 for word in words]
    return {"key": key.hex(), "label": label.hex(), "probes": drawn}


def field_as_json(field: bytes | str | int) -> dict:
    return {"bytes": field.hex()} if isinstance(field, bytes) else {type(field).__name__: field}


def framings() -> list[dict]:
    lists = [
        [],
        [""],
        [b""],
        [0],
        ["ab", "c"],
        ["a", "bc"],
        [b"ab", b"c"],
        [b"abc"],
        ["Ämter", b"\xff\x00", -1],
        [2**63 - 1, -(2**63)],
        [framed(["a"]), "a"],
    ]
    return [{"fields": [field_as_json(field) for field in fields], "framed": framed(fields).hex()} for fields in lists]


def ours() -> dict:
    values = {
        "telecom": [0.1, 2.0, 31.999999999999996, 2.0**-25, 1.5],
        "bank": [0.2, 3.25, 0.5, 3 * 2.0**-25, 32.0],
        "Ämter": [0.3, 0.0, 1e-9, 2.0**-26, 4.0],
        "shop": [23.456, 1e-300, 7.0, 5 * 2.0**-25, 0.0],
    }
    answered = fixed("every answer so far")
    return {
        "provenance": OWN,
        "inputs": INPUTS.hex(),
        "hellos": hellos(),
        "session": session().hex(),
        "shared": {f"{one}+{other}": shared(one, other).hex() for one, other in permutations(NAMES, 2)},
        "fingerprints": [
            {
                "me": one,
                "other": other,
                "what": "ids",
                "data": b"some ids".hex(),
                "fingerprint": hmac.new(
                    key_for(one, other, ["fingerprint", min(one, other), max(one, other), "ids"]),
                    b"some ids",
                    hashlib.sha256,
                ).hexdigest(),
            }
            for one, other in [("bank", "shop"), ("shop", "bank"), ("telecom", "Ämter")]
        ],
        "sums": [
            a_sum(NAMES, framed(["1.0", 7]), answered, values),
            a_sum(NAMES[:3], b"", b"", values),
            a_sum(["shop", "bank"], b"one word", answered, {"shop": [1.0], "bank": [31.0]}),
        ],
        "boxes": [
            a_box("bank", "Ämter", b"a label", b"what the relay must not read"),
            a_box("Ämter", "bank", b"a label", b"what the relay must not read"),
            a_box("shop", "telecom", b"", b""),
            a_box("telecom", "shop", b"long", bytes(range(256))),
        ],
        "blindings": [
            a_blinding(b"a label", odd_parts(2, [0, -1, 1, 40_000_000, -60_000_000])),
            a_blinding(b"another label", odd_parts(2, [0, -1, 1, 40_000_000, -60_000_000])),
            a_blinding(b"a label", odd_parts(3, [0, -1, 5, -(2**25)])),
            a_blinding(b"", odd_parts(16, [])),
            a_blinding(b"", odd_parts(16, [3, -4, 12345])),
        ],
        "ranges": [{"parties": parties, "steps": list(factor_range(parties))} for parties in range(2, 17)],
        "positions": [
            some_positions(b"a label", 7, 5),
            some_positions(b"a label", 7, 1),
            some_positions(b"a label", 64, 65),
            some_positions(b"another label", 3, 1_000_000),
        ],
        "probes": [some_probes(b"a label", 5), some_probes(b"another label", 9)],
        "framings": framings(),
    }


def flipped(data: bytes, place: int, bit: int = 0) -> str:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return changed.hex()


def bad_signatures() -> list[dict]:
    case = ED25519["cases"][2]
    public, message, signature = (unhex(case[name]) for name in ("public", "message", "signature"))
    response = int.from_bytes(signature[32:], "little")
    raised = signature[:32] + (response + ED25519_ORDER).to_bytes(32, "little")
    nowhere = next(y for y in range(2, 100) if x_coordinate(y, 0) is None).to_bytes(32, "little")
    changes = [
        ("a bit of the commitment", {"signature": flipped(signature, 0)}),
        ("the sign of the commitment", {"signature": flipped(signature, 31, 7)}),
        ("a bit of the response", {"signature": flipped(signature, 32)}),
        ("a high bit of the response", {"signature": flipped(signature, 63, 3)}),
        ("the response raised by the group's order", {"signature": raised.hex()}),
        ("a signature of 63 bytes", {"signature": signature[:63].hex()}),
        ("a signature of 65 bytes", {"signature": (signature + b"\0").hex()}),
        ("no signature", {"signature": ""}),
        ("zeros", {"signature": "00" * 64}),
        ("the signature of another message and key", {"signature": ED25519["cases"][1]["signature"]}),
        ("a bit of the message", {"message": flipped(message, 1)}),
        ("a longer message", {"message": (message + b"\0").hex()}),
        ("no message", {"message": ""}),
        ("a bit of the key", {"public": flipped(public, 3)}),
        ("another key", {"public": ED25519["cases"][0]["public"]}),
        ("a key that is no point of the curve", {"public": nowhere.hex()}),
        ("a key of 31 bytes", {"public": public[:31].hex()}),
        ("a key of 33 bytes", {"public": (public + b"\0").hex()}),
        ("no key", {"public": ""}),
    ]
    good = {name: case[name] for name in ("public", "message", "signature")}
    return [{"why": "good", **good}] + [{"why": why, **good, **change} for why, change in changes]


def bad_boxes() -> list[dict]:
    """What bank is shown as a box from shop; the first is the good one."""
    label, content = b"a label", b"what the relay must not read"
    good = {
        "secret": shared("bank", "shop").hex(),
        "session": session().hex(),
        "me": "bank",
        "other": "shop",
        "label": label.hex(),
        "content": content.hex(),
        "box": a_box("shop", "bank", label, content)["box"],
    }
    box = unhex(good["box"])
    elsewhere = unhex(a_box("shop", "bank", label, b"something else, just as long")["box"])
    changes = [
        ("the first bit", {"box": flipped(box, 0)}),
        ("the middle", {"box": flipped(box, 14, 4)}),
        ("the last bit before the tag", {"box": flipped(box, -17, 7)}),
        ("the tag's first bit", {"box": flipped(box, -16)}),
        ("the tag's last bit", {"box": flipped(box, -1, 7)}),
        ("another box's tag", {"box": (box[:-16] + elsewhere[-16:]).hex()}),
        ("without its tag", {"box": box[:-16].hex()}),
        ("without its last byte", {"box": box[:-1].hex()}),
        ("without its first byte", {"box": box[1:].hex()}),
        ("only a tag", {"box": box[-16:].hex()}),
        ("less than a tag", {"box": box[:15].hex()}),
        ("empty", {"box": ""}),
        ("a byte more", {"box": (box + b"\0").hex()}),
        ("another label", {"label": b"a lable".hex()}),
        ("a longer label", {"label": (label + b"\0").hex()}),
        ("no label", {"label": ""}),
        ("its own sender's box, sent back", {"box": a_box("bank", "shop", label, content)["box"]}),
        ("opened by its sender", {"me": "shop", "other": "bank"}),
        ("a box for somebody else", {"box": a_box("shop", "telecom", label, content)["box"]}),
        ("a box from somebody else", {"box": a_box("telecom", "bank", label, content)["box"]}),
        ("under another name", {"other": "shop "}),
        ("another session", {"session": flipped(session(), 31)}),
        ("another secret", {"secret": flipped(shared("bank", "shop"), 0, 7)}),
    ]
    return [{"why": "good", **good}] + [{"why": why, **good, **change} for why, change in changes]


def files() -> dict[str, dict]:
    return {
        **published(),
        "bad_x25519_keys": small_order(),
        "bad_signatures": {
            "provenance": "RFC 8032, section 7.1, TEST 3, as it is (first) and with one change each by make.py.",
            "cases": bad_signatures(),
        },
        "bad_boxes": {"provenance": OWN + " The first case opens; each other has one change.", "cases": bad_boxes()},
        "ours": ours(),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, content in files().items():
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
