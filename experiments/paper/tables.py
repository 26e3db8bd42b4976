"""Tables in Markdown, with numbers as the paper prints them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.paper.store import Stat

NOTHING = "–"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Return a Markdown table; all but the first `left` columns are aligned to the right."""
    rule = [":---" if number < left else "---:" for number in range(len(header))]
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def spread(stat: Stat | None, digits: int = 2) -> str:
    """Return mean ± standard deviation; one seed has no deviation."""
    if stat is None:
        return NOTHING
    return f"{stat.mean:.{digits}f}" + (f" ± {stat.std:.{digits}f}" if stat.n > 1 else "")


def printed(published: tuple[float, float] | None, digits: int = 2) -> str:
    """Return the figure of the paper."""
    return NOTHING if published is None else f"{published[0]:.{digits}f} ± {published[1]:.{digits}f}"


def difference(stat: Stat | None, published: float | None, digits: int = 2) -> str:
    """Return our figure minus the paper's, with its sign; bold if negative."""
    if stat is None or published is None:
        return NOTHING
    found = round(stat.mean - published, digits) + 0.0  # + 0.0 turns -0.0 into 0.0
    text = f"{found:+.{digits}f}".replace("-", "−")
    return text if found >= 0 else f"**{text}**"


def with_difference(stat: Stat | None, published: tuple[float, float] | None, digits: int = 2) -> str:
    """Return our figure and, in brackets, its difference to the paper."""
    if stat is None:
        return NOTHING
    compared = "" if published is None else f" ({difference(stat, published[0], digits)})"
    return spread(stat, digits) + compared
