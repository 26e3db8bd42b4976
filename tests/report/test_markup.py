"""Names and numbers as the page writes them."""

import pytest

from kcagc.report.markup import column_name, unbroken


@pytest.mark.parametrize("name", ["rent", "f(x)", "a (b) c", "a (" + "b" * 25 + ")", "(EUR)", "rent (EUR"])
def test_a_name_without_a_unit_is_whole(name):
    assert 'class="unit"' not in column_name(name, "strong")


def test_a_unit_is_apart_from_the_name_and_cannot_act_as_markup():
    assert column_name("rent (EUR/month)", "strong") == (
        '<strong class="feature">rent</strong> <span class="unit">(EUR/month)</span>'
    )
    assert "<img" not in column_name("a<img> (<img>)", "span")


def test_a_line_does_not_end_between_a_number_and_what_it_counts():
    assert unbroken("of 2.5 % <b>, near cluster 12") == "of 2.5&nbsp;% &lt;b&gt;, near cluster&nbsp;12"
    assert unbroken("clusters 1 and 2, 5 times") == "clusters 1 and 2, 5 times"
