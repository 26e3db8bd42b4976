"""The published accuracy of the baselines on public graphs; run with -s to see the figures."""

import numpy as np
import pytest

from kcagc.baselines import AGC, GCC, MS2CAG, S2GC
from kcagc.datasets import load
from kcagc.datasets.catalog import entry
from kcagc.metrics import accuracy, nmi

pytestmark = pytest.mark.real_data


def report(capsys, name, method, order, scores, published):
    with capsys.disabled():
        print(  # noqa: T201 - the figures are what this test is for
            f"\n{name:9} {method} at order {order:3}: {np.mean(scores):.2f} ± {np.std(scores):.2f} "
            f"(published {published:.2f}, difference {np.mean(scores) - published:+.2f})",
            end="",
        )


@pytest.mark.parametrize(("name", "allowed"), [("cora", 0.3), ("citeseer", 0.3), ("pubmed", 0.3), ("wiki", 2.5)])
def test_agc(name, allowed, capsys):
    data, paper = load(name), entry(name).paper
    scores = [
        100
        * accuracy(
            data.labels,
            AGC(n_clusters=data.n_classes, psi=paper.psi, weighting="none", random_state=seed)
            .fit(data.features, adjacency=data.adjacency)
            .labels_,
        )
        for seed in range(5)
    ]
    report(capsys, name, "AGC", paper.psi, scores, paper.agc)
    assert abs(np.mean(scores) - paper.agc) <= allowed


@pytest.mark.parametrize(("name", "power"), [("cora", 12), ("citeseer", 5), ("wiki", 4)])
def test_gcc_at_the_power_of_its_authors_rule(name, power, capsys):
    scores, chosen = gcc_scores(name, None, capsys)
    assert chosen == power
    assert abs(np.mean(scores) - entry(name).paper.gcc) <= 1.0


def test_gcc_on_pubmed_where_its_authors_rule_has_no_end(capsys):
    """The rule takes the largest power that it tries; all 150 take minutes, and give the same power."""
    data = load("pubmed")
    model = GCC(n_clusters=3, max_power=6, random_state=0).fit(data.features, adjacency=data.adjacency)
    assert model.power_ == 6
    scores, _ = gcc_scores("pubmed", 150, capsys, seeds=1)
    assert abs(np.mean(scores) - entry("pubmed").paper.gcc) <= 1.0


def gcc_scores(name, power, capsys, seeds=5):
    """Return accuracies in per cent; the power that the first seed chose serves the others too."""
    data, scores = load(name), []
    for seed in range(seeds):
        model = GCC(n_clusters=data.n_classes, power=power, random_state=seed)
        model.fit(data.features, adjacency=data.adjacency)
        power = model.power_
        scores.append(100 * accuracy(data.labels, model.labels_))
    report(capsys, name, "GCC", power, scores, entry(name).paper.gcc)
    return scores, power


def test_agc_chooses_the_order_that_its_authors_print_for_cora():
    data = load("cora")
    model = AGC(n_clusters=7, weighting="none", random_state=0).fit(data.features, adjacency=data.adjacency)
    assert model.psi_ == 12
    assert accuracy(data.labels, model.labels_) == pytest.approx(0.6892, abs=0.003)


def scores_on_cora(make):
    """Return accuracy and NMI in per cent for five seeds."""
    data = load("cora")
    found = [make(seed).fit(data.features, adjacency=data.adjacency).labels_ for seed in range(5)]
    return np.array([[100 * accuracy(data.labels, labels), 100 * nmi(data.labels, labels)] for labels in found]).T


def test_s2gc(capsys):
    """Zhu and Koniusz print 69.60 (NMI 54.71) for Cora.

    Solutions of nearly equal cost differ by up to 7 points of accuracy: over 20 seeds we find 67.7 ± 3.0.
    """
    scores, information = scores_on_cora(lambda seed: S2GC(n_clusters=7, weighting="none", random_state=seed))
    report(capsys, "cora", "S²GC", 12, scores, 69.6)
    assert np.mean(scores) == pytest.approx(69.6, abs=4.0)
    assert np.mean(information) == pytest.approx(54.71, abs=2.0)


def test_ms2cag_does_not_reach_the_figure_of_pyagc_without_weights(capsys):
    """PyAGC prints 70.29 ± 0.66 (NMI 53.64) for Cora; its steps give 64.4 (50.6) here, and the cause is not known.

    Weights by tf-idf, which the authors' code has and PyAGC's has not, give 72.1 (55.5).
    """
    for weighting, wanted in (("none", (64.4, 50.6)), ("auto", (72.05, 55.5))):
        scores, information = scores_on_cora(
            lambda seed, weighting=weighting: MS2CAG(n_clusters=7, weighting=weighting, random_state=seed)
        )
        report(capsys, "cora", f"M-S²CAG, weighting {weighting}", 16, scores, 70.29)
        assert (np.mean(scores), np.mean(information)) == pytest.approx(wanted, abs=0.5)
