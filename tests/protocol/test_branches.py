"""Merges of a tree go on as soon as those below them are done, whatever happens in other branches."""

import numpy as np
import pytest

from collaborations import parameters, random_parties, run_fit
from kcagc.protocol.messages import Answer, Finished, Masked
from protocol.timed_runs import TimedRun

SLOW = "party-7"  # in group 1.4, under 2.2


@pytest.mark.parametrize("aggregator", ["coordinator", "party"])
def test_a_slow_group_does_not_hold_up_another_branch(aggregator):
    chosen = parameters(method="tree", fan_in=2, aggregator=aggregator, n_local_clusters=4)
    data = random_parties(5, 8, n_nodes=40)
    run = TimedRun.fit(chosen, data, held=lambda sender, message: sender == SLOW and isinstance(message, Masked))
    assert run.run() == {}
    answered = {message.group for _, _, message in run.heard if isinstance(message, Answer)}
    done = {(sender, message.group) for sender, _, message in run.heard if isinstance(message, Finished)}
    assert answered == {"1.1", "1.2", "1.3", "2.1"}
    assert {(f"party-{number}", "2.1") for number in range(1, 5)} <= done
    assert not {group for _, group in done} & {"1.4", "2.2", "3.1"}

    run.held = lambda *_: False
    results = run.run()
    assert set(results) == set(data)
    expected = run_fit(chosen, data)["party-1"].labels
    for result in results.values():
        np.testing.assert_array_equal(result.labels, expected)
