"""Protocol 4: masks are gone from the sum and from nowhere else, and parties that disagree open nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy.stats import chi2

from kcagc.errors import ParameterError, PeerError
from kcagc.secagg.keys import Contribution, PairKeys, session_id
from kcagc.secagg.masks import (
    CHECK_WORDS,
    keystream,
    mask,
    open_sum,
    with_check_words,
)
from secagg.parties import (
    LABEL,
    SESSION,
    TRANSCRIPT,
    fixed,
    masked_by_all,
    names,
    pairs_of,
    ring,
    secrets_of,
    total_of,
    words,
)

DIFFER = "^transcripts differ: the masks of a sum do not cancel"
THREE = ("bank", "shop", "telecom")
values_of = st.integers(-(2**58), 2**58)


def bits_of(vector):
    return np.unpackbits(vector.view(np.uint8), bitorder="little").astype(np.int64)


def unlikely(counts):
    """Whether counts of equally likely things are stranger than one in a million, too uneven or too even."""
    expected = counts.sum() / counts.size
    statistic = ((counts - expected) ** 2 / expected).sum()
    return not 1e-6 < chi2.sf(statistic, counts.size - 1) < 1 - 1e-6


@given(names, st.integers(1, 20), st.data())
def test_the_masks_of_any_parties_cancel_in_any_order_of_summation(members, length, data):
    vectors = {name: data.draw(arrays(np.uint64, length, elements=words)) for name in members}
    sent = masked_by_all(vectors)
    order = data.draw(st.permutations(members))
    total = total_of(sent[name] for name in order)
    assert_array_equal(total[:length], total_of(vectors.values()))
    assert not total[length:].any()


@given(names, st.integers(1, 8), st.binary(), st.binary(), st.data())
def test_a_sum_is_the_sum_of_what_the_parties_have(members, length, label, transcript, data):
    vectors = {name: data.draw(arrays(np.int64, length, elements=values_of)) for name in members}
    sent = masked_by_all({name: ring(values) for name, values in vectors.items()}, label, transcript)
    order = data.draw(st.permutations(members))
    sums = open_sum(total_of(sent[name] for name in order), len(members))
    assert_array_equal(sums, sum(vectors.values()))


def test_parties_who_met_through_their_public_keys_can_sum():
    secrets = {name: secrets_of(name) for name in THREE}
    identifier = session_id(b"inputs", [Contribution(name, one.nonce, one.public) for name, one in secrets.items()])
    sent = []
    for me in THREE:
        pairs = [
            PairKeys(secrets[me].shared_with(secrets[other].public, other), identifier, me, other)
            for other in THREE
            if other != me
        ]
        sent.append(mask(ring([3, -4]), pairs, THREE, LABEL, TRANSCRIPT))
    assert open_sum(total_of(sent), 3).tolist() == [9, -12]


@given(names, st.integers(1, 5), st.data())
def test_without_one_party_nothing_opens(members, length, data):
    sent = masked_by_all({name: ring([0] * length) for name in members})
    assert open_sum(total_of(sent.values()), len(members)).tolist() == [0] * length
    missing = data.draw(st.sampled_from(members))
    with pytest.raises(PeerError, match=DIFFER):
        open_sum(total_of(vector for name, vector in sent.items() if name != missing), len(members))


def test_a_party_counted_twice_opens_nothing():
    sent = list(masked_by_all({name: ring([1] * 3) for name in THREE}).values())
    with pytest.raises(PeerError, match=DIFFER):
        open_sum(total_of([*sent, sent[0]]), 4)


def test_masking_and_summing_leave_their_arguments_alone():
    vectors = {name: ring(range(4)) for name in THREE}
    before = {name: vector.copy() for name, vector in vectors.items()}
    sent = masked_by_all(vectors)
    copies = {name: vector.copy() for name, vector in sent.items()}
    open_sum(total_of(sent.values()), 3)
    for name in THREE:
        assert_array_equal(vectors[name], before[name])
        assert_array_equal(sent[name], copies[name])


@pytest.mark.parametrize("members", [THREE, ("a", "b")])
def test_a_masked_vector_of_zeros_has_bytes_and_bits_like_noise(members):
    sent = masked_by_all({name: ring([0] * 50_000) for name in members})
    for vector in sent.values():
        assert not unlikely(np.bincount(vector.view(np.uint8), minlength=256))
        for byte in range(8):
            assert not unlikely(np.bincount(vector.view(np.uint8)[byte::8], minlength=256))
        ones = bits_of(vector).reshape(-1, 64).sum(axis=0)
        assert np.abs(ones - len(vector) / 2).max() < 6 * np.sqrt(len(vector)) / 2
        assert not unlikely(np.unique(vector >> np.uint64(54), return_counts=True)[1])


def test_masked_vectors_have_nothing_to_do_with_one_another():
    """Under other labels, of other parties, and of one vector with itself moved by a word or a bit."""
    zeros = {name: ring([0] * 20_000) for name in THREE}
    one, other = masked_by_all(zeros, b"label 1"), masked_by_all(zeros, b"label 2")
    bits = bits_of(one["bank"])
    compared = {
        "labels": (bits, bits_of(other["bank"])),
        "parties": (bits, bits_of(one["shop"])),
        "the next word": (bits[64:], bits[:-64]),
        "the next bit": (bits[1:], bits[:-1]),
    }
    for what, (first, second) in compared.items():
        assert abs((first != second).mean() - 0.5) < 6 * 0.5 / np.sqrt(len(first)), what


def test_the_sum_of_some_parties_is_noise_too():
    sent = masked_by_all({name: ring([0] * 50_000) for name in "abcde"})
    for part in ("ab", "ace", "bcde"):
        assert not unlikely(np.bincount(total_of(sent[name] for name in part).view(np.uint8), minlength=256))


def test_every_word_is_masked_and_every_member_adds_a_stream_of_its_own():
    pairs = pairs_of(THREE)
    streams = {
        (me, pair.other): keystream(pair.mask_key(THREE, LABEL, 100, TRANSCRIPT), 100 + CHECK_WORDS)
        for me in THREE
        for pair in pairs[me]
    }
    assert all(stream.all() for stream in streams.values())
    sent = masked_by_all({name: ring([0] * 100) for name in THREE})
    assert_array_equal(sent["bank"], streams["bank", "shop"] + streams["bank", "telecom"])
    assert_array_equal(sent["shop"], streams["shop", "telecom"] - streams["bank", "shop"])
    assert_array_equal(sent["telecom"], np.negative(streams["bank", "telecom"] + streams["shop", "telecom"]))


@pytest.mark.parametrize("who", THREE)
@pytest.mark.parametrize(
    "told",
    [
        {"transcript": b"another transcript"},
        {"transcript": b""},
        {"label": b"another label"},
        {"group": ("shop", "bank", "telecom")},
        {"session": fixed("another session")},
    ],
    ids=repr,
)
def test_a_party_that_was_told_something_else_keeps_the_sum_shut(who, told):
    sent = []
    for me in THREE:
        mine = {"session": SESSION, "group": THREE, "label": LABEL, "transcript": TRANSCRIPT} | (
            told if me == who else {}
        )
        pairs = pairs_of(THREE, mine.pop("session"))[me]
        sent.append(mask(ring([0] * 3), pairs, **mine))
    with pytest.raises(PeerError, match=DIFFER):
        open_sum(total_of(sent), 3)


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 6))
def test_two_parties_open_a_sum_only_if_their_transcripts_are_equal(one, other, length):
    pairs, group = pairs_of(("a", "b")), ("a", "b")
    sent = [mask(ring([1] * length), pairs[me], group, LABEL, told) for me, told in (("a", one), ("b", other))]
    if one == other:
        assert open_sum(total_of(sent), 2).tolist() == [2] * length
    else:
        with pytest.raises(PeerError, match=DIFFER):
            open_sum(total_of(sent), 2)


@pytest.mark.parametrize("cut", [slice(0, 5), slice(1, 6), [0, 1, 2, 4, 5], [0, 1, 2, 3, 5]])
def test_vectors_of_different_lengths_do_not_open_after_cutting_one_to_fit(cut):
    pairs, group = pairs_of(("a", "b")), ("a", "b")
    short = mask(ring([0] * 3), pairs["a"], group, LABEL, TRANSCRIPT)
    longer = mask(ring([0] * 4), pairs["b"], group, LABEL, TRANSCRIPT)
    with pytest.raises(PeerError, match=DIFFER):
        open_sum(total_of([short, longer[cut]]), 2)


@given(names, st.integers(1, 5), st.integers(1, 2**64 - 1), st.data())
def test_any_change_of_one_check_word_is_noticed(members, length, change, data):
    sent = masked_by_all({name: ring([0] * length) for name in members})
    who, place = data.draw(st.sampled_from(members)), data.draw(st.integers(1, CHECK_WORDS))
    sent[who][-place:][:1] += np.uint64(change)
    with pytest.raises(PeerError, match=DIFFER):
        open_sum(total_of(sent.values()), len(members))


@pytest.mark.parametrize("who", THREE)
def test_any_flipped_bit_of_the_check_words_is_noticed(who):
    sent = masked_by_all({name: ring([1] * 3) for name in THREE})
    assert open_sum(total_of(sent.values()), 3).tolist() == [3] * 3
    for bit in range(64 * CHECK_WORDS):
        changed = sent[who].copy()
        changed[3 + bit // 64] ^= np.uint64(1 << bit % 64)
        with pytest.raises(PeerError, match=DIFFER):
            open_sum(total_of((sent | {who: changed}).values()), 3)


def test_there_are_128_bits_to_check():
    assert CHECK_WORDS == 2
    checked = with_check_words(ring([1] * 3))
    assert checked.dtype == np.uint64
    assert checked.tolist() == [1] * 3 + [0, 0]


def test_streams_of_other_lengths_begin_alike_but_masks_do_not():
    """A prefix of a longer vector's masks must not be the masks of a shorter one under the same label."""
    key = fixed("key")
    assert_array_equal(keystream(key, 5), keystream(key, 9)[:5])
    (pair,) = pairs_of(("a", "b"))["a"]
    one, other = (mask(ring([0] * n), [pair], ("a", "b"), LABEL, TRANSCRIPT) for n in (40, 41))
    assert not np.isin(one, other).any()


