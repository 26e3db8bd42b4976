"""What the parties decide from signs: the nearest centre, the margin, the best restart, and when answers contradict."""

from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collaborations import parameters, pooled_kmeans
from kcagc.errors import PeerError
from kcagc.protocol.joint_kmeans import _LOOKAHEAD, _ROUNDING, _Costs, joint_kmeans
from kcagc.protocol.messages import Step
from kcagc.protocol.secure_sum import MAX_COPIES, MIN_PROBES, Comparisons, padded_length
from kcagc.protocol.tournament import NONE, nearest
from protocol.plain_sums import members, run_in_step, signs_of

seeds = st.integers(0, 10_000)
LIMITS = 32.0, 21
ONE = 1 << 21


def distances_of(random, n_parties, n_rows, k, kind):
    """Return each party's encoded distances; some kinds have many ties."""
    top = {"any": 32 * ONE, "ties": 3, "near": 5, "margin": 40}[kind]
    found = random.randint(top + 1, size=(n_parties, n_rows, k))
    if kind == "near":
        found += 20 * ONE
    if kind == "margin":  # multiples of four: the margin is tested to two bits less, and then exactly
        found *= 4 * random.randint(1, 1000)
    return found.astype(np.int64)


def tournament(distances, candidates, answer=None, **how):
    sums = members(len(distances))
    roles = [nearest(one, Step.MARGIN, own, candidates, **how) for one, own in zip(sums, distances, strict=True)]
    results = run_in_step(roles, answer)
    for other in results[1:]:
        for mine, theirs in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    return results[0], sums[0].number


kinds = st.sampled_from(["any", "ties", "near", "margin"])


