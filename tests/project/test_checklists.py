"""The source stays small, uses the words of the glossary, and a run executes few files."""

from pathlib import Path

import pytest

from project import public_docs, run_path, size, words


@pytest.fixture(scope="module")
def texts():
    return size.modules()


def test_no_file_of_the_source_is_too_long(texts):
    assert size.long_files(texts) == {}


# ---- the checklists themselves


def test_docstrings_comments_and_blank_lines_are_no_code():
    function = 'def f():\n    """Docstring."""\n    return x\n'
    text = '"""Docstring\n\nof three lines."""\n\n# comment\nx = """a\nb"""\n\n' + function
    assert size.code_lines(text) == 4


def test_words_are_found_in_names_of_both_styles():
    assert words.replaced_words("next_letter") == ["letter"]
    assert words.replaced_words("_SealedBoxes") == ["sealed", "boxes"]
    assert words.replaced_words("use") == ["use"]
    assert words.replaced_words("user_of_dashboard") == []
    assert words.replaced_words("use_threads") == []


def test_phrases_are_found_across_lines_and_only_as_whole_words():
    found = [finding.text for finding in words.phrases(Path("x"), 1, "It is\n   told to whoever sums; untold.")]
    assert [text.split('"')[1] for text in found] == ["told", "whoever"]


def test_strings_and_comments_of_code_are_read_whole(tmp_path):
    module = tmp_path / "module.py"
    module.write_text('x = 1  # first\n# who\n# sums\ny = f"told {x}" "more"\n')
    assert sorted(words.text_of_code(module)) == [(1, "first who sums"), (4, "told …more")]


def test_a_package_index_counts_if_it_defines_more_than_its_list_of_names(tmp_path):
    texts = {"a": "from x import y\n", "b": "def __getattr__(name): ...\n", "c": "def compute(): ...\n"}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
        (tmp_path / name / "module.py").write_text(text)
        assert run_path.is_index(tmp_path / name / "__init__.py") is (name != "c")
        assert not run_path.is_index(tmp_path / name / "module.py")


def test_sections_of_a_docstring_are_separated():
    found = public_docs.sections("Return x.\n\nParameters\n----------\na, b : int\n    Two.\n\nReturns\n-------\nint\n")
    assert list(found) == ["Parameters", "Returns"]
