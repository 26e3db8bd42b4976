"""The page of the attacks is rendered from the stored figures, and these are within their bounds."""

from importlib import import_module

import pytest

from attacks import page
from attacks.results import RESULTS, SUITES, book, figures


def stored(name):
    return [one for _, result in book(RESULTS)[name].all() for one in figures(result)]


def test_the_page_in_the_docs_is_what_the_kept_figures_give(tmp_path):
    shown = page.render(book(RESULTS), tmp_path / "attacks.md")
    assert (tmp_path / "attacks.md").read_text() == page.PAGE.read_text(), "render it: python -m attacks page"
    assert set(shown) == set(SUITES), "measure what is missing: make attack NAME=..."


@pytest.mark.parametrize("name", SUITES)
def test_every_stored_figure_is_within_its_bound_and_supports_a_sentence(name):
    module = import_module(SUITES[name])
    is_open = getattr(module, "is_open", lambda _: False)
    for one in stored(name):
        assert one.sentence in module.SENTENCES
        assert one.holds or is_open(one), one


def test_every_sentence_has_a_figure():
    for name, path in SUITES.items():
        assert {one.sentence for one in stored(name)} == set(import_module(path).SENTENCES)


def test_keys_of_sentences_are_used_once():
    every = [key for path in SUITES.values() for key in import_module(path).SENTENCES]
    assert len(every) == len(set(every))


def test_every_role_and_method_was_attacked():
    found = [one for name in SUITES for one in stored(name)]
    assert {one.role for one in found} == {
        "coordinator",
        "coordinator with one party",
        "both holders",
        "network observer",
        "party",
        "lying party",
        "lying coordinator",
    }
    assert {one.method for one in found} >= {
        "cells",
        "tree",
        "basic",
        "prediction",
        "joint",
        "joint, coordinator",
        "joint prediction",
    }
