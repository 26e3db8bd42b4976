"""A heat map that is a table: every cell says its number, and its shade says it again."""

from __future__ import annotations

from kcagc.report.markup import Html, Part, tag

LEVELS = 9  # shades that the style has, beside none


def level(share: float | None) -> str:
    """Name the shade of a share from 0 to 1."""
    if share is None or share <= 0:
        return "h0"
    return f"h{min(LEVELS, 1 + int(share * LEVELS))}"


def heat_table(
    caption: str,
    corner: str,
    columns: list[Part],
    rows: list[tuple[Part, list[tuple[str, float | None]]]],
) -> Html:
    """Give a table of (words, share) by row and column."""
    head = tag("tr", tag("th", corner, scope="col"), [tag("th", one, scope="col") for one in columns])
    body = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            [tag("td", words, class_=level(share)) for words, share in cells],
        )
        for name, cells in rows
    ]
    whole = tag(
        "table", tag("caption", caption, class_="unseen"), tag("thead", head), tag("tbody", body), class_="heat"
    )
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)
