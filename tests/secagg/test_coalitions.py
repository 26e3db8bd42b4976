"""What an aggregator and up to L - 2 parties see together hangs on the sum of the others' values and on nothing else.

Take two worlds: in the second, the honest parties have other values with the same sum. For every choice of streams
between honest parties in the first world there is one in the second, and only one (each is shifted by a constant), with
which the coalition sees the same to the last bit. Streams are uniform and the coalition has none of those between
honest parties; so the view has the same distribution in both worlds.
"""

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from kcagc.secagg import masks
from kcagc.secagg.masks import CHECK_WORDS, keystream, mask
from secagg.parties import LABEL, TRANSCRIPT, pairs_of, ring, total_of

LENGTH = 6
NAMES = ("wool", "bank", "Ärzte", "shop", "telecom")
COALITIONS = [
    (NAMES[:size], coalition)
    for size in (3, 4, 5)
    for n_colluders in range(size - 1)
    for coalition in combinations(NAMES[:size], n_colluders)
]
every_coalition = pytest.mark.parametrize(
    ("group", "colluders"), COALITIONS, ids=lambda names: "+".join(names) or "nobody"
)


def mask_keys(group, pairs):
    """The key of every stream between two parties, by the two."""
    return {
        frozenset((pair.me, pair.other)): pair.mask_key(group, LABEL, LENGTH, TRANSCRIPT)
        for name in group
        for pair in pairs[name]
    }


def honest_in(group, colluders):
    return [name for name in group if name not in colluders]


def inputs_of(group, seed):
    random = np.random.default_rng(seed)
    return {name: ring(random.integers(-(2**40), 2**40, LENGTH)) for name in group}


def with_the_same_sum(inputs, honest, seed):
    """Other words for the honest, of any kind, that add up to the same."""
    random = np.random.default_rng(seed)
    other = dict(inputs)
    for name in honest[:-1]:
        other[name] = random.integers(2**64, size=LENGTH, dtype=np.uint64)
    rest = total_of(other[name] for name in honest[:-1])
    other[honest[-1]] = total_of(inputs[name] for name in honest) - rest
    return other


def view(group, colluders, pairs, inputs):
    """What honest parties send, and everything that colluders hold or can derive: bytes in a fixed order."""
    seen = [mask(inputs[name], pairs[name], group, LABEL, TRANSCRIPT) for name in honest_in(group, colluders)]
    for name in colluders:
        seen += [inputs[name], mask(inputs[name], pairs[name], group, LABEL, TRANSCRIPT)]
        for pair in pairs[name]:
            key = pair.mask_key(group, LABEL, LENGTH, TRANSCRIPT)
            seen += [key, masks.keystream(key, LENGTH + CHECK_WORDS)]
            seen += [pair.encryption_key(pair.me, pair.other, LABEL), pair.encryption_key(pair.other, pair.me, LABEL)]
    return [bytes(part) for part in seen]


def shifted_streams(group, honest, inputs, others, keys):
    """Streams for the second world: along a chain of the honest, each takes over what those before it have too much."""
    shifts, carried = {}, np.zeros(LENGTH + CHECK_WORDS, dtype=np.uint64)
    for one, following in pairwise(honest):
        carried[:LENGTH] += inputs[one] - others[one]
        shifts[keys[frozenset((one, following))]] = carried.copy() if one < following else np.negative(carried)

    def stream(key, n_words):
        words = keystream(key, n_words)
        return words + shifts[key] if key in shifts else words

    return stream


@every_coalition
@pytest.mark.parametrize("seed", range(3))
def test_a_coalition_sees_the_same_when_the_honest_have_other_values_with_the_same_sum(
    group, colluders, seed, monkeypatch
):
    pairs, inputs = pairs_of(group), inputs_of(group, seed)
    honest = np.random.default_rng(seed).permutation(honest_in(group, colluders)).tolist()
    others = with_the_same_sum(inputs, honest, seed)
    first = view(group, colluders, pairs, inputs)
    unshifted = view(group, colluders, pairs, others)
    monkeypatch.setattr(masks, "keystream", shifted_streams(group, honest, inputs, others, mask_keys(group, pairs)))
    second = view(group, colluders, pairs, others)
    assert second == first
    n_honest = len(honest)
    assert all((inputs[name] != others[name]).all() for name in honest)
    assert all(one != other for one, other in zip(unshifted[:n_honest], first[:n_honest], strict=True))
    assert unshifted[n_honest:] == first[n_honest:]


@every_coalition
def test_colluders_can_derive_no_stream_between_honest_parties(group, colluders, monkeypatch):
    pairs, inputs = pairs_of(group), inputs_of(group, 0)
    keys = mask_keys(group, pairs)
    assert len(set(keys.values())) == len(group) * (len(group) - 1) // 2
    used = []
    monkeypatch.setattr(masks, "keystream", lambda key, n_words: (used.append(key), keystream(key, n_words))[1])
    for name in colluders:
        mask(inputs[name], pairs[name], group, LABEL, TRANSCRIPT)
    between_honest = {key for both, key in keys.items() if not both & set(colluders)}
    assert set(used) == set(keys.values()) - between_honest
    n_honest = len(group) - len(colluders)
    assert len(between_honest) == n_honest * (n_honest - 1) // 2


@every_coalition
def test_every_pair_of_honest_parties_hides_both_of_them(group, colluders, monkeypatch):
    """Each stream between honest parties is in both their vectors, so no single one can be left out unseen."""
    pairs, inputs = pairs_of(group), inputs_of(group, 0)
    for one, other in combinations(honest_in(group, colluders), 2):
        used = {}
        for name in (one, other):
            seen = used.setdefault(name, [])
            monkeypatch.setattr(masks, "keystream", lambda key, n, seen=seen: (seen.append(key), keystream(key, n))[1])
            mask(inputs[name], pairs[name], group, LABEL, TRANSCRIPT)
        shared = set(used[one]) & set(used[other])
        assert shared == {mask_keys(group, pairs)[frozenset((one, other))]}


@every_coalition
def test_a_coalition_does_learn_the_sum_of_the_honest(group, colluders):
    pairs, inputs = pairs_of(group), inputs_of(group, 1)
    honest = honest_in(group, colluders)
    total = total_of(mask(inputs[name], pairs[name], group, LABEL, TRANSCRIPT) for name in honest)
    for name in colluders:
        total += mask(np.zeros(LENGTH, dtype=np.uint64), pairs[name], group, LABEL, TRANSCRIPT)
    assert_array_equal(total[:LENGTH], total_of(inputs[name] for name in honest))
    assert not total[LENGTH:].any()


@pytest.mark.parametrize("victim", NAMES)
def test_all_others_together_do_see_the_last_one(victim):
    """Why L - 2: against everybody else, no masks can help."""
    pairs, inputs = pairs_of(NAMES), inputs_of(NAMES, 2)
    seen = mask(inputs[victim], pairs[victim], NAMES, LABEL, TRANSCRIPT)
    for name in NAMES:
        if name != victim:
            (pair,) = (pair for pair in pairs[name] if pair.other == victim)
            stream = keystream(pair.mask_key(NAMES, LABEL, LENGTH, TRANSCRIPT), LENGTH + CHECK_WORDS)
            seen = seen + stream if pair.sign > 0 else seen - stream
    assert_array_equal(seen[:LENGTH], inputs[victim])
