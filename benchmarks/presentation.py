"""Tables of targets, and readable axes: sizes as 10k and 1M, logarithmic scales with plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.paper.tables import table


@dataclass(frozen=True)
class Target:
    """A figure with an upper limit."""

    what: str
    found: float
    limit: float
    unit: str = ""
    digits: int = 2

    @property
    def met(self) -> bool:
        """Whether the figure is within the limit."""
        return self.found <= self.limit

    def row(self) -> list[str]:
        """Return a row of the table."""
        unit = f" {self.unit}" if self.unit else ""
        outcome = "met" if self.met else "**missed**"
        return [self.what, f"{self.found:,.{self.digits}f}{unit}", f"≤ {_plain(self.limit)}{unit}", outcome]


def targets_table(targets: Iterable[Target]) -> str:
    """Return the table."""
    return table(["target", "found", "wanted", ""], [target.row() for target in targets])


def _plain(number: float) -> str:
    return f"{number:,.3f}".rstrip("0").rstrip(".")


def compact(number: float) -> str:
    """Write 10,000 as 10k and 1,000,000 as 1M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def against_nodes(axes: Any, sizes: Sequence[int]) -> None:
    """Set logarithmic scales with the measured sizes and plain numbers as ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415 - an extra

    axes.set(xscale="log", yscale="log", xlabel="nodes")
    axes.set_xticks(sizes, [compact(size) for size in sizes])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def log_seconds(axes: Any) -> None:
    """Set a logarithmic scale of seconds with plain numbers as ticks."""
    from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: PLC0415 - an extra

    axes.set(xscale="log", xlabel="seconds")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
