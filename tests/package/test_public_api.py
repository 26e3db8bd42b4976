"""The public names: listed in one place, importable, documented with examples that run, and typed."""

import doctest
import inspect
import sys
from importlib import import_module
from pathlib import Path

import pytest

import kcagc
from project.public_docs import missing, public_names


@pytest.mark.parametrize(("module", "name"), public_names(), ids=lambda value: value)
def test_a_public_name_has_a_docstring_that_begins_with_a_sentence(module, name):
    assert "a first sentence" not in missing(module, name)


@pytest.mark.parametrize(("module", "name"), public_names(), ids=lambda value: value)
def test_the_examples_of_a_public_name_print_what_they_show(module, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    value = getattr(import_module(module), name)
    defined_in = sys.modules[getattr(value, "__module__", None) or module]
    known = {**vars(kcagc), **vars(import_module(module)), **vars(defined_in), name: value}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    failures: list[str] = []
    for example in doctest.DocTestFinder(recurse=inspect.isclass(value)).find(value, name, globs=known):
        runner.run(example, out=failures.append, clear_globs=False)
    assert not failures, "".join(failures)


def test_names_that_are_imported_on_first_use_are_listed():
    assert set(kcagc.__all__) <= set(dir(kcagc))
    assert "KCAGC" not in vars(kcagc)  # or the command line would load everything
    with pytest.raises(AttributeError, match="no attribute 'kCAGC'"):
        kcagc.kCAGC  # noqa: B018


def test_every_public_module_has_a_docstring():
    for module in kcagc.PUBLIC_MODULES:
        assert inspect.getdoc(import_module(module))


def test_the_package_declares_its_types():
    assert (Path(kcagc.__file__).parent / "py.typed").exists()
