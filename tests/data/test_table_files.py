import csv
import gzip
import io
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from data.tables import refused
from kcagc.data import CsvFormat, files, read_features, table_files
from kcagc.data.files import TABLES, InputFile
from kcagc.data.table import Selection


def read(tmp_path, text, id_column="id", name="a.csv"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return read_features(path, party="bank", id_column=id_column)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("\n\nid,x\n", "line 1 is empty"),
        ("id,x\n", "there are no rows below the header"),
        ("id,x", "there are no rows below the header"),
        ("id,x\n\n\n", "there are no rows below the header"),
        ('id,"x\ny"\n', "there are no rows below the header"),
        ("id\na\n", "there are no feature columns, only 'id'"),
        ("id,x,x\na,1,2\n", "columns 2 and 3 are both called 'x'"),
        (",x\na,1\n", "column 1 has no name in the header"),
        ("0.5,1.5\n2,3\n", "line 1 holds numbers ('0.5, 1.5') and must name the columns"),
        ("name,x\na,1\n", "there is no column 'id'; there are 'name', 'x'"),
        ("ID,x\na,1\n", "there is no column 'id'; there are 'ID', 'x'; did you mean 'ID'?"),
        (
            "id;x\na;1\n",
            "there is no column 'id'; the header is 'id;x': set delimiter = \";\", or separate columns by commas",
        ),
        ("id,x,y\na,1,2\nb,1\n", "line 3: has 2 cells, but the header has 3"),
        ("id,x,y\na,1,2\nb,1,2,3\n", "line 3: has 4 cells, but the header has 3"),
        ("id,x\na,1\n\nb,2\n", "line 3 is empty, but line 4 is not"),
        ("id,x,y\na,1,2\nb,1,two\n", "line 3, column 'y': 'two' is not a number"),
        ("id,x,y\na,1,2\nb,1_0,2\n", "line 3, column 'x': '1_0' is not a number"),
        ("id,x,y\na,1,2\nb,٣,2\n", "line 3, column 'x': '٣' is not a number"),
        ("id,x\na,1+2j\n", "line 2, column 'x': '1+2j' is not a number"),
        ('id,x\na,"1,5"\n', "line 2, column 'x': '1,5' is not a number"),
        ("id,x,y\na,1,\nb,1,2\n", "line 2, column 'y': the value is missing"),
        *((f"id,x\na,1\nb,{word}\n", "line 3, column 'x': the value is missing") for word in ("NA", "null", "None")),
        *((f"id,x\na,1\nb,{word}\n", "line 3, column 'x': the value is missing") for word in ("NaN", "nan", "-nan")),
        *((f"id,x\na,1\nb,{word}\n", "line 3, column 'x': the value is infinite") for word in ("inf", "-inf", "1e999")),
        ("id,x\na,true\nb,1\n", "line 3, column 'x': '1' in a column that begins with true or false"),
        ("id,x\na,1\nb,False\n", "line 3, column 'x': 'False' in a column that begins with numbers"),
        ("id,x\na,1\n,2\n", "line 3, column 'id': the id is missing"),
        ("id,x\n1,1\nNA,2\n3,1\n", "line 3, column 'id': the id is missing ('NA', and all other ids are numbers)"),
        ("id,x\na,1\nb,2\na,3\n", "line 4, column 'id': the id 'a' is already in line 2"),
        ("id,x\n7,1\n5,2\n3,3\n5,4\n", "line 5, column 'id': the id 5 is already in line 3"),
        ('id,x\n"a\nb",1\nc,2\nc,3\n', "line 5, column 'id': the id 'c' is already in line 4"),
        ('"i\nd",id,x\na,a,1\n', "line 3, column 'i\\nd': 'a' is not a number"),
        ('id,x\na,1\n"b,2\nc,3\n', "line 3: unexpected end of data; is a quote not closed?"),
        ('"id,x\na,1\n', "line 1: unexpected end of data"),
    ],
)
def test_a_bad_file_is_refused_and_the_place_named(tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    refused(tmp_path / "a.csv", said, read_features, tmp_path / "a.csv", id_column="id")


def test_a_place_beyond_the_first_block_is_named_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "_BLOCK", 3)
    for last, said in (("n,x", "'x' is not a number"), ("n,nan", "the value is missing")):
        (tmp_path / "a.csv").write_text("id,x\n" + "".join(f"{row},1\n" for row in range(7)) + last + "\n")
        refused(tmp_path / "a.csv", f"line 9, column 'x': {said}", read_features, tmp_path / "a.csv", id_column="id")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("1,234", "set thousands = \",\" if '1,234' is 1234, or decimal = \",\" if '1,234' is 1.234"),
        ("1,5", "set decimal = \",\" if '1,5' is 1.5"),
        ("0,125", "set decimal = \",\" if '0,125' is 0.125"),
        ("1,234,567", "set thousands = \",\" if '1,234,567' is 1234567"),
        ("-1,234.5", "set thousands = \",\" if '-1,234.5' is -1234.5"),
        ("1.234,5", 'set decimal = "," and thousands = "." if \'1.234,5\' is 1234.5'),
        ("1.234.567", 'set decimal = "," and thousands = "." if \'1.234.567\' is 1234567'),
        ("1 234", "set thousands = \" \" if '1 234' is 1234"),
        ("1'234.5", 'set thousands = "\'" if "1\'234.5" is 1234.5'),
    ],
)
def test_the_advice_for_separators_names_each_value_that_the_cell_can_have_and_following_it_works(
    tmp_path, text, advice
):
    """1,234 may be a thousand or a fraction: the advice names both, and each setting gives the value that it names."""
    (tmp_path / "a.csv").write_text(f'id,x\na,"{text}"\n')
    said = f"line 2, column 'x': {text!r} is not a number; {advice}"
    found = refused(tmp_path / "a.csv", said, read_features, tmp_path / "a.csv", id_column="id")
    for choice in found.partition("; set ")[2].split(", or "):
        settings, _, value = choice.partition(" if ")
        csv_format = CsvFormat(**tomllib.loads(settings.replace(" and ", "\n")))
        table = read_features(tmp_path / "a.csv", party="bank", id_column="id", csv=csv_format)
        assert table.numbers.tolist() == [[float(value.rpartition(" is ")[2])]]


