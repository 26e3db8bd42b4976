"""HTML put together so that nothing is ever read as markup that was not written here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from kcagc.text import printable

_EMPTY = {"meta", "link", "br", "hr", "col"}
_SHAPES = {"rect", "path", "line", "circle"}  # of SVG, which may end at once


class Html(str):
    """Text that is markup already; every other text is escaped where it is used."""

    __slots__ = ()


Part: TypeAlias = "str | Html | int | Iterable[Part] | None"


def text_of(part: Part) -> Html:
    """Give markup as it is, anything else escaped, and of a list all of it."""
    if part is None:
        return Html("")
    if isinstance(part, Html):
        return part
    if isinstance(part, str | int):
        return Html(escape(printable(str(part), keep="\n"), quote=True))
    return Html("".join(text_of(one) for one in part))


def tag(name: str, /, *parts: Part, **attributes: str | float | bool | None) -> Html:
    """Give an element; `class_` stands for class, `aria_label` for aria-label; None and False leave one out."""
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        called = key.rstrip("_").replace("_", "-")
        shown = "" if value is True else f'="{text_of(_number(value))}"'
        written.append(f" {called}{shown}")
    inside = text_of(parts)
    if name in _EMPTY:
        return Html(f"<{name}{''.join(written)}>")
    if name in _SHAPES and not inside:
        return Html(f"<{name}{''.join(written)}/>")
    return Html(f"<{name}{''.join(written)}>{inside}</{name}>")


def _number(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def table(
    caption: str,
    header: list[Part],
    rows: Iterable[list[Part]],
    *,
    numeric: Iterable[int] = (),
    class_: str = "",
    seen: bool = True,
) -> Html:
    """Give a table that can be scrolled by keyboard where it is too wide; the first cell of a row is its header."""
    right = set(numeric)
    head = tag(
        "tr", [tag("th", one, scope="col", class_="num" if at in right else None) for at, one in enumerate(header)]
    )
    body = []
    for row in rows:
        cells = [tag("th", row[0], scope="row", class_="num" if 0 in right else None)]
        cells += [tag("td", one, class_="num" if at in right else None) for at, one in enumerate(row[1:], start=1)]
        body.append(tag("tr", cells))
    whole = tag(
        "table",
        tag("caption", caption, class_=None if seen else "unseen"),
        tag("thead", head),
        tag("tbody", body),
        class_=class_ or None,
    )
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def figure(drawn: Html, caption: Part, data: Html | None = None, *, class_: str | None = None) -> Html:
    """Give a figure with its words and, folded away behind it, the numbers that it shows."""
    folded = None if data is None else tag("details", tag("summary", "Show the numbers"), data)
    return tag("figure", drawn, tag("figcaption", caption), folded, class_=class_)
