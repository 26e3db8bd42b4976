"""Axes that people can read: sizes as 10k and 1M, logarithmic scales with plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def compact(number: float) -> str:
    """Write 10,000 as 10k and 1,000,000 as 1M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def against_nodes(axes: Any, sizes: Sequence[int]) -> None:
    """Let both scales be logarithmic, with the measured sizes below and plain numbers beside."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415 - an extra

    axes.set(xscale="log", yscale="log", xlabel="nodes")
    axes.set_xticks(sizes, [compact(size) for size in sizes])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def log_seconds(axes: Any) -> None:
    """Let seconds along x be logarithmic with plain numbers."""
    from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: PLC0415 - an extra

    axes.set(xscale="log", xlabel="seconds")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
