"""The joint subspace: exact covariances from padded components, and nothing that the coordinator could use alone."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from adversaries import COORDINATOR, Changing, Scenario, but, data_with, parameters, party_names
from kcagc.cluster import joint as pooled_joint
from kcagc.cluster.joint import draw_sample
from kcagc.errors import AbortedError, DataError, PeerError
from kcagc.protocol import joint
from kcagc.protocol.messages import Padded, Split
from kcagc.protocol.subspace import joint_covariance, read_components, top_directions
from kcagc.secagg.shares import COMPONENT_BITS, DIRECTION_BITS, JOINT_BITS
from secagg.parties import SESSION, fixed

CASES = {
    "two parties": (3, 3),
    "three parties": (3, 3, 3),
    "different widths": (1, 4, 2),
    "one wide party": (8, 1),
    "five parties": (2, 3, 1, 4, 2),
}
stop_before_directions = Changing(Split, lambda _: None)


def scenario_of(widths=(3, 3, 3), session=0, **changes):
    chosen = parameters(**({"method": "joint", "n_components": 12} | changes))
    return Scenario(chosen, len(widths), session=session, data=data_with(widths))


@cache
def opened(widths, session=0):
    """The messages of all parties, and what each of them hides: its turned components, as integers."""
    outcome = scenario_of(widths, session).run(stop_before_directions)
    found = {sender: message for sender, _, message in outcome.messages(Padded)}
    hidden = {
        name: np.frombuffer(outcome.drivers[name]._store.results["sample of components"], dtype="<i8")
        .reshape(36, -1)
        .astype(object)
        for name in found
    }
    return found, hidden


def words(data):
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


# What the coordinator computes


@pytest.mark.parametrize("widths", CASES.values(), ids=list(CASES))
def test_the_joint_covariance_is_exactly_that_of_the_turned_components(widths):
    messages, hidden = opened(widths)
    assert list(messages) == list(party_names(len(widths)))
    assert [one.shape[1] for one in hidden.values()] == list(widths)
    found = joint_covariance(read_components(messages)[0])
    together = np.concatenate(list(hidden.values()), axis=1)
    assert_array_equal(np.ldexp(found, 2 * COMPONENT_BITS), (together.T @ together).astype(float))


@pytest.mark.parametrize("widths", CASES.values(), ids=list(CASES))
def test_the_components_hide_the_columns_behind_a_rotation_and_keep_their_covariance(widths):
    """Up to one power of two and rounding: lengths and angles of rows are those of the party's filtered columns."""
    _, hidden = opened(widths)
    _, again = opened(widths, 1)
    longest = max(np.linalg.norm(one.astype(float), axis=1).max() for one in hidden.values())
    assert 2 ** (COMPONENT_BITS - 1) <= longest <= 2**COMPONENT_BITS * (1 + 1e-6)
    for name, width in zip(hidden, widths, strict=True):
        one, other = (x[name].astype(float) for x in (hidden, again))
        assert_allclose(one @ one.T, other @ other.T, atol=4 * width * 2.0**COMPONENT_BITS)
        if width > 1:
            assert np.abs(one - other).max() > 0.01 * 2**COMPONENT_BITS


@pytest.mark.parametrize("widths", CASES.values(), ids=list(CASES))
def test_the_holders_have_shares_of_the_top_directions_and_of_the_joint_rows(widths, monkeypatch):
    real, found = joint.find_subspace, {}

    async def spy(party, *given):
        found[party.name] = await real(party, *given)
        return found[party.name]

    monkeypatch.setattr(joint, "find_subspace", spy)
    outcome = scenario_of(widths).run()
    assert outcome.raised is None
    messages, hidden = opened(widths)
    directions = np.ldexp(sum(one.directions for one in found.values()).astype(float), -DIRECTION_BITS)
    assert directions.shape == (sum(widths), 3)
    assert_allclose(directions.T @ directions, np.eye(3), atol=2.0**-16)
    values, vectors = np.linalg.eigh(joint_covariance(read_components(messages)[0]))
    top = vectors[:, np.argsort(values)[::-1][:3]]
    assert_allclose(directions @ directions.T, top @ top.T, atol=2.0**-15)
    assert np.abs(np.abs(directions.T @ top) - np.eye(3)).max() > 1e-3  # turned: no order by size
    rows = np.ldexp(sum(one.rows for one in found.values()).astype(float), -JOINT_BITS)
    components = np.ldexp(np.concatenate(list(hidden.values()), axis=1).astype(float), -COMPONENT_BITS)
    assert_allclose(rows, components @ directions, atol=2.0 ** (1 - JOINT_BITS))
    for name in party_names(len(widths))[2:]:
        assert not found[name].rows.any()
        assert not found[name].directions.any()
    for name in party_names(2):
        assert np.abs(found[name].rows).mean() > 2.0**44  # noise without the other share


