"""The joint subspace: exact covariances from padded components, and nothing that the coordinator could use alone."""

from functools import cache

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from adversaries import COORDINATOR, Changing, Scenario, but, data_with, parameters, party_names
from kcagc.errors import AbortedError, PeerError
from kcagc.protocol import subspace
from kcagc.protocol.messages import Directions, Padded
from kcagc.protocol.subspace import covariance_sample, draw_sample, joint_covariance, read_components, top_directions
from kcagc.secagg.shares import COMPONENT_BITS
from secagg.parties import SESSION, fixed

OPEN = {"method": "joint", "joint_rows": "coordinator"}  # the form with the fewest messages after the subspace
CASES = {
    "two parties": (3, 3),
    "three parties": (3, 3, 3),
    "different widths": (1, 4, 2),
    "one wide party": (8, 1),
    "five parties": (2, 3, 1, 4, 2),
}
stop_before_directions = Changing(Directions, lambda _: None)


def scenario_of(widths=(3, 3, 3), session=0, **changes):
    chosen = parameters(**(OPEN | {"n_components": 12} | changes))
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
    found = joint_covariance(read_components(messages))
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
def test_the_directions_are_orthonormal_and_span_the_top_of_the_joint_covariance(widths):
    outcome = scenario_of(widths).run()
    assert outcome.raised is None
    messages, _ = opened(widths)
    sent = {to: message for _, to, message in outcome.messages(Directions)}
    size = next(iter(sent.values())).size
    parts = [np.frombuffer(sent[name].values).reshape(-1, size) for name in messages]
    assert [len(part) for part in parts] == list(widths)
    whole = np.concatenate(parts)
    assert_allclose(whole.T @ whole, np.eye(size), atol=1e-12)
    values, vectors = np.linalg.eigh(joint_covariance(read_components(messages)))
    top = vectors[:, np.argsort(values)[::-1][:3]]
    assert_allclose(whole @ whole.T, top @ top.T, atol=1e-9)
    assert np.abs(np.abs(whole.T @ top) - np.eye(3)).max() > 1e-3  # turned: no order by size


def test_the_coordinator_turns_directions_by_its_own_secret():
    covariance = np.diag([5.0, 4.0, 3.0, 1.0])
    one, same, other = (
        top_directions(covariance, 3, fixed(secret), SESSION) for secret in ("one", "one", "another secret")
    )
    assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.01
    assert_allclose(one @ one.T, other @ other.T, atol=1e-12)


@pytest.mark.parametrize(("values", "size"), [([4, 3, 2, 1], 3), ([4, 1e-3, 0, 0], 2), ([1, 0, 0, 0], 1)])
def test_there_are_no_more_directions_than_the_components_have(values, size):
    assert top_directions(np.diag(np.array(values, dtype=float)), 3, fixed("key"), SESSION).shape == (4, size)


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


def test_the_sample_grows_with_the_widest_party():
    assert len(covariance_sample(100_000, [4, 28], 1)) == subspace.MIN_SAMPLE
    assert len(covariance_sample(100_000, [4, 400], 1)) == 20_000
    assert len(covariance_sample(500, [4, 28], 1)) == 500


def test_all_parties_use_the_same_sample(monkeypatch):
    monkeypatch.setattr(subspace, "MIN_SAMPLE", 12)
    monkeypatch.setattr(subspace, "SAMPLE_OF_COMPONENT", 1)

    def samples(session):
        outcome = scenario_of(session=session).run(stop_before_directions)
        messages = [message for _, _, message in outcome.messages(Padded)]
        assert {len(one.words) for one in messages} == {8 * 12 * 3}
        return {one.sample for one in messages}

    assert len(samples(0)) == 1
    assert samples(0) == samples(0)


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


def as_matrix(message):
    return np.frombuffer(message.values).reshape(-1, message.size).copy()


def with_values(message, values):
    values = np.ascontiguousarray(values, dtype="<f8")
    return msgspec.structs.replace(message, size=values.shape[1], values=values.tobytes())


def place(value):
    def edit(message):
        values = as_matrix(message)
        values[0, 0] = value
        return with_values(message, values)

    return edit


IMPOSSIBLE = {
    "not a number": (place(np.nan), "not finite"),
    "infinite": (place(np.inf), "not finite"),
    "minus infinite": (place(-np.inf), "not finite"),
    "too long": (lambda one: with_values(one, 1.01 * np.linalg.svd(as_matrix(one))[0]), "longer than orthonormal"),
    "huge": (place(1e300), "longer than orthonormal"),
    "one byte less": (lambda one: but(values=one.values[:-1])(one), "bytes for 3 components"),
    "one value more": (lambda one: but(values=one.values + bytes(8))(one), "bytes for 3 components"),
    "of another size": (but(size=2), "bytes for 3 components"),
    "none": (but(size=0, values=b""), "bytes for 3 components"),
    "more than clusters": (lambda one: with_values(one, np.zeros((3, 4))), "bytes for 3 components"),
    "a size without end": (but(size=(1 << 48) - 1), "bytes for 3 components"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("form", ["coordinator", "shares"])
def test_impossible_directions_are_refused_before_anything_else_is_sent(form, name):
    edit, words_of_error = IMPOSSIBLE[name]
    outcome = scenario_of(joint_rows=form).run(Changing(Directions, edit, to="party-2"))
    assert words_of_error in refused(outcome, COORDINATOR, {"party-2"})
    assert not [entry for entry in outcome.ledger.of("message/masked") if entry.sender == "party-2"]


POSSIBLE_FOR_ONE = {
    "half as long": lambda values: values / 2,
    "zero": lambda values: 0 * values,
    "as long as they can be": lambda values: np.linalg.svd(values)[0],
    "one of them missing": lambda values: values * [1, 1, 0],
    "slightly off": lambda values: values * 0.99,
}


@pytest.mark.parametrize("name", POSSIBLE_FOR_ONE)
@pytest.mark.parametrize("form", ["coordinator", "shares"])
def test_directions_that_are_not_orthonormal_over_all_parties_are_refused_with_the_receipts(form, name):
    edit = Changing(Directions, lambda one: with_values(one, POSSIBLE_FOR_ONE[name](as_matrix(one))), to="party-2")
    outcome = scenario_of(joint_rows=form, max_iter=3).run(edit)
    assert "not orthonormal" in refused(outcome, COORDINATOR, set(party_names(3)))


@pytest.mark.parametrize("liar", party_names(3))
def test_a_party_with_another_sample_is_named(liar):
    outcome = scenario_of().run(Changing(Padded, but(sample=bytes(32)), sender=liar))
    assert "another sample of nodes" in refused(outcome, liar, {COORDINATOR})
    assert not outcome.messages(Directions)


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
    assert not outcome.messages(Directions)


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
    outcome = scenario_of(joint_rows="shares").run(Changing(Padded, but(share_seed=seed), sender="party-2"))
    assert "32 bytes" in refused(outcome, "party-2", {COORDINATOR})
