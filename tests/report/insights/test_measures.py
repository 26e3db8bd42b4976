"""Top features and links are those that a direct computation gives, and sparse tables stay sparse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kcagc.errors import DataError
from kcagc.report.insights import measures as module
from kcagc.report.insights.measures import Units, cluster_totals, effects_of, links_between, top_features
from report.insights.examples import ring


def directly(table, labels, k):
    """The definition, cluster by cluster and column by column."""
    found = np.zeros((k, table.shape[1]))
    for cluster in range(k):
        inside = labels == cluster
        for column in range(table.shape[1]):
            values = table[:, column]
            if inside.any() and (~inside).any() and values.std() > 1e-9:
                found[cluster, column] = (values[inside].mean() - values[~inside].mean()) / values.std()
    return found


def drawn(seed, n=60, columns=7, k=4, zeros=0.0):
    random = np.random.default_rng(seed)
    table = random.normal(3, 2, size=(n, columns)) * (random.random((n, columns)) >= zeros)
    return table, random.integers(k, size=n)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.6, 0.95]))
def test_effects_are_those_of_the_definition_dense_or_sparse(seed, zeros):
    table, labels = drawn(seed, zeros=zeros)
    expected = directly(table, labels, 5)  # the fifth is empty
    for form in (table, sparse.csr_array(table), sparse.csc_array(table)):
        effects, mean, outside = effects_of(cluster_totals(form, labels, 5))
        np.testing.assert_allclose(effects, expected, atol=1e-9)
        assert mean[labels[0]] == pytest.approx(table[labels == labels[0]].mean(axis=0))
        assert outside[labels[0]] == pytest.approx(table[labels != labels[0]].mean(axis=0))


def test_blocks_of_rows_give_what_all_rows_at_once_give(monkeypatch):
    table, labels = drawn(3)
    whole = effects_of(cluster_totals(table, labels, 4))[0]
    monkeypatch.setattr(module, "blocks_of", lambda rows: (slice(at, at + 7) for at in range(0, len(rows), 7)))
    np.testing.assert_allclose(effects_of(cluster_totals(table, labels, 4))[0], whole, atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-1e6, 1e6))
def test_other_units_change_no_effect(seed, factor, shift):
    table, labels = drawn(seed)
    before = effects_of(cluster_totals(table, labels, 4))[0]
    after = effects_of(cluster_totals(table * factor + shift, labels, 4))[0]
    np.testing.assert_allclose(after, before, atol=1e-3)


def test_a_constant_column_is_no_top_feature_however_large():
    table = np.full((10, 2), 1e9)
    table[:5, 1] += 1
    found = top_features(table, np.arange(10) // 5, 2, ["same", "different"])
    assert [[feature.feature for feature in one] for one in found] == [["different"], ["different"]]
    assert found[0][0].effect == pytest.approx(2.0)
    assert found[1][0].effect == pytest.approx(-2.0)


def test_a_mean_that_is_zero_but_for_rounding_is_zero():
    """Six columns of flags that a cluster does not have, however large their mean and the units of the file are."""
    flags = np.random.default_rng(0).random((3000, 6)) < [0.5, 0.3, 0.1, 0.03, 0.7, 0.9]
    labels = np.arange(3000) % 3
    flags[labels == 1] = False
    _, mean, outside = effects_of(cluster_totals(flags * 1.7, labels, 3))
    np.testing.assert_array_equal(mean[1], 0.0)
    assert (outside[1] > 0.01).all()
    spread, centre = flags.std(axis=0), flags.mean(axis=0)
    units = Units(spread, centre, np.zeros(6, dtype=bool))
    _, standard, _ = effects_of(cluster_totals((flags - centre) / spread, labels, 3))
    np.testing.assert_array_equal(units.restore(standard, np.arange(6))[1], 0.0)


def test_the_largest_effect_comes_first_and_its_sign_is_kept():
    table, labels = drawn(5, columns=20)
    for cluster, features in enumerate(top_features(table, labels, 4, top=20)):
        assert [abs(feature.effect) for feature in features] == sorted(
            (abs(feature.effect) for feature in features), reverse=True
        )
        for feature in features:
            column = int(feature.feature.removeprefix("column "))
            assert feature.effect == pytest.approx(directly(table, labels, 4)[cluster, column])


def test_sparse_columns_come_with_the_share_of_nodes_that_have_them():
    table = np.zeros((8, 3))
    table[:3, 0] = 2  # three of four here, none outside
    table[[0, 4, 5, 6], 1] = 1  # rarer here
    table[7, 2] = 1
    first, second = top_features(sparse.csr_array(table), np.arange(8) // 4, 2, ["loan", "game", "sun"])
    assert [feature.feature for feature in first] == ["loan"]  # what is missing here does not distinguish it
    assert (first[0].present, first[0].present_outside, first[0].lift) == (0.75, 0.0, 2.0)
    assert [feature.feature for feature in second] == ["game", "sun"]
    assert second[0].lift == pytest.approx((3 / 4) / (4 / 8))
    assert set(first[0].as_dict()) == {
        "feature",
        "effect",
        "mean",
        "mean_outside",
        "present",
        "present_outside",
        "lift",
    }


def test_columns_of_0_and_1_come_with_their_share_in_every_table():
    random = np.random.default_rng(5)
    labels = np.arange(60) // 20
    level = (random.random(60) < np.array([0.9, 0.2, 0.4])[labels]).astype(float)
    fee = 5.0 * level  # two values, but not 0 and 1
    income = random.normal(10 * labels, 1) + 40
    table = np.column_stack([2.5 * level, fee, income])
    found = top_features(table, labels, 3, ["kind=a", "fee", "income"], weights=np.array([2.5, 1.0, 1.0]))
    for cluster, features in enumerate(found):
        named = {one.feature: one for one in features}
        assert named["kind=a"].present == pytest.approx(level[labels == cluster].mean())
        assert named["kind=a"].present_outside == pytest.approx(level[labels != cluster].mean())
        assert all(one.lift is None for one in features)
        assert named["fee"].present is None
        assert named["income"].present is None


def test_a_sparse_table_is_never_made_dense(monkeypatch):
    table = sparse.random_array((2_000, 3_000), density=0.002, rng=np.random.default_rng(0), format="csr")
    real = sparse.csr_array.toarray

    def small(self, *given, **named):
        assert self.shape[0] <= 6
        return real(self, *given, **named)

    monkeypatch.setattr(sparse.csr_array, "toarray", small)
    assert len(top_features(table, np.arange(2_000) % 6, 6)) == 6


@pytest.mark.parametrize(("labels", "names", "said"), [(3, None, "3 labels"), (4, ["a"], "1 names for 2 columns")])
def test_what_does_not_fit_is_refused(labels, names, said):
    with pytest.raises(DataError, match=said):
        top_features(np.eye(4, 2), np.zeros(labels, dtype=np.int64), 1, names)


def test_links_count_every_end_once():
    labels = np.array([0, 0, 0, 1, 1, 2])
    links = links_between(ring(6), labels, 4)
    assert links.weights.tolist() == [[4, 1, 1, 0], [1, 2, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert links.weights.sum(axis=1).tolist() == [6, 4, 2, 0]  # the degrees of their nodes
    assert links.shares[3] == [None] * 4
    assert all(sum(row) == pytest.approx(1) for row in links.shares[:3])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_means_are_those_of_the_table_before_its_columns_were_weighted(form):
    table, labels = drawn(7, zeros=0.6)
    table, weights = np.abs(table), np.linspace(1, 5, 7)
    plain = top_features(form(table), labels, 4)
    weighted = top_features(form(table * weights), labels, 4, weights=weights)
    for one, other in zip(plain, weighted, strict=True):
        for before, after in zip(one, other, strict=True):
            assert after.as_dict() == pytest.approx(before.as_dict())
