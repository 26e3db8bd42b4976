"""Profiles of columns and the rules that are proposed for them; a table with these rules is always accepted."""

import csv
import gzip

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from data import messy
from kcagc.data import CsvFormat, read_features
from kcagc.data.detect import detect_format
from kcagc.data.files import TABLES, InputFile
from kcagc.data.profile import profile_file, profile_frame
from kcagc.data.proposal import MANY_COLUMNS, likely_ids, propose_matrix, propose_table
from kcagc.text import quoted


def proposed(path, *, csv_format=None, id_column="", absent=0):
    """Detect, profile, propose; then read the table by the rules, which must work, and fit them."""
    file = InputFile.named(path, "bank", TABLES)
    how = csv_format or CsvFormat()
    if file.kind != "parquet" and csv_format is None:
        found = detect_format(file, given=how)
        assert not found.readings, found.notes
        how = found.csv
    profiles = profile_file(InputFile.named(path, "bank", TABLES, how))
    ids = likely_ids(profiles) if id_column == "" else id_column
    table = propose_table(profiles, ids, absent=absent)
    rules = table.rules()
    read = read_features(path, party="bank", id_column=ids, schema=rules.schema(), csv=how)
    _, made = rules.fit_apply(read)
    assert np.isfinite(made.data if sparse.issparse(made) else made).all()
    return {one.profile.name: one for one in table.columns}, how, ids


def rule(found, name):
    return found[name].rule.settings()


def test_a_table_of_a_german_spreadsheet(tmp_path):
    found, how, ids = proposed(messy.bank(tmp_path / "a.csv"))
    assert how == CsvFormat(delimiter=";", decimal=",", thousands=".", encoding="cp1252")
    assert ids == "Kunden-Nr"
    assert {name: one.type for name, one in found.items()} == {
        "Name": "ids", "PLZ": "ids", "Geburtstag": "dates", "Umsatz": "numbers", "Saldo": "numbers",
        "Straße": "categories", "Aktiv": "categories", "Kinder": "counts", "Mandant": "constant", "Notiz": "text",
    }  # fmt: skip
    assert rule(found, "Umsatz") == {"missing": "median", "scale": "log-standard", "missing_values": ("-",)}
    assert rule(found, "Saldo") == {"scale": "standard"}
    assert rule(found, "Straße") == {"kind": "categorical", "missing": "indicator"}
    assert rule(found, "Aktiv") == {"kind": "categorical"}
    assert rule(found, "Kinder") == {}
    assert {name for name, one in found.items() if one.rule.kind == "drop"} == {
        "Name", "PLZ", "Geburtstag", "Mandant", "Notiz"
    }  # fmt: skip


def test_a_table_with_thousands_separators_and_words_among_numbers(tmp_path):
    found, how, ids = proposed(messy.shop(tmp_path / "a.csv"))
    assert (how, ids) == (CsvFormat(thousands=","), "id")
    assert rule(found, "amount") == {"scale": "log-standard"}
    assert rule(found, "vip") == {"kind": "categorical", "missing": "indicator", "missing_values": ("-",)}
    assert rule(found, "score") == {"missing": "indicator", "scale": "standard"}
    assert rule(found, "mixed") == {"missing": "indicator", "scale": "standard", "unreadable": "missing"}
    assert rule(found, "sold") == {"scale": "standard"}
    assert (rule(found, "flag"), found["flag"].type) == ({}, "flag")
    assert rule(found, "category")["max_levels"] <= 100
    assert {found[name].type for name in ("signup", "sku", "const")} == {"dates", "ids", "constant"}


def test_a_table_with_tabs_and_many_levels(tmp_path):
    found, _, ids = proposed(messy.telecom(tmp_path / "a.tsv"), id_column="msisdn")
    assert ids == "msisdn"
    assert {found[name].type for name in ("row", "imei")} == {"ids"}
    assert rule(found, "plan")["missing_values"] == ("unknown",)
    assert rule(found, "region_code") == {"kind": "categorical"}
    assert rule(found, "cell") == {"kind": "drop"}


