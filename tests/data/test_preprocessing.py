"""Rules fitted to a table: the numbers are scikit-learn's, whatever they are stored in, and what is wrong is named."""

import msgspec
import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)

from kcagc.data import ColumnRule, FittedRules, TableRules
from kcagc.data.interop import table_of
from kcagc.data.problems import Origin
from kcagc.data.table import Schema
from kcagc.errors import DataError, ParameterError

MISSING = {
    "mean": SimpleImputer(),
    "median": SimpleImputer(strategy="median"),
    "zero": SimpleImputer(strategy="constant", fill_value=0.0),
    "indicator": SimpleImputer(add_indicator=True),
}
SCALES = {
    "none": None,
    "standard": StandardScaler(),
    "minmax": MinMaxScaler(),
    "log1p": FunctionTransformer(np.log1p),
}
ONE = ["one"]


def column(values):
    return pandas.DataFrame({"one": values})


def applied(rules, frame, new=None):
    """Fit rules without weights; tests/data/test_weighting.py has those with weights."""
    rules = rules.weighted("none")
    kept = rules.fit(table_of(frame, rules.schema(), Origin("bank")))
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(kept), type=FittedRules)
    assert again == kept
    table = frame if new is None else new
    result = again.apply(table_of(table, again.schema(), Origin("bank")))
    assert result.shape[1] == len(again.feature_names())
    return result.toarray() if sparse.issparse(result) else result


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("missing", ["mean", "median", "zero"])
def test_numbers_become_what_scikit_learn_makes_of_them(missing, scale):
    random = np.random.default_rng(0)
    old, new = random.exponential(5, size=40), random.exponential(5, size=10)
    old[::7] = new[::3] = np.nan
    steps = [MISSING[missing], *([] if SCALES[scale] is None else [SCALES[scale]])]
    steps = steps[::-1] if (missing, scale) == ("mean", "log1p") else steps  # the mean of the logarithms
    wanted = make_pipeline(*steps).fit(old[:, None])
    rules = TableRules(ColumnRule(missing=missing, scale=scale))
    assert_allclose(applied(rules, column(old)), wanted.transform(old[:, None]), atol=1e-14)
    assert_allclose(applied(rules, column(old), column(new)), wanted.transform(new[:, None]), atol=1e-14)


@pytest.mark.parametrize("scale", ["log1p", "log-standard"])
@pytest.mark.parametrize("store", [column, lambda values: sparse.csr_array(np.array(values)[:, None])])
def test_a_gap_on_a_logarithmic_scale_gets_the_mean_of_the_logarithms(scale, store):
    values = [1.0, 10.0, 0.0, np.nan, 1000.0, 100_000.0]
    found = applied(TableRules(ColumnRule(missing="indicator", scale=scale)), store(values))
    known = np.delete(found[:, 0], 3)
    assert_allclose(found[3], [known.mean(), 1], atol=1e-12)
    assert applied(TableRules(ColumnRule(missing="zero", scale="log1p")), store(values))[3] == 0


def test_an_indicator_says_where_a_number_was_missing():
    rules = TableRules(ColumnRule(missing="indicator"))
    found = applied(rules, column([1.0, np.nan, 5.0]))
    assert_array_equal(found, [[1, 0], [3, 1], [5, 0]])
    kept = rules.fit(table_of(column([1.0, np.nan, 5.0]), rules.schema(), Origin("bank")))
    assert kept.feature_names() == ["one", "one (missing)"]


@pytest.mark.parametrize(
    ("scale", "wanted"), [("standard", StandardScaler(with_mean=False)), ("minmax", MaxAbsScaler())]
)
def test_a_sparse_matrix_is_divided_and_not_centred_and_stays_sparse(scale, wanted):
    matrix = sparse.random_array((50, 8), density=0.2, rng=np.random.default_rng(0), format="csr")
    rules = TableRules(ColumnRule(scale=scale, missing="zero"))
    raw = table_of(matrix, rules.schema(), Origin("X"))
    found = rules.fit(raw).apply(raw)
    assert isinstance(found, sparse.csr_array)
    assert_allclose(found.toarray(), wanted.fit_transform(matrix).toarray(), atol=1e-14)


