"""The harness gives an attack exactly what its role has, and evaluators the truth."""

import numpy as np

from attacks.results import Figure, figures, stored
from attacks.transcripts import Case, record, record_prediction, recorded
from kcagc.protocol import aggregator
from kcagc.protocol.messages import PackedLabels

DEMO = Case()


def test_the_same_case_gives_the_same_bytes_and_another_session_others():
    again, other = record(DEMO), record(Case(session=1))
    assert [one.payload for one in again.events] == [one.payload for one in recorded(DEMO).events]
    assert other.coordinator().session_id() != again.coordinator().session_id()


def test_the_sums_of_the_coordinators_transcript_are_those_that_it_opened(monkeypatch):
    opened = []
    real = aggregator.open_sum

    def spied(*given):
        opened.append(real(*given))
        return opened[-1]

    monkeypatch.setattr(aggregator, "open_sum", spied)
    found = record(DEMO).coordinator().opened()
    assert len(found) == len(opened) > 2
    for one, true in zip(found, opened, strict=True):
        np.testing.assert_array_equal(one.values, true)


def test_a_role_has_its_own_messages_contents_and_data_only():
    run = recorded(DEMO)
    party, coordinator = run.of("party-2"), run.coordinator()
    assert all("party-2" in (one.sender, one.receiver) for one in party.events)
    assert set(party.data) == {"party-2"} == set(party.secrets)
    assert not coordinator.contents
    assert not coordinator.data
    assert {one.known_to for one in party.contents} == {"party-2"}
    assert any(isinstance(one.content, PackedLabels) and one.sender == "party-1" for one in party.contents)
    assert party.group_keys() == run.of("party-1").group_keys() != {}
    assert coordinator.group_keys() == {}


def test_a_prediction_is_recorded_as_a_session_of_its_own():
    found = record_prediction(recorded(DEMO), np.arange(10))
    assert found.error is None
    assert all(len(result.labels) == 10 for result in found.results.values())
    assert {one.step for one in found.coordinator().opened()} == {"prediction"}


def test_evaluators_get_the_rows_of_every_party():
    run = recorded(DEMO)
    (joint,) = run.inside.joint.values()
    assert set(joint.rows) == set(run.data)
    assert joint.sizes.sum() == 600


def test_figures_survive_storage():
    one = Figure("party", "cells", "demo, 3 parties", "a", "b", "AUC", 0.5, 0.5, None, 3, "key")
    assert list(figures(stored([one]))) == [one]
    assert one.holds
    assert not Figure("party", "cells", "demo, 3 parties", "a", "b", "AUC", 0.6, 0.5, 0.55, 3, "key").holds
