"""The coordinator with one party, and the observer of the network: what they get is what the page states."""

import numpy as np
import pytest

from attacks import coordinator_with_party, observer
from attacks.coordinator_rows import linked_by_ratios, mutual_nearest, profiles
from attacks.transcripts import Case, record, recorded
from kcagc.protocol import secure_sum
from kcagc.protocol.messages import Masked


def figure_of(found, sentence):
    return next(one for one in found if one.sentence == sentence)


def test_the_coordinator_with_one_party_has_exact_sums_of_the_others_and_separates_them():
    """It is stated and not bounded; if it were less, the documentation would say too much."""
    exact, apart = coordinator_with_party.attack({"data": "demo", "parties": 3, "method": "cells"})
    assert exact.figure == 1.0
    assert apart.figure > 0.85 > apart.baseline


def test_an_observer_counts_nodes_and_sums_and_roughly_cells():
    nodes, cells, sums, _ = observer.attack({"data": "demo", "parties": 3, "method": "cells"})
    assert nodes.figure < 0.1
    assert 0.0 < cells.figure < 0.2
    assert sums.figure == 0.0


def test_without_padding_an_observer_counts_cells_exactly(monkeypatch):
    monkeypatch.setattr(secure_sum, "padded_length", lambda length: length)
    run = record(Case())
    length = next(len(message.words) for _, message in run.coordinator().messages(Masked)) // 8 - 2
    per_row, n_checks = (
        4,
        secure_sum.MIN_PROBES + len(run.inside.blinded["1.1", 0].copied),
    )  # five centres in groups of three and two
    (joint,) = run.inside.joint.values()
    assert (length - n_checks) / per_row / len(joint.starts) + joint.k == len(joint.sizes)


def test_the_time_of_messages_is_recorded_in_order():
    times = [one.at for one in observer.seen(recorded(Case()))]
    assert times == sorted(times)
    assert times[0] >= 0


# Sums with rows, as version 0.5.0 sent them


@pytest.fixture(scope="module")
def rows():
    """Two restarts of 60 cells that share three centres; each row has a factor of its own, and no two columns match."""
    random = np.random.RandomState(0)
    points = random.normal(size=(60, 4))
    starts = np.array([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]])
    away = ((points[None, :, None] - points[starts][:, None]) ** 2).sum(axis=3).reshape(120, 5)
    columns = np.argsort(random.random_sample(away.shape), axis=1)
    order = random.permutation(120)
    factors = random.uniform(1 / 16, 1, (120, 1))
    kept = (away > 0).all(axis=1)[order]
    return (factors * np.take_along_axis(away, columns, axis=1))[order][kept], (np.arange(120) % 60)[order][kept]


def test_equal_ratios_link_rows_of_one_cell_and_give_its_distances_up_to_a_scale(rows):
    values, cell = rows
    left, right = linked_by_ratios(values)
    assert (cell[left // 5] == cell[right // 5]).mean() > 0.99
    linked = np.unique(np.concatenate([left, right]) // 5)
    both = np.bincount(cell, minlength=60)[cell] == 2
    assert len(linked) >= 0.99 * both.sum()
    found = profiles(values, left, right)
    assert len(np.unique(found.component[both])) == both.sum() // 2


def test_mutual_nearest_rows_survive_factor_shift_and_order(rows):
    values, _ = rows
    random = np.random.RandomState(1)
    again = np.take_along_axis(values, np.argsort(random.random_sample(values.shape), axis=1), axis=1)
    shifted = random.uniform(0.1, 1, (len(values), 1)) * again + random.uniform(0, 100, (len(values), 1))
    left, right = mutual_nearest(values, shifted)
    assert len(left) == len(values)
    assert (left == right).all()


def test_a_party_that_is_the_aggregator_of_two_reads_the_other_partys_differences():
    """This mode is for operators who accept it by name: nothing is blinded, and one vector has no mask to share."""
    settings = (("aggregator", "party"), ("virtual_nodes", "local"))
    run = record(Case(parties=2, settings=settings))
    assert run.error is None
    first = run.of("party-2").opened()[0]
    (joint,) = run.inside.joint.values()
    about = run.inside.blinded[first.key].about
    parts = coordinator_with_party.differences_of(joint, "party-1", about)
    scale = float(np.median(first.values[parts > 0.1] / parts[parts > 0.1]))
    np.testing.assert_allclose(first.values / scale, parts, atol=1e-6)
