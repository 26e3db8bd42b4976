import os
import stat

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcagc.data import check_labels_path, read_features, write_bytes, write_labels, write_text
from kcagc.errors import DataError, ParameterError
from kcagc.graph.ids import NodeIds


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_is_written_is_there_and_nothing_else(tmp_path):
    write_bytes(tmp_path / "a", b"one")
    write_bytes(tmp_path / "a", b"two")
    write_text(tmp_path / "b", "é\r\n")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert (tmp_path / "b").read_bytes() == "é\r\n".encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize(
    ("mode", "umask", "found"), [(0o644, 0o022, 0o644), (0o600, 0o022, 0o600), (0o644, 0o077, 0o600)]
)
def test_permissions_are_those_asked_for_less_the_umask(tmp_path, mode, umask, found):
    (tmp_path / "key").write_bytes(b"before")
    (tmp_path / "key").chmod(0o666)
    os.umask(umask)
    write_bytes(tmp_path / "key", b"secret", mode=mode)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == found


def test_a_private_file_is_never_readable_by_others_not_even_while_it_is_written(tmp_path, monkeypatch):
    seen = []

    def looking(handle):
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))

    monkeypatch.setattr(os, "fsync", looking)
    write_bytes(tmp_path / "key", b"secret", mode=0o600)
    assert seen[0] == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, step):
    write_bytes(tmp_path / "a", b"before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(tmp_path / "a", b"after")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


def test_content_reaches_the_disk_before_the_name_does(tmp_path, monkeypatch):
    steps = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("name"), replace(*names)))
    write_bytes(tmp_path / "a", b"x")
    assert steps == ["sync", "name", "sync"]


def test_a_name_as_long_as_the_disk_allows_can_be_written(tmp_path):
    write_bytes(tmp_path / ("n" * 255), b"x")
    assert (tmp_path / ("n" * 255)).read_bytes() == b"x"


def test_a_missing_folder_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_bytes(tmp_path / "none" / "a", b"x")


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
    found = list(zip(back.ids.values, back.numbers[:, 0], strict=True))
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
        assert back.numbers.tolist() == [[1.0, 0.1235], [0.0, 1.0]]
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
