import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.tables import refused
from kcagc.data import ColumnRule, CsvFormat, TableRules, read_features
from kcagc.data.csv_format import FORMATS, readings
from kcagc.data.table import ColumnType, Schema
from kcagc.errors import ParameterError

GERMAN = CsvFormat(delimiter=";", decimal=",", thousands=".", encoding="cp1252")


@given(st.integers(-(10**9), 10**9), st.integers(0, 999), st.sampled_from(FORMATS), st.booleans())
def test_a_number_written_in_a_format_is_read_in_this_format(whole, rest, how, grouped):
    thousands = (how.thousands or "") if grouped else ""
    text = f"{whole:,}".replace(",", thousands) + how.decimal + f"{rest:03}"
    assert how.number_reader()(text) == float(f"{whole}.{rest:03}")


@given(st.text("0123456789.,' -+e", min_size=1, max_size=12).map(str.strip), st.sampled_from(FORMATS))
def test_no_format_reads_what_it_does_not_write(text, how):
    """Without its own two signs, what is read has nothing but digits, a sign and an exponent."""
    value = how.number_reader()(text)
    if value is not None:
        rest = text.replace(how.decimal, "", 1).replace(how.thousands or "", "")
        assert rest.lstrip("+-").replace("e", "", 1).replace("-", "", 1).replace("+", "", 1).isdecimal()
        if how.thousands and how.thousands in text:
            groups = text.lstrip("+-").split(how.decimal)[0].split(how.thousands)
            assert 1 <= len(groups[0]) <= 3
            assert len(groups[-1]) == 3


@pytest.mark.parametrize(
    ("text", "how", "value"),
    [
        ("1.5", CsvFormat(decimal=","), None),
        ("1,5", CsvFormat(), None),
        ("1,23", CsvFormat(thousands=","), None),
        ("0,125", CsvFormat(thousands=","), None),
        ("12,34,567", CsvFormat(thousands=","), 1234567),
        ("1\u202f234,5", CsvFormat(thousands=" ", decimal=","), 1234.5),
        ("1\u2019234", CsvFormat(thousands="'"), 1234),
        ("1_000", CsvFormat(thousands=","), None),
        ("-1.234.567,5", CsvFormat(thousands=".", decimal=","), -1234567.5),
        ("1e3", CsvFormat(thousands=","), 1000),
    ],
)
def test_cells_on_the_border_between_formats(text, how, value):
    assert how.number_reader()(text) == value


