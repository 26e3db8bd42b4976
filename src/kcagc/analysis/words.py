"""Numbers as text, and as JSON has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def number(value: float) -> float | None:
    """Give a number for JSON, which knows no infinity: None."""
    return float(value) if np.isfinite(value) else None


def share(value: float) -> str:
    """Write a share in per cent, and never round a few nodes away to none or to all."""
    percent = 100 * value
    rounded = min(max(percent, 0.1), 99.9) if 0 < value < 1 else percent
    return f"{rounded:.1f} %"


def figure(value: float) -> str:
    """Write a number with three digits."""
    return "infinite" if not np.isfinite(value) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    """Write the least and the largest of some numbers."""
    least, most = figure(min(values)), figure(max(values))
    return least if least == most else f"{least} to {most}"


def count(value: int, thing: str) -> str:
    """Write how many of a thing there are."""
    return f"{value:,} {thing}{'' if value == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """Join words as a sentence does; by semicolons where they have commas in themselves."""
    if len(words) < 2:
        return "".join(words)
    comma = "; " if any("," in word for word in words) else ", "
    return f"{comma.join(words[:-1])} and {words[-1]}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a table: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