def test_gaps_of_a_sparse_matrix_are_filled_by_the_mean_of_all_entries_that_are_there():
    matrix = sparse.csr_array(np.array([[0.0, 4.0], [np.nan, 0.0], [3.0, np.nan]]))
    rules = TableRules(ColumnRule(missing="mean"), {"1": ColumnRule(missing="indicator", weighting="none")})
    raw = table_of(matrix, rules.schema(), Origin("X"))
    found = rules.fit(raw).apply(raw)
    assert_array_equal(found.toarray(), [[0, 4, 0], [1.5, 0, 0], [3, 2, 1]])


words = st.sampled_from(["a", "b", "c", "é", " x", "other"])


@given(st.lists(st.one_of(words, st.none()), min_size=1, max_size=30).filter(any), st.lists(words, max_size=5))
def test_levels_are_those_of_a_one_hot_encoder_and_unknown_ones_are_none(old, new):
    rules = TableRules(ColumnRule(kind="categorical", missing="zero"))
    known = sorted({value for value in old if value is not None})
    encoder = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False)
    for values in (old, [*new, "never seen"]):
        wanted = encoder.fit(np.array(known, dtype=object)[:, None]).transform(np.array(values, dtype=object)[:, None])
        frame = pandas.DataFrame({"one": pandas.Series(values, dtype=object)})
        assert_array_equal(applied(rules, pandas.DataFrame({"one": pandas.Series(old, dtype=object)}), frame), wanted)


def test_beyond_max_levels_the_rarest_become_one_and_so_do_new_ones():
    rules = TableRules(ColumnRule(kind="categorical", max_levels=2, missing="indicator"))
    frame = column(["b", "b", "a", "c", "d", "c", None])
    kept = rules.fit(table_of(frame, rules.schema(), Origin("bank")))
    assert kept.feature_names() == ["one=b", "one=c", "one (other)", "one (missing)"]
    found = applied(rules, frame, column(["b", "c", "a", "z", None]))
    assert found.argmax(axis=1).tolist() == [0, 1, 2, 2, 3]
    assert (found.sum(axis=1) == 1).all()


def test_numbers_of_rules_may_be_those_of_numpy():
    frame, three, two = column(["a", "b", "b", "c"]), np.int64(3), np.int32(2)
    assert applied(TableRules(columns={"one": ColumnRule(kind="categorical", max_levels=three)}), frame).shape == (4, 3)
    rule = ColumnRule.of({"kind": "categorical", "max_levels": two}, "one")
    assert type(rule.max_levels) is int
    assert applied(TableRules(rule), frame).shape == (4, 3)


def test_a_column_with_as_many_words_as_rows_is_taken_for_a_name():
    names = column([f"name {number}" for number in range(101)])
    rules = TableRules(ColumnRule(kind="categorical"))
    with pytest.raises(DataError, match=r"^bank: row 0, column 'one': there are 101 different values, .* max_levels"):
        rules.fit(table_of(names, rules.schema(), Origin("bank")))
    assert applied(TableRules(ColumnRule(kind="categorical", max_levels=101)), names).shape == (101, 101)
    assert applied(rules, names[:100]).shape == (100, 100)


def test_the_order_of_rows_changes_nothing():
    random = np.random.default_rng(1)
    frame = pandas.DataFrame({"x": random.normal(size=30), "w": random.choice(list("abcdefg"), 30)})
    rules = TableRules(ColumnRule(scale="standard"), {"w": ColumnRule(kind="categorical", max_levels=3)})
    order = random.permutation(30)
    shuffled = frame.iloc[order].reset_index(drop=True)
    assert_allclose(applied(rules, shuffled), applied(rules, frame)[order], atol=1e-13)


def test_a_whole_table_is_what_a_column_transformer_makes_of_it():
    random = np.random.default_rng(2)
    frame = pandas.DataFrame(
        {"age": random.normal(size=40), "pay": random.exponential(size=40), "city": random.choice(list("abc"), 40)}
    )
    rules = TableRules(
        ColumnRule(scale="minmax"),
        {"pay": ColumnRule(scale="log1p"), "city": ColumnRule(kind="categorical")},
    )
    wanted = ColumnTransformer(
        [
            ("a", MinMaxScaler(), ["age"]),
            ("p", FunctionTransformer(np.log1p), ["pay"]),
            ("c", OneHotEncoder(sparse_output=False), ["city"]),
        ]
    )
    assert_allclose(applied(rules, frame), wanted.fit_transform(frame), atol=1e-14)