def test_the_coordinator_turns_directions_by_its_own_secret():
    covariance = np.diag([5.0, 4.0, 3.0, 1.0])
    one, same, other = (
        top_directions(covariance, 3, fixed(secret), SESSION) for secret in ("one", "one", "another secret")
    )
    assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.01
    assert_allclose(one @ one.T, other @ other.T, atol=1e-12)


def test_components_of_zeros_are_a_clear_error():
    with pytest.raises(DataError, match="the components of all parties are zero"):
        top_directions(np.zeros((4, 4)), 3, fixed("key"), SESSION)


# What the coordinator sees of one party


def test_what_one_party_sends_is_uniform_noise():
    """Over forty sessions with the same data: every bit of padded components and corrections is a fair coin."""
    sessions = [opened((3, 3, 3), session)[0] for session in range(40)]
    for name in party_names(3):
        for read in (lambda one: one.words, lambda one: one.corrections[0], lambda one: one.corrections[1]):
            found = np.stack([words(read(messages[name])) for messages in sessions])
            bits = np.unpackbits(found.view(np.uint8), axis=1)
            assert abs(bits.mean() - 0.5) < 4 * 0.5 / np.sqrt(bits.size)
            per_bit = bits.reshape(-1, 64).mean(axis=0)
            assert np.abs(per_bit - 0.5).max() < 4.5 * 0.5 / np.sqrt(bits.size / 64)
            per_place = bits.mean(axis=0)  # the same place in all sessions
            assert abs(per_place.var() * 4 * len(sessions) - 1) < 5 * np.sqrt(2 / bits.shape[1])
            assert len(np.unique(found)) == found.size


def test_padded_components_do_not_correlate_with_the_components():
    """Regressions of the components on the padded ones explain no more than noise does; nor do bits of either."""
    noise, truth = [], []
    for session in range(40):
        messages, hidden = opened((3, 3, 3), session)
        noise.append(words(messages["party-2"].words).reshape(-1, 3))
        truth.append(hidden["party-2"].astype(np.int64))
    seen, hidden_values = np.concatenate(noise), np.concatenate(truth)
    count = len(seen)
    signs = np.where(hidden_values > 0, 1.0, -1.0)
    for bit in (0, 1, 19, 20, 40, 63):
        coins = ((seen >> np.uint64(bit)) & np.uint64(1)).astype(float) * 2 - 1
        assert np.abs(coins.T @ signs / count).max() < 4.5 / np.sqrt(count)
    signed = seen.view(np.int64).astype(float)
    correlations = np.corrcoef(signed.T, hidden_values.T.astype(float))[:3, 3:]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(count)


def test_no_pad_hides_two_things():
    """Pads of different parties, of different sessions and of corrections have no word in common."""
    pads = []
    for session in range(10):
        messages, hidden = opened((3, 3, 3), session)
        for name in messages:
            under = words(messages[name].words) - hidden[name].astype(np.int64).view(np.uint64).ravel()
            pads += [under, words(messages[name].words)]
            pads += [words(part) for part in messages[name].corrections]
    every = np.concatenate(pads)
    assert len(np.unique(every)) == len(every)


def test_half_of_the_corrections_of_a_pair_is_noise_and_both_halves_are_its_covariance():
    messages, hidden = opened((3, 3, 3))
    product = words(messages["party-1"].words).reshape(-1, 3).T.astype(object) @ words(
        messages["party-2"].words
    ).reshape(-1, 3).astype(object)
    halves = [words(messages[name].corrections[0]).reshape(3, 3).astype(object) for name in ("party-1", "party-2")]
    exact = hidden["party-1"].T @ hidden["party-2"]
    assert_array_equal((product + halves[0] + halves[1] - exact) % (1 << 64), np.zeros((3, 3), dtype=object))
    for half in halves:
        away = np.abs(((product + half - exact) % (1 << 64) - (1 << 63)).astype(float)) / 2.0**63
        assert 0.2 < away.mean() < 0.8  # uniform, not small
    other_pair = words(messages["party-3"].corrections[0]).reshape(3, 3).astype(object)
    away = (product + halves[0] + other_pair - exact) % (1 << 64)
    assert min(away.ravel()) > 1 << 50


# The sample