@pytest.mark.parametrize(
    ("cells", "readings"),
    [
        (["1,234", "5,678"], 2),
        (["1,234", "5,67"], 0),
        (["1,234", "12.5"], 0),
        (["1,234", "1,234,567"], 0),
        (["0,123", "1,234"], 0),
        (["12", "7"], 0),
    ],
)
def test_a_number_format_is_proposed_only_where_the_column_allows_one_reading(tmp_path, cells, readings):
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "x"], *([f"n{row}", cell] for row, cell in enumerate(cells * 5))])
    found = detect_format(InputFile.named(path, "bank", TABLES), given=CsvFormat())
    assert len(found.readings) == readings
    if readings:
        assert found.csv == CsvFormat()
        assert "--thousands ',' if '1,234' is 1234, or --decimal ',' if '1,234' is 1.234" in found.notes[-1]
    else:
        read = found.csv.number_reader()
        assert all(read(cell) is not None for cell in cells)
    fixed = detect_format(
        InputFile.named(path, "bank", TABLES), given=CsvFormat(decimal=","), fixed=frozenset({"decimal"})
    )
    assert fixed.csv.decimal == ","


@pytest.mark.parametrize(
    "rows", [[("123,50", "4,567.50")], [("1.234,50", "1"), ("1,234.50", "1")], [("1.234,50", "1,234.50")]]
)
def test_a_file_with_numbers_in_two_formats_is_a_question_that_shows_one_of_each(tmp_path, rows):
    (tmp_path / "a.csv").write_text("id;x;y\n" + "".join(f"n{one};{x};{y}\n" for one in range(10) for x, y in rows))
    found = detect_format(InputFile.named(tmp_path / "a.csv", "bank", TABLES), given=CsvFormat())
    assert len(found.readings) == 2
    assert "written in two ways, as in " in found.notes[-1]
    assert all(quoted(cell) in found.notes[-1] for cell in {one for row in rows for one in row} if "," in cell)


def test_points_before_three_digits_in_a_file_with_semicolons_are_a_question(tmp_path):
    (tmp_path / "a.csv").write_text("id;x\n" + "".join(f"n{row};{1 + row}.{100 + row}\n" for row in range(20)))
    found = detect_format(InputFile.named(tmp_path / "a.csv", "bank", TABLES), given=CsvFormat())
    assert len(found.readings) == 2
    assert "--decimal '.' if '1.100' is 1.1, or" in found.notes[-1]
    assert "if '1.100' is 1100" in found.notes[-1]


def test_dates_versions_and_words_never_change_how_numbers_are_read(tmp_path):
    rows = [f"n{row},{row % 28 + 1:02d}.05.2020,1.{row}.3,{row / 7:.3f}" for row in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["id,day,version,x", *rows]) + "\n")
    found, how, _ = proposed(tmp_path / "a.csv")
    assert how == CsvFormat()
    assert (found["day"].type, found["x"].type) == ("dates", "numbers")


def test_no_reason_repeats_a_value_of_the_table(tmp_path):
    found, _, _ = proposed(messy.bank(tmp_path / "a.csv"))
    reasons = " ".join(one.reason for one in found.values())
    for value in ("Müller", "Am Wall", "ruft", "042", "ja"):
        assert f" {value}" not in reasons


def test_nodes_without_a_row_need_a_rule_for_every_column(tmp_path):
    for name in ("shop", "bank"):
        found, _, _ = proposed(getattr(messy, name)(tmp_path / f"{name}.csv"), absent=3)
        assert all(one.rule.kind == "drop" or one.rule.missing != "error" for one in found.values())


def test_a_wide_table_has_one_default_and_its_exceptions_by_name(tmp_path):
    width = MANY_COLUMNS + 20
    values = np.random.default_rng(0).normal(size=(30, width))
    frame = pandas.DataFrame(values, columns=[f"g{number}" for number in range(width)])
    frame.insert(0, "id", [f"n{row}" for row in range(30)])
    frame["city"] = ["a", "b", "c"] * 10
    frame.to_csv(tmp_path / "a.csv", index=False)
    profiles = profile_file(InputFile.named(tmp_path / "a.csv", "bank", TABLES))
    rules = propose_table(profiles, "id").rules()
    assert rules.default.scale == "standard"
    assert set(rules.columns) == {"city"}


