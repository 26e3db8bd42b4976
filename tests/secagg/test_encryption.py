"""A relay can neither read nor change a box, nor show it to another, at another time, or to its own sender."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import PeerError
from kcagc.secagg.keys import PairKeys, decrypt, encrypt
from secagg.parties import LABEL, SESSION, fixed, flipped, share_of_bits_that_differ

SECRET = fixed("secret")
BANK, SHOP = PairKeys(SECRET, SESSION, "bank", "shop"), PairKeys(SECRET, SESSION, "shop", "bank")
CONTENT = b"what the relay must not read"
BOX = encrypt(BANK, LABEL, CONTENT)
REFUSED = "^bank: a message to shop cannot be decrypted"


@given(st.binary(max_size=300), st.binary(max_size=60))
def test_a_box_opens_for_the_other_and_is_sixteen_bytes_longer(content, label):
    box = encrypt(BANK, label, content)
    assert decrypt(SHOP, label, box) == content
    assert len(box) == len(content) + 16


def test_any_flipped_bit_is_noticed():
    for bit in range(8 * len(BOX)):
        with pytest.raises(PeerError, match=REFUSED):
            decrypt(SHOP, LABEL, flipped(BOX, bit))


def test_a_box_cut_anywhere_is_noticed():
    for size in range(len(BOX)):
        for part in (BOX[:size], BOX[len(BOX) - size :]):
            with pytest.raises(PeerError, match=REFUSED):
                decrypt(SHOP, LABEL, part)


@given(st.binary(max_size=100))
def test_bytes_that_nobody_sealed_do_not_open(box):
    with pytest.raises(PeerError, match=REFUSED):
        decrypt(SHOP, LABEL, box)


@given(st.binary(max_size=30).filter(lambda label: label != LABEL))
def test_another_label_does_not_open_a_box(label):
    with pytest.raises(PeerError, match=REFUSED):
        decrypt(SHOP, label, BOX)


@pytest.mark.parametrize(
    "pair",
    [
        BANK,
        PairKeys(SECRET, SESSION, "telecom", "bank"),
        PairKeys(SECRET, SESSION, "shop", "telecom"),
        PairKeys(SECRET, fixed("another session"), "shop", "bank"),
        PairKeys(fixed("another secret"), SESSION, "shop", "bank"),
        *(PairKeys(flipped(SECRET, bit), SESSION, "shop", "bank") for bit in (0, 100, 255)),
        *(PairKeys(SECRET, flipped(SESSION, bit), "shop", "bank") for bit in (0, 100, 255)),
    ],
    ids=lambda pair: f"{pair.me}-{pair.other}",
)
def test_nobody_else_opens_a_box_not_even_its_sender(pair):
    with pytest.raises(PeerError, match=f"^{pair.other}: a message to {pair.me} cannot be decrypted"):
        decrypt(pair, LABEL, BOX)


@given(st.binary(min_size=64, max_size=64), st.binary(min_size=64, max_size=64))
def test_a_box_says_nothing_about_its_content(one, other):
    """Not equal to it, and not alike for contents that are alike: a key for each label makes each box new."""
    sealed = [encrypt(BANK, b"label 1", one), encrypt(BANK, b"label 2", one), encrypt(BANK, b"label 3", other)]
    for first in range(3):
        assert abs(share_of_bits_that_differ(sealed[first][:64], one) - 0.5) < 0.2
        for second in range(first):
            assert abs(share_of_bits_that_differ(sealed[first], sealed[second]) - 0.5) < 0.2


def test_the_two_directions_give_different_boxes():
    assert abs(share_of_bits_that_differ(BOX, encrypt(SHOP, LABEL, CONTENT)) - 0.5) < 0.15


def test_the_refusal_shows_nothing_of_the_box_and_no_cause_but_the_tag():
    with pytest.raises(PeerError) as caught:
        decrypt(SHOP, LABEL, flipped(BOX, 0))
    text = str(caught.value)
    assert CONTENT.decode() not in text
    assert SECRET.hex()[:8] not in text
    assert caught.value.exit_code == 6