def test_a_sample_has_different_nodes_in_ascending_order():
    found = draw_sample(1000, 300, 5, 4)
    assert len(np.unique(found)) == 300
    assert (np.diff(found) > 0).all()
    assert found.max() < 1000
    assert_array_equal(found, draw_sample(1000, 300, 5, 4))
    assert (found != draw_sample(1000, 300, 6, 4)).any()
    assert (found != draw_sample(1000, 300, 5, 9)).any()
    assert_array_equal(draw_sample(10, 10, 5, 4), np.arange(10))
    assert_array_equal(draw_sample(10, 11, 5, 4), np.arange(10))


def test_all_parties_use_the_same_sample(monkeypatch):
    monkeypatch.setattr(pooled_joint, "MIN_SAMPLE", 12)
    monkeypatch.setattr(pooled_joint, "SAMPLE_VALUES", 1)
    messages = [message for _, _, message in scenario_of().run(stop_before_directions).messages(Padded)]
    assert {len(one.words) for one in messages} == {8 * 12 * 3}
    assert len({one.sample for one in messages}) == 1


# What is refused


def refused(outcome, culprit, by=None):
    """All roles ended, no party has labels, and the first error names the culprit."""
    assert not outcome.labels
    assert not outcome.waiting
    assert outcome.origins
    for name, error in outcome.origins.items():
        assert type(error) is PeerError
        assert error.peer == culprit
        assert by is None or name in by
    for error in outcome.errors.values():  # the others learn of the culprit, or of the role that ended the run
        assert not isinstance(error, AbortedError) or error.peer in {culprit, *outcome.origins}
    return "; ".join(str(error) for error in outcome.origins.values())


@pytest.mark.parametrize("liar", party_names(3))
def test_a_party_with_another_sample_is_named(liar):
    outcome = scenario_of().run(Changing(Padded, but(sample=bytes(32)), sender=liar))
    assert "another sample of nodes" in refused(outcome, liar, {COORDINATOR})
    assert not outcome.messages(Split)


@pytest.mark.parametrize("liar", party_names(2))
def test_of_two_parties_with_different_samples_none_is_named(liar):
    outcome = scenario_of((3, 3)).run(Changing(Padded, but(sample=bytes(32)), sender=liar))
    assert "party-1 and party-2 do not have the same sample of nodes" in refused(outcome, "", {COORDINATOR})


FALSE_SHAPES = {
    "no components": but(n_components=0),
    "no rows": but(words=b""),
    "half of the rows": lambda one: but(words=one.words[: len(one.words) // 2])(one),
    "twice the rows": lambda one: but(words=one.words * 2)(one),
    "a byte more": lambda one: but(words=one.words + b"x")(one),
    "too short a covariance": lambda one: but(covariance=one.covariance[:-8])(one),
    "no covariance": but(covariance=b""),
    "no corrections": but(corrections=()),
    "a correction too many": lambda one: but(corrections=(*one.corrections, one.corrections[0]))(one),
    "a short correction": lambda one: but(corrections=(one.corrections[0][:-8], one.corrections[1]))(one),
    "a long correction": lambda one: but(corrections=(one.corrections[0], one.corrections[1] + bytes(8)))(one),
    "components without end": but(n_components=(1 << 48) - 1),
}


@pytest.mark.parametrize("name", FALSE_SHAPES)
@pytest.mark.parametrize("liar", ["party-1", "party-3"])
def test_components_or_corrections_of_the_wrong_shape_are_refused(name, liar):
    outcome = scenario_of().run(Changing(Padded, FALSE_SHAPES[name], sender=liar))
    refused(outcome, liar, {COORDINATOR})
    assert not outcome.messages(Split)


@pytest.mark.parametrize("liar", ["party-1", "party-3"])
def test_a_party_that_claims_another_number_of_components_than_it_told_the_others_is_refused(liar):
    """Its rows and its own covariance have this shape; the corrections of the others show that it told them another."""

    def narrower(one):
        rows = words(one.words).reshape(-1, 3)[:, :2].tobytes()
        corrections = tuple(part[: len(part) * 2 // 3] for part in one.corrections)
        return but(n_components=2, words=rows, covariance=one.covariance[:32], corrections=corrections)(one)

    outcome = scenario_of().run(Changing(Padded, narrower, sender=liar))
    assert "sent the others another number of components" in refused(outcome, liar, {COORDINATOR})


@pytest.mark.parametrize("seed", [b"", b"short", bytes(33)])
def test_a_seed_of_shares_of_the_wrong_length_is_refused(seed):
    outcome = scenario_of().run(Changing(Padded, but(share_seed=seed), sender="party-2"))
    assert "32 bytes" in refused(outcome, "party-2", {COORDINATOR})
