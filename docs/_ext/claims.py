"""The stored results of `make attack`: as the claims of the threat model, and in plain words for an officer's page."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(_ROOT / "tests"), str(_ROOT)]

from attacks.results import SUITES, Figure, book, figures  # noqa: E402 - the attacks are no installed package


def claims() -> str:
    """List every attacked sentence with the range of its figures."""
    parts = []
    for name, module, found in _stored():
        parts.append(f"### {module.TITLE}\n")
        for key, sentence in module.SENTENCES.items():
            own = [one for one in found if one.sentence == key]
            if own:
                parts.append(f"- {sentence} *Measured:* {_measured(own)} ([{name}]({link(module.TITLE)})).")
        parts.append("")
    return "\n".join(parts)


def plain_figures() -> str:
    """Return the content of `figures.json`: a sentence in plain words for each template that has figures."""
    templates = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
    written = []
    for _, module, found in _stored():
        for key in module.SENTENCES:
            template = templates.get(key, {})
            own = [one for one in found if template and one.sentence == key and _selected(one, template)]
            if own:
                values = [one.figure for one in own]
                spread = {"low": min(values), "high": max(values), "base": max(one.baseline for one in own)}
                spread["excess"] = max(0.0, *(one.figure - one.baseline for one in own))
                text = " ".join(template["text"].format(**spread).split())
                text = re.sub(r"(?<![\d.])(\d\S*) to \1(?= )", r"\1", re.sub(r"(\d)%", r"\1 %", text))
                written.append({"name": key, "text": text, "attack": link(module.TITLE)})
    return json.dumps(written, indent=1, ensure_ascii=False) + "\n"


def _selected(one: Figure, template: dict[str, str]) -> bool:
    same = all(getattr(one, field) == template[field] for field in ("measure", "method") if field in template)
    return same and one.by.startswith(template.get("by", ""))


def _stored() -> Iterator[tuple[str, Any, list[Figure]]]:
    """Return the suites that have results, each with its figures."""
    kept = book()
    for name, path in SUITES.items():
        if find_spec(path) and len(kept[name]):
            yield name, import_module(path), [one for _, result in kept[name].all() for one in figures(result)]


def _measured(found: Iterable[Figure]) -> str:
    """Return for each measure the range of its figures, and the range without the messages of the run."""
    by_measure: dict[str, list[Figure]] = {}
    for one in found:
        by_measure.setdefault(one.measure, []).append(one)
    return "; ".join(
        f"{measure} {_range(one.figure for one in several)}, "
        f"without the run {_range(one.baseline for one in several)}{_difference(several)}{_bound(several)}"
        for measure, several in by_measure.items()
    )


def _difference(found: list[Figure]) -> str:
    """Return the largest difference, if the ranges do not show it."""
    largest = max(one.figure - one.baseline for one in found)
    return f" (largest difference {largest:+.2g})" if len(found) > 1 else ""


def _bound(found: list[Figure]) -> str:
    bounds = {one.bound for one in found if one.bound is not None}
    return f", bound {_range(bounds)}" if bounds else ""


def _range(values: Iterable[float]) -> str:
    found = sorted(f"{value:.3g}" for value in values)
    low, high = min(found, key=float), max(found, key=float)
    return low if low == high else f"{low} to {high}"


def link(title: str) -> str:
    """Return the address of a section of the page of attacks, or of the page if it has no such section yet."""
    page = (_ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"attacks.md#{anchor}" if f"\n## {title}\n" in page else "attacks.md"
