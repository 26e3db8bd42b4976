"""The page: a section for each experiment with stored results, and where they were computed."""

from __future__ import annotations

from pathlib import Path

from experiments.paper.experiment import NAMES, experiment
from experiments.paper.plots import Figures
from experiments.paper.store import ROOT, Book
from kcagc.data.files import write_text

PAGE = ROOT / "docs" / "paper.md"

_HEAD = """# The paper, reproduced

This page compares every table and figure of *Attributed Graph Clustering in Collaborative Settings* with results of
kcagc. `make reproduce` renders it from the raw results in {results}; do not edit it. `make reproduce
NAME=utility` computes one section, `NAME=all` computes all missing cells, and `QUICK=1` computes a small version. No
parameter was chosen with the help of labels: `KCAGC.paper` is one configuration of the paper for all cells, `KCAGC` is
the default configuration of this software.
"""


def render(book: Book, page: Path = PAGE) -> list[str]:
    """Write the page and its figures; return the names of its sections."""
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
