"""One error about all problems of a table, from a file and from memory."""

import numpy as np
import pandas
import pytest

from kcagc import KCAGC
from kcagc.data import ColumnRule, TablePreprocessor, TableRules, read_features, read_party
from kcagc.errors import DataError

BAD = """id,age,income,city,size,note,zip
a,1,"1,234",Bonn,M,x,0
b,,"2,500",Köln,L,y,1
c,3,10,Ulm,,z,-5
c,four,20,,S,w,2
,5,inf,Ulm,S,v,3
f,6,30
"""


def problems(error):
    return {(one["kind"], one["column"]): one["count"] for one in error.problems}


def test_all_problems_of_a_table_are_in_one_error_with_counts_places_and_what_to_do(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(BAD)
    rules = TableRules(
        columns={
            "size": ColumnRule(kind="categorical"),
            "note": ColumnRule(kind="drop"),
            "zip": ColumnRule(scale="log1p"),
        }
    )
    with pytest.raises(DataError) as caught:
        read_features(path, party="bank", id_column="id", schema=rules.schema())
    assert problems(caught.value) == {
        ("separator", "income"): 2,
        ("word", "age"): 1,
        ("word", "city"): 4,
        ("row length", None): 1,
        ("id", "id"): 1,
        ("missing", "age"): 1,
        ("missing", "size"): 1,
        ("infinite", "income"): 1,
        ("log1p", "zip"): 1,
    }
    text = str(caught.value)
    assert text.startswith(f"bank: {path}: 9 problems in 6 columns\n")
    for part in (
        "set thousands = \",\" if '1,234' is 1234, or decimal = \",\" if '1,234' is 1.234",
        "column 'income': 2 cells (line 2 '1,234'; line 3 '2,500')",
        'set kind = "categorical" or "drop" for the column',
        "column 'city': 4 cells (line 2 'Bonn'; line 3 'Köln'; line 4 'Ulm'; 1 more)",
        "line 7: has 3 cells, but the header has 7",
        'set missing = "indicator" (a level of its own) or "zero"',
        "column 'zip': 1 cell (line 4 '-5')",
        "`kcagc columns` shows every column and proposes a rule for each",
    ):
        assert part in text, part


def test_repeated_ids_are_counted_with_the_other_problems(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\na,1\nb,\na,3\na,4\n")
    with pytest.raises(DataError) as caught:
        read_features(tmp_path / "a.csv", party="bank", id_column="id")
    assert problems(caught.value) == {("repeated id", "id"): 2, ("missing", "x"): 1}
    assert "column 'id': 2 cells (line 4 'a'; line 5 'a')" in str(caught.value)


def test_one_problem_keeps_one_line(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\na,1\nb,\nc,\nd,\ne,\nf,\n")
    with pytest.raises(DataError) as caught:
        read_features(tmp_path / "a.csv", party="bank", id_column="id")
    said = "line 3, column 'x': the value is missing, and 4 more in this column (line 4, line 5 and 2 more); fill it in"
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_many_columns_and_many_cells_are_cut_but_counted(tmp_path):
    width, rows = 50, 400
    header = ",".join(["id", *(f"c{number}" for number in range(width))])
    cells = "".join(f"n{row},{','.join(['word'] * width)}\n" for row in range(rows))
    (tmp_path / "a.csv").write_text(f"{header}\n{cells}")
    with pytest.raises(DataError) as caught:
        read_features(tmp_path / "a.csv", party="bank", id_column="id")
    assert len(caught.value.problems) == width
    assert {one["count"] for one in caught.value.problems} == {rows}
    assert len(str(caught.value).splitlines()) < 30
    assert "and 30 more columns" in str(caught.value)


def test_a_wrong_header_is_reported_whole(tmp_path):
    (tmp_path / "a.csv").write_text("id,x,,x,y,y\na,1,2,3,4,5\n")
    with pytest.raises(DataError) as caught:
        read_features(tmp_path / "a.csv", party="bank", id_column="id")
    for part in ("column 3 has no name", "columns 2 and 4 are both called 'x'", "columns 5 and 6 are both called 'y'"):
        assert part in str(caught.value)
    (tmp_path / "a.csv").write_text("id,x\na,1\n")
    named = TableRules(columns={"age": ColumnRule(), "X": ColumnRule()})
    with pytest.raises(DataError, match=r"(?s)no column 'age'.*no column 'X'.*did you mean 'x'"):
        read_features(tmp_path / "a.csv", party="bank", id_column="id", schema=named.schema())


def test_the_problem_of_the_graph_follows_those_of_the_table(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\na,1\nb,two\n")
    (tmp_path / "e.csv").write_text("source,target\na,b\na,zoe\n")
    with pytest.raises(DataError) as caught:
        read_party(tmp_path / "a.csv", tmp_path / "e.csv", party="bank", id_column="id")
    table, graph = str(caught.value).splitlines()
    assert table.startswith(f"bank: {tmp_path / 'a.csv'}: line 3, column 'x': 'two'")
    assert graph.startswith(f"bank: {tmp_path / 'e.csv'}: line 3, column 'target': there is no row for node 'zoe'")
    assert [one["kind"] for one in caught.value.problems] == ["word", "graph"]


def test_a_column_of_words_with_gaps_is_one_problem(tmp_path):
    (tmp_path / "a.csv").write_text("id,w,n\na,u,1\nb,,x\nc,v,\nd,v,3\n")
    with pytest.raises(DataError) as caught:
        read_features(tmp_path / "a.csv", party="bank", id_column="id")
    assert problems(caught.value) == {("word", "w"): 3, ("word", "n"): 1, ("missing", "n"): 1}
    advice = {one["column"]: one["do"] for one in caught.value.problems if one["kind"] == "word"}
    assert "categorical" in advice["w"]
    assert 'unreadable = "missing"' in advice["n"]


FRAME = pandas.DataFrame(
    {"id": list("abcd"), "age": [1.0, None, 3.0, 4.0], "city": ["Bonn", "Ulm", None, "Ulm"], "when": [None] * 4}
)
FRAME["when"] = pandas.to_datetime(FRAME["when"])


def test_frames_give_the_same_error_to_a_preprocessor_and_to_the_estimator():
    with pytest.raises(DataError) as caught:
        TablePreprocessor().fit(FRAME.drop(columns="id"))
    expected = {("missing", "age"): 1, ("word", "city"): 3, ("type", "when"): 1}
    assert problems(caught.value) == expected
    assert "kcagc columns" not in str(caught.value)
    line = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    good = pandas.DataFrame({"id": list("abcd"), "x": [1.0, 2, 3, 4]})
    model = KCAGC(n_clusters=2, id_column="id", transformers=[TablePreprocessor(), None])
    with pytest.raises(DataError) as caught:
        model.fit([FRAME.iloc[::-1], good.iloc[::-1]], adjacency=line)
    assert problems(caught.value) == expected
    assert "column 'age': 1 cell (node 'b')" in str(caught.value)


def test_an_error_about_tables_in_memory_says_where_rules_are_given():
    frame = pandas.DataFrame({"age": [1.0, 2.0], "city": ["ulm", "bonn"]})
    with pytest.raises(
        DataError, match=r"transformers=\{'shop': TablePreprocessor\(columns=\{'city': \{\.\.\.\}\}\)\}$"
    ):
        KCAGC(n_clusters=2).fit({"bank": frame[["age"]], "shop": frame})
