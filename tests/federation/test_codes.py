"""Codes survive typing and pasting, mistakes are found, and fingerprints can be read aloud."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.errors import ParameterError
from kcagc.federation.codes import Code, fingerprint, identities_fingerprint

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE = Code("invitation", bytes(range(16)), b"f" * 16, "coordinator.example.org:7443", "fraud")


@given(
    st.sampled_from(["admission", "invitation"]),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=16, max_size=16),
    st.sampled_from(["", "a", "fraud-ring", "x" * 32]),
    st.sampled_from(["a:1", "[2001:db8::1]:65535", "coordinator.example.org:7443"]),
)
def test_a_code_is_read_as_it_was_written(kind, secret, shown, name, address):
    code = Code(kind, secret, shown, address, name)
    assert Code.read(code.text(), kind) == code


def test_spaces_line_ends_case_and_letters_that_look_like_digits_do_not_matter():
    text = CODE.text()
    typed = text.lower().replace("-", "\n  ").replace("0", "o").replace("1", "l")
    assert Code.read(f"  {typed} \n", "invitation") == CODE


def test_every_wrong_character_is_found_with_its_group():
    text = CODE.text()
    for place, right in enumerate(text):
        if right == "-":
            continue
        wrong = ALPHABET[(ALPHABET.index(right) + 1 + place % 30) % 32]
        group = text[:place].count("-") + 1
        with pytest.raises(ParameterError, match=rf"typing error in group {group} "):
            Code.read(text[:place] + wrong + text[place + 1 :], "invitation")


def test_exchanged_characters_and_exchanged_groups_are_found():
    text = CODE.text()
    for place in range(len(text) - 1):
        one, two = text[place : place + 2]
        if one != two and "-" not in (one, two):
            with pytest.raises(ParameterError, match="typing error"):
                Code.read(text[:place] + two + one + text[place + 2 :], "invitation")
    groups = text.split("-")
    groups[3], groups[4] = groups[4], groups[3]
    with pytest.raises(ParameterError, match="typing error in group 4"):
        Code.read("-".join(groups), "invitation")


@pytest.mark.parametrize("cut", [1, 2, 5, 6, 12, 60])
def test_a_part_of_a_code_is_refused(cut):
    with pytest.raises(ParameterError, match=r"typing error|copy the whole code"):
        Code.read(CODE.text()[:-cut], "invitation")


@pytest.mark.parametrize("text", ["", "hello", "ü" * 80, "U" * 80, "0" * 80, "A" * 100_000])
def test_something_else_is_refused(text):
    with pytest.raises(ParameterError, match=r"^code: "):
        Code.read(text, "invitation")


def test_a_code_of_the_other_kind_is_named():
    admission = Code("admission", bytes(16), b"f" * 16, "a:1")
    with pytest.raises(ParameterError, match=r"an admission code; enter the invitation code, the one that `kcagc inv"):
        Code.read(admission.text(), "invitation")


def test_an_error_and_a_representation_do_not_show_the_secret():
    assert str(CODE.secret) not in repr(CODE)
    assert CODE.text()[:30] not in repr(CODE)


def test_a_fresh_code_has_its_own_secret():
    one, two = (Code.fresh("invitation", b"f" * 16, "a:1", "fraud") for _ in range(2))
    assert one.secret != two.secret
    assert len(one.secret) == 16


def test_a_fingerprint_has_eight_groups_of_five_digits_and_depends_on_the_key():
    assert re.fullmatch(r"(\d{5} ){7}\d{5}", fingerprint(b"k" * 32))
    assert fingerprint(b"k" * 32) != fingerprint(b"l" * 32)
    assert identities_fingerprint(b"a", b"b") != identities_fingerprint(b"b", b"a")
