"""The source stays small, uses the words of the glossary, and a run executes few files."""

from pathlib import Path

import pytest

from project import public_docs, run_path, size, words


@pytest.fixture(scope="module")
def texts():
    return size.modules()


def test_the_source_has_at_most_so_many_files_and_lines_of_code(texts):
    assert len(texts) <= size.MAX_FILES
    assert sum(map(size.code_lines, texts.values())) <= size.MAX_CODE_LINES


def test_no_file_of_the_source_is_too_long(texts):
    assert size.long_files(texts) == {}


def test_no_two_classes_of_the_source_have_the_same_name(texts):
    assert size.shared_class_names(texts) == {}


def test_a_party_executes_few_files_from_its_configuration_to_its_labels(tmp_path):
    for files in run_path.executed_files(tmp_path).values():
        assert "deploy/run.py" in files
        assert len(files) <= run_path.MAX_FILES, "\n".join(files)


def test_no_name_of_the_source_has_a_word_that_the_glossary_replaces():
    assert list(map(str, words.names_left())) == []


def test_docstrings_start_with_a_standard_verb_or_a_noun():
    assert list(map(str, words.docstrings_left())) == []


def test_no_text_for_readers_has_a_phrase_that_the_glossary_replaces():
    assert list(map(str, words.phrases_left())) == []


@pytest.mark.parametrize(("module", "name"), public_docs.public_names(), ids=lambda value: value)
def test_a_public_name_documents_its_parameters_and_results_with_an_example(module, name):
    assert public_docs.missing(module, name) == []


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
