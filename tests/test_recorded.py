"""The current code finds the clusters that an earlier version found, at a bounded cost, run by run.

Version 0.5.0 opened sums of distances. Comparisons by sign take more rounds: a tournament finds the nearest centre.
"""

import json
from pathlib import Path

import pytest

from recorded.record import RUNS, observe

RECORDING = json.loads((Path(__file__).parent / "recorded" / "0.5.0.json").read_text(encoding="utf-8"))
REMOVED = {"demo: seeding d2"}  # runs with settings that no longer exist
SAME = ("labels", "iterations", "cells")
MOST = 2  # times the rounds, messages and bytes of the recording


def runs():
    for name, (dataset, *_) in RUNS.items():
        yield pytest.param(name, marks=[] if dataset == "demo" else pytest.mark.real_data)


@pytest.mark.parametrize("name", list(runs()))
def test_labels_are_those_of_the_recording_and_the_cost_is_bounded(name):
    expected, found = RECORDING["runs"][name], observe(name)
    assert found.keys() == expected.keys()
    for task, values in expected.items():
        for key in SAME:
            assert found[task].get(key) == values.get(key), (task, key)
        assert found[task].get("rounds", 0) <= MOST * values.get("rounds", 0)
        for measure in ("messages", "bytes"):
            assert found[task][measure]["total"] <= MOST * values[measure]["total"], (task, measure)


def test_the_recording_has_every_run():
    assert set(RECORDING["runs"]) == set(RUNS) | REMOVED
