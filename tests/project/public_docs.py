"""Check the docstrings of all public names against numpydoc: sections, every parameter, and examples.

`python tests/project/public_docs.py` prints what is missing.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import kcagc


def public_names() -> list[tuple[str, str]]:
    """Return every public name, with the module that lists it."""
    names = [("kcagc", name) for name in kcagc.__all__ if name != "__version__"]
    for module in kcagc.PUBLIC_MODULES:
        names += [(module, name) for name in getattr(import_module(module), "__all__", ())]
    return names


def sections(docstring: str) -> dict[str, str]:
    """Return the numpydoc sections of a docstring, by title."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def missing(module: str, name: str) -> list[str]:
    """Return what the docstring of a public name lacks."""
    value = getattr(import_module(module), name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return []
    docstring = inspect.getdoc(value) or ""
    found = sections(docstring)
    lacks = []
    summary = docstring.split("\n\n")[0].strip()
    if not summary.endswith((".", ":")):
        lacks.append("a first sentence")
    if inspect.isclass(value) and issubclass(value, BaseException):
        return lacks  # an error: its class says when it is raised
    documented = _documented(found.get("Parameters", "")) | _documented(found.get("Attributes", ""))
    lacks += [f"parameter {parameter}" for parameter in _parameters(value) if parameter not in documented]
    if inspect.isfunction(value):
        returned = inspect.signature(value).return_annotation
        if returned not in (None, "None", inspect.Signature.empty) and not found.keys() & {"Returns", "Yields"}:
            lacks.append("section Returns")
    if "Examples" not in found:
        lacks.append("section Examples")
    return lacks


def _parameters(value: object) -> list[str]:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return []
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name for name, parameter in signature.parameters.items() if parameter.kind not in skipped and name != "self"
    ]


def _documented(section: str) -> set[str]:
    found: set[str] = set()
    for line in section.splitlines():
        if line and not line[0].isspace():
            found.update(name.strip("`* ") for name in line.partition(" :")[0].split(","))
    return found


def main() -> None:
    """Print what is missing."""
    lacking = {f"{module}.{name}": missing(module, name) for module, name in public_names()}
    for name, lacks in lacking.items():
        if lacks:
            print(f"{name}: {', '.join(lacks)}")
    print(f"{sum(map(bool, lacking.values()))} of {len(lacking)} public names lack something")


if __name__ == "__main__":
    main()
