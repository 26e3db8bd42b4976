"""Weights of columns: those that few nodes have count more, and real numbers stay as they are."""

import msgspec
import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from kcagc.data import ColumnRule, FittedRules, TablePreprocessor, TableRules, read_party
from kcagc.data.interop import table_of
from kcagc.data.problems import Origin
from kcagc.data.weighting import apply_weights, fit_weights
from kcagc.errors import DataError, ParameterError

COUNTS = arrays.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 6)), elements=st.integers(0, 3))


def fail(row, column, message):
    return DataError(f"row {row}, column {column}: {message}")


def weights_of(features, weighting="auto"):
    return fit_weights(features, weighting, fail)


def mixed(n=40):
    """Return columns of every kind, at least half of them flags and counts."""
    half = np.arange(n) % 2
    return pandas.DataFrame(
        {
            "flag": half * 1.0,
            "often": (np.arange(n) % 10 > 0) * 1.0,
            "orders": half * 7.0,
            "rank": np.arange(n) % 4 * 1.0,  # a quarter of them 0
            "age": np.arange(n) + 18.0,
            "number": np.arange(n) * 1.0,
            "amount": half * 2.5,
            "change": half * -1.0,
            "always": np.ones(n),
            "never": np.zeros(n),
            "rare": (np.arange(n) % 20 == 0) * 1.0,
        }
    )


def test_flags_and_counts_that_are_mostly_zero_are_weighted_and_nothing_else_is():
    frame = mixed()
    found = dict(zip(frame.columns, weights_of(frame.to_numpy()), strict=True))
    assert {name for name, weight in found.items() if weight != 1} == {"flag", "often", "orders", "never", "rare"}
    assert found["flag"] == found["orders"] == pytest.approx(np.log(41 / 21) + 1)
    assert found["often"] == pytest.approx(np.log(41 / 37) + 1)


def test_flags_among_real_numbers_stay_as_they_are():
    """A table of tf-idf numbers has columns that are 0 and 1 by chance."""
    flags, dense = (np.arange(24).reshape(8, 3) % 4 == 0) * 1.0, np.arange(48).reshape(8, 6) / 7 + 0.1
    assert (weights_of(np.hstack([flags, dense]))[:3] != 1).all()  # real numbers without zeros are no reason
    reals = np.where(np.arange(8)[:, None] < 4, dense[:, :3], 0.0)
    for width, weighted in ((3, True), (2, False)):
        found = weights_of(np.hstack([flags[:, :width], reals]))
        assert (found[:width] != 1).tolist() == [weighted] * width
        assert_array_equal(found[width:], [1, 1, 1])
    empty = np.hstack([flags[:, :2], reals, np.zeros((8, 5))])
    assert_array_equal(weights_of(empty), np.ones(10))  # empty columns do not count
    assert (weights_of(empty, ["auto"] * 2 + ["none"] * 3 + ["auto"] * 5)[[0, 1, 5]] != 1).all()


def test_a_column_that_is_the_same_everywhere_is_never_lost():
    table = np.column_stack([np.ones(9), np.full(9, 5.0), np.zeros(9)])
    assert_array_equal(weights_of(table, "idf")[:2], [1, 1])
    assert weights_of(table, "idf")[2] == pytest.approx(np.log(10) + 1)
    assert_array_equal(apply_weights(table, weights_of(table)), table)


@given(COUNTS)
def test_the_weights_are_those_of_scikit_learn(table):
    assert_allclose(weights_of(table, "idf"), TfidfTransformer().fit(table).idf_, rtol=1e-12)


@given(COUNTS)
def test_sparse_and_dense_tables_and_every_type_of_number_have_the_same_weights(table):
    wanted = weights_of(table)
    for same in (sparse.csr_array(table), table.astype(np.float32), table.astype(int)):
        assert_array_equal(weights_of(same), wanted)
    product = apply_weights(sparse.csr_array(table), wanted)
    assert sparse.issparse(product)
    assert_array_equal(product.toarray(), apply_weights(table, wanted))
    assert apply_weights(table.astype(np.float32), wanted).dtype == np.float32


@given(COUNTS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table, random):
    order = random.sample(range(len(table)), len(table))
    assert_array_equal(weights_of(table[order]), weights_of(table))


@given(COUNTS)
def test_auto_weights_a_table_once(table):
    """A pipeline may hold two steps that weight columns."""
    once = apply_weights(table, weights_of(table))
    again = weights_of(once)
    assert_array_equal(again[once.any(axis=0)], np.ones(int(once.any(axis=0).sum())))


def test_a_large_table_is_read_in_blocks(monkeypatch):
    table = mixed().to_numpy()
    wanted = weights_of(table)
    monkeypatch.setattr("kcagc.data.weighting._BLOCK", 7 * table.shape[1])
    assert_array_equal(weights_of(table), wanted)
    assert_array_equal(weights_of(table[:, :6], "idf"), fit_weights(sparse.csr_array(table[:, :6]), "idf", fail))


def test_a_table_without_weights_is_not_copied():
    for table in (np.array([[0.5, 1], [2, 3]]), sparse.csr_array([[0.5, 0], [0, -3]])):
        assert apply_weights(table, weights_of(table)) is table


