"""Known answers: of the RFCs for what is borrowed, of a second implementation for what is ours; and what must fail."""

import ast
import json
import subprocess
import sys
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.testing import assert_array_equal

from kcagc.errors import PeerError
from kcagc.secagg import keys
from kcagc.secagg.blinding import Blinding, FactorRange, draw_positions, draw_probes
from kcagc.secagg.keys import (
    Contribution,
    Identity,
    PairKeys,
    Secrets,
    decrypt,
    derive_key,
    encrypt,
    framed,
    hello_statement,
    session_id,
    verify,
)
from kcagc.secagg.masks import FRACTION_BITS, MAX_LONG_DISTANCE, encode, keystream, mask, open_sum

FOLDER = Path(__file__).parent.parent / "vectors"
FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
OURS = FILES["ours"]
SESSION = bytes.fromhex(OURS["session"])
HELLOS = {hello["name"]: hello for hello in OURS["hellos"]}


def cases(name):
    return FILES[name]["cases"]


def unhex(case, *fields):
    return tuple(bytes.fromhex(case[field]) for field in fields)


def words_from(texts):
    return np.array([int(text, 16) for text in texts], dtype=np.uint64)


def pair_of(me, other):
    return PairKeys(bytes.fromhex(OURS["shared"][f"{me}+{other}"]), SESSION, me, other)


def by_reason(name):
    return pytest.mark.parametrize("case", cases(name)[1:], ids=lambda case: case["why"])


def test_the_files_are_what_their_generator_writes(tmp_path):
    subprocess.run([sys.executable, str(FOLDER / "make.py"), str(tmp_path)], check=True)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in FOLDER.glob("*.json")}


def test_the_generator_uses_nothing_of_what_it_checks():
    imported = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    plain = {"__future__", "fractions", "hashlib", "hmac", "itertools", "json", "math", "pathlib", "struct", "sys"}
    assert imported == plain | {"primitives", "published"}


@pytest.mark.parametrize("name", FILES)
def test_every_file_says_where_its_numbers_come_from(name):
    assert len(FILES[name]["provenance"]) > 40


@pytest.mark.parametrize("case", cases("rfc7748_x25519"))
def test_session_keys_are_those_of_rfc_7748(case):
    private, other = unhex(case, "private", "other_public")
    secrets = Secrets(bytes(32), private, bytes(32))
    assert secrets.public.hex() == case["public"]
    assert secrets.shared_with(other, "bob").hex() == case["shared"]


@pytest.mark.parametrize("case", cases("rfc8032_ed25519"))
def test_identities_sign_as_in_rfc_8032(case):
    private, public, message, signature = unhex(case, "private", "public", "message", "signature")
    identity = Identity(private)
    assert identity.public == public
    assert identity.private == private
    assert identity.sign(message) == signature
    assert verify(public, message, signature)


@pytest.mark.parametrize("case", cases("rfc5869_hkdf"))
def test_hkdf_is_that_of_rfc_5869(case):
    secret, salt, info = unhex(case, "secret", "salt", "info")
    found = HKDF(algorithm=SHA256(), length=case["length"], salt=salt, info=info).derive(secret)
    assert found.hex() == case["derived"]


@pytest.mark.parametrize("case", cases("rfc5869_hkdf"))
def test_derived_is_hkdf_of_the_framed_info(case, monkeypatch):
    secret, salt, info = unhex(case, "secret", "salt", "info")
    asked = []
    monkeypatch.setattr(keys, "framed", lambda *fields: (asked.append(fields), info)[1])
    assert derive_key(secret, salt, "mask", b"label", 3).hex() == case["derived"][:64]
    assert asked == [("mask", b"label", 3)]


@pytest.mark.parametrize("case", cases("rfc8439_chacha20"))
def test_the_keystream_is_that_of_rfc_8439(case):
    begin = 8 * case["counter"]
    stream = keystream(bytes.fromhex(case["key"]), begin + 8)
    assert stream[begin:].astype("<u8").tobytes().hex() == case["block"]


