"""How many messages must travel one after another: counted by a clock of messages, and as the results say."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collaborations import parameters, random_parties
from kcagc.cluster import joint
from kcagc.protocol import joint_kmeans
from kcagc.protocol.fit_result import EXCHANGE
from kcagc.protocol.messages import Masked
from protocol.timed_runs import TimedRun

few = settings(max_examples=12)
aggregators = pytest.mark.parametrize("aggregator", ["coordinator", "party"])


def timed_run(seed, n_parties, n_nodes=30, **changes):
    run = TimedRun.fit(parameters(**changes), random_parties(seed, n_parties, n_nodes=n_nodes), seed=seed)
    return run, list(run.run().values())


def rounds_of(run):
    """By group, the sums that were asked for."""
    found = {}
    for _, _, message in run.heard:
        if isinstance(message, Masked):
            found.setdefault(message.group, set()).add((message.number, message.step))
    return found


def agree_with_the_clock(run, results):
    """What the results say is when the last party knew its labels; that all have the same it knows a little later."""
    (told,) = {result.delays for result in results}
    assert len(results) == len(run.parties)
    assert max(run.knows.values()) == told
    assert max(run.ended[name] for name in run.parties) == told + EXCHANGE
    assert EXCHANGE == 2
    return told


def first_sums(k):
    """Return how many sums the first assignment to k clusters takes: groups of four, and their winners again."""
    return next(count for count in range(20) if 4**count >= k)


def check_two(run, results, k=3):
    told = agree_with_the_clock(run, results)
    (merge,) = results[0].merges
    ((_, asked),) = rounds_of(run).items()
    assert merge.rounds == len(asked)
    lloyd = merge.rounds - first_sums(k)
    assert [step for _, step in sorted(asked)] == ["margin"] * first_sums(k) + ["lloyd"] * lloyd
    assert told <= 4 + 2 * merge.rounds
    return merge


@aggregators
@pytest.mark.parametrize("method", ["cells", "basic"])
@pytest.mark.parametrize("max_iter", [1, 2, 30])
@pytest.mark.parametrize("n_init", [1, 10])
def test_two_parties_know_their_labels_after_four_delays_and_two_a_round(n_init, max_iter, method, aggregator):
    for seed in range(3):
        run, results = timed_run(seed, 2, method=method, aggregator=aggregator, n_init=n_init, max_iter=max_iter)
        merge = check_two(run, results)
        assert max_iter == 2 or merge.converged == (max_iter == 30)
        # One sum an iteration, and one more if rows have several nearer centres. The first iteration of a single
        # restart may need none, if no centre moved and no cost is known.
        assert merge.n_iter - (n_init == 1) <= merge.rounds - 1 <= 2 * max_iter


@aggregators
@few
@given(
    seed=st.integers(0, 10_000), n_init=st.sampled_from([1, 2, 10]), k=st.integers(2, 4), max_iter=st.integers(1, 30)
)
def test_whatever_the_data_two_parties_wait_for_no_more_than_that(aggregator, seed, n_init, k, max_iter):
    run, results = timed_run(
        seed, 2, n_nodes=24, aggregator=aggregator, n_init=n_init, n_clusters=k, n_local_clusters=4, max_iter=max_iter
    )
    if results[0].merges[0].rounds:
        check_two(run, results, k)
    else:  # as many cells as clusters
        assert agree_with_the_clock(run, results) == 4


@pytest.mark.parametrize("method", ["cells", "basic"])
def test_restarts_take_no_longer_than_the_longest_of_them(method, monkeypatch):
    """One sum a round serves all restarts: ten of them end when the last of the ten does, or sooner."""
    active, real = [], joint_kmeans._nearest_centers

    async def watched(sums, rows, sizes, restarts, costs):
        active.append((sums.channel.me, sums.number, len(restarts)))
        return await real(sums, rows, sizes, restarts, costs)

    monkeypatch.setattr(joint_kmeans, "_nearest_centers", watched)
    for seed in range(4):
        active.clear()
        run, results = timed_run(seed, 2, method=method, n_init=10)
        merge = check_two(run, results)
        own = [(number, count) for name, number, count in active if name == "party-1"]
        assert own[0][1] == 10
        assert all(later <= earlier for (_, earlier), (_, later) in pairwise(own))
        assert merge.rounds - first_sums(3) <= 2 * len(own)
        assert all(1 <= later - earlier <= 2 for (earlier, _), (later, _) in pairwise(own))


@aggregators
@pytest.mark.parametrize("n_parties", [3, 4, 5, 8, 16])
def test_a_tree_takes_no_longer_than_the_slowest_merge_of_each_layer(n_parties, aggregator):
    for fan_in in (2, 3):
        run, results = timed_run(n_parties, n_parties, method="tree", fan_in=fan_in, aggregator=aggregator)
        told = agree_with_the_clock(run, results)
        merges = {merge.group: merge for result in results for merge in result.merges}
        asked = rounds_of(run)
        slowest = {}
        for group, merge in merges.items():
            assert merge.rounds == len(asked.get(group, ()))
            slowest[merge.layer] = max(slowest.get(merge.layer, 0), merge.rounds)
        assert told <= sum(4 + 2 * rounds for rounds in slowest.values())
        if n_parties == 16 and fan_in == 2:
            assert len(slowest) == 4


@aggregators
@few
@given(seed=st.integers(0, 10_000), n_parties=st.integers(3, 6), fan_in=st.integers(2, 4), n_init=st.integers(1, 3))
def test_the_results_of_any_tree_agree_with_the_clock(aggregator, seed, n_parties, fan_in, n_init):
    run, results = timed_run(
        seed, n_parties, n_nodes=20, method="tree", fan_in=fan_in, aggregator=aggregator, n_init=n_init, max_iter=6
    )
    agree_with_the_clock(run, results)


@pytest.mark.parametrize("joint_rows", ["shares", "coordinator"])
@pytest.mark.parametrize("n_parties", [2, 3])
@pytest.mark.parametrize("sampled", [30, 60, 150], ids=["sample", "larger sample", "all nodes"])
@pytest.mark.parametrize("k", [3, 9])
def test_the_results_of_the_joint_method_agree_with_the_clock(k, sampled, n_parties, joint_rows, monkeypatch):
    """Also if weights are opened for the nodes outside the sample, in a sum and a message that is relayed."""
    monkeypatch.setattr(joint, "MIN_SAMPLE", sampled)
    monkeypatch.setattr(joint, "SAMPLE_VALUES", sampled)
    run, results = timed_run(
        1, n_parties, n_nodes=150, method="joint", joint_rows=joint_rows, n_clusters=k, min_local_size=1, max_iter=3
    )
    told = agree_with_the_clock(run, results)
    (asked,) = rounds_of(run).values()
    steps = [step for _, step in sorted(asked)]
    assert results[0].merges[0].rounds == len(asked)
    opened = "weights" in steps
    assert opened == (joint_rows == "shares" and sampled < 150)
    assert ("assignment" in steps) == (sampled < 150)
    assert told == 2 * (2 + len(asked) + opened)


def test_all_parties_side_by_side_take_as_long_as_two():
    for n_parties in (3, 6):
        run, results = timed_run(1, n_parties, n_init=3)
        check_two(run, results)
