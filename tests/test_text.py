"""Text for people: what another organisation writes cannot do harm, and numbers are never rounded to a falsehood."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcagc.text import amount, count, decimal, listed, number, percent, printable, quoted, seconds, size

SOURCES = Path(__file__).parent.parent / "src"


@given(st.text())
def test_printable_text_holds_no_control_characters_and_keeps_its_length(text):
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)
    assert printable(text) == text or not text.isprintable()


def test_printable_text_cannot_move_a_cursor_or_turn_the_direction_of_a_line():
    assert printable("a\x1b[2Jb\u202ec\nd\u2028e") == "a?[2Jb?c?d?e"
    assert printable("a\nb\tc", keep="\n") == "a\nb?c"
    assert printable("1\u202f000\u00a0km") == "1 000 km"


@given(st.text())
def test_quoted_text_is_one_short_printable_line(text):
    assert quoted(text).isprintable()
    assert len(quoted(text)) <= 63


def test_quoted_numbers_have_no_quotes():
    assert quoted(7) == "7"
    assert quoted("7") == "'7'"


@pytest.mark.parametrize(
    ("words", "limit", "expected"),
    [
        ([], None, ""),
        (["a"], None, "a"),
        (["a", "b"], None, "a and b"),
        (["a", "b", "c"], None, "a, b and c"),
        (["a, b", "c", "d"], None, "a, b; c and d"),
        (["a", "b", "c"], 3, "a, b and c"),
        (["a", "b", "c", "d"], 3, "a, b, c and 1 more"),
        (list("abcdefg"), 1, "a and 6 more"),
    ],
)
def test_lists(words, limit, expected):
    assert listed(words, limit) == expected


@pytest.mark.parametrize(
    ("share", "digits", "expected"),
    [
        (None, 1, "–"),
        (0, 1, "0.0 %"),
        (1e-9, 1, "<0.1 %"),
        (0.0005, 1, "0.1 %"),
        (0.4567, 1, "45.7 %"),
        (0.4567, 0, "46 %"),
        (0.001, 0, "<1 %"),
        (0.99949, 1, "99.9 %"),
        (0.9999, 1, ">99.9 %"),
        (1, 1, "100.0 %"),
    ],
)
def test_a_percentage_says_none_or_all_only_if_it_is(share, digits, expected):
    assert percent(share, digits) == expected


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(0, 3))
def test_no_part_is_rounded_to_none_or_to_all(share, digits):
    shown = percent(share, digits)
    assert shown[0] in "<>" or 0 < float(shown[:-2]) < 100


@pytest.mark.parametrize(
    ("n_bytes", "expected"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5.4e9, "5.4 GB"),
        (2e15, "2000.0 TB"),
    ],
)
def test_sizes(n_bytes, expected):
    assert size(n_bytes) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0004, "0 ms"),
        (0.35, "350 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations(value, expected):
    assert seconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (1, "1"),
        (-2.5, "-2.5"),
        (0.12345, "0.123"),
        (12345, "12,345"),
        (1e-5, "1.00e-05"),
        (2.5e7, "2.50e+07"),
        (float("inf"), "infinite"),
        (float("-inf"), "minus infinite"),
        (float("nan"), "undefined"),
    ],
)
def test_numbers(value, expected):
    assert number(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_numbers_keep_three_digits(value):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=5.01e-3, abs=0)


def test_counts():
    assert (count(1234567), count(1, "node"), count(2000, "node")) == ("1,234,567", "1 node", "2,000 nodes")


def test_no_other_module_decides_what_is_printable():
    found = [path.name for path in SOURCES.rglob("*.py") if re.search(r"isprintable\(\) (or|else)", path.read_text())]
    assert found == ["text.py"]


def test_it_needs_the_standard_library_only():
    imported = re.findall(r"^(?:from|import) (\w+)", (SOURCES / "kcagc" / "text.py").read_text(), flags=re.MULTILINE)
    assert imported
    assert set(imported) <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.004, "<0.01"),
        (-0.004, ">-0.01"),
        (0.006, "0.01"),
        (-0.25, "-0.25"),
        (1.005, "1.00"),
        (12.0, "12.00"),
    ],
)
def test_a_decimal_number_tells_zero_from_nearly_zero(value, text):
    assert decimal(value) == text


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_a_decimal_number_is_zero_only_if_it_is(value, digits):
    assert (float(decimal(value, digits).strip("<>")) == 0) == (value == 0)


def test_amounts_have_the_grammar_of_their_number():
    assert [amount(one, "edge") for one in (0, 1, 2, 1234)] == ["no edges", "1 edge", "2 edges", "1,234 edges"]
