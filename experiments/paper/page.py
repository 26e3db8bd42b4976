"""The page: every section from the results that are there, with where they were computed."""

from __future__ import annotations

from pathlib import Path

from experiments.paper.catalogue import NAMES, experiment
from experiments.paper.plots import Figures
from experiments.paper.store import ROOT, Book
from kcagc.data.files import write_text

PAGE = ROOT / "docs" / "paper.md"

_HEAD = """# The paper, reproduced

Every table and figure of *Attributed Graph Clustering in Collaborative Settings*, computed with kcagc, beside the
numbers that the paper prints. This page is made by `make reproduce` from the raw results in
{results}; do not edit it. `make reproduce NAME=utility` computes one section, `NAME=all` everything that
is not there yet, and `QUICK=1` a small form of it. No parameter is chosen by looking at labels: `KCAGC.paper` is one
reading of the paper for all cells, `KCAGC` the defaults of this software.
"""


def render(book: Book, page: Path = PAGE) -> list[str]:
    """Write the page and its figures; give the names of the sections it has."""
    figures = Figures(page.parent / page.stem, page)
    results = f"`{book.folder.relative_to(ROOT)}`" if book.folder.is_relative_to(ROOT) else f"`{book.folder.name}`"
    parts, shown, missing = [_HEAD.format(results=results)], [], []
    for name in NAMES:
        one = experiment(name)
        if not len(book[name]):
            missing.append(name)
            continue
        shown.append(name)
        parts.append(f"## {one.title}\n\n{one.render(book, figures).strip()}\n\n{_where(book, name)}")
    if missing:
        parts.append(f"## Not computed\n\n{', '.join(f'`{name}`' for name in missing)}.\n")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, "\n".join(parts))
    return shown


def _where(book: Book, name: str) -> str:
    runs = [
        f"commit `{run['commit']}`, {run['when']}, {run['machine']}, Python {run['python']}"
        for run in book[name].runs.values()
    ]
    cells = len(book[name])
    return f"<small>`make reproduce NAME={name}`; {cells} cell{'s' * (cells != 1)}; {'; '.join(runs)}</small>\n"