@pytest.mark.parametrize("case", cases("rfc8439_aead"))
def test_boxes_are_closed_as_in_rfc_8439(case):
    key, nonce, content, beside, box = unhex(case, "key", "nonce", "content", "beside", "box")
    cipher = keys.ChaCha20Poly1305(key)
    assert cipher.encrypt(nonce, content, beside) == box
    assert cipher.decrypt(nonce, box, beside) == content


@pytest.mark.parametrize("case", OURS["framings"], ids=lambda case: case["framed"][:40])
def test_fields_are_framed_as_written_down(case):
    fields = [
        bytes.fromhex(value) if kind == "bytes" else value for field in case["fields"] for kind, value in field.items()
    ]
    assert framed(*fields).hex() == case["framed"]


@pytest.mark.parametrize("hello", HELLOS.values(), ids=HELLOS)
def test_hellos_are_stated_and_signed_as_written_down(hello):
    nonce, public, signature = unhex(hello, "nonce", "public", "signature")
    stated = hello_statement(hello["role"], bytes.fromhex(OURS["inputs"]), Contribution(hello["name"], nonce, public))
    identity = Identity(bytes.fromhex(hello["identity_private"]))
    assert stated.hex() == hello["statement"]
    assert identity.public.hex() == hello["identity_public"]
    assert identity.sign(stated) == signature
    assert verify(identity.public, stated, signature)


def test_the_session_id_is_the_one_written_down():
    fresh = [Contribution(hello["name"], *unhex(hello, "nonce", "public")) for hello in OURS["hellos"]]
    assert session_id(bytes.fromhex(OURS["inputs"]), fresh) == SESSION


@pytest.mark.parametrize("both", OURS["shared"])
def test_the_secrets_of_pairs_are_those_written_down(both):
    me, other = (HELLOS[name] for name in both.split("+"))
    secrets = Secrets(*unhex(me, "nonce", "private"), bytes(32))
    assert secrets.public.hex() == me["public"]
    assert secrets.shared_with(bytes.fromhex(other["public"]), other["name"]).hex() == OURS["shared"][both]


@pytest.mark.parametrize("case", OURS["fingerprints"], ids=lambda case: f"{case['me']}-{case['other']}")
def test_fingerprints_are_those_written_down(case):
    found = pair_of(case["me"], case["other"]).fingerprint(case["what"], bytes.fromhex(case["data"]))
    assert found.hex() == case["fingerprint"]


@pytest.mark.parametrize("case", OURS["sums"], ids=lambda case: "+".join(case["group"]))
def test_masks_and_sums_are_those_written_down(case):
    group = tuple(case["group"])
    label, transcript = unhex(case, "label", "transcript")
    n_values = len(case["sums"])
    for one, other in combinations(sorted(group), 2):
        expected = case["keys"][f"{one}+{other}"]
        for pair in (pair_of(one, other), pair_of(other, one)):
            key = pair.mask_key(group, label, n_values, transcript)
            assert key.hex() == expected["key"]
            assert_array_equal(keystream(key, n_values + 2), words_from(expected["stream"]))
    sent = []
    for me in group:
        encoded = encode(np.array(case["values"][me]), MAX_LONG_DISTANCE, FRACTION_BITS).view(np.uint64)
        assert_array_equal(encoded, words_from(case["encoded"][me]))
        sent.append(mask(encoded, [pair_of(me, other) for other in group if other != me], group, label, transcript))
        assert_array_equal(sent[-1], words_from(case["masked"][me]))
    sums = open_sum(np.sum(sent, axis=0, dtype=np.uint64), len(group))
    assert sums.tolist() == case["sums"]