@pytest.mark.parametrize("head", ["", "id,x\na,1\n", 'id,x\na,"'])
def test_a_line_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch, head):
    monkeypatch.setattr(files, "_LONGEST_LINE", 1000)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((head + "0," * 100_000).encode()))
    line = head.count("\n") + 1
    said = f"line {line} has more than 1,000 characters"
    refused(tmp_path / "a.csv.gz", said, read_features, tmp_path / "a.csv.gz", id_column="id" if head else None)


def test_a_long_cell_is_cut_in_the_message(tmp_path):
    (tmp_path / "a.csv").write_text("x\n" + "w" * 5000 + "\n")
    assert len(refused(tmp_path / "a.csv", "line 2", read_features, tmp_path / "a.csv")) < 300 + len(str(tmp_path))


@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        (["12", "7", "0", "-3"], [12, 7, 0, -3]),
        (["12", "007"], ["12", "007"]),
        (["12", "+7"], ["12", "+7"]),
        (["12", "-0"], ["12", "-0"]),
        (["12", "7.0"], ["12", "7.0"]),
        (["12", " 7"], ["12", " 7"]),
        (["12", "1_0"], ["12", "1_0"]),
        (["12", "٣"], ["12", "٣"]),
        (["12", "9223372036854775807"], [12, 2**63 - 1]),
        (["12", "9223372036854775808"], ["12", "9223372036854775808"]),
        (["12", "9" * 5000], ["12", "9" * 5000]),
        (["NA", "DE", "7"], ["NA", "DE", "7"]),
        (['"a,b"', '"say ""a"""', '"a\r\nb"', "#c"], ["a,b", 'say "a"', "a\r\nb", "#c"]),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 1000])
