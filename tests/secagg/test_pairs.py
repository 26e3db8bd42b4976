"""What two parties derive: the same for both, another key for every purpose, and nothing alike after any change."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kcagc.secagg.keys import PairKeys, derive_key
from kcagc.secagg.masks import keystream
from secagg.parties import LABEL, SESSION, TRANSCRIPT, fixed, flipped, share_of_bits_that_differ

SECRET = fixed("secret")
GROUP = ("telecom", "bank", "shop")
MASK = {
    "secret": SECRET,
    "session": SESSION,
    "me": "bank",
    "other": "shop",
    "group": GROUP,
    "label": LABEL,
    "length": 64,
    "transcript": TRANSCRIPT,
}
BOX = {"secret": SECRET, "session": SESSION, "sender": "bank", "receiver": "shop", "label": LABEL}


def mask_key(secret, session, me, other, group, label, length, transcript):
    return PairKeys(secret, session, me, other).mask_key(group, label, length, transcript)


def box_key(secret, session, sender, receiver, label):
    return PairKeys(secret, session, sender, receiver).encryption_key(sender, receiver, label)


def stream_of(key_of, inputs):
    return keystream(key_of(**inputs), 64).tobytes()


def looks_unrelated(one, other):
    """4096 bits of two random streams: six standard deviations around a half."""
    return abs(share_of_bits_that_differ(one, other) - 0.5) < 0.047


def changed(name, value):
    """The same kind of thing with one bit, one letter, one member or one unit changed, or cut, or longer."""
    if isinstance(value, bytes):
        bits = st.integers(0, 8 * len(value) - 1).map(lambda bit: flipped(value, bit))
        if name == "session":  # a hash, so of one size; HMAC, whose key it is, would not see a zero byte behind it
            return bits
        return bits | st.sampled_from([value + b"\0", value[:-1], b""])
    if isinstance(value, str):
        return st.sampled_from([value + "\0", value[:-1], value.upper(), "", "bang"])
    if isinstance(value, int):
        return st.sampled_from([value + 1, value - 1, 0, -value, value << 8, 2**40])
    joined = [("telecomb", "ank", "shop"), ("telecom", "bank,shop"), ("telecombankshop",)]
    return st.sampled_from([value[::-1], value[:-1], value[1:], (*value, ""), (*value, "x"), (), *joined])


@pytest.mark.parametrize("name", MASK)
@settings(max_examples=25)
@given(st.data())
def test_one_change_in_any_input_of_a_mask_key_changes_half_of_the_stream(name, data):
    other = MASK | {name: data.draw(changed(name, MASK[name]))}
    assert looks_unrelated(stream_of(mask_key, MASK), stream_of(mask_key, other))


@pytest.mark.parametrize("name", BOX)
@settings(max_examples=25)
@given(st.data())
def test_one_change_in_any_input_of_a_box_key_changes_half_of_the_stream(name, data):
    other = BOX | {name: data.draw(changed(name, BOX[name]))}
    assert looks_unrelated(stream_of(box_key, BOX), stream_of(box_key, other))


@pytest.mark.parametrize(
    "change",
    [
        *({"secret": flipped(SECRET, bit)} for bit in range(0, 256, 51)),
        *({"session": flipped(SESSION, bit)} for bit in range(0, 256, 51)),
        {"me": "banl"},
        {"other": "shoq"},
        {"me": "shop", "other": "telecom"},
        *({"group": group} for group in (GROUP[:2], GROUP[::-1], ("telecom", "bank", "shoq"), ("telecombank", "shop"))),
        *({"label": flipped(LABEL, bit)} for bit in range(0, 8 * len(LABEL), 9)),
        *({"transcript": flipped(TRANSCRIPT, bit)} for bit in range(0, 8 * len(TRANSCRIPT), 9)),
        {"length": 65},
        {"length": 63},
        {"label": TRANSCRIPT, "transcript": LABEL},
        {"label": LABEL + TRANSCRIPT, "transcript": b""},
        {"label": b"", "transcript": LABEL + TRANSCRIPT},
    ],
    ids="+".join,
)
def test_no_input_of_a_mask_key_can_be_left_out_or_moved_into_another(change):
    assert looks_unrelated(stream_of(mask_key, MASK), stream_of(mask_key, MASK | change))


@pytest.mark.parametrize(
    "change",
    [
        {"sender": "shop", "receiver": "bank"},
        {"sender": "ban", "receiver": "kshop"},
        {"sender": "bank", "receiver": "telecom"},
        {"sender": "telecom", "receiver": "shop"},
        {"label": b"a lable"},
        {"label": b""},
        {"secret": flipped(SECRET, 255)},
        {"session": flipped(SESSION, 255)},
    ],
    ids="+".join,
)
def test_no_input_of_a_box_key_can_be_left_out(change):
    assert looks_unrelated(stream_of(box_key, BOX), stream_of(box_key, BOX | change))


@given(
    st.text(), st.text(), st.lists(st.text(), max_size=4), st.binary(), st.integers(0, 2**40), st.binary(), st.text()
)
def test_both_of_a_pair_derive_the_same(me, other, group, label, length, transcript, what):
    assume(me != other)
    mine, theirs = PairKeys(SECRET, SESSION, me, other), PairKeys(SECRET, SESSION, other, me)
    group = tuple(group)
    assert mine.mask_key(group, label, length, transcript) == theirs.mask_key(group, label, length, transcript)
    assert mine.encryption_key(me, other, label) == theirs.encryption_key(me, other, label)
    assert mine.fingerprint(what, label) == theirs.fingerprint(what, label)


@given(st.text(), st.text())
def test_what_one_adds_the_other_takes_away(me, other):
    assume(me != other)
    mine, theirs = PairKeys(SECRET, SESSION, me, other), PairKeys(SECRET, SESSION, other, me)
    assert {mine.sign, theirs.sign} == {1, -1}
    assert mine.sign == (1 if me == min(me, other) else -1)


def test_the_two_directions_of_a_box_have_different_keys():
    pair = PairKeys(SECRET, SESSION, "bank", "shop")
    assert looks_unrelated(
        keystream(pair.encryption_key("bank", "shop", LABEL), 64),
        keystream(pair.encryption_key("shop", "bank", LABEL), 64),
    )


def test_every_purpose_has_keys_of_its_own():
    pair = PairKeys(SECRET, SESSION, "bank", "shop")
    keys = {
        SECRET,
        SESSION,
        pair.mask_key(("bank", "shop"), LABEL, 1, b""),
        pair.mask_key((), LABEL, 1, b""),
        pair.encryption_key("bank", "shop", LABEL),
        derive_key(SECRET, SESSION, "fingerprint", "bank", "shop", "a label"),
        derive_key(SECRET, SESSION),
        derive_key(SECRET, SESSION, "shuffle", LABEL, 1, 1, 1),
    }
    assert len(keys) == 8


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_a_fingerprint_compares_data_within_a_pair_and_a_session_only(one, other):
    pair = PairKeys(SECRET, SESSION, "bank", "shop")
    assert (pair.fingerprint("ids", one) == pair.fingerprint("ids", other)) == (one == other)
    elsewhere = [
        pair.fingerprint("graph", one),
        PairKeys(SECRET, fixed("another session"), "bank", "shop").fingerprint("ids", one),
        PairKeys(fixed("another secret"), SESSION, "bank", "shop").fingerprint("ids", one),
        PairKeys(SECRET, SESSION, "bank", "telecom").fingerprint("ids", one),
    ]
    assert pair.fingerprint("ids", one) not in elsewhere


def test_a_pair_does_not_print_its_secret():
    pair = PairKeys(SECRET, SESSION, "bank", "shop")
    for text in (str(pair), repr(pair), f"{[pair]}"):
        for value in (SECRET, SESSION):
            assert value.hex()[:8] not in text
            assert repr(value)[2:10] not in text