def test_both_readings_of_an_unclear_number_are_named():
    found = {(how.decimal, how.thousands): value for how, value in readings("1,234")}
    assert found == {(".", ","): 1234, (",", None): 1.234}
    assert readings("2021-03-04") == readings("1.2.3") == readings("x") == []


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"delimiter": ""}, "delimiter"), ({"delimiter": ";;"}, "delimiter"), ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": "a"}, "delimiter"), ({"decimal": ";"}, "decimal"), ({"thousands": "x"}, "thousands"),
        ({"decimal": ",", "thousands": ","}, "thousands"), ({"encoding": "klingon"}, "encoding"),
        ({"encoding": "base64"}, "encoding"), ({"encoding": "utf-8\0"}, "encoding"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_by_name(settings, name):
    with pytest.raises(ParameterError, match=f"^data.{name}: "):
        CsvFormat(**settings).checked("data.")


def test_a_table_of_a_german_spreadsheet_is_read_as_it_is_written(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("Straße;x;Größe\nAllee;1.234,5;M\nÄcker;-0,5;L\n".encode("cp1252"))
    schema = Schema(ColumnType(), {"Größe": ColumnType("text")})
    table = read_features(path, party="bank", id_column="Straße", schema=schema, csv=GERMAN)
    assert table.ids.values == ["Allee", "Äcker"]
    assert table.numbers.tolist() == [[1234.5], [-0.5]]
    assert table.texts == {"Größe": ["M", "L"]}
    refused(path, "line 1: not UTF-8", read_features, path)
    plain = msgspec.structs.replace(GERMAN, decimal=".", thousands=None)
    said = "line 3, column 'x': '-0,5' is not a number; set decimal"
    path.write_bytes("Straße;x\nAllee;5\nÄcker;-0,5\n".encode("cp1252"))
    refused(path, said, read_features, path, id_column="Straße", csv=plain)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8", "latin-1"])
def test_encodings_change_nothing_but_the_bytes(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes("id,x\nä,1\n\u00fc,2\n".encode(encoding))
    table = read_features(tmp_path / "a.csv", party="bank", id_column="id", csv=CsvFormat(encoding=encoding))
    assert table.ids.values == ["ä", "ü"]
    assert table.numbers.tolist() == [[1], [2]]


def test_another_encoding_than_the_stated_one_is_an_error_with_its_line(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,x\nb,1\n\x81,2\n")
    said = "line 3: not cp1252"
    refused(tmp_path / "a.csv", said, read_features, tmp_path / "a.csv", csv=CsvFormat(encoding="cp1252"))


@pytest.mark.parametrize("cell", ["-", "-999", "-999.0", " - "])
def test_texts_and_numbers_that_stand_for_a_gap_are_gaps_in_the_fit_and_in_a_prediction(tmp_path, cell):
    path = tmp_path / "a.csv"
    path.write_text(f"x,w\n1,a\n{cell},-\n3,b\n")
    words = ColumnRule(kind="categorical", missing="zero", missing_values=("-",))
    rules = TableRules(columns={"x": ColumnRule(missing="mean", missing_values=("-", "-999")), "w": words})
    fitted, made = rules.fit_apply(read_features(path, party="bank", schema=rules.schema()))
    assert made[:, 0].tolist() == [1, 2, 3]
    assert made[1, 1:].tolist() == [0, 0]
    again = fitted.apply(read_features(path, party="bank", schema=fitted.schema()))
    assert again.tolist() == made.tolist()
    copied = msgspec.msgpack.decode(msgspec.msgpack.encode(fitted), type=type(fitted))
    assert copied.apply(read_features(path, party="bank", schema=copied.schema())).tolist() == made.tolist()


def test_any_text_counts_as_a_gap_only_where_the_rule_accepts_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\nerr?\n3\n")
    rules = TableRules(columns={"x": ColumnRule(missing="mean", unreadable="missing")})
    assert rules.fit_apply(read_features(path, party="bank", schema=rules.schema()))[1].tolist() == [[1], [2], [3]]
    said = "line 3, column 'x': 'err?' is not a number; correct the cells, or set missing_values"
    refused(path, said, read_features, path)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"missing_values": ["-"]}, "missing_values: set missing, too"),
        ({"unreadable": "missing"}, "unreadable: set missing, too"),
        ({"kind": "categorical", "missing": "zero", "unreadable": "missing"}, "unreadable: is for kind = 'number'"),
        ({"missing": "mean", "missing_values": "-"}, "missing_values: must be a list of texts"),
    ],
)
def test_rules_about_gaps_that_mean_nothing_are_refused(rule, said):
    with pytest.raises(ParameterError, match=f"^columns: x: {said}"):
        ColumnRule.of(rule, "columns: x")


def test_the_logarithm_with_a_standard_scale_has_mean_0_and_deviation_1(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n0\n10\n1000\n100000\n")
    rules = TableRules(ColumnRule(scale="log-standard"))
    _, made = rules.fit_apply(read_features(path, party="bank", schema=rules.schema()))
    assert (abs(made.mean()), made.std()) == pytest.approx((0, 1), abs=1e-12)
    path.write_text("x\n0\n-1\n")
    said = "line 3, column 'x': a logarithm (log1p) needs values above -1, not -1"
    refused(path, said, read_features, path, schema=rules.schema())
