"""The critical path is found from the events that every role recorded."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.paper.network.critical_path import critical_path, summed_up, table
from experiments.paper.network.roles import MeasuredRole


def role(name, *events, party=True):
    return MeasuredRole(name, {}, np.zeros(1) if party else None, list(events), 0, 0.0, None)


def receiving(at, peer, message, *work, arrived=None):
    """Return the events of a received message, and the work of its receiver."""
    return [(at if arrived is None else arrived, "arrives", peer), (at, "receives", [peer, message, 10]), *work]


def sent(at, peer, message):
    return (at, "sends", [peer, message, 10])


def test_a_question_and_its_answer():
    aggregator = role("aggregator", *receiving(1.1, "a", "question", sent(1.3, "a", "answer")), party=False)
    local = [(1.5, "local begins", ""), (1.9, "local ends", 0.3), (2.0, "commit", 0.05)]
    party = role("a", sent(0.2, "aggregator", "question"), *receiving(1.4, "aggregator", "answer", *local),
                   (2.1, "labels", ""))  # fmt: skip
    first, second = critical_path([party, aggregator], start_time=1.0)
    assert (first.sender, first.receiver, first.message, first.sent_at) == ("a", "aggregator", "question", 0.0)
    assert first.in_transit == pytest.approx(0.1)  # since all are connected
    assert first.answering == pytest.approx(0.2)
    assert second.in_transit == pytest.approx(0.1)
    assert second.answering == pytest.approx(0.7)
    assert second.local == pytest.approx(0.4)
    assert summed_up([first, second]) == {
        "messages": 2,
        "in_transit": 0.2,
        "local_work": 0.4,
        "commits": 0.05,
        "other_work": 0.45,
    }
    assert table([first, second]).count("\n") == 2


def test_a_message_that_arrives_during_work_is_not_on_the_path():
    long_work = receiving(1.2, "aggregator", "begin")
    quick = receiving(5.0, "aggregator", "more", sent(5.1, "aggregator", "result"), arrived=2.0)
    party = role("a", *long_work, *quick, *receiving(6.0, "aggregator", "thanks"), (6.1, "labels", ""))
    aggregator = role(
        "aggregator",
        *receiving(1.05, "b", "ready", sent(1.1, "a", "begin"), sent(1.6, "a", "more")),
        *receiving(5.5, "a", "result", sent(5.8, "a", "thanks")),
        party=False,
    )
    other = role("b", sent(0.9, "aggregator", "ready"), (5.0, "labels", ""))
    steps = critical_path([party, aggregator, other], start_time=1.0)
    assert [step.message for step in steps] == ["ready", "begin", "result", "thanks"]
    total = sum(step.in_transit + step.answering for step in steps)
    assert total == pytest.approx(6.1 - 1.0)


def test_of_many_messages_the_last_to_come_counts():
    late = receiving(3.0, "b", "vector", sent(3.1, "a", "answer"))
    aggregator = role("aggregator", *receiving(2.0, "a", "vector"), *late, party=False)
    one = role("a", sent(0.5, "aggregator", "vector"), *receiving(3.3, "aggregator", "answer"), (3.4, "labels", ""))
    two = role("b", sent(0.6, "aggregator", "vector"), (3.2, "labels", ""))
    first, second = critical_path([one, two, aggregator], start_time=1.0)
    assert (first.sender, first.in_transit) == ("b", pytest.approx(2.0))
    assert second.receiver == "a"
