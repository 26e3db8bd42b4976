import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer

from kcagc.baselines import GCC
from kcagc.cluster import fit_projection
from kcagc.datasets import generate


@pytest.fixture(scope="module")
def planted():
    return generate(300, 3, homophily=0.8, signal=4, features=20, seed=1)


def filter_for_projection(data, power, features=None):
    """T^p X written out densely: rows of I + Â at sum 1, features at unit length."""
    looped = data.adjacency.toarray() + np.eye(data.n_nodes)
    root = np.diag(1 / np.sqrt(looped.sum(axis=1)))
    step = root @ looped @ root + np.eye(data.n_nodes)
    step /= step.sum(axis=1, keepdims=True)
    rows = data.features if features is None else features
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.linalg.matrix_power(step, power) @ rows


def test_the_factors_are_what_the_objective_says(planted):
    found = GCC(3, power=4, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    rows = filter_for_projection(planted, 4)
    assert_allclose(found.components_.T @ found.components_, np.eye(3), atol=1e-10)
    assert_allclose(found.embedding_, rows @ found.components_, atol=1e-10)
    for label in range(3):
        assert_allclose(found.embedding_[found.labels_ == label].mean(axis=0), found.cluster_centers_[label])
    loss = np.linalg.norm(rows - found.cluster_centers_[found.labels_] @ found.components_.T)
    assert found.loss_ == pytest.approx(loss, rel=1e-9)


def test_more_rounds_never_cost_more(planted):
    losses = [
        GCC(3, power=2, max_iter=rounds, tol=0, random_state=0).fit(planted.features, adjacency=planted.adjacency).loss_
        for rounds in range(1, 8)
    ]
    assert (np.diff(losses) <= 1e-12).all()


def test_the_authors_rule_takes_the_power_before_the_loss_settles(planted):
    seen = []
    found = GCC(3, random_state=0).fit(
        planted.features, adjacency=planted.adjacency, progress=lambda power, loss: seen.append((power, loss))
    )
    bound = planted.features.shape[1] / planted.n_nodes
    changes = np.abs(np.diff(found.losses_))
    assert len(found.losses_) == found.power_ + 1
    assert changes[-1] < bound
    assert (changes[:-1] >= bound).all()
    assert found.loss_ == found.losses_[found.power_ - 1]
    assert seen == list(enumerate(found.losses_[:-1], start=1))
    assert_allclose(found.embedding_, filter_for_projection(planted, found.power_) @ found.components_, atol=1e-10)


def test_clusters_that_are_nearly_empty_because_of_too_much_smoothing_are_a_warning():
    data = generate(2_000, 6, degree=8, homophily=0.6, signal=2.0, features=60, seed=1)
    with pytest.warns(ConvergenceWarning, match=r"^smoothed too far at power \d+: half .* at most .*set power"):
        found = GCC(6, random_state=0).fit(data.features, adjacency=data.adjacency)
    assert np.bincount(found.labels_).max() > 1900
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GCC(6, power=2, random_state=0).fit(data.features, adjacency=data.adjacency)


def test_the_largest_power_is_the_end(planted):
    found = GCC(3, max_power=2, random_state=0).fit(planted.features, adjacency=planted.adjacency)
    assert found.power_ == len(found.losses_) == 2


def test_words_are_weighed_by_tfidf_as_the_authors_do_and_real_numbers_are_not():
    words = generate(200, 3, degree=4, features=60, sparsity=0.8, signal=5, seed=0)
    auto, on, off = (
        GCC(3, power=1, weighting=choice, random_state=0).fit(words.features, adjacency=words.adjacency)
        for choice in ("auto", "idf", "none")
    )
    assert auto.loss_ == on.loss_ != off.loss_
    weighed = TfidfTransformer().fit_transform(words.features).toarray()
    assert_allclose(auto.embedding_, filter_for_projection(words, 1, weighed) @ auto.components_, atol=1e-10)
    for factor, same in ((2.0, auto), (0.5, off)):
        found = GCC(3, power=1, random_state=0).fit(words.features * factor, adjacency=words.adjacency)
        assert found.loss_ == pytest.approx(same.loss_)


def test_updates_stop_when_the_loss_falls_by_less_than_the_tolerance():
    unclear = generate(300, 3, homophily=0.5, signal=0.5, features=20, seed=1)
    rounds = [
        GCC(3, power=1, tol=tolerance, random_state=0).fit(unclear.features, adjacency=unclear.adjacency).n_iter_
        for tolerance in (1e9, 0.0)
    ]
    assert rounds[0] == 2 < rounds[1]


def test_the_first_directions_are_those_of_the_centred_features(planted, monkeypatch):
    seen = []

    def recorded(rows, q):
        seen.append(rows)
        return fit_projection(rows, q)

    monkeypatch.setattr("kcagc.baselines.gcc.fit_projection", recorded)
    GCC(3, power=1, random_state=0).fit(planted.features + 5, adjacency=planted.adjacency)
    assert_allclose(seen[0].mean(axis=0), 0, atol=1e-12)


def test_a_cluster_that_wins_nothing_is_given_the_row_that_fits_worst():
    rows = np.random.default_rng(0).standard_normal((30, 3))
    far_away = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [1e3, 1e3, 1e3]])
    found = GCC(3)._alternate(rows, np.arange(30) % 2, far_away)
    assert len(np.unique(found.labels)) == 3


def test_fewer_columns_than_clusters(planted):
    found = GCC(3, power=1, random_state=0).fit(planted.features[:, :2], adjacency=planted.adjacency)
    assert found.components_.shape == (2, 2)
    assert len(np.unique(found.labels_)) == 3