def test_ids_are_numbers_only_where_each_is_written_as_numbers_are(tmp_path, monkeypatch, cells, ids, block):
    monkeypatch.setattr(table_files, "_BLOCK", block)
    found = read(tmp_path, "x,id\n" + "".join(f"1,{cell}\n" for cell in cells)).ids.values
    assert isinstance(found, list) == isinstance(ids[0], str)
    assert list(found) == ids


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz", "a.tsv", "a.tsv.gz"])
@pytest.mark.parametrize("last", ["", "\n", "\n\n\n"])
def test_line_ends_endings_and_empty_last_lines_change_nothing(tmp_path, end, name, last):
    text = "x,id,y\n1,b,2.5\n 3e-2 ,a,-4" + last
    table = read(tmp_path, text.replace(",", "\t" if "tsv" in name else ",").replace("\n", end), name=name)
    assert_array_equal(table.numbers, [[1, 2.5], [0.03, -4]])
    assert table.ids.values == ["b", "a"]
    assert table.columns == ["x", "y"]


def test_rows_without_ids_keep_the_order_of_the_file(tmp_path):
    table = read(tmp_path, "0,1\n5,6\n3,4\n", id_column=None)
    assert table.ids is None
    assert table.columns == ["0", "1"]
    assert_array_equal(table.numbers, [[5, 6], [3, 4]])


def test_columns_of_true_and_false_are_ones_and_zeros(tmp_path):
    assert_array_equal(read(tmp_path, "id,x,y\na,True,1\nb,false,2\n").numbers, [[1, 1], [0, 2]])


finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: not text.isspace())


@given(st.dictionaries(names, st.lists(finite, min_size=2, max_size=2), min_size=1, max_size=12), st.booleans())
def test_any_ids_and_any_floats_come_back_to_the_last_bit(tmp_path_factory, rows, quoted):
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerows([["x", "id", "y"], *([repr(x), name, repr(y)] for name, (x, y) in rows.items())])
    path = tmp_path_factory.mktemp("any") / "a.csv"
    path.write_bytes(text.getvalue().encode())
    table = read_features(path, party="bank", id_column="id")
    assert [str(name) for name in table.ids.values] == list(rows)
    assert table.numbers.tobytes() == np.array(list(rows.values())).tobytes()


cells = st.one_of(
    finite.map(repr), st.sampled_from(["1e3", " 7 ", "\u00a01", "+.5", "1.", "nan", "inf", "0x1", "", "a"])
)


@given(st.lists(st.tuples(st.text("ab7 #'é", max_size=3), cells, cells), max_size=6), st.integers(1, 3))
def test_the_quick_reader_gives_up_or_agrees_with_the_careful_one(tmp_path_factory, rows, block):
    path = tmp_path_factory.mktemp("both") / "a.csv"
    path.write_bytes("\n".join(["id,x,y", *map(",".join, rows)]).encode())
    file = InputFile.named(path, "bank", TABLES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_files, "_BLOCK", block)
        try:
            quick = table_files._quick(file, Selection(["id"], ["x", "y"]), as_text=False)
        except ValueError:
            return
    careful = table_files._careful(file, Selection(["id"], ["x", "y"]), as_text=False)
    assert_array_equal(quick.keys["id"], careful.keys["id"])
    assert_array_equal(quick.numbers, careful.numbers)
    assert [quick.origin.place(row) for row in range(quick.n_rows)] == [
        careful.origin.place(row) for row in range(careful.n_rows)
    ]


def test_plain_files_are_read_by_the_quick_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "_careful", None)
    assert read(tmp_path, "id,x\na b,1\n#c,2\n").numbers.tolist() == [[1], [2]]
