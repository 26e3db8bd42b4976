"""Unit rows and scores in shares: equal to floating point, and noise to each role that sees a part of them."""

import hashlib
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pytest
from numpy.testing import assert_allclose

from adversaries import COORDINATOR, Changing, agreement_of, but, parameters, party_names, together
from kcagc.disclosure import Ledger
from kcagc.errors import PeerError
from kcagc.protocol import aggregator
from kcagc.protocol.aggregator import Aggregator
from kcagc.protocol.agreement import Session
from kcagc.protocol.effects import Channel
from kcagc.protocol.joint_coordinator import FoundDirections, JointCoordinator
from kcagc.protocol.messages import Masked, Split, Step, decode
from kcagc.protocol.secure_sum import SecureSums
from kcagc.protocol.shared_rows import SCORE_BITS, SharedRows, unit_rows
from kcagc.runtime.driver import Driver
from kcagc.secagg import shares
from kcagc.secagg.masks import Group
from kcagc.secagg.shares import JOINT_BITS, LENGTH_OCTAVES, ROW_BITS
from secagg.parties import fixed, pairs_of


@dataclass
class Shared:
    """What came out of a run on shared rows, and what each role saw."""

    outcome: object
    opened: list = field(default_factory=list)  # sums that the coordinator opened

    @property
    def shares(self):
        return [self.outcome.drivers[name].result[0] for name in party_names(len(self.outcome.drivers) - 1)]

    @property
    def scores(self):
        return [self.outcome.drivers[name].result[1] for name in party_names(len(self.outcome.drivers) - 1)]

    @property
    def units(self):
        return np.ldexp(sum(self.shares).astype(float), -ROW_BITS)


def run_shared(parts, centers=(), session="session", adversary=None):
    """Let parties with these shares of joint rows (parties × nodes × d) compute unit rows, and scores of centres.

    `centers` holds rounds of sets of centres, as real numbers (sets × k × d).
    """
    names, k = party_names(len(parts)), len(centers[0][0]) if centers else 3
    chosen = parameters(method="joint", joint_rows="shares", n_clusters=k)
    group, identifier = Group(names, COORDINATOR), fixed(session)
    pairs = pairs_of(names, identifier)
    found = Shared(None)

    async def party(name, own):
        known = Session(identifier, {pair.other: pair for pair in pairs[name]})
        sums = SecureSums(Channel(name), known, group, fixed("group", session), 4.0, 24, b"transcript")
        rows = await SharedRows.of(sums, own, fixed("seed", name, session))
        scores = [
            np.stack(await rows.scores([_share(one, name, number) for one in sets]))
            for number, sets in enumerate(centers)
        ]
        await sums.finish()
        return rows.share, scores

    async def coordinator():
        role = Aggregator(COORDINATOR, agreement_of(chosen, len(names)), fixed("coordinator"))
        found = FoundDirections(parts[0].shape[1], b"", fixed("seed", names[1], session))
        role._joint = JointCoordinator(chosen, identifier, msgspec.msgpack.encode(found))
        return await role._answer_sums(group, role._steps)

    def _share(center, name, number):
        whole = np.rint(np.ldexp(np.asarray(center, dtype=float), ROW_BITS)).astype(np.int64)
        drawn = np.random.RandomState(number).randint(-(1 << 43), 1 << 43, size=whole.shape)
        return {names[0]: whole - drawn, names[1]: drawn}.get(name, np.zeros_like(whole))

    real = aggregator.open_sum

    def spy(total, n_parties):
        found.opened.append(real(total, n_parties).copy())
        return found.opened[-1]

    aggregator.open_sum = spy
    try:
        ledger = Ledger()
        drivers = [
            Driver(name, party(name, own), (COORDINATOR,), common=ledger)
            for name, own in zip(names, parts, strict=True)
        ]
        drivers.append(Driver(COORDINATOR, coordinator(), names, common=ledger))
        found.outcome = together(drivers, ledger, adversary)
    finally:
        aggregator.open_sum = real
    return found


def parts_of(rows, n_parties, seed=0):
    """Split rows into shares of two holders, as large as shares are; the other parties have none."""
    whole = np.rint(np.ldexp(np.asarray(rows, dtype=float), JOINT_BITS)).astype(np.int64)
    drawn = np.random.RandomState(seed).randint(-(1 << 47), 1 << 47, size=whole.shape)
    return [whole - drawn, drawn, *(np.zeros_like(whole) for _ in range(n_parties - 2))]


def units_of(parts):
    rows = np.sum(parts, axis=0).astype(float)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)


def directions(n, size, seed=0):
    rows = np.random.RandomState(seed).normal(size=(n, size))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# Unit rows


