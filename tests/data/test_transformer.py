"""The rules as a transformer of scikit-learn."""

import numpy as np
import pandas
import polars
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from kcagc.data import TablePreprocessor
from kcagc.errors import DataError, ParameterError

RULES = {"city": {"kind": "categorical", "missing": "indicator", "weighting": "none"}, "age": {"missing": "mean"}}
FRAME = pandas.DataFrame({"age": [1.0, None, 4.0], "city": ["b", "a", None], "n": [7, 8, 9]})


@parametrize_with_checks([TablePreprocessor(), TablePreprocessor(default={"missing": "mean", "scale": "standard"})])
def test_the_conventions_of_scikit_learn_hold(estimator, check):
    check(estimator)


def test_pandas_polars_and_an_array_of_objects_give_the_same_numbers():
    wanted = [[1, 7, 0, 1, 0], [2.5, 8, 1, 0, 0], [4, 9, 0, 0, 1]]
    model = TablePreprocessor(columns=RULES)
    for frame in (FRAME, polars.from_pandas(FRAME), FRAME.convert_dtypes(), FRAME.astype({"city": "category"})):
        assert_array_equal(clone(model).fit_transform(frame), wanted)
        assert clone(model).fit(frame).get_feature_names_out().tolist() == [
            "age",
            "n",
            "city=a",
            "city=b",
            "city (missing)",
        ]
    array = FRAME.to_numpy(dtype=object)
    numbered = TablePreprocessor(columns={"1": RULES["city"], "0": RULES["age"]})
    assert_array_equal(numbered.fit_transform(array), wanted)


def test_whole_numbers_are_the_same_levels_whether_gaps_made_fractions_of_them_or_not():
    model = TablePreprocessor(columns={"zip": {"kind": "categorical", "missing": "zero", "weighting": "none"}})
    model.fit(pandas.DataFrame({"zip": [8001, 8002, 8001]}))
    assert_array_equal(model.transform(pandas.DataFrame({"zip": [8002.0, None]})), [[0, 1], [0, 0]])


def test_columns_are_found_by_their_names():
    model = TablePreprocessor(columns=RULES).fit(FRAME)
    with pytest.raises((DataError, ValueError), match=r"feature names should match|no column"):
        model.transform(FRAME[["n", "age"]])


def test_it_asks_to_be_fitted_and_for_rules_that_are_some():
    with pytest.raises(NotFittedError):
        TablePreprocessor().transform(FRAME)
    with pytest.raises(ParameterError, match=r"^columns: must be rules by the names of their columns, not \['age'\]"):
        TablePreprocessor(columns=["age"]).fit(FRAME)
    with pytest.raises(DataError, match="X: all columns are dropped"):
        TablePreprocessor(default={"kind": "drop"}).fit(FRAME)
    with pytest.raises(DataError, match="X: there is no column 'aged'; there are 'age', 'city', 'n'"):
        TablePreprocessor(columns={"aged": {}}).fit(FRAME)


def test_words_cannot_be_asked_of_a_sparse_matrix():
    with pytest.raises(DataError, match="column '1' cannot be categorical: a sparse matrix holds numbers only"):
        TablePreprocessor(columns={"1": {"kind": "categorical"}}).fit(sparse.eye_array(3, format="csr"))


def test_what_is_given_is_left_as_it_was():
    matrix = sparse.csr_array(np.array([[1.0, np.nan], [0, 5]]))
    before = matrix.data.copy()
    TablePreprocessor(default={"missing": "mean", "scale": "standard"}).fit_transform(matrix)
    assert_array_equal(matrix.data, before)
    dense = np.array([[1.0, 2], [3, 5]])
    TablePreprocessor(default={"scale": "log1p"}).fit_transform(dense)
    assert_array_equal(dense, [[1.0, 2], [3, 5]])