@settings(max_examples=150)
@given(seed=seeds, n_parties=st.integers(2, 5), k=st.integers(1, 40), group_size=st.integers(2, 9), kind=kinds)
def test_the_winner_of_a_tournament_is_the_nearest_centre_and_of_equal_ones_the_first(
    seed, n_parties, k, group_size, kind
):
    random = np.random.RandomState(seed)
    distances = distances_of(random, n_parties, 12, k, kind)
    candidates = np.tile(np.arange(k), (12, 1))
    (found, clear, asked), n_sums = tournament(distances, candidates, group_size=group_size)
    np.testing.assert_array_equal(found, distances.sum(axis=0).argmin(axis=1))
    assert clear.all()
    assert ((asked >= k - 1) & (asked <= k * (k - 1) // 2)).all()
    assert group_size ** max(n_sums - 1, 0) < k or n_sums <= 1
    assert group_size**n_sums >= k


@settings(max_examples=150)
@given(seed=seeds, n_parties=st.integers(2, 5), k=st.integers(1, 40), group_size=st.integers(2, 9))
def test_a_winner_is_clear_if_nine_times_its_distance_is_at_most_every_other(seed, n_parties, k, group_size):
    random = np.random.RandomState(seed)
    distances = distances_of(random, n_parties, 30, k, "margin")
    nearer = random.randint(k, size=30)
    distances[:, np.arange(30), nearer] //= 4 * random.randint(1, 12)  # so that the margin holds for some
    distances[:, np.arange(30), nearer] *= 4
    (found, clear, _), _ = tournament(distances, np.tile(np.arange(k), (30, 1)), margin=True, group_size=group_size)
    ordered = np.sort(distances.sum(axis=0), axis=1)
    np.testing.assert_array_equal(found, distances.sum(axis=0).argmin(axis=1))
    np.testing.assert_array_equal(clear, 9 * ordered[:, 0] <= ordered[:, 1] if k > 1 else np.ones(30, dtype=bool))


@settings(max_examples=50)
@given(seed=seeds, n_parties=st.integers(2, 16), k=st.integers(2, 9))
def test_rounding_moves_the_margin_by_at_most_half_a_unit_of_22_bits_for_each_party(seed, n_parties, k):
    distances = distances_of(np.random.RandomState(seed), n_parties, 30, k, "any")
    distances[:, :, 0] //= 200  # near enough for the margin in some rows
    (_, clear, _), _ = tournament(distances, np.tile(np.arange(k), (30, 1)), margin=True)
    ordered = np.sort(distances.sum(axis=0), axis=1)
    beyond = ordered[:, 1] - 9 * ordered[:, 0]
    assert clear[beyond >= 2 * n_parties].all()
    assert not clear[beyond < -2 * n_parties].any()


@settings(max_examples=100)
@given(seed=seeds, n_parties=st.integers(2, 4), k=st.integers(2, 20), group_size=st.integers(2, 8), kind=kinds)
def test_rows_with_fewer_candidates_choose_among_theirs(seed, n_parties, k, group_size, kind):
    random = np.random.RandomState(seed)
    distances = distances_of(random, n_parties, 15, k, kind)
    chosen = [np.sort(random.permutation(k)[: random.randint(1, k + 1)]) for _ in range(15)]
    longest = max(map(len, chosen))
    candidates = np.array([[*own, *[NONE] * (longest - len(own))] for own in chosen])
    (found, _, asked), _ = tournament(distances, candidates, group_size=group_size)
    total = distances.sum(axis=0)
    assert found.tolist() == [int(own[total[row, own].argmin()]) for row, own in enumerate(chosen)]
    assert all(taken >= len(own) - 1 for taken, own in zip(asked, chosen, strict=True))


def test_one_candidate_needs_no_sum():
    (found, clear, asked), n_sums = tournament(np.ones((2, 5, 3), dtype=np.int64), np.full((5, 1), 2), margin=True)
    assert (found.tolist(), clear.tolist(), asked.tolist(), n_sums) == ([2] * 5, [True] * 5, [0] * 5, 0)


def test_every_answer_that_no_order_has_is_refused():
    """Of the eight answers to three comparisons two are cycles."""
    pairs = [(0, 1), (0, 2), (1, 2)]
    orders = {tuple(order.index(b) < order.index(a) for a, b in pairs) for order in permutations(range(3))}
    assert len(orders) == 6
    for told in product([False, True], repeat=3):
        run = partial(
            tournament, np.ones((2, 1, 3), dtype=np.int64), np.arange(3)[None], lambda *_, told=told: np.array(told)
        )
        if told in orders:
            run()
        else:
            with pytest.raises(PeerError, match=r"answers contradict each other \(group all, sum 0\)") as caught:
                run()
            assert caught.value.peer == "aggregator"


# Lengths


@given(st.integers(1, 10**9))
def test_a_padded_length_has_room_and_is_a_power_of_two_times_4_to_7(length):
    found = padded_length(length)
    assert found >= length
    assert found <= max(length + 1, 5 * length / 4)
    while found > 7 and found % 2 == 0:
        found //= 2
    assert found <= 7


@given(st.integers(1, 10**6), st.integers(0, 10**5))
def test_longer_vectors_are_not_shorter_when_padded(length, more):
    assert padded_length(length) <= padded_length(length + more)
    assert padded_length(padded_length(length)) == padded_length(length)


def test_few_lengths_are_seen():
    """Four for every doubling: a length tells how many comparisons there are only to a quarter."""
    assert sorted({padded_length(length) for length in range(129, 1025)}) == [
        160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
    ]  # fmt: skip
    assert (MIN_PROBES, MAX_COPIES) == (64, 64)


# Costs of restarts


def costs_of(n_parties):
    return [_Costs(one) for one in members(n_parties)]


def compared(costs, new, answer=None):
    """Let all parties compare; `new` has each party's parts. Return the best restart and those that stop."""
    asked = [one.compare({restart: parts[place] for restart, parts in new.items()}) for place, one in enumerate(costs)]
    signs = signs_of(asked) if len(asked[0]) else np.zeros(0, dtype=bool)
    signs = signs if answer is None else answer(signs)
    (stopped,) = {frozenset(one.read(signs)) for one in costs}
    (best,) = {one.best for one in costs}
    return best, set(stopped)


def alone(**costs):
    """Costs that one of two parties has, by restart."""
    return {int(name[1:]): [cost, 0] for name, cost in costs.items()}


def test_the_restart_with_the_lowest_cost_wins_and_of_equal_ones_the_first():
    assert compared(costs_of(2), alone(_0=5 * ONE, _1=3 * ONE, _2=3 * ONE - 1)) == (2, set())
    assert compared(costs_of(2), alone(_2=3 * ONE, _1=3 * ONE, _0=5 * ONE)) == (1, set())
    assert compared(costs_of(2), alone(_3=7)) == (3, set())


def test_a_restart_stops_if_three_more_such_falls_would_not_reach_the_lowest_cost():
    costs, least, fall = costs_of(2), 10 * ONE, ONE
    edge = least + _LOOKAHEAD * fall
    assert compared(costs, alone(_1=edge + fall, _2=edge + 4 + fall, _3=least)) == (3, set())
    assert compared(costs, alone(_1=edge, _2=edge + 4, _3=least)) == (3, {2})
    assert compared(costs, alone(_1=edge - 1, _3=least)) == (3, {1})  # a smaller fall
    assert all(set(one.known) == {3} for one in costs)


def test_a_restart_without_an_earlier_cost_does_not_stop():
    assert compared(costs_of(2), alone(_0=20 * ONE, _1=ONE)) == (1, set())


@settings(max_examples=100)
@given(seed=seeds, n_parties=st.integers(2, 5), count=st.integers(1, 8), rounds=st.integers(1, 6))
def test_costs_that_fall_are_never_refused_and_the_best_restart_never_stops(seed, n_parties, count, rounds):
    """Parts of single parties rise and fall; restarts end at any time, and their costs stay."""
    random = np.random.RandomState(seed)
    costs = costs_of(n_parties)
    now = {one: random.randint(16 * ONE, 30 * ONE, size=n_parties) for one in range(count)}
    known = dict(now)
    for _ in range(rounds):
        best, stopped = compared(costs, now)
        assert best == min(sorted(known), key=lambda one: known[one].sum())
        assert best not in stopped
        for one in stopped:
            del known[one]
        now = {}
        for one, parts in known.items():
            if random.rand() < 0.8:
                change = random.randint(-2 * ONE, ONE, size=n_parties) * random.randint(2)
                change[0] -= max(change.sum(), 0)
                now[one] = parts + change
        known |= now
        if not now:
            break


@pytest.mark.parametrize("n_parties", [2, 3, 16])
def test_a_cost_may_rise_by_rounding_and_not_by_more(n_parties):
    costs = costs_of(n_parties)
    compared(costs, {0: [ONE] * n_parties})
    compared(costs, {0: [ONE + _ROUNDING] * n_parties})
    with pytest.raises(PeerError, match="the cost of a restart rose, which k-means cannot do") as caught:
        compared(costs, {0: [ONE + 2 * _ROUNDING + 1, *[ONE + 2 * _ROUNDING] * (n_parties - 1)]})
    assert caught.value.peer == "aggregator"
    assert "or a party sent numbers that are not its distances" in str(caught.value)


def test_contradictory_orders_of_restarts_are_refused():
    def cycle(signs):
        return np.array([True, False, True])  # 0 dearer than 1, 0 cheaper than 2, 1 dearer than 2

    with pytest.raises(PeerError, match="answers about costs contradict each other"):
        compared(costs_of(2), alone(_0=ONE, _1=ONE, _2=ONE), cycle)


# Honest runs


def tables(random, n_parties, n_rows, kind):
    """Return a table for each party; most kinds have equal rows, equal distances, or differences of a few units."""
    groups = random.randint(max(n_rows // 3, 1), size=n_rows)
    found = []
    for _ in range(n_parties):
        table = random.normal(size=(n_rows, random.randint(1, 4)))
        if kind == "grid":
            table = np.floor(3 * random.uniform(size=table.shape))
        elif kind == "equal":
            table = table[groups]
        elif kind == "two":
            table = np.zeros_like(table) + (random.uniform(size=(n_rows, 1)) < 0.2)
        elif kind == "tiny":
            table *= 2.0**-12
        elif kind == "nearly equal":
            table = table[groups] + 2.0**-13 * random.normal(size=table.shape)
        elif kind == "far":
            table += 10.0 ** random.randint(6)
        widest = ((table[:, None] - table) ** 2).sum(axis=2).max()
        found.append(table * min(1.0, np.sqrt(31 / widest)) if widest else table)
    return found


KINDS = ["any", "grid", "equal", "two", "tiny", "nearly equal", "far"]


def honest_run(seed, kind):
    """Run joint k-means on random tables, with any number of clusters up to the number of rows."""
    random = np.random.RandomState(seed)
    n_parties, n_rows = random.randint(2, 6), random.randint(2, 30)
    k = random.randint(1, n_rows + 1) if random.rand() < 0.5 else random.randint(1, min(n_rows, 6) + 1)
    sizes = (
        np.ones(n_rows, dtype=np.int64)
        if random.rand() < 0.3
        else random.randint(1, 10 ** random.randint(1, 6), n_rows)
    )
    rows = tables(random, n_parties, n_rows, kind)
    starts = np.stack([random.choice(n_rows, k, replace=False) for _ in range(random.randint(1, 6))])
    chosen = parameters(max_iter=int(random.choice([1, 2, 5, 60])))
    roles = [
        joint_kmeans(one, own, sizes, k, starts, seed, chosen)
        for one, own in zip(members(n_parties, *LIMITS), rows, strict=True)
    ]
    return run_in_step(roles), (rows, sizes, k, starts, seed, chosen.max_iter, *LIMITS)


@pytest.mark.parametrize("kind", KINDS)
def test_no_honest_run_is_refused_and_all_parties_find_what_one_with_all_tables_would(kind):
    """No cost rises and no answers contradict, whatever rows are equal and clusters become empty."""
    for seed in range(40):
        found, inputs = honest_run(seed, kind)
        expected = pooled_kmeans(*inputs)
        for one in found:
            np.testing.assert_array_equal(one.labels, expected)


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_honest_runs_on_any_tables_are_not_refused(seed, kind):
    found, _ = honest_run(seed, kind)
    assert len({one.labels.tobytes() for one in found}) == 1


def test_only_comparisons_that_are_not_known_are_asked():
    """Not for starting rows, not with a row's own centre, and not between centres that have not moved."""
    random = np.random.RandomState(3)
    groups = np.arange(60) % 3
    rows = [np.eye(3)[groups] + 0.01 * random.normal(size=(60, 3)) for _ in range(2)]
    starts, asked = np.array([[0, 1, 2], [3, 4, 5]]), []

    def counted(signs, _):
        asked.append(len(signs))
        return signs

    roles = [
        joint_kmeans(one, own, np.ones(60, dtype=np.int64), 3, starts, 0, parameters(max_iter=30))
        for one, own in zip(members(2), rows, strict=True)
    ]
    found, _ = run_in_step(roles, counted)
    np.testing.assert_array_equal(found.labels, groups)
    first = 2 * 57 * (3 + 6)  # pairs, and margins of three centres over two others, for all but the starting rows
    # Both restarts reach the same partition in the first round, and the second joins the first.
    second = 2 * 60 * 2 + 1  # and one order of costs
    third = 0 + 1 + 1 + 1  # no centre moves: the order of costs, whether to stop, and that the cost did not rise
    assert asked == [first, second, third]
    assert (found.sums.winning, found.sums.other_restarts) == (57 * 9 + 120, 57 * 9 + 120)
    assert found.sums.costs == 4


def test_comparisons_are_joined_in_their_order():
    one, two = Comparisons(np.array([1, 2]), np.array([True, False])), Comparisons(np.array([3]), np.array([True]))
    joined = Comparisons.joined([one, two])
    assert (joined.parts.tolist(), joined.ties.tolist(), len(joined)) == ([1, 2, 3], [True, False, True], 3)