@pytest.mark.parametrize("n_parties", [2, 3, 5])
@pytest.mark.parametrize("size", [1, 2, 3, 17])
def test_shares_of_unit_rows_add_up_to_the_rows_scaled_to_length_one(size, n_parties):
    lengths = np.exp(np.random.RandomState(1).uniform(-7, 0, size=(60, 1)))
    parts = parts_of(directions(60, size) * lengths, n_parties)
    found = run_shared(parts)
    assert found.outcome.raised is None
    assert_allclose(found.units, units_of(parts), atol=2.0**-17 * np.sqrt(size))
    for share in found.shares[2:]:
        assert not share.any()
    for share in found.shares[:2]:
        assert np.abs(share).max() < 1 << 44
        assert np.abs(share).mean() > 1 << 40  # a share alone is far from the row


@pytest.mark.parametrize("exponent", [-4, -8, -12, -16, -20])
def test_short_rows_lose_bits_of_their_direction_only_by_rounding(exponent):
    """Parties round to integers after factors of 2^32 or more; longer rows are as exact as the rotations."""
    parts = parts_of(np.ldexp(directions(200, 3), exponent), 3)
    found = run_shared(parts)
    tolerance = 2.0**-17 * np.sqrt(3) + 3 * np.sqrt(3) * 2.0 ** (-32 - exponent)
    assert np.abs(found.units - units_of(parts)).max() < tolerance


def test_rows_of_zeros_get_any_direction_and_change_no_other_row():
    """Rounding gives them one: no role can tell a row of zeros from a very short one."""
    rows = directions(30, 3)
    rows[::3] = 0
    parts = parts_of(rows, 3)
    found = run_shared(parts)
    assert found.outcome.raised is None
    assert (np.linalg.norm(found.units[::3], axis=1) < 1 + 1e-4).all()
    others = np.arange(30) % 3 > 0
    assert_allclose(found.units[others], units_of(parts)[others], atol=1e-4)


def test_the_longest_rows_do_not_leave_the_ring():
    """No row of sixteen parties is longer than 4."""
    parts = parts_of(4 * directions(400, 2), 3)
    assert_allclose(run_shared(parts).units, units_of(parts), atol=2.0**-15)


@pytest.mark.parametrize("size", [1, 2, 17])
def test_one_node(size):
    parts = parts_of(directions(1, size), 2)
    assert_allclose(run_shared(parts).units, units_of(parts), atol=2.0**-16)


def test_very_different_lengths_in_one_run():
    lengths = np.ldexp(1.0, -np.arange(20))[:, None]
    parts = parts_of(directions(20, 2) * lengths, 3)
    found = run_shared(parts)
    tolerance = 2.0**-16 + 5 * 2.0**-32 / lengths
    assert (np.abs(found.units - units_of(parts)) < tolerance).all()


def test_the_coordinator_scales_rows_to_length_one():
    opened = np.array([[3, 4], [0, 0], [-(1 << 62), 0], [1, 0], [-5, -12]], dtype=np.int64)
    found = np.ldexp(unit_rows(opened).view(np.int64).astype(float), -ROW_BITS)
    assert_allclose(found, [[0.6, 0.8], [0, 0], [-1, 0], [1, 0], [-5 / 13, -12 / 13]], atol=2.0**-18)


def test_a_share_that_might_wrap_is_drawn_again(monkeypatch):
    answers = iter([True, True])
    real = shares.may_wrap
    monkeypatch.setattr(shares, "may_wrap", lambda *given: next(answers, False) or real(*given))
    parts = parts_of(directions(20, 3), 3)
    found = run_shared(parts)
    assert_allclose(found.units, units_of(parts), atol=1e-4)
    draws = {(sender, one.draw) for sender, _, one in found.outcome.messages(Masked) if one.step is Step.ROWS}
    assert draws == {("party-1", 0), ("party-2", 2)}


def test_nothing_wraps_where_a_share_would():
    """Without the second draw, one run in many would have a row that is wrong by 2^44: here many runs, none wrong."""
    parts = parts_of(directions(400, 8), 2)
    for session in range(5):
        assert_allclose(run_shared(parts, session=session).units, units_of(parts), atol=1e-4)


# Scores


