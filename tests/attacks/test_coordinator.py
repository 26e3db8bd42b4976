"""The coordinator learns no more than the threat model says, and each of its attacks finds a leak that is planted."""

from dataclasses import replace

import numpy as np
import pytest

from attacks import coordinator, coordinator_values
from attacks.coordinator import Reporter, attack_fit, attack_predictions, failures
from attacks.coordinator_links import LINKS, common_divisors
from attacks.coordinator_truth import PROBE, Entries
from attacks.transcripts import Case, Sum, record, recorded
from kcagc.protocol import secure_sum
from kcagc.secagg.blinding import Blinding, FactorRange

DEMO = Case()
SMALL = Case(settings=(("n_init", 4),))  # for planted leaks


def sums_of(run):
    sums = run.coordinator().opened()
    return sums, [run.inside.blinded[one.key].entries() for one in sums]


@pytest.fixture(scope="module")
def figures():
    return attack_fit(recorded(DEMO))


@pytest.fixture(scope="module")
def predictions():
    return attack_predictions(recorded(DEMO))


def test_the_truth_of_every_entry_is_the_one_that_was_blinded():
    for one, entries in zip(*sums_of(recorded(DEMO)), strict=True):
        off = np.abs(one.values) / entries.factors - np.abs(entries.delta)
        assert np.abs(off).max() < 1.01
        assert len(one.values) == len(entries.delta)


@pytest.mark.parametrize("sentence", ["links", "signs", "magnitudes", "checks"])
def test_every_figure_of_a_fit_is_within_its_bound(figures, sentence):
    found = [one for one in figures if one.sentence == sentence]
    assert found
    assert not failures(one for one in found if not coordinator.is_open(one))


def test_every_figure_of_a_prediction_of_single_nodes_is_within_its_bound(predictions):
    assert not failures(one for one in predictions if not coordinator.is_open(one))


def test_every_open_weakness_is_still_there(figures, predictions):
    """A weakness that is repaired leaves the list."""
    beyond = {(one.method == "prediction", one.sentence, one.by) for one in failures([*figures, *predictions])}
    assert beyond >= coordinator.OPEN


# Planted leaks


def planted(monkeypatch, **changes):
    """Run with another blinding: `factors`, `negative` or `order` as functions of what it should be."""
    real = Blinding.from_key.__func__

    def from_key(cls, *given):
        found = real(cls, *given)
        return replace(found, **{name: change(getattr(found, name)) for name, change in changes.items()})

    monkeypatch.setattr(Blinding, "from_key", classmethod(from_key))
    run = record(SMALL)
    assert run.error is None
    return run, *sums_of(run)


def broken(found, sentence, by):
    return [one for one in found if one.sentence == sentence and one.by == by and not one.holds]


def test_factors_of_four_octaves_show_the_differences(monkeypatch):
    few = FactorRange.of_sum(3)
    narrow = replace(few, first=few.last - 4 * 256)
    monkeypatch.setattr(FactorRange, "of_sum", classmethod(lambda cls, *_: narrow))
    run, sums, truth = planted(monkeypatch)
    found = coordinator.magnitude_figures(Reporter(run), sums, truth)
    assert all(not one.holds for one in found)
    assert found[0].figure > 0.5


def test_the_same_factor_for_all_shows_equal_differences(monkeypatch):
    run, sums, truth = planted(
        monkeypatch, mantissas=lambda real: np.full_like(real, 1 << 30), octaves=lambda real: np.full_like(real, 30)
    )
    assert broken(coordinator.link_figures(Reporter(run), sums[:2], truth[:2]), "links", "nearest values")


def test_a_factor_for_a_whole_sum_leaves_ratios():
    values = np.random.RandomState(0).randint(1 << 20, 1 << 40, 300)
    order = np.random.RandomState(1).permutation(300)
    left, right = LINKS["equal ratios"](3 * values, 1000 * values[order])
    assert (left == order[right]).mean() > 0.9


def test_without_sign_flips_the_signs_are_the_results(monkeypatch):
    run, sums, truth = planted(monkeypatch, negative=np.zeros_like)
    found = coordinator.sign_figures(Reporter(run), sums, truth)
    assert {one.by for one in found if not one.holds} >= {"frequency", "runs", "sign"}


