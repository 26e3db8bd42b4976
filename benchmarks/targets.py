"""What was wanted beside what was found, met or missed said plainly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from experiments.paper.tables import table


@dataclass(frozen=True)
class Target:
    """A figure that must not be above a limit."""

    what: str
    found: float
    limit: float
    unit: str = ""
    digits: int = 2

    @property
    def met(self) -> bool:
        """Whether it is not above."""
        return self.found <= self.limit

    def row(self) -> list[str]:
        """Give a row of the table."""
        unit = f" {self.unit}" if self.unit else ""
        verdict = "met" if self.met else "**missed**"
        return [self.what, f"{self.found:,.{self.digits}f}{unit}", f"≤ {_plain(self.limit)}{unit}", verdict]


def targets_table(targets: Iterable[Target]) -> str:
    """Give the table."""
    return table(["target", "found", "wanted", ""], [target.row() for target in targets])


def _plain(number: float) -> str:
    return f"{number:,.3f}".rstrip("0").rstrip(".")
