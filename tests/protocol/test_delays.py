"""How many messages must travel one after another: counted by a clock of messages, and as the results say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collaborations import parameters, random_parties
from kcagc.protocol.fit import EXCHANGE
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


def check_two(run, results):
    told = agree_with_the_clock(run, results)
    (merge,) = results[0].merges
    ((_, asked),) = rounds_of(run).items()
    assert merge.rounds == len(asked)
    assert sorted(step for _, step in asked) == ["lloyd"] * (merge.rounds - 1) + ["margin"]
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
        assert merge.n_iter <= merge.rounds - 1 <= max_iter


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
        check_two(run, results)
    else:  # as many cells as clusters
        assert agree_with_the_clock(run, results) == 4


@pytest.mark.parametrize("method", ["cells", "basic"])
def test_restarts_take_no_longer_than_the_longest_of_them(method):
    """One sum a round serves all starts: ten of them end when the last of the ten does, or sooner."""
    for seed in range(4):
        run, results = timed_run(seed, 2, method=method, n_init=10)
        check_two(run, results)
        (asked,) = rounds_of(run).values()
        every = [message for _, _, message in run.heard if isinstance(message, Masked) and message.step == "lloyd"]
        longest = max(sum(start in one.costs for one in every) // 2 for start in range(10))
        assert len(asked) == 1 + longest


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


def test_all_parties_side_by_side_take_as_long_as_two():
    for n_parties in (3, 6):
        run, results = timed_run(1, n_parties, n_init=3)
        check_two(run, results)
