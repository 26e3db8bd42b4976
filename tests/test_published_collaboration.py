"""The collaborative methods on the public graphs, against the figures that the paper prints."""

import numpy as np
import pytest

from kcagc import KCAGC
from kcagc.datasets import load
from kcagc.metrics import accuracy, matched_accuracy, matching

pytestmark = pytest.mark.real_data

PSI = 9


@pytest.fixture(scope="module")
def cora():
    return load("cora")


def mean_accuracy(cora, seeds=10, **changes):
    found = [
        accuracy(
            cora.labels,
            KCAGC.paper(n_clusters=7, psi=PSI, max_iter=100, random_state=seed, **changes)
            .fit(cora.parties(2), adjacency=cora.adjacency)
            .labels_,
        )
        for seed in range(seeds)
    ]
    return 100 * float(np.mean(found))


def test_basic_on_cora_is_within_one_of_the_paper(cora):
    assert mean_accuracy(cora, method="basic") == pytest.approx(67.6, abs=1.0)


def test_optimized_on_cora_is_within_one_and_a_half_of_the_paper(cora):
    assert mean_accuracy(cora) == pytest.approx(67.81, abs=1.5)


@pytest.mark.parametrize(("name", "share"), [("cora", 0.0181), ("pubmed", 0.00046)])
def test_the_optimized_method_needs_the_share_of_sums_that_the_paper_claims(name, share):
    data = load(name)
    model = KCAGC.paper(n_clusters=data.n_classes, psi=9, n_init=1, random_state=0)
    model.fit(data.parties(2), adjacency=data.adjacency)
    (merge,) = model.merges_
    per_iteration = merge.distances / (merge.n_iter + 1)
    assert per_iteration <= share * data.n_nodes * data.n_classes


def test_prediction_on_cora_is_as_accurate_as_the_fit(cora):
    random = np.random.RandomState(0)
    order = random.permutation(cora.n_nodes)
    n_known = round(0.9 * cora.n_nodes)
    tables = [table[order] for table in cora.parties(2)]
    graph, truth = cora.adjacency[order][:, order], cora.labels[order]
    model = KCAGC(n_clusters=7, psi=PSI, method="cells", random_state=0)
    model.fit([table[:n_known] for table in tables], adjacency=graph[:n_known, :n_known])
    found = model.predict(tables, adjacency=graph)
    predicted = matched_accuracy(matching(truth[:n_known], model.labels_), truth[n_known:], found)
    compared = 6 + 3 + 1  # all pairs of 4 and of 3 centres, then the two winners
    assert model.prediction_sums_ == compared * (cora.n_nodes - n_known)
    assert predicted > accuracy(truth[:n_known], model.labels_) - 0.05
