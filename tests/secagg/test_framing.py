"""No two different lists of fields give the same bytes."""

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.secagg.keys import digest, framed

numbers = st.integers(-(2**63), 2**63 - 1)
fields = st.lists(st.one_of(st.text(), st.binary(), numbers), max_size=6)


def typed(values):
    return [(type(value), value) for value in values]


def read_back(data):
    """What a reader finds who knows the format: injective is what can be read in one way only."""
    position = 0

    def take(count):
        nonlocal position
        position += count
        assert position <= len(data)
        return data[position - count : position]

    found = []
    for _ in range(int.from_bytes(take(8), "big")):
        kind, value = take(1), take(int.from_bytes(take(8), "big"))
        found.append(
            {
                b"s": lambda value: value.decode(),
                b"b": bytes,
                b"i": lambda value: int.from_bytes(value, "big", signed=True),
            }[kind](value)
        )
    assert position == len(data)
    return found


@given(fields)
def test_every_list_can_be_read_back(values):
    assert typed(read_back(framed(*values))) == typed(values)


@given(fields, fields)
def test_different_lists_give_different_bytes(one, other):
    assert (framed(*one) == framed(*other)) == (typed(one) == typed(other))


@given(st.binary(min_size=1, max_size=40), st.data())
def test_moving_a_boundary_changes_the_bytes(content, data):
    def cut():
        places = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5)))
        return [content[begin:end] for begin, end in pairwise([0, *places, len(content)])]

    one, other = cut(), cut()
    assert (framed(*one) == framed(*other)) == (one == other)


@given(st.text(), numbers)
def test_the_same_bytes_as_text_as_bytes_and_as_a_number_are_three_things(text, number):
    eight = number.to_bytes(8, "big", signed=True)
    assert framed(text) != framed(text.encode())
    assert framed(number) != framed(eight)
    assert framed(number) != framed(str(number))
    assert framed("12345678") != framed(int.from_bytes(b"12345678", "big"))


@given(fields)
def test_framed_fields_in_a_field_are_not_the_fields_themselves(values):
    assert framed(framed(*values)) != framed(*values)
    assert framed(*values, b"") != framed(*values)
    assert framed(b"", *values) != framed(*values)


def test_no_fields_and_one_empty_field_differ():
    assert len({framed(), framed(b""), framed(""), framed(0), framed(b"", b"")}) == 5


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64])
def test_a_number_that_eight_bytes_cannot_hold_is_refused(number):
    with pytest.raises(OverflowError):
        framed(number)


@given(fields)
def test_a_digest_is_the_sha_256_of_framed_fields(values):
    assert digest(*values) == hashlib.sha256(framed(*values)).digest()
