"""SVG by small functions: scales, axes, bars, lines. No library, no script; colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count as numbered

from kcagc.report.markup import Html, Part, tag

COLOURS = 16  # that the style has for clusters
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 52


def colour_class(cluster: int) -> str:
    """Name the colour of a cluster; beyond sixteen they come again, with another shape where there are points."""
    return f"c{cluster % COLOURS}"


class Names:
    """Ids of elements, each once on a page."""

    def __init__(self) -> None:
        self._numbers = numbered(1)

    def new(self) -> str:
        """Give one that was not used."""
        return f"g{next(self._numbers)}"


def picture(
    names: Names, width: float, height: float, title: str, description: str, *parts: Part, stretched: bool = False
) -> Html:
    """Give a drawing that a screen reader can tell: its title, and in words what is to be seen.

    One that is stretched is as high as the style says, however wide it is; it has no letters in it.
    """
    own = names.new()
    return tag(
        "svg",
        tag("title", title, id=f"{own}t"),
        tag("desc", description, id=f"{own}d"),
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_labelledby=f"{own}t {own}d",
        class_="strip" if stretched else "picture",
        preserveAspectRatio="none" if stretched else None,
    )


def bar(share: float, class_: str = "c0") -> Html:
    """Give a bar as wide as a share of its place; the number stands beside it in words."""
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}%"
    track = tag("rect", width="100%", height="10", rx="5", class_="track")
    filled = tag("rect", width=width, height="10", rx="5", class_=f"{class_} filled")
    return tag("svg", track, filled, class_="bar", height="10", aria_hidden="true", focusable="false")


def both_ways(value: float, largest: float, class_: str) -> Html:
    """Give a bar from the middle: to the right what is more than elsewhere, to the left what is less."""
    half = 50 * min(abs(value) / largest, 1.0) if largest else 0.0
    start = 50.0 if value >= 0 else 50.0 - half
    middle = tag("line", x1="50%", x2="50%", y1="0", y2="12", class_="axis")
    filled = tag("rect", x=f"{start:.2f}%", width=f"{half:.2f}%", y="1", height="10", rx="2", class_=f"{class_} filled")
    return tag("svg", filled, middle, class_="bar", height="12", aria_hidden="true", focusable="false")


def ticks(high: float, wanted: int = 4) -> list[float]:
    """Give round numbers from 0 to at least `high`."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough * 0.999999)
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


class Frame:
    """A place for a chart: two axes that begin at zero, and their scales."""

    def __init__(
        self, width: float, height: float, highest_x: float, highest_y: float, *, least_x: float = 0.0
    ) -> None:
        self.width, self.height = width, height
        self._y_ticks = ticks(highest_y)
        self._least, self._span = least_x, (highest_x - least_x) or 1.0
        self._top = self._y_ticks[-1]

    def x(self, value: float) -> float:
        """Give where a value lies along."""
        return _LEFT + (value - self._least) / self._span * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Give where a value lies above."""
        return self.height - _BOTTOM - value / self._top * (self.height - _TOP - _BOTTOM)

    def axes(
        self, along: Sequence[float], say_x: Callable[[float], str], say_y: Callable[[float], str], under: str
    ) -> Html:
        """Draw faint lines with their values, and what runs along."""
        parts: list[Part] = []
        for value in self._y_ticks:
            at = self.y(value)
            parts.append(tag("line", x1=float(_LEFT), x2=self.width - _RIGHT, y1=at, y2=at, class_="grid"))
            parts.append(tag("text", say_y(value), x=_LEFT - 8.0, y=at + 4, text_anchor="end"))
        under_axis = self.height - _BOTTOM + 23
        parts += [tag("text", say_x(value), x=self.x(value), y=under_axis, text_anchor="middle") for value in along]
        middle = (_LEFT + self.width - _RIGHT) / 2
        parts.append(tag("text", under, x=middle, y=self.height - 6.0, text_anchor="middle", class_="under"))
        return Html("".join(str(one) for one in parts))

    def line(self, points: Sequence[tuple[float, float]], class_: str) -> Html:
        """Join points, and mark each."""
        places = [(self.x(one), self.y(two)) for one, two in points]
        path = "M" + "L".join(f"{one:.1f} {two:.1f}" for one, two in places)
        dots = "".join(f"M{one:.1f} {two:.1f}h0" for one, two in places)
        return Html(tag("path", d=path, class_=f"{class_} stroke") + tag("path", d=dots, class_=f"{class_} dots"))

    def column(self, left: float, right: float, value: float, class_: str) -> Html:
        """Draw a column from the axis up."""
        x, y = self.x(left), self.y(value)
        width, height = self.x(right) - x, self.y(0.0) - y
        return tag("rect", x=x + 1, y=y, width=max(width - 2, 1.0), height=height, rx="2", class_=f"{class_} filled")