def test_without_a_secret_order_positions_link_entries(monkeypatch):
    run, sums, truth = planted(monkeypatch, order=lambda real: np.arange(len(real)))
    assert broken(coordinator.link_figures(Reporter(run), sums[:2], truth[:2]), "links", "same position")


def test_without_padding_the_length_gives_the_number_of_cells(monkeypatch):
    for module in (secure_sum, coordinator_values):
        monkeypatch.setattr(module, "padded_length", lambda length: length)
    run, sums, truth = planted(monkeypatch)
    (found,) = (one for one in coordinator.count_figures(Reporter(run), run, sums, truth) if one.sentence == "counts")
    assert found.figure < 0.005


def entries_of(delta, row):
    about = np.stack([np.zeros_like(row), row, np.zeros_like(row), np.ones_like(row)], axis=1)
    kind = np.zeros(len(row), dtype=int)
    return Entries(delta, about, kind, np.arange(len(row)), np.ones(len(row)))


def blinded(delta, seed=0, lowest=6, highest=33):
    """Blind with integer factors and offsets, in no particular order."""
    random = np.random.RandomState(seed)
    factors = (2.0 ** random.uniform(lowest, highest, len(delta))).astype(np.int64)
    offsets = np.rint(random.uniform(-1, 1, len(delta)) * (factors - 1)).astype(np.int64)
    return (factors * delta + offsets) * random.choice([-1, 1], len(delta))


def test_copies_under_small_integer_factors_have_a_common_divisor_up_to_the_offset():
    delta = np.repeat(2 * np.random.RandomState(1).randint(1 << 22, 1 << 24, 12) + 1, 15)
    found = common_divisors(blinded(delta))
    assert sum(one.value in delta for one in found[:6]) >= 3
    left, right = LINKS["common divisor up to an offset"](blinded(delta), None)
    assert (delta[left] == delta[right]).mean() > 0.3
    first, second = blinded(delta), blinded(delta, seed=5)
    left, right = LINKS["common divisor up to an offset"](first, second)
    assert (delta[left] == delta[right]).mean() > 0.3


def test_integer_factors_without_offsets_have_a_greatest_common_divisor():
    delta = np.repeat(2 * np.random.RandomState(1).randint(1 << 22, 1 << 24, 150) + 1, 2)
    factors = (2.0 ** np.random.RandomState(2).uniform(6, 33, 300)).astype(np.int64)
    left, right = LINKS["greatest common divisor"](factors * delta, None)
    assert (delta[left] == delta[right]).sum() > 120
    left, right = LINKS["greatest common divisor"](blinded(delta), None)
    assert (delta[left] == delta[right]).sum() < 15


def test_equal_values_and_equal_low_bits_are_found():
    random = np.random.RandomState(0)
    row = random.permutation(500)
    values = random.randint(1 << 40, 1 << 50, 500)
    marked = (values & ~np.int64(0xFFFF)) | row
    other = random.permutation(500)
    again = (random.randint(1 << 40, 1 << 50, 500) & ~np.int64(0xFFFF)) | row[other]
    left, right = LINKS["equal low bits"](marked, again)
    assert (row[left] == row[other][right]).mean() > 0.5
    left, right = LINKS["equal values"](values, values[other])
    assert len(left) == 500
    assert (left == other[right]).all()


def test_nearest_ranks_find_what_keeps_its_order():
    values = np.random.RandomState(0).randint(1 << 20, 1 << 60, 400)
    left, right = LINKS["nearest ranks"](values, values // 3)
    assert len(left) == 400
    assert (left == right).all()


def test_larger_probes_are_told_from_comparisons():
    delta = np.full(2_000, 1_000_001)
    entries = entries_of(delta, np.arange(2_000))
    entries.kind[:64] = PROBE
    values = blinded(delta)
    values[:64] = np.abs(values[:64]).max() + np.arange(64)
    asked = recorded(DEMO).coordinator().opened()[0].asked
    found = coordinator.check_figures(Reporter(recorded(DEMO)), [Sum("1.1", "lloyd", 0, values, asked)], [entries])
    assert found[0].attacked == "probes"
    assert not found[0].holds
