"""SVG drawings: scales, axes, bars and lines, without a library or a script; the style sheet sets the colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count as numbers_from

from kcagc.report.markup import Html, Part, tag

COLOURS = 16  # that the style sheet has for clusters
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 52


SHAPES = ("", "square", "diamond", "triangle")  # of points; the first is round


def cluster_class(cluster: int) -> str:
    """Return the style class of a cluster; after 16 clusters the colours repeat with another shape."""
    return f"c{cluster % COLOURS} {SHAPES[cluster // COLOURS % len(SHAPES)]}".rstrip()


def cluster_name(cluster: int, name: str = "", *, link: bool = False) -> Html:
    """Return the number of a cluster and the name it was given, next to its colour and shape.

    With `link`, it leads to the cluster's place on the page.
    """
    words: list[Part] = [tag("span", "Cluster ", class_="word"), str(cluster)]
    words += [tag("span", f" · {name}", class_="given")] if name else []
    key = legend_key(tag("span", words), cluster_class(cluster))
    return tag("a", key, href=f"#{cluster_id(cluster)}", class_="to-cluster") if link else key


def cluster_id(cluster: int) -> str:
    """Return the id of the part of the page about a cluster."""
    return f"cluster-{cluster}"


def points(places: Sequence[tuple[float, float]], cluster: int, radius: float) -> str:
    """Return the path of points in the shape of a cluster."""
    shape = SHAPES[cluster // COLOURS % len(SHAPES)]
    half = radius * 1.25
    drawn = {
        "": "h0",  # a round line end
        "square": f"m{-radius:g} {-radius:g}h{2 * radius:g}v{2 * radius:g}h{-2 * radius:g}z",
        "diamond": f"m0 {-half:g}l{half:g} {half:g}l{-half:g} {half:g}l{-half:g} {-half:g}z",
        "triangle": f"m0 {-half:g}l{half:g} {1.8 * half:g}h{-2 * half:g}z",
    }[shape]
    return "".join(f"M{x:.1f} {y:.1f}{drawn}" for x, y in places)


def legend_key(text: Part, class_: str) -> Html:
    """Return text next to a dot of a colour."""
    return tag("span", tag("span", class_=f"dot {class_}", aria_hidden="true"), text, class_="chip")


class ElementIds:
    """Ids of elements, each unique on a page."""

    def __init__(self) -> None:
        self._numbers = numbers_from(1)

    def new(self) -> str:
        """Return an id that was not used before."""
        return f"g{next(self._numbers)}"


def picture(
    ids: ElementIds, width: float, height: float, title: str, description: str, *parts: Part, stretched: bool = False
) -> Html:
    """Return a drawing with a title and a description for screen readers.

    A stretched drawing has the height that the style sheet sets, however wide it is; it must not contain text.
    """
    own = ids.new()
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


def bar(share: float, class_: str) -> Html:
    """Return a bar whose length is a share of the available width; the number is given as text next to it."""
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}%"
    track = tag("rect", width="100%", height="10", rx="5", class_="track")
    filled = tag("rect", width=width, height="10", rx="5", class_=f"{class_} filled")
    return tag("svg", track, filled, class_="bar", height="10", aria_hidden="true", focusable="false")


def signed_bar(value: float, largest: float, class_: str) -> Html:
    """Return a bar that starts in the middle: to the right for positive values, to the left for negative ones."""
    half = 50 * min(abs(value) / largest, 1.0) if largest else 0.0
    start = 50.0 if value >= 0 else 50.0 - half
    middle = tag("line", x1="50%", x2="50%", y1="0", y2="12", class_="axis")
    filled = tag("rect", x=f"{start:.2f}%", width=f"{half:.2f}%", y="1", height="10", rx="2", class_=f"{class_} filled")
    return tag("svg", filled, middle, class_="bar", height="12", aria_hidden="true", focusable="false")


def _ticks(high: float, wanted: int = 4) -> list[float]:
    """Return round numbers from 0 to at least `high`."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough * 0.999999)
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


class ChartArea:
    """The area of a chart with its two scales; the vertical axis starts at zero."""

    def __init__(self, width: float, height: float, high_x: float, high_y: float, *, low_x: float = 0.0) -> None:
        self.width, self.height = width, height
        self._y_ticks = _ticks(high_y)
        self._low, self._span = low_x, (high_x - low_x) or 1.0

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        return _LEFT + (value - self._low) / self._span * (self.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        return self.height - _BOTTOM - value / self._y_ticks[-1] * (self.height - _TOP - _BOTTOM)

    def axes(
        self, x_ticks: Sequence[float], x_text: Callable[[float], str], y_text: Callable[[float], str], x_label: str
    ) -> Html:
        """Draw grid lines with their values, and the label of the horizontal axis."""
        parts: list[Html] = []
        for value in self._y_ticks:
            at = self.y(value)
            parts.append(tag("line", x1=float(_LEFT), x2=self.width - _RIGHT, y1=at, y2=at, class_="grid"))
            parts.append(tag("text", y_text(value), x=_LEFT - 8.0, y=at + 4, text_anchor="end"))
        below = self.height - _BOTTOM + 23
        parts += [tag("text", x_text(value), x=self.x(value), y=below, text_anchor="middle") for value in x_ticks]
        middle = (_LEFT + self.width - _RIGHT) / 2
        parts.append(tag("text", x_label, x=middle, y=self.height - 6.0, text_anchor="middle", class_="under"))
        return Html("".join(parts))

    def line(self, points: Sequence[tuple[float, float]], class_: str) -> Html:
        """Draw a line through points, with a dot at each."""
        places = [(self.x(one), self.y(two)) for one, two in points]
        path = "M" + "L".join(f"{one:.1f} {two:.1f}" for one, two in places)
        dots = "".join(f"M{one:.1f} {two:.1f}h0" for one, two in places)
        return Html(tag("path", d=path, class_=f"{class_} stroke") + tag("path", d=dots, class_=f"{class_} dots"))

    def column(self, left: float, right: float, value: float, class_: str) -> Html:
        """Draw a column from the horizontal axis up to a value."""
        x, y = self.x(left), self.y(value)
        width, height = self.x(right) - x, self.y(0.0) - y
        return tag("rect", x=x + 1, y=y, width=max(width - 2, 1.0), height=height, rx="2", class_=f"{class_} filled")

    def band(self, left: float, right: float) -> Html:
        """Shade the area between two horizontal values."""
        x, low = self.x(left), self.height - _BOTTOM
        return tag("rect", x=x, y=float(_TOP), width=self.x(right) - x, height=low - _TOP, class_="band")

    def level(self, value: float) -> Html:
        """Draw a dashed line at a vertical value."""
        at = self.y(value)
        return tag("line", x1=float(_LEFT), x2=self.width - _RIGHT, y1=at, y2=at, class_="level")

    def whisker(self, x: float, low: float, high: float) -> Html:
        """Draw a thin bar from one vertical value to another."""
        return tag("line", x1=self.x(x), x2=self.x(x), y1=self.y(low), y2=self.y(high), class_="whisker")
