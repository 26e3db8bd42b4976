"""The page: every section from the figures that are kept, with where they were measured."""

from __future__ import annotations

from pathlib import Path

from benchmarks.catalogue import NAMES, benchmark
from experiments.paper.plots import Figures
from experiments.paper.store import ROOT, Book
from kcagc.data.files import write_text

PAGE = ROOT / "docs" / "performance.md"

_HEAD = """# Performance

How long kcagc takes, what it sends and what it holds, beside what was wanted. `make bench` measures all of it on your
machine (`NAME=startup` one section, `QUICK=1` a small form of it) and makes this page from the figures in
{results}; do not edit it. Every ratio comes from one run on one machine, with what it divides measured in turns.
Training times in the paper's networks, beside the paper's own, are in [paper.md](paper.md).
"""


def render(book: Book, page: Path = PAGE) -> list[str]:
    """Write the page and its figures; give the names of the sections it has."""
    results = f"`{book.folder.relative_to(ROOT)}`" if book.folder.is_relative_to(ROOT) else f"`{book.folder.name}`"
    parts, shown, missing = [_HEAD.format(results=results)], [], []
    for name in NAMES:
        if len(book[name]):
            shown.append(name)
            parts.append(section(book, name, page))
        else:
            missing.append(name)
    if missing:
        parts.append(f"## Not measured\n\n{', '.join(f'`{name}`' for name in missing)}.\n")
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text(page, "\n".join(parts))
    return shown


def section(book: Book, name: str, page: Path = PAGE) -> str:
    """Give one section, and draw its figures."""
    one = benchmark(name)
    figures = Figures(page.parent / page.stem, page)
    return f"## {one.title}\n\n{one.render(book, figures).strip()}\n\n{_where(book, name)}"


def _where(book: Book, name: str) -> str:
    runs = [
        f"commit `{run['commit']}`, {run['when']}, {run['machine']}, Python {run['python']}, "
        + ", ".join(f"{package} {version}" for package, version in run["versions"].items())
        for run in book[name].runs.values()
    ]
    return f"<small>`make bench NAME={name}`; {'; '.join(runs)}</small>\n"