@pytest.mark.parametrize("n_parties", [2, 3])
@pytest.mark.parametrize(("size", "k"), [(1, 2), (2, 3), (17, 18)])
def test_shares_of_scores_add_up_to_the_scores(size, k, n_parties):
    """Of several sets of centres in each of several rounds: means of unit rows, zero, and up to three times as long."""
    random = np.random.RandomState(3)
    sets = [random.normal(size=(k, size)) for _ in range(4)]
    sets = [one / np.maximum(np.linalg.norm(one, axis=1, keepdims=True), 1) for one in sets]
    sets[1], sets[2] = np.zeros((k, size)), 3 * directions(k, size, 5)
    centers = [sets[:1], sets, sets[2:]]
    parts = parts_of(directions(40, size), n_parties)
    found = run_shared(parts, centers)
    assert found.outcome.raised is None
    units = units_of(parts)
    for number, expected in enumerate(centers):
        total = sum(one[number] for one in found.scores)
        exact = np.stack([2 * units @ one.T - (one**2).sum(axis=1) for one in expected])
        assert_allclose(np.ldexp(total.astype(float), -SCORE_BITS), exact, atol=2.0**-13 * np.sqrt(size))
        for share in (one[number] for one in found.scores[2:]):
            assert not share.any()


def test_scores_are_exact_in_the_shares():
    """For the shares as they are, whatever their rounding, scores are the integers of the formula, up to one unit."""
    centers = [[directions(3, 2, 1) * 0.7]]
    found = run_shared(parts_of(directions(50, 2), 2), centers)
    u = sum(found.shares).astype(object)
    m = np.rint(np.ldexp(centers[0][0], ROW_BITS)).astype(np.int64).astype(object)
    exact = 2 * (u @ m.T) - (m * m).sum(axis=1)
    away = sum(one[0][0] for one in found.scores).astype(object) - exact // (1 << 2 * ROW_BITS - SCORE_BITS)
    assert set(away.ravel()) <= {0, -1}


# What the coordinator sees


def kolmogorov(values):
    """Return the distance of a sample from the uniform distribution on (0, 1), times the root of its size."""
    values = np.sort(np.ravel(values))
    return np.abs(values - (np.arange(len(values)) + 0.5) / len(values)).max() * np.sqrt(len(values))


@pytest.mark.parametrize("rows", ["all equal", "two opposite groups", "any"])
def test_rows_open_to_the_coordinator_with_random_directions_and_blinded_lengths(rows):
    n = 1500
    plain = {
        "all equal": np.tile([0.5, 0.0, 0.0], (n, 1)),
        "two opposite groups": np.where(np.arange(n)[:, None] % 2, 1.0, -1.0) * [0.1, 0.3, 0.0],
        "any": directions(n, 3),
    }[rows]
    opened = run_shared(parts_of(plain, 3)).opened[0].reshape(n, 3).astype(float)
    length = np.linalg.norm(opened, axis=1)
    for part in (opened / length[:, None]).T:  # heights of uniform points on a sphere are uniform
        assert kolmogorov((part + 1) / 2) < 1.95
    octaves = np.log2(length / np.linalg.norm(plain[0]))
    assert kolmogorov((octaves - 58 + LENGTH_OCTAVES) / LENGTH_OCTAVES) < 1.95
    together_with_next = (opened[1:] * opened[:-1]).sum(axis=1) / (length[1:] * length[:-1])
    assert kolmogorov((together_with_next + 1) / 2) < 1.95


def test_rows_open_in_a_secret_order():
    """Rows whose lengths fall with the number of the node, by 18 octaves, come in an order of its own."""
    n = 300
    lengths = 2.0 ** -np.linspace(0, 18, n)[:, None]
    places = []
    for session in range(2):
        found = run_shared(parts_of(directions(n, 2) * lengths, 2), session=session)
        length = np.linalg.norm(found.opened[0].reshape(n, 2).astype(float), axis=1)
        places.append(np.argsort(np.argsort(-length)))
        assert abs(np.corrcoef(places[-1], np.arange(n))[0, 1]) < 0.25
    assert abs(np.corrcoef(*places)[0, 1]) < 0.25


def is_uniform(words):
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).reshape(-1, 64)
    count = bits.shape[0]
    top = np.bincount((words.ravel().view(np.uint64) >> np.uint64(60)).astype(np.int64), minlength=16)
    chi_squared = ((top - count / 16) ** 2 / (count / 16)).sum()
    return (np.abs(bits.mean(axis=0) - 0.5) < 4.5 * 0.5 / np.sqrt(count)).all() and chi_squared < 15 + 5 * np.sqrt(30)


def test_padded_rows_and_centres_are_uniform_noise_to_the_coordinator():
    """Even where all rows and all centres are the same, and in every round anew."""
    n, k = 500, 4
    same = np.tile([0.25, 0.5], (n, 1))
    centers = [[np.tile([0.1, 0.9], (k, 1))] * 40] * 2
    found = run_shared(parts_of(same, 3), centers)
    _, rows, first, second = found.opened
    assert is_uniform(rows)
    assert len(np.unique(rows)) == rows.size
    for opened in (first, second):
        assert is_uniform(opened)
        assert len(np.unique(opened)) == opened.size
    assert is_uniform(first - second)  # no pad is used in two rounds
    sets = first.reshape(-1, k, 2)
    assert is_uniform(sets[:-1] - sets[1:])  # nor for two sets


