"""The attacks on the joint method read transcripts rightly, find planted leaks, and find nothing in noise."""

from dataclasses import replace

import numpy as np
import pytest

from attacks import joint_coordinator, joint_liars, joint_party, joint_together
from attacks.joint import Learned, Places, bias, joint_case, r_squared, replay, truth, unit
from attacks.joint_coordinator import estimate_lengths, lattice_factors, pad_reused, recognise
from attacks.party import ME
from attacks.transcripts import recorded
from kcagc.secagg.shares import JOINT_BITS, ROTATION_BITS, row_factors, row_offsets, row_rotations, turned_and_scaled

DEMO = joint_case("demo", 3)


@pytest.fixture(scope="module")
def run():
    return recorded(DEMO)


def test_the_transcript_of_a_party_tells_what_each_answer_compares(run):
    known, units = replay(run.of(ME)), truth(run).units
    centers = known.weights @ units
    scores = 2 * units @ centers.T - (centers**2).sum(axis=1)
    assert (scores[known.row, known.near] - scores[known.row, known.far]).min() > -1e-4
    np.testing.assert_array_equal(known.final, run.results[ME].labels)
    assert len(known.row) > 100_000


def test_the_truth_of_every_comparison_is_the_one_that_was_blinded(run):
    """The sign of a comparison is that of two scores: its row, restart and centres are known."""
    units = truth(run).units
    first = next(one for one in run.coordinator().opened() if one.step == "lloyd")
    entries = run.inside.blinded[first.key].entries()
    assert set(entries.row[entries.kind == 0]) == set(range(len(units)))
    assert np.abs(entries.delta[entries.kind == 0]).max() < 2.0**27  # differences of scores, not of shares


def planted(shift):
    """Return answers about random places, in whose centres a holder has added shifts of this length."""
    random = np.random.default_rng(0)
    n, d, m = 200, 3, 300
    units = unit(random.normal(size=(n, d)))
    weights = random.dirichlet(np.full(n, 0.1), size=m)
    shifts = shift * unit(random.normal(size=(m, d)))
    centers = weights @ units + shifts
    scores = 2 * units @ centers.T - (centers**2).sum(axis=1)
    row, one, other = (random.integers(high, size=40_000) for high in (n, m, m))
    nearer = scores[row, one] > scores[row, other]
    near, far = np.where(nearer, one, other), np.where(nearer, other, one)
    labels = np.zeros((1, n), dtype=np.int64)
    return Learned(weights, row, near, far, labels, labels[0]), shifts, units


def test_the_fit_finds_planted_places_and_nothing_in_coin_flips():
    known, shifts, units = planted(1.5)
    start = np.random.default_rng(1).normal(size=units.shape)
    assert r_squared(Places(known, 3, shifts).fit(unit(start)), units) > 0.99
    flips = np.random.default_rng(2).integers(2, size=len(known.row)).astype(bool)
    near, far = np.where(flips, known.near, known.far), np.where(flips, known.far, known.near)
    assert r_squared(Places(replace(known, near=near, far=far), 3, shifts).fit(unit(start)), units) < 0.2


def test_a_biased_bit_and_a_reused_pad_are_found():
    random = np.random.default_rng(0)
    words, other = random.integers(1 << 64, size=(2, 5000), dtype=np.uint64)
    assert bias(words) < 4.5 < bias(words & ~np.uint64(1 << 17) | (other & words & np.uint64(1 << 17)))
    assert pad_reused([words, other]) == 0.0
    small = random.integers(1 << 30, size=5000).astype(np.uint64)
    assert pad_reused([words, other, words + small]) == 1.0


def test_lattice_reduction_finds_factors_that_no_offset_hides():
    n, d = 10, 7
    random = np.random.default_rng(0)
    rows = np.rint(unit(random.normal(size=(n, d))) * 0.3 * 2**JOINT_BITS).astype(np.int64)
    given = {"count": n, "size": d}
    rotations, factors = row_rotations(bytes(32), b"", "x", **given), row_factors(bytes(32), b"", "x", count=n)
    factors = factors[0], np.maximum(factors[1], 54)  # large factors: small ones leave no bits to reduce
    turned = turned_and_scaled(rotations, factors, rows, JOINT_BITS)
    offsets = row_offsets(bytes(32), b"", "x", factors=factors, size=d, fraction_bits=JOINT_BITS)
    step = np.ldexp(factors[0].astype(float), factors[1] - 30 - JOINT_BITS - ROTATION_BITS)

    def found(words):
        claims = lattice_factors(words.view(np.int64))
        return np.mean(
            [np.any(np.abs(np.array(one) / true - 1) < 1e-3) for one, true in zip(claims, step, strict=True)]
        )

    assert found(turned) > 0.8
    assert found(turned + offsets) == 0.0


def test_lengths_under_narrow_factors_are_found(monkeypatch):
    random = np.random.default_rng(0)
    lengths = random.normal(-2, 1, size=3000)
    guess, middle, zeros = estimate_lengths(lengths + random.uniform(32, 58, size=3000))
    assert abs(np.corrcoef(guess, lengths)[0, 1]) < 0.4
    assert abs(middle + 2) < 0.5
    assert zeros < 0.05
    lengths[:300] = -22  # rounding alone: no values
    _, _, zeros = estimate_lengths(lengths + random.uniform(32, 58, size=3000))
    assert 0.05 < zeros < 0.15
    lengths = random.normal(-2, 1, size=3000)
    monkeypatch.setattr(joint_coordinator, "LENGTH_OCTAVES", 2)
    guess, _, _ = estimate_lengths(lengths + random.uniform(56, 58, size=3000))
    assert np.corrcoef(guess, lengths)[0, 1] > 0.7


def test_known_rows_are_recognised_under_any_rotation():
    random = np.random.default_rng(0)
    points = random.normal(size=(500, 20)) * random.lognormal(size=(500, 1))
    turned = points @ np.linalg.qr(random.normal(size=(20, 20)))[0]
    np.testing.assert_array_equal(recognise(turned, points[:15], 1e-6), np.arange(15))
    assert (recognise(turned, random.normal(size=(15, 20)), 1e-6) < 0).all()


@pytest.mark.parametrize(
    "suite", [joint_coordinator, joint_party, joint_liars, joint_together], ids=lambda one: one.TITLE
)
def test_the_short_form_of_a_suite_runs(suite):
    found = [one for case in suite.cases(short=True) for one in suite.attack(case)]
    assert {one.sentence for one in found} == set(suite.SENTENCES)
    assert all(one.holds for one in found)
