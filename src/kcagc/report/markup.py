"""HTML elements: all text is escaped, so that no name or value can act as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

from kcagc.text import printable

_VOID = {"meta", "link", "br", "hr", "col", "wbr"}
_SHAPES = {"rect", "path", "line", "circle"}  # of SVG: closed at once if they have no content
_SHADES = 9  # of heat tables, apart from none
_WIDE = 12  # columns above which a heat table is printed small
_WIDEST = 20  # columns that fit into the page


class Html(str):
    """Text that is markup; every other text is escaped where it is used."""

    __slots__ = ()


Part: TypeAlias = "str | Html | int | Iterable[Part] | None"


def text_of(part: Part) -> Html:
    """Return markup unchanged and other text escaped; the items of a list are joined."""
    if part is None:
        return Html("")
    if isinstance(part, Html):
        return part
    if isinstance(part, str | int):
        return Html(escape(printable(str(part), keep="\n"), quote=True))
    return Html("".join(text_of(one) for one in part))


def breakable(name: str) -> Html:
    """Return a long name that may be broken after its separators or before a capital, but not inside a word."""
    text = printable(name)
    places = re.compile(r"(?<=[_./:=,;|+@)\]-])(?=\w)|(?<=[a-z])(?=[A-Z])|(?<=\w)(?=[(\[])")
    return Html("<wbr>".join(text_of(part) for part in places.split(text)))


def column_name(name: str, emphasis: str) -> Html:
    """Return the name of a column in an element `emphasis`, without a unit at its end, as in "rent (EUR/month)"."""
    found = re.fullmatch(r"(.*\S) (\([^()]{1,24}\))", printable(name))
    if not found:
        return tag(emphasis, breakable(name), class_="feature")
    return text_of([tag(emphasis, breakable(found[1]), class_="feature"), " ", tag("span", found[2], class_="unit")])


def unbroken(text: str) -> Html:
    """Return text in which no line ends between a number and its percent sign, or a cluster and its number."""
    return Html(re.sub(r"(?<=\d) (?=%)|(?<=\bcluster) (?=\d)", "&nbsp;", text_of(text)))


def tag(name: str, /, *parts: Part, **attributes: str | float | bool | None) -> Html:
    """Return an element; `class_` means class, `aria_label` means aria-label; None and False omit an attribute."""
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        written.append(f" {attribute}" + ("" if value is True else f'="{text_of(_number(value))}"'))
    inside = text_of(parts)
    if name in _VOID:
        return Html(f"<{name}{''.join(written)}>")
    if name in _SHAPES and not inside:
        return Html(f"<{name}{''.join(written)}/>")
    return Html(f"<{name}{''.join(written)}>{inside}</{name}>")


def _number(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def section(id_: str, title: str, intro: Part, *parts: Part) -> Html:
    """Return a section of the page: a heading, an introduction and its content."""
    return tag("section", tag("h2", title), tag("p", intro, class_="intro") if intro else None, parts, id=id_)


def panel(*parts: Part) -> Html:
    """Return content with a background and a border."""
    return tag("div", parts, class_="card")


def tiles(values: Iterable[tuple[str, str, str]]) -> Html:
    """Return a row of key figures: title, value, explanation."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", title), tag("dd", value, class_="value"), tag("dd", hint, class_="hint"))
            for title, value, hint in values
        ],
        class_="tiles",
    )


def table(
    caption: str,
    header: Sequence[Part],
    rows: Iterable[Sequence[Part]],
    *,
    numeric: Iterable[int] = (),
    class_: str | None = None,
    hidden_caption: bool = False,
) -> Html:
    """Return a table that can be scrolled by keyboard if it is too wide; the first cell of a row is its header."""
    right = dict.fromkeys(numeric, "num")
    head = tag("tr", [tag("th", cell, scope="col", class_=right.get(at)) for at, cell in enumerate(header)])
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row", class_=right.get(0)),
            [tag("td", cell, class_=right.get(at)) for at, cell in enumerate(row[1:], start=1)],
        )
        for row in rows
    ]
    return _scrolled(caption, head, body, class_, hidden_caption)


def heat_table(
    caption: str,
    corner: str,
    columns: Sequence[Part],
    rows: Iterable[tuple[Part, Sequence[tuple[str, float | None]]]],
) -> Html:
    """Return a heat map as a table: each cell shows its text, and its share as a shade."""
    head = tag("tr", tag("th", corner, scope="col"), [tag("th", one, scope="col") for one in columns])
    body = [
        tag("tr", tag("th", name, scope="row"), [tag("td", text, class_=_shade(share)) for text, share in cells])
        for name, cells in rows
    ]
    whole = _scrolled(caption, head, body, "heat wide" if len(columns) > _WIDE else "heat", hidden_caption=True)
    if len(columns) <= _WIDEST:
        return whole
    hint = f"The table has {len(columns)} columns. Scroll it to the right to see all of them."
    return text_of([tag("p", hint, class_="hint"), whole])


def _shade(share: float | None) -> str:
    return "h0" if share is None or share <= 0 else f"h{min(_SHADES, 1 + int(share * _SHADES))}"


def _scrolled(caption: str, head: Html, body: list[Html], class_: str | None, hidden_caption: bool) -> Html:
    whole = tag(
        "table",
        tag("caption", caption, class_="unseen" if hidden_caption else None),
        tag("thead", head),
        tag("tbody", body),
        class_=class_,
    )
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def figure(drawn: Html, caption: Part, data: Html | None = None, *, class_: str = "card") -> Html:
    """Return a figure with its caption and, folded, the numbers that it shows."""
    folded = None if data is None else tag("details", tag("summary", "Show the numbers"), data)
    return tag("figure", drawn, tag("figcaption", caption), folded, class_=class_)
