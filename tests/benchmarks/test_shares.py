"""A role's time divides without remainder into kinds of work, network and waiting."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.instruments import KINDS, ORDER, _functions, _modules
from benchmarks.shares import shares
from experiments.paper.network.roles import MeasuredRole


def role(name, *events):
    return MeasuredRole(name, {}, np.zeros(1), list(events), 0, 0.0, None)


def step(begin, end, **kinds):
    return (end, "step", [begin, end, {kind.replace("_", " "): seconds for kind, seconds in kinds.items()}])


def test_work_network_and_waiting_add_up():
    party = role("a", step(1.0, 2.0, masking=0.75, other_work=0.25), (2.0, "sends", ["aggregator", "x", 1]),
                 (5.5, "arrives", "aggregator"), step(5.5, 6.0, encoding=0.5))  # fmt: skip
    aggregator = role(
        "aggregator", (2.5, "arrives", "a"), step(2.5, 5.0, joint_work=2.5), (5.0, "sends", ["a", "y", 1])
    )
    found = shares([party, aggregator], 1.0, 6.0)
    assert {kind: spent for kind, spent in found["a"].items() if spent} == pytest.approx(
        {"masking": 0.75, "other work": 0.25, "encoding": 0.5, "network": 1.0, "waiting": 2.5}
    )
    assert found["aggregator"]["network"] == pytest.approx(1.0)  # 2.0 to 2.5 and 5.0 to 5.5
    for one in found.values():
        assert sum(one.values()) == pytest.approx(5.0)


def test_work_before_the_beginning_counts_only_for_what_lies_after_it():
    found = shares([role("a", step(0.0, 2.0, journal=2.0))], 1.0, 4.0)["a"]
    assert found["journal"] == pytest.approx(1.0)
    assert found["waiting"] == pytest.approx(2.0)


def test_messages_under_way_together_count_once():
    party = role("a", *[(at, "sends", ["aggregator", "x", 1]) for at in (1.0, 1.1, 1.2)])
    aggregator = role("aggregator", *[(at, "arrives", "a") for at in (2.0, 2.1, 2.2)])
    assert shares([party, aggregator], 1.0, 3.0)["a"]["network"] == pytest.approx(1.2)


def test_every_module_that_is_clocked_is_there_and_has_functions():
    assert set(KINDS.values()) < set(ORDER)
    for kind, module in _modules():
        if module.__name__ in KINDS and not hasattr(module, "__path__"):
            assert any(True for _ in _functions(module)), (kind, module.__name__)