def test_parquet_and_frames_are_profiled_alike(tmp_path):
    draw = np.random.default_rng(1)
    frame = pandas.DataFrame(
        {
            "id": [f"n{row}" for row in range(60)],
            "x": np.where(draw.random(60) < 0.2, np.nan, draw.normal(size=60)),
            "city": draw.choice(["a", "b", "c"], 60),
            "day": pandas.date_range("2020-01-01", periods=60),
            "on": draw.random(60) < 0.5,
            "none": [None] * 60,
            "one": 7,
        }
    )
    frame.to_parquet(tmp_path / "a.parquet")
    found, _, ids = proposed(tmp_path / "a.parquet")
    assert ids == "id"
    types = {name: one.type for name, one in found.items()}
    expected = {"x": "numbers", "city": "categories", "day": "dates", "on": "flag", "none": "empty", "one": "constant"}
    assert types == expected
    frames = propose_table(profile_frame(frame), "id").columns
    assert {one.profile.name: one.rule for one in frames} == {name: one.rule for name, one in found.items()}


def test_a_matrix_gets_one_rule():
    words = sparse.random(50, 30, density=0.1, format="csr", random_state=0)
    assert propose_matrix(words).default.settings() == {}
    assert propose_matrix(words, absent=2).default.settings() == {"missing": "zero"}
    dense = np.random.default_rng(0).normal(size=(20, 4))
    assert propose_matrix(dense).default.settings() == {"scale": "standard"}


def test_blocks_and_compression_change_nothing(tmp_path, monkeypatch):
    path = messy.shop(tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr("kcagc.data.profile._BLOCK", 7)
    small, _, _ = proposed(tmp_path / "b.csv.gz")
    monkeypatch.undo()
    whole, _, _ = proposed(path)
    assert set(small) == set(whole)
    for name, one in small.items():
        other = whole[name]
        assert (one.rule, one.n_missing, one.type) == (other.rule, other.n_missing, other.type)
        assert one.profile.texts == other.profile.texts
        assert sorted(one.profile.values) == sorted(other.profile.values)


cells = st.sampled_from(
    ["", "NA", "-", "1", "0", "2.5", "-3", "1e300", "inf", "-inf", "nan", "true", "False", "yes", "007", "a", "b c",
     "2020-01-01", "12.05.2020", "1_0", "٣", "?", "99999999999999999999", "-1", "x" * 90, "'", '"', "\u00a0", " 5 "]
)  # fmt: skip


@settings(max_examples=100)
@given(st.lists(st.lists(cells, min_size=3, max_size=3), min_size=3, max_size=25), st.integers(0, 2))
def test_whatever_a_table_holds_the_proposed_rules_are_accepted(tmp_path_factory, rows, absent):
    path = tmp_path_factory.mktemp("any") / "a.csv"
    with path.open("w", newline="") as file:
        header = ["id", "x", "y", "z", "kept"]
        csv.writer(file).writerows([header, *([f"n{row}", *cell, row % 2] for row, cell in enumerate(rows))])
    proposed(path, csv_format=CsvFormat(), id_column="id", absent=absent)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8", "cp1252"])
def test_the_encoding_is_found_with_and_without_a_mark(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes("id,ort\nann,Köln\nbob,Ulm\n".encode(encoding))
    found = detect_format(InputFile.named(tmp_path / "a.csv", "bank", TABLES), given=CsvFormat())
    assert found.csv.encoding == encoding
    with InputFile.named(tmp_path / "a.csv", "bank", TABLES, found.csv).lines() as lines:
        assert list(lines)[1] == "ann,Köln\n"


def test_numbers_that_may_be_ids_and_amounts_with_signs_are_pointed_out(tmp_path):
    rows = [f'n{row},{row * 37 + 5},{row**2 * 7},"{row},{row % 90 + 10} €",{row % 7}%,({row})' for row in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["id,ACCOUNT_ID,vertragsnr,price,share,loss", *rows]) + "\n")
    found, _, _ = proposed(tmp_path / "a.csv", csv_format=CsvFormat())
    assert rule(found, "ACCOUNT_ID") == {"kind": "drop"}
    assert "if this is an id, drop it" in found["vertragsnr"].reason
    for name in ("price", "share", "loss"):
        assert "most are numbers with a sign" in found[name].reason
    words, _, _ = proposed(messy.bank(tmp_path / "b.csv"))
    assert not any("with a sign" in one.reason for one in words.values())
