"""The operating system is the only source of randomness, and only two functions ask it."""

import ast
from pathlib import Path

import pytest

import kcagc.secagg

SOURCES = sorted(Path(kcagc.secagg.__file__).parent.glob("*.py"))
each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)

ALLOWED = {
    "__future__",
    "collections.abc",
    "cryptography",
    "dataclasses",
    "decimal",
    "functools",
    "hashlib",
    "hmac",
    "kcagc",
    "math",
    "numpy",
    "os",
    "private_set_intersection.python",  # it draws nothing if the secret number is given
    "statistics",
    "typing",
}
DRAWING = {
    "urandom",
    "generate",
    "generate_key",
    "getrandom",
    "token_bytes",
    "random",
    "default_rng",
    "RandomState",
    "rand",
}


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def uses(tree, wanted, inside=()):
    """Every use of an attribute or name, with the functions around it."""
    for node in ast.iter_child_nodes(tree):
        here = (*inside, node.name) if isinstance(node, ast.FunctionDef | ast.ClassDef) else inside
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
        if name in wanted:
            yield name, ".".join(here)
        yield from uses(node, wanted, here)


def test_the_scan_sees_every_module():
    modules = {path.stem for path in SOURCES} - {"__init__"}
    assert modules == {"blinding", "keys", "masks", "matching", "shares"}
    assert not [path for path in SOURCES[0].parent.rglob("*.py") if path not in SOURCES]
    assert [name for name in sorted(modules) if f"`{name}`" not in kcagc.secagg.__doc__] == []


@each_source
def test_nothing_is_imported_that_draws_random_numbers_of_another_kind(path):
    for name in imports_of(tree_of(path)):
        assert any(name == allowed or name.startswith(allowed + ".") for allowed in ALLOWED), name
        assert "random" not in name.lower()
        assert not name.startswith("kcagc.") or name.split(".")[1] in {"_types", "errors", "secagg"}


def test_only_new_identities_and_fresh_secrets_draw():
    found = {(path.stem, name, where) for path in SOURCES for name, where in uses(tree_of(path), DRAWING)}
    assert found == {
        ("keys", "generate", "Identity.generate"),
        ("keys", "urandom", "random_token"),
        ("keys", "generate", "Secrets.fresh"),
        ("keys", "urandom", "Secrets.fresh"),
    }


def test_the_operating_system_is_asked_for_randomness_and_for_nothing_else():
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert (path.stem, node.attr) == ("keys", "urandom")


@each_source
def test_no_code_is_loaded_or_made_at_run_time(path):
    hidden = {"eval", "exec", "compile", "__import__", "import_module", "getattr", "globals"}
    assert not list(uses(tree_of(path), hidden))
