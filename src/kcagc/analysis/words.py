"""Numbers for JSON, ranges and tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kcagc.text import number


def finite(value: float) -> float | None:
    """Return a number for JSON, which has no infinity: None instead."""
    return float(value) if np.isfinite(value) else None


def spread(values: Sequence[float]) -> str:
    """Return the smallest and the largest of some numbers as text."""
    least, most = number(min(values)), number(max(values))
    return least if least == most else f"{least} to {most}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
