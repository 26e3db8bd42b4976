"""Numbers as people read them."""

from __future__ import annotations

import math


def count(value: float) -> str:
    """Write a whole number with thousands apart."""
    return f"{round(value):,}"


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share in per cent."""
    return "–" if share is None else f"{100 * share:.{digits}f}\u202f%"


def size(n_bytes: float) -> str:
    """Write a number of bytes with a unit."""
    value, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{round(value)}\u202fB" if unit == "B" else f"{value:.1f}\u202f{unit}"


def seconds(value: float) -> str:
    """Write a time in the unit that fits."""
    if value < 0.9995:
        return f"{round(1000 * value)}\u202fms"
    if value < 120:
        return f"{value:.1f}\u202fs"
    if value < 7200:
        return f"{value / 60:.1f}\u202fmin"
    return f"{value / 3600:.1f}\u202fh"


def brief(value: float) -> str:
    """Write any number in three digits or so."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.2e}".replace("-", "−")
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    exact = f"{value:,.{digits}f}".replace("-", "−")
    return exact.rstrip("0").rstrip(".") if digits else exact


def signed(value: float) -> str:
    """Write an effect with its sign."""
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{abs(value):.2f}"


def times(value: float) -> str:
    """Write how many times more."""
    return f"{value:.1f}×"