def test_stored_zeros_of_a_sparse_matrix_are_zeros():
    stored = sparse.csr_array((np.array([0.0, 1.0]), np.array([0, 0]), np.array([0, 1, 2])), shape=(2, 1))
    assert_array_equal(weights_of(stored), weights_of(stored.toarray()))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_negative_numbers_have_no_document_frequency(form):
    table = form(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -2.0]]))
    message = r"^row 1, column 2: weighting 'idf' is for numbers of 0 or more, not -2; use 'auto' or 'none'$"
    with pytest.raises(DataError, match=message):
        weights_of(table, "idf")
    assert weights_of(table, ["idf", "auto", "auto"])[2] == 1


def fitted(rules, frame):
    kept, made = rules.fit_apply(table_of(frame, rules.schema(), Origin("bank")))
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=FittedRules)
    assert again == kept
    repeated = kept.apply(table_of(frame, kept.schema(), Origin("bank")))
    for one in (made, repeated):
        assert one.shape == (len(frame), len(kept.feature_names()))
        assert len(kept.column_weights()) == len(kept.sources()) == one.shape[1]
    assert_array_equal(*(one.toarray() if sparse.issparse(one) else one for one in (made, repeated)))
    return kept, made


def test_levels_and_marks_of_missing_numbers_are_weighted_like_flags():
    frame = pandas.DataFrame({"pay": [1.5, None, 2.5, 3.5], "city": ["a", "b", "a", "a"]})
    rules = TableRules(ColumnRule(missing="indicator", scale="standard"), {"city": ColumnRule(kind="categorical")})
    kept, made = fitted(rules, frame)
    assert kept.feature_names() == ["pay", "pay (missing)", "city=a", "city=b"]
    assert kept.sources() == ["pay", "pay", "city", "city"]
    assert_allclose(kept.column_weights(), [1, np.log(5 / 2) + 1, np.log(5 / 4) + 1, np.log(5 / 2) + 1])
    assert_allclose(made[:, 2], np.array([1, 0, 1, 1]) * kept.weights[2])
    assert_allclose(made[:, 0].std(), 1)


def test_a_column_may_have_a_weighting_of_its_own():
    frame = mixed()[["flag", "orders", "amount"]]
    rules = TableRules(columns={"flag": ColumnRule(weighting="none"), "amount": ColumnRule(weighting="idf")})
    weight = np.log(41 / 21) + 1
    assert_allclose(fitted(rules, frame)[0].weights, [1, weight, weight])
    assert_allclose(fitted(rules.weighted("none"), frame)[0].weights, [1, 1, weight])
    assert fitted(TableRules(ColumnRule(weighting="none")), frame)[0].weights == ()
    assert rules.as_dict() == {"columns.flag": {"weighting": "none"}, "columns.amount": {"weighting": "idf"}}


def test_new_rows_have_the_weights_of_the_fit():
    old = pandas.DataFrame({"flag": [1, 0, 0, 0], "seen": [0, 0, 0, 0]})
    model = TablePreprocessor().fit(old)
    new = pandas.DataFrame({"flag": [1, 1], "seen": [1, 0]})
    assert_allclose(model.transform(new), np.array([[1, 1], [1, 0]]) * [np.log(5 / 2) + 1, np.log(5) + 1])


def test_a_scaled_column_is_weighted_only_if_flags_remain_flags():
    frame = mixed()[["flag", "orders"]]
    for scale, weighted in (("standard", []), ("minmax", ["flag", "orders"]), ("log1p", [])):
        kept, _ = fitted(TableRules(ColumnRule(scale=scale)), frame)
        assert [name for name, one in zip(frame, kept.column_weights(), strict=True) if one != 1] == weighted
    kept, made = fitted(TableRules(ColumnRule(scale="log1p", weighting="idf")), frame)
    assert_allclose(made[:, 1].max(), np.log(8) * kept.weights[1])


@pytest.mark.parametrize("value", ["tf", True, None])
def test_another_weighting_is_refused(value):
    with pytest.raises(ParameterError, match=r"^columns: age: weighting: must be 'auto', 'idf' or 'none', not "):
        ColumnRule.of({"weighting": value}, "columns: age")


def test_a_file_is_weighted_and_its_line_is_named(tmp_path):
    (tmp_path / "x.csv").write_text("id,bought,change\na,1,-1\nb,0,0\nc,0,2\n")
    (tmp_path / "g.csv").write_text("source,target\na,b\nb,c\n")

    def read(**options):
        return read_party(tmp_path / "x.csv", tmp_path / "g.csv", party="shop", id_column="id", **options)

    found = read()
    weight = np.log(4 / 2) + 1
    assert_allclose(found.features, [[weight, -1], [0, 0], [0, 2]])
    assert_allclose(found.weights, [weight, 1])
    assert found.summary()["columns_weighted"] == 1
    again = read(fitted=found.preprocessing)
    assert_array_equal(again.features, found.features)
    assert again.summary()["columns_weighted"] == 1
    plain = read(rules=TableRules(ColumnRule(weighting="none")))
    assert_array_equal(plain.features, [[1, -1], [0, 0], [0, 2]])
    assert plain.summary()["columns_weighted"] == 0
    with pytest.raises(DataError, match=r"x\.csv: line 2, column 'change': weighting 'idf' is for numbers of 0"):
        read(rules=TableRules(ColumnRule(weighting="idf")))
