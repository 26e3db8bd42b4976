"""The page of the attacks: for each sentence of the threat model, the figures that were measured for it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from attacks.results import SUITES, Figure, figures
from experiments.paper.store import ROOT, Book
from kcagc.data.files import write_text

PAGE = ROOT / "docs" / "attacks.md"
THREAT_MODEL = ROOT / "docs" / "threat-model.md"

_HEAD = """# Attacks

The attacks that were tried against kcagc, and how far each one got. An attack reads only what its role sends and
receives in a run (for a party, also its own data and keys). `make attack` runs all of them and renders this page from
the figures in `tests/attacks/results`; do not edit it. Each quoted sentence is from the
[threat model](threat-model.md), and the table below it holds the figures for it. A cell shows the result of the attack
and, in brackets, the result without the messages of the run (chance, or what the attacker knows anyway). A result above
its bound is marked ⚠ and fails the tests. "0.01 above ( )" is a bound of 0.01 above the number in brackets; a dash
means that the figure is stated and not bounded.
"""


def sentences() -> dict[str, str]:
    """Return the sentences of the threat model that the suites support, by their keys."""
    found: dict[str, str] = {}
    for module in SUITES.values():
        if find_spec(module):
            found |= import_module(module).SENTENCES
    return found


def render(book: Book, page: Path = PAGE) -> list[str]:
    """Write the page; return the names of its sections."""
    parts, shown, texts = [_HEAD], [], sentences()
    for name, module in SUITES.items():
        if find_spec(module) and len(book[name]):
            shown.append(name)
            found = [one for _, result in book[name].all() for one in figures(result)]
            parts.append(f"## {import_module(module).TITLE}\n")
            parts += [_claim(texts[key], [one for one in found if one.sentence == key]) for key in _in_order(found)]
            parts.append(_origin(book, name))
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, "\n".join(parts))
    return shown


def _in_order(found: Iterable[Figure]) -> list[str]:
    used = {one.sentence for one in found}
    return [key for key in sentences() if key in used]


def _claim(sentence: str, found: list[Figure]) -> str:
    """Return one sentence, and a table with a row for each attack and a column for each run."""
    runs = sorted({_run(one) for one in found}, key=lambda name: (not name.startswith("demo"), name))
    rows: dict[tuple[str, str, str], dict[str, Figure]] = {}
    for one in found:
        rows.setdefault((one.attacked, one.by, one.measure), {})[_run(one)] = one
    lines = [
        f"> {sentence}\n",
        f"| attacked | by | figure | {' | '.join(runs)} | bound |",
        f"|---|---|---|{'---|' * len(runs)}---|",
    ]
    for (attacked, by, measure), cells in rows.items():
        bound = _bound(list(cells.values()))
        shown = [_cell(cells[name], with_bound=bound is None) if name in cells else "" for name in runs]
        lines.append(f"| {attacked} | {by} | {measure} | {' | '.join(shown)} | {bound or ''} |")
    return "\n".join(lines) + "\n"


def _run(one: Figure) -> str:
    return f"{one.data}, {one.method}"


def _bound(found: list[Figure]) -> str | None:
    """Return the bound of a row in words: the same for all, or the same distance above every baseline; or None."""
    bounds = {one.bound for one in found}
    if bounds == {None}:
        return "–"
    if None in bounds:
        return None
    if len(bounds) == 1:
        return _number(found[0].bound or 0.0)
    margins = [(one.bound or 0.0) - one.baseline for one in found]
    return f"{margins[0]:.2g} above ( )" if max(margins) - min(margins) < 1e-4 else None


def _cell(one: Figure, *, with_bound: bool) -> str:
    bound = f"; at most {_number(one.bound)}" if with_bound and one.bound is not None else ""
    return f"{'' if one.holds else '⚠ '}{_number(one.figure)} ({_number(one.baseline)}{bound})"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _origin(book: Book, name: str) -> str:
    runs = "; ".join(
        f"commit `{run['commit']}`, {run['when']}, {run['machine']}, Python {run['python']}"
        for run in book[name].runs.values()
    )
    return f"<small>`python -m attacks {name}`; {runs}</small>\n"