def test_many_levels_beside_few_numbers_are_stored_sparse_and_few_are_not():
    rules = TableRules(ColumnRule(), {"w": ColumnRule(kind="categorical")})
    for levels, stored in ((20, True), (2, False)):
        frame = pandas.DataFrame({"x": np.arange(40.0), "w": [f"w{number % levels}" for number in range(40)]})
        kept = rules.fit(table_of(frame, rules.schema(), Origin("bank")))
        result = kept.apply(table_of(frame, kept.schema(), Origin("bank")))
        assert sparse.issparse(result) == kept.sparse == stored


@pytest.mark.parametrize(
    ("rule", "values", "said"),
    [
        ({"missing": "mean"}, [np.nan, np.nan], "row 0, column 'one': no row has a value in this column"),
        ({"kind": "categorical", "missing": "zero"}, [None, None], "row 0, column 'one': no row has a value"),
        ({"scale": "log1p"}, [1.0, -1.0], r"row 1, column 'one': a logarithm \(log1p\) needs values above -1, not -1"),
        ({"kind": "categorical"}, ["a", None], "row 1, column 'one': the value is missing"),
        ({"missing": "mean"}, [np.inf, 1.0], "row 0, column 'one': the value is infinite"),
        ({}, [1.0, np.nan], "row 1, column 'one': the value is missing"),
        ({}, ["a", "b"], "row 0, column 'one': 'a' is of type str, not a number"),
    ],
)
def test_what_a_rule_cannot_do_is_said_with_row_and_column(rule, values, said):
    rules = TableRules(ColumnRule(**rule))
    with pytest.raises(DataError, match=f"^bank: {said}"):
        applied(rules, column(values))


def test_a_gap_where_the_fit_allowed_none_is_refused_in_a_prediction():
    rules = TableRules(ColumnRule(scale="standard"))
    with pytest.raises(DataError, match="row 1, column 'one': the value is missing"):
        applied(rules, column([1.0, 2.0]), column([1.0, np.nan]))


def test_rules_that_do_nothing_leave_the_numbers_where_they_are():
    raw = table_of(pandas.DataFrame({"x": [1.0, 2], "y": [3.0, 4]}), Schema(), Origin("bank"))
    assert TableRules().fit(raw).apply(raw) is raw.numbers


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"kind": "word"}, "kind: must be 'number', 'categorical' or 'drop', not 'word'"),
        ({"missing": "guess"}, "missing: must be 'error', 'mean', .*not 'guess'"),
        ({"scale": "log"}, "scale: must be 'none', 'standard', 'minmax', 'log1p' or 'log-standard', not 'log'"),
        ({"kind": "categorical", "scale": "standard"}, "scale: levels cannot be scaled"),
        ({"kind": "categorical", "missing": "median"}, "missing: levels have no median; use 'error', 'zero' or"),
        ({"kind": "categorical", "max_levels": 0}, "max_levels: must be a whole number, 1 or more"),
        ({"max_levels": 5}, "max_levels: is for kind = 'categorical', not for 'number'"),
        ({"mising": "mean"}, "there is no setting called 'mising'; there are kind, missing, scale, max_levels"),
        ("mean", "must be a rule such as"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_with_its_column(rule, said):
    with pytest.raises(ParameterError, match=f"^columns: age: {said}"):
        ColumnRule.of(rule, "columns: age")


def test_a_rule_reads_words_as_text_and_lets_gaps_through_only_where_it_has_an_answer():
    rules = TableRules(ColumnRule(kind="drop"), {"a": ColumnRule(missing="mean"), "b": ColumnRule(kind="categorical")})
    reading = rules.schema()
    assert (reading.of("a").kind, reading.of("a").gaps) == ("number", True)
    assert (reading.of("b").kind, reading.of("b").gaps) == ("text", False)
    assert reading.of("anything").kind == "drop"


def test_a_summary_has_what_differs_from_doing_nothing():
    rules = TableRules(ColumnRule(), {"a": ColumnRule(missing="mean"), "b": ColumnRule()})
    assert rules.as_dict() == {"columns.a": {"missing": "mean"}}
