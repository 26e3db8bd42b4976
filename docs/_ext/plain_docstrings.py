"""Lets autodoc read our docstrings, which are prose with backticks as in Markdown, and lists without empty lines."""

from __future__ import annotations

import re
from typing import Any


def as_restructured(lines: list[str]) -> list[str]:
    """Give the same words in reStructuredText: code in double backticks, lists apart from what comes before."""
    found: list[str] = []
    for line in lines:
        words = re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line)
        words = "".join(part if part.startswith("``") else _escaped(part) for part in re.split(r"(``.*?``)", words))
        if line.startswith("- ") and found and found[-1] and not found[-1].startswith(("- ", "  ")):
            found.append("")
        if not line.startswith(("- ", "  ")) and line and found and found[-1].startswith(("- ", "  ")):
            found.append("")
        found.append(words)
    return found


def _escaped(prose: str) -> str:
    """Keep stars, bars and trailing underscores from meaning anything, but for **bold** words."""
    kept = re.split(r"(\*\*[^*]+\*\*|\*[^*\s][^*]*\*)", prose)
    return "".join(part if part.startswith("*") else re.sub(r"([*|]|\b_|_\b)", r"\\\1", part) for part in kept)


def _process(_app: Any, _what: str, _name: str, _one: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = as_restructured(lines)


def _skip(_app: Any, _what: str, name: str, _one: Any, skip: bool, _options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator for the routing of metadata."""
    return True if skip or re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else None


def setup(app: Any) -> dict[str, bool]:
    """Ask autodoc to show us every docstring first."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
