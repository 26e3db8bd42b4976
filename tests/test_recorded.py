"""The current code produces what an earlier version produced, run by run."""

import json
from pathlib import Path

import pytest

from recorded.record import RUNS, observe

RECORDING = json.loads((Path(__file__).parent / "recorded" / "0.5.0.json").read_text(encoding="utf-8"))
BYTES = 0.02  # names on the wire may become longer or shorter


def runs():
    for name, (dataset, *_) in RUNS.items():
        yield pytest.param(name, marks=[] if dataset == "demo" else pytest.mark.real_data)


@pytest.mark.parametrize("name", list(runs()))
def test_labels_messages_and_bytes_are_those_of_the_recording(name):
    expected, found = RECORDING["runs"][name], observe(name)
    assert found.keys() == expected.keys()
    for task, values in expected.items():
        bytes_of_roles = pytest.approx(values["bytes"], rel=BYTES)
        assert found[task] == values | {"bytes": bytes_of_roles}


def test_the_recording_has_every_run():
    assert list(RECORDING["runs"]) == list(RUNS)