def test_a_keystream_has_as_many_words_as_asked():
    for n_words in (0, 1, 7, 8, 9, 1000):
        stream = keystream(fixed("key"), n_words)
        assert stream.shape == (n_words,)
        assert stream.dtype == np.uint64
        assert stream.dtype.isnative


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_size_makes_no_stream(size):
    with pytest.raises(ValueError, match="key"):
        keystream(bytes(size), 4)


@pytest.mark.parametrize("group", [(), ("bank",), ("shop", "telecom"), ("bank", "telecom"), THREE])
def test_pairs_that_are_not_those_of_the_group_are_refused(group):
    with pytest.raises(ParameterError, match="each other member"):
        mask(ring([0] * 2), [PairKeys(fixed("secret"), SESSION, "bank", "shop")], group, LABEL, TRANSCRIPT)


@pytest.mark.parametrize("group", [("bank", "shop"), THREE])
def test_a_vector_without_masks_does_not_leave_a_group(group):
    with pytest.raises(ParameterError, match="each other member"):
        mask(ring([0] * 2), [], group, LABEL, TRANSCRIPT)


def test_masks_that_would_cancel_at_once_are_refused():
    there, back = (PairKeys(fixed("secret"), SESSION, *names) for names in (("bank", "shop"), ("shop", "bank")))
    with pytest.raises(ParameterError, match="each other member"):
        mask(ring([0] * 2), [there, back], ("bank", "shop"), LABEL, TRANSCRIPT)


def test_only_words_are_masked():
    with pytest.raises(ParameterError, match="integers of 64 bits"):
        mask(np.zeros(3, dtype=np.int64), pairs_of(THREE)["bank"], THREE, LABEL, TRANSCRIPT)
