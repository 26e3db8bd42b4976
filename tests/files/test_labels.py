import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcagc.errors import DataError, ParameterError
from kcagc.files import check_labels_path, read_features, write_labels
from kcagc.graph.ids import NodeIds

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(lambda text: not text.isspace())
WORDS = TEXT.map(lambda text: f"{text}x")  # a string of digits alone would come back from CSV as a number
NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1)


@given(st.lists(WORDS, min_size=1, unique=True) | st.lists(NUMBERS, min_size=1, unique=True), st.data())
@example(["a,b", 'a"b', "a\nb", "a\rb", "a\r\nb", " a ", "=1+1", "#a", "\ufeff"], None)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_written_is_read_back_sorted_by_id(tmp_path_factory, form, ids, data):
    labels = data.draw(st.lists(st.integers(0, 99), min_size=len(ids), max_size=len(ids))) if data else range(len(ids))
    path = tmp_path_factory.mktemp("labels") / f"labels.{form}"
    write_labels(path, NodeIds.of(ids, where=""), np.array(labels))
    back = read_features(path, party="bank", id_column="id")
    assert back.columns == ["cluster"]
    found = list(zip(back.ids.values, back.values[:, 0], strict=True))
    assert found == sorted(zip(ids, labels, strict=True))


def test_the_csv_form_is_as_plain_as_can_be(tmp_path):
    write_labels(tmp_path / "a.csv", NodeIds.of([12, 7], where=""), [0, 1])
    assert (tmp_path / "a.csv").read_bytes() == b"id,cluster\n7,1\n12,0\n"
    write_labels(tmp_path / "a.csv", None, [4, 0, 2])
    assert (tmp_path / "a.csv").read_bytes() == b"id,cluster\n0,4\n1,0\n2,2\n"


def test_confidences_are_a_third_column_with_four_digits_in_both_forms(tmp_path):
    ids, sure = NodeIds.of(["b", "a"], where=""), np.array([1.0, 0.123456])
    for form in ("csv", "parquet"):
        write_labels(tmp_path / f"a.{form}", ids, [0, 1], confidence=sure)
        back = read_features(tmp_path / f"a.{form}", party="bank", id_column="id")
        assert back.columns == ["cluster", "confidence"]
        assert back.values.tolist() == [[1.0, 0.1235], [0.0, 1.0]]
    assert (tmp_path / "a.csv").read_bytes() == b"id,cluster,confidence\na,1,0.1235\nb,0,1.0000\n"
    with pytest.raises(DataError, match="1 confidences for 2 labels"):
        write_labels(tmp_path / "a.csv", ids, [0, 1], confidence=sure[:1])


@pytest.mark.parametrize(("ids", "kind"), [(["7", "12"], "string"), ([7, 12], "int64")])
def test_the_parquet_form_keeps_the_kind_of_the_ids(tmp_path, ids, kind):
    write_labels(tmp_path / "a.parquet", NodeIds.of(ids, where=""), [0, 1])
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert [(field.name, str(field.type)) for field in schema] == [("id", kind), ("cluster", "int64")]


@pytest.mark.parametrize("name", ["labels", "labels.xlsx", "labels.npz", "labels.csv.gz"])
def test_an_unknown_ending_is_refused_before_anything_runs(tmp_path, name):
    for refusing in (check_labels_path, lambda path: write_labels(path, None, [0])):
        with pytest.raises(ParameterError, match=r"ends in \.csv or \.parquet"):
            refusing(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("labels", "said"), [([0], "1 labels for 2 ids"), ([0.5, 1], "whole numbers"), ([[0, 1]], "one column")]
)
def test_labels_that_do_not_fit_are_refused(tmp_path, labels, said):
    with pytest.raises(DataError, match=said):
        write_labels(tmp_path / "a.csv", NodeIds.of(["a", "b"], where=""), labels)
    assert not list(tmp_path.iterdir())
