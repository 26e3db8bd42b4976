"""Figures for the page: one style, and files that change only if their content changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Distinct for colour-blind readers and in print (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


class Figures:
    """The folder of the figures, and the links to them on the page."""

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder = folder
        self.page = page

    @contextmanager
    def figure(
        self, name: str, *, panels: tuple[int, int] = (1, 1), size: tuple[float, float] = (7.0, 4.0), **more: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Return a Matplotlib figure and its axes to draw on; it becomes NAME.svg, or NAME if that ends in .png."""
        import matplotlib  # noqa: PLC0415 - an extra

        matplotlib.use("Agg")
        from matplotlib import pyplot  # noqa: PLC0415

        settings = {
            "svg.hashsalt": "kcagc",  # the same ids in every file
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "figure.facecolor": "white",
        }
        with matplotlib.rc_context(settings):
            figure, axes = pyplot.subplots(*panels, figsize=size, layout="constrained", **more)
            try:
                yield figure, axes
                self.folder.mkdir(parents=True, exist_ok=True)
                path = self.folder / (name if name.endswith(".png") else f"{name}.svg")
                clean = {"Software": None} if path.suffix == ".png" else {"Date": None, "Creator": None}
                figure.savefig(path, dpi=110, metadata=clean, bbox_inches="tight", pad_inches=0.08)
            finally:
                pyplot.close(figure)

    def shown(self, name: str, words: str) -> str:
        """Return the Markdown that shows a figure; the words are its caption and its text for screen readers."""
        path = self.folder / (name if name.endswith(".png") else f"{name}.svg")
        where = os.path.relpath(path, self.page.parent).replace(os.sep, "/")
        return f"![{words}]({where})\n\n*{words}*\n"