@pytest.mark.parametrize("case", OURS["boxes"], ids=lambda case: f"{case['sender']}-{case['receiver']}")
def test_boxes_are_those_written_down(case):
    label, content, box = unhex(case, "label", "content", "box")
    sender, receiver = pair_of(case["sender"], case["receiver"]), pair_of(case["receiver"], case["sender"])
    for pair in (sender, receiver):
        assert pair.encryption_key(case["sender"], case["receiver"], label).hex() == case["key"]
    assert encrypt(sender, label, content) == box
    assert decrypt(receiver, label, box) == content


@pytest.mark.parametrize("case", OURS["ranges"], ids=lambda case: str(case["parties"]))
def test_factors_have_the_range_that_is_written_down(case):
    found = FactorRange.of_sum(case["parties"])
    assert [found.first, found.last] == case["steps"]


@pytest.mark.parametrize("case", OURS["blindings"], ids=lambda case: f"{case['label']}-{len(case['parts'])}")
def test_blinded_comparisons_are_those_written_down(case):
    key, label = unhex(case, "key", "label")
    parts = np.array(case["parts"])
    factors = FactorRange.of_sum(len(parts))
    assert [factors.first, factors.last] == case["steps"]
    blinding = Blinding.from_key(key, SESSION, label, parts.shape[1], len(parts))
    found = zip(blinding.mantissas.tolist(), blinding.octaves.tolist(), strict=True)
    assert [Fraction(mantissa << octave, 1 << 30) for mantissa, octave in found] == list(map(Fraction, case["factors"]))
    assert blinding.negative.tolist() == case["negative"]
    assert blinding.order.tolist() == case["order"]
    sent = [blinding.apply(own, with_offsets=party == 0) for party, own in enumerate(parts)]
    for words, expected in zip(sent, case["words"], strict=True):
        assert_array_equal(words, words_from(expected))
    seen = np.sum(sent, axis=0, dtype=np.uint64).view(np.int64)
    assert seen.tolist() == case["seen"]
    assert (seen > 0).tolist() == case["positive"]
    assert blinding.restore(seen > 0).tolist() == case["restored"]


@pytest.mark.parametrize("case", OURS["positions"], ids=lambda case: f"{case['label']}-{case['among']}")
def test_secret_positions_are_those_written_down(case):
    key, label = unhex(case, "key", "label")
    found = draw_positions(key, SESSION, label, case["count"], case["among"])
    assert found.tolist() == case["positions"]


@pytest.mark.parametrize("case", OURS["probes"], ids=lambda case: case["label"])
def test_probes_are_those_written_down(case):
    key, label = unhex(case, "key", "label")
    assert draw_probes(key, SESSION, label, len(case["probes"])).tolist() == case["probes"]


@pytest.mark.parametrize("case", cases("bad_x25519_keys"), ids=lambda case: case["why"])
def test_a_key_that_shares_no_secret_is_refused_by_name(case):
    for private in (bytes(32), b"\x01" * 32, bytes.fromhex(HELLOS["bank"]["private"])):
        with pytest.raises(PeerError, match=r"^shop: the session key is not usable"):
            Secrets(bytes(32), private, bytes(32)).shared_with(bytes.fromhex(case["public"]), "shop")


def test_the_signature_that_is_changed_below_is_good():
    assert verify(*unhex(cases("bad_signatures")[0], "public", "message", "signature"))


@by_reason("bad_signatures")
def test_a_signature_with_one_change_is_none(case):
    assert verify(*unhex(case, "public", "message", "signature")) is False


def opened_box(case):
    secret, session, label, box = unhex(case, "secret", "session", "label", "box")
    return decrypt(PairKeys(secret, session, case["me"], case["other"]), label, box)


def test_the_box_that_is_changed_below_opens():
    good = cases("bad_boxes")[0]
    assert opened_box(good).hex() == good["content"]


@by_reason("bad_boxes")
def test_a_box_with_one_change_does_not_open(case):
    with pytest.raises(PeerError, match=f"^{case['other']}: a message to {case['me']} cannot be decrypted"):
        opened_box(case)