def test_what_the_holders_receive_and_send_is_uniform_noise():
    same = np.tile([0.25, 0.5], (500, 1))
    found = run_shared(parts_of(same, 3), [[np.tile([0.1, 0.9], (4, 1))] * 10] * 2)
    splits = [np.frombuffer(one.words, dtype="<u8") for _, _, one in found.outcome.messages(Split)]
    assert len(splits) == 3
    assert {to for _, to, _ in found.outcome.messages(Split)} == {"party-1"}
    for words in splits:
        assert is_uniform(words)
    assert is_uniform(splits[1] - splits[2])
    for _, _, message in found.outcome.messages(Masked):
        assert is_uniform(np.frombuffer(message.words, dtype="<u8"))
    for share in (*found.shares[:2], *(one[0] for one in found.scores[:2])):
        spread = np.sort(share.ravel() / np.abs(share).max())
        assert kolmogorov((spread + 1) / 2) < 1.95


def test_two_sessions_on_the_same_rows_show_the_coordinator_nothing_in_common():
    parts = parts_of(directions(400, 3), 3)
    one, other = (run_shared(parts, [[np.eye(3)]], session=session).opened for session in range(2))
    for first, second in zip(one[1:], other[1:], strict=True):
        assert is_uniform(first - second)
    first, second = (opened[0].reshape(-1, 3).astype(float) for opened in (one, other))
    cosine = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert kolmogorov((cosine + 1) / 2) < 1.95


# What is refused


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    "edit",
    [
        but(words=b""),
        lambda one: but(words=one.words[:-8])(one),
        lambda one: but(words=one.words + bytes(8))(one),
        lambda one: but(words=one.words[:-1])(one),
        but(number=7),
        but(group="1.1"),
    ],
    ids=["empty", "short", "long", "broken", "of another sum", "of another group"],
)
def test_a_split_of_the_wrong_shape_is_refused(edit, at):
    centers = [[np.eye(3)]]
    found = run_shared(parts_of(directions(9, 3), 3), centers, adversary=Changing(Split, edit, at=at))
    error = found.outcome.errors["party-1"]
    assert type(error) is PeerError
    assert error.peer == COORDINATOR
    assert "sent shares of" in str(error)


@pytest.mark.parametrize("length", [1, 5, 8, 10])
def test_centres_of_the_wrong_length_are_refused(length):
    """The two holders agree on a false length: their masks cancel, and the coordinator still refuses."""
    chosen = parameters(method="joint", joint_rows="shares")
    joint = JointCoordinator(chosen, bytes(32), msgspec.msgpack.encode(FoundDirections(2, b"", bytes(32))))
    group = Group(party_names(2), COORDINATOR)
    with pytest.raises(PeerError, match="sent centres of"):  # before there are rows
        joint.answer(group, Step.SCORES, 1, np.zeros(6, dtype=np.int64), 0)
    joint.take(Step.SHARES, bytes(8 * 2 * 9))
    with pytest.raises(PeerError, match="sent centres of"):
        joint.answer(group, Step.SCORES, 1, np.zeros(length, dtype=np.int64), 0)
    if length % 2:
        with pytest.raises(PeerError, match="in a row"):
            joint.answer(group, Step.ROWS, 1, np.zeros(length, dtype=np.int64), 0)


def test_the_coordinator_returns_no_centre_of_a_cluster_with_few_nodes():
    """The centre of one node is the row of this node."""
    chosen = parameters(method="joint", joint_rows="coordinator", n_clusters=2, min_local_size=3)
    joint = JointCoordinator(chosen, bytes(32), msgspec.msgpack.encode(FoundDirections(2, b"", bytes(32))))
    rows = np.array([[1, 0]] * 5 + [[0, 1]] * 2) * 1000
    words = np.append(rows.ravel(), 2)  # the last word is the number of components
    answer = joint.answer(Group(party_names(2), COORDINATOR), Step.GEOMETRY, 0, words, 0)
    weights = np.frombuffer(decode(answer, COORDINATOR).weights, dtype="<f8").reshape(2, 2)
    assert_allclose(np.sort(np.abs(weights).sum(axis=0)), [0, 1], atol=1e-12)


def test_the_words_of_a_run_depend_on_the_keys_alone():
    """Another run with the same keys sends the same bytes; a test of replay rests on that."""
    parts = parts_of(directions(30, 3), 3)
    one, other = (run_shared(parts, [[np.eye(3)]]).outcome.sent for _ in range(2))
    digests = [hashlib.sha256(repr(sent).encode()).digest() for sent in (one, other)]
    assert digests[0] == digests[1]
