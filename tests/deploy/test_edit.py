"""Changes of a configuration file: only what is asked for, every comment and every other section stays."""

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.collaboration import made
from kcagc.data import ColumnRule
from kcagc.deploy.config import Config
from kcagc.deploy.edit import change_data, rules_block
from kcagc.errors import ParameterError

RULES = {
    "age": ColumnRule(missing="median", scale="standard", missing_values=("-", 'say "x"')),
    "Ort, Straße": ColumnRule(kind="categorical", missing="indicator", max_levels=5),
    "plain": ColumnRule(),
}
REASONS = {"age": "3 gaps", "plain": "a flag"}
BLOCK = rules_block("(test)", RULES, REASONS)


@pytest.fixture
def config(tmp_path):
    return made(tmp_path, data=False)["alice"]


def write(path, settings=None, *, rules=None, replace=False, default=None):
    rules = RULES if rules is None else rules
    block = rules_block("(test)", rules, REASONS, default)
    return change_data(path, settings or {}, rules, default, block=block, replace=replace)


def comments(text):
    return [line for line in text.splitlines() if line.startswith("#")]


def test_rules_and_settings_are_read_back_and_everything_else_stays(config):
    before = config.read_text()
    config.chmod(0o600)
    copied = write(config, {"id_column": "Kunden-Nr", "delimiter": "\t", "decimal": ","})
    assert (copied.name, copied.read_text()) == ("kcagc.toml.bak", before)
    found = Config.load(config).document
    assert found.data.columns == RULES
    assert (found.data.id_column, found.data.delimiter, found.data.decimal) == ("Kunden-Nr", "\t", ",")
    after, old = tomllib.loads(config.read_text()), tomllib.loads(before)
    assert {name: one for name, one in after.items() if name != "data"} == {
        name: one for name, one in old.items() if name != "data"
    }
    lines = set(config.read_text().splitlines())
    assert [line for line in before.splitlines() if line not in lines] == ['id_column = "id"']
    assert {path.stat().st_mode & 0o777 for path in (config, copied)} == {0o600}


def test_rules_that_are_there_are_kept_unless_they_are_replaced(config):
    write(config)
    before = config.read_text()
    with pytest.raises(ParameterError, match=r"has rules for columns already \(columns.age; .*--replace"):
        write(config)
    assert config.read_text() == before
    assert write(config, replace=True).name == "kcagc.toml.bak2"
    assert config.read_text() == before
    write(config, rules={"x": ColumnRule(kind="drop")}, replace=True, default=ColumnRule(scale="minmax"))
    found = Config.load(config).document.data
    assert (found.columns, found.default) == ({"x": ColumnRule(kind="drop")}, ColumnRule(scale="minmax"))
    assert "3 gaps" not in config.read_text()


HAND = [
    '\n[data.default]\nmissing = "median"\n# why\nscale = "standard"\n\n[data.columns.loan]\nkind = "categorical"\n',
    '\n[data.columns]\nage = { missing = "mean" }\n"a b" = { kind = "drop" }\n\n# about limits\n',
    '\n[data.columns."x.y"]\nmissing = "zero"\nmissing_values = [\n  "-",\n  "[data]",\n]\n',
]


@pytest.mark.parametrize("rules", HAND)
def test_rules_in_sections_of_their_own_are_replaced(config, rules):
    before = config.read_text()
    config.write_text(before + rules)
    with pytest.raises(ParameterError, match="has rules for columns already"):
        write(config)
    write(config, replace=True)
    assert Config.load(config).document.data.columns == RULES
    assert set(comments(before + rules)) <= set(comments(config.read_text()))


def test_rules_in_lines_of_the_section_are_replaced(config):
    text = re.sub(r"^# (columns\.|default = )", r"\1", config.read_text(), flags=re.MULTILINE)
    config.write_text(text.replace("default = {} ", 'default = { missing = "zero" }'))
    write(config, replace=True)
    found = Config.load(config).document.data
    assert (found.columns, found.default) == (RULES, ColumnRule())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[data]", "[ data ]  # mine"),
        ('features = "data/features.csv"', 'features = """\ndata/features.csv"""'),
        ("[limits]", '[[x]]\n[limits]\n# note = """\n'),
    ],
)
def test_unusual_files_are_changed_rightly_or_not_at_all(config, old, new):
    config.write_text(config.read_text().replace(old, new, 1))
    before = tomllib.loads(config.read_text())
    try:
        write(config, {"decimal": ","})
    except ParameterError as error:
        assert "write there by hand" in str(error)  # noqa: PT017 - either outcome is right
        assert tomllib.loads(config.read_text()) == before
    else:
        after = tomllib.loads(config.read_text())
        assert set(after["data"].pop("columns")) == set(RULES)
        assert after["data"].pop("decimal") == ","
        assert after == before


def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(config):
    text = config.read_text().replace("[data]", 'data = { features = "f.csv", graph = "g.csv" }\n[x]')
    config.write_text("data.x = 1\n" if "data = {" not in text else text.split("[me]")[0] + 'data = { graph = "g" }\n')
    before = config.read_text()
    with pytest.raises(ParameterError, match=r"(?s)cannot be changed safely; write there by hand:\n.*columns\.age = "):
        write(config)
    assert config.read_text() == before
    assert not list(config.parent.glob("*.bak*"))


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=8),
        st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=3),
        max_size=4,
    )
)
def test_any_names_and_words_are_written_as_valid_lines(names):
    rules = {
        name: ColumnRule(kind="categorical", missing="zero", missing_values=tuple(words))
        for name, words in names.items()
    }
    found = tomllib.loads(rules_block("(a\nb)", rules, {name: f"why\r{name}" for name in names}))
    assert {name: tuple(one.get("missing_values", ())) for name, one in found.get("columns", {}).items()} == {
        name: rule.missing_values for name, rule in rules.items()
    }
