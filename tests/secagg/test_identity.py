"""Long-term keys: only their holder signs, one changed bit anywhere is no signature, and the secret half stays in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.secagg.identity import KEY_BYTES, SIGNATURE_BYTES, Identity, signed_by
from secagg.parties import fixed, flipped

IDENTITY = Identity(fixed("identity"))
STATEMENT = b"a statement that was signed"
SIGNATURE = IDENTITY.sign(STATEMENT)


@given(st.binary(), st.binary(min_size=32, max_size=32))
def test_what_is_signed_verifies_with_the_public_half(statement, private):
    identity = Identity(private)
    signature = identity.sign(statement)
    assert (len(identity.public), len(signature)) == (KEY_BYTES, SIGNATURE_BYTES)
    assert signed_by(identity.public, statement, signature)
    assert Identity(identity.private).public == identity.public


def test_the_sizes_are_those_of_ed25519():
    assert (KEY_BYTES, SIGNATURE_BYTES) == (32, 64)


def test_any_changed_bit_of_key_statement_or_signature_is_noticed():
    assert signed_by(IDENTITY.public, STATEMENT, SIGNATURE)
    for bit in range(8 * SIGNATURE_BYTES):
        assert not signed_by(IDENTITY.public, STATEMENT, flipped(SIGNATURE, bit)), f"bit {bit} of the signature"
    for bit in range(8 * len(STATEMENT)):
        assert not signed_by(IDENTITY.public, flipped(STATEMENT, bit), SIGNATURE), f"bit {bit} of the statement"
    for bit in range(8 * KEY_BYTES):
        assert not signed_by(flipped(IDENTITY.public, bit), STATEMENT, SIGNATURE), f"bit {bit} of the key"


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_keys_and_signatures_of_any_bytes_are_no_signature_and_no_crash(public, signature):
    assert signed_by(public, STATEMENT, SIGNATURE) == (public == IDENTITY.public)
    assert signed_by(IDENTITY.public, STATEMENT, signature) == (signature == SIGNATURE)


def test_new_identities_are_all_different():
    made = [Identity.generate() for _ in range(50)]
    assert len({identity.private for identity in made}) == len({identity.public for identity in made}) == 50


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_private_key_of_another_size_is_refused(size):
    with pytest.raises(ValueError, match="32"):
        Identity(bytes(size))


def test_an_identity_shows_its_public_half_and_never_its_private_one():
    shown = [str(IDENTITY), repr(IDENTITY), f"{IDENTITY}", f"{[IDENTITY]}", f"{ ({'me': IDENTITY})!r}"]
    assert all(IDENTITY.public.hex()[:16] in text for text in shown)
    for secret in (IDENTITY.private.hex(), repr(IDENTITY.private), IDENTITY.private.hex()[:8]):
        assert not any(secret in text for text in shown)
