"""What a rule may say, and what is said about one that means nothing."""

import pytest

from kcagc.errors import ParameterError
from kcagc.tables import ColumnRule, TableRules


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"kind": "word"}, "kind: must be 'number', 'categorical' or 'drop', not 'word'"),
        ({"missing": "guess"}, "missing: must be 'error', 'mean', .*not 'guess'"),
        ({"scale": "log"}, "scale: must be 'none', 'standard', 'minmax' or 'log1p', not 'log'"),
        ({"kind": "categorical", "scale": "standard"}, "scale: levels cannot be scaled"),
        ({"kind": "categorical", "missing": "median"}, "missing: levels have no median; 'error', 'zero' and"),
        ({"kind": "categorical", "max_levels": 0}, "max_levels: must be a whole number, 1 or more"),
        ({"max_levels": 5}, "max_levels: is for kind = 'categorical', and this is 'number'"),
        ({"mising": "mean"}, "there is no setting called 'mising'; there are kind, missing, scale, max_levels"),
        ("mean", "must be a rule such as"),
    ],
)
def test_a_rule_that_means_nothing_is_refused_with_its_column(rule, said):
    with pytest.raises(ParameterError, match=f"^columns: age: {said}"):
        ColumnRule.of(rule, "columns: age")


def test_a_rule_reads_words_as_text_and_lets_gaps_through_only_where_it_has_an_answer():
    rules = TableRules(ColumnRule(kind="drop"), {"a": ColumnRule(missing="mean"), "b": ColumnRule(kind="categorical")})
    reading = rules.reading()
    assert (reading.of("a").kind, reading.of("a").gaps) == ("number", True)
    assert (reading.of("b").kind, reading.of("b").gaps) == ("text", False)
    assert reading.of("anything").kind == "drop"


def test_a_summary_has_what_differs_from_doing_nothing():
    rules = TableRules(ColumnRule(), {"a": ColumnRule(missing="mean"), "b": ColumnRule()})
    assert rules.as_dict() == {"columns.a": {"missing": "mean"}}
