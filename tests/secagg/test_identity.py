"""Long-term keys: only their holder signs, one changed bit anywhere is no signature, and the secret half stays in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.secagg.keys import KEY_BYTES, SIGNATURE_BYTES, Identity, is_identity_key, verify
from secagg.parties import fixed, flipped

IDENTITY = Identity(fixed("identity"))
STATEMENT = b"a statement that was signed"
SIGNATURE = IDENTITY.sign(STATEMENT)


@given(st.binary(), st.binary(min_size=32, max_size=32))
def test_what_is_signed_verifies_with_the_public_half(statement, private):
    identity = Identity(private)
    signature = identity.sign(statement)
    assert (len(identity.public), len(signature)) == (KEY_BYTES, SIGNATURE_BYTES)
    assert verify(identity.public, statement, signature)
    assert Identity(identity.private).public == identity.public


def test_the_sizes_are_those_of_ed25519():
    assert (KEY_BYTES, SIGNATURE_BYTES) == (32, 64)


def test_any_changed_bit_of_key_statement_or_signature_is_noticed():
    assert verify(IDENTITY.public, STATEMENT, SIGNATURE)
    for bit in range(8 * SIGNATURE_BYTES):
        assert not verify(IDENTITY.public, STATEMENT, flipped(SIGNATURE, bit)), f"bit {bit} of the signature"
    for bit in range(8 * len(STATEMENT)):
        assert not verify(IDENTITY.public, flipped(STATEMENT, bit), SIGNATURE), f"bit {bit} of the statement"
    for bit in range(8 * KEY_BYTES):
        assert not verify(flipped(IDENTITY.public, bit), STATEMENT, SIGNATURE), f"bit {bit} of the key"


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_keys_and_signatures_of_any_bytes_are_no_signature_and_no_crash(public, signature):
    assert verify(public, STATEMENT, SIGNATURE) == (public == IDENTITY.public)
    assert verify(IDENTITY.public, STATEMENT, signature) == (signature == SIGNATURE)


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


SMALL = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize("key", SMALL)
def test_a_key_for_which_anybody_can_sign_signs_nothing(key, sign):
    """The points of small order, also where the coordinate is written with the prime added."""
    public = bytearray.fromhex(key)
    public[-1] |= sign
    assert not is_identity_key(bytes(public))
    assert not verify(bytes(public), b"anything", bytes(public) + bytes(32))


def test_the_keys_of_small_order_are_those_that_the_curve_has():
    """Any point times the order of the base point is one of the eight."""
    from vectors.primitives import ED25519_ORDER, FIELD_PRIME, _added, x_coordinate

    def multiple(scalar, point):
        total = (0, 1)
        while scalar:
            total = _added(total, point) if scalar & 1 else total
            point, scalar = _added(point, point), scalar >> 1
        return total

    points = {multiple(ED25519_ORDER, (x_coordinate(y, 0), y)) for y in range(2, 60) if x_coordinate(y, 0) is not None}
    assert len(points) == 8
    ours = {int.from_bytes(bytes.fromhex(key), "little") % FIELD_PRIME for key in SMALL}
    assert {y for _, y in points} == ours
