"""The public names: listed in one place, importable, explained, and typed."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import kcagc

NAMES = [("kcagc", name) for name in kcagc.__all__ if name != "__version__"]
for module in kcagc.PUBLIC_MODULES:
    NAMES += [(module, name) for name in getattr(import_module(module), "__all__", ())]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda one: one)
def test_a_public_name_can_be_imported_and_says_what_it_is(module, name):
    one = getattr(import_module(module), name)
    if inspect.isclass(one) or inspect.isfunction(one):
        summary = (inspect.getdoc(one) or "").strip().partition("\n\n")[0]
        assert summary.endswith((".", ":", "`"))


def test_what_is_imported_late_is_listed_all_the_same():
    assert set(kcagc.__all__) <= set(dir(kcagc))
    assert "KCAGC" not in vars(kcagc)  # or the command line would load everything
    with pytest.raises(AttributeError, match="no attribute 'kCAGC'"):
        kcagc.kCAGC  # noqa: B018


def test_every_public_module_is_explained():
    for module in kcagc.PUBLIC_MODULES:
        assert inspect.getdoc(import_module(module))


def test_the_package_says_that_it_has_types():
    assert (Path(kcagc.__file__).parent / "py.typed").exists()
