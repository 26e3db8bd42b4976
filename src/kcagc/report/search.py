"""What a run tried: the curves of a sweep over numbers of clusters, and of the search for the filter order ψ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kcagc.cluster.search import PsiSearch
from kcagc.cluster.sweep import NEAR_ERRORS, Sweep
from kcagc.report.drawing import ChartArea, ElementIds, picture
from kcagc.report.markup import Html, Part, figure, section, table, tag

_WIDE, _HIGH = 520.0, 260.0  # of a chart
_WIDEST = 720.0  # of one that has a row for itself
_MANY = 14  # values from which on only some have their number below the axis


def sweep_figures(sweep: Sweep) -> list[tuple[str, str, str]]:
    """Return the key figures of a sweep: title, value, explanation."""
    best = max(range(len(sweep.ks)), key=lambda place: sweep.modularity[place])
    span = str(sweep.low) if sweep.low == sweep.high else f"{sweep.low} to {sweep.high}"
    tried = f"k = {sweep.ks[0]} to {sweep.ks[-1]} were tried"
    clusters = (
        (span, f"{tried}; choose a k and run again") if sweep.clear else ("none", f"{tried}, and none stands out")
    )
    return [
        ("Recommended clusters", *clusters),
        ("Modularity", f"{sweep.modularity[best]:.2f}", f"of held-out edges at k = {sweep.ks[best]}, the highest"),
    ]


def sweep_section(sweep: Sweep, ids: ElementIds) -> Html:
    """Show the curves of a sweep and the recommended range."""
    first, last = sweep.ks[0], sweep.ks[-1]
    intro = (
        f"The run tried every number of clusters k from {first} to {last} and recommends {sweep.recommendation}. "
        f"{sweep.reason} A sweep has no labels: choose a k, with your "
        "knowledge of the data, and run again with it."
    )
    data = table(
        "What each number of clusters gave",
        ["k", "Modularity of held-out edges", "Error of the difference to the best", "Stability", "Cost"],
        [
            [str(k), f"{one:.3f}", f"{error:.3f}", f"{stable:.2f}", f"{cost:.4f}"]
            for k, one, error, stable, cost in zip(
                sweep.ks, sweep.modularity, sweep.error, sweep.stability, sweep.cost, strict=True
            )
        ],
        numeric=range(5),
    )
    return section(
        "sweep",
        "How many clusters",
        intro,
        modularity_chart(sweep, ids, data),
        tag("div", _stability_chart(sweep, ids), _cost_chart(sweep, ids), class_="pair"),
    )


def psi_section(search: PsiSearch, ids: ElementIds) -> Html:
    """Show the curve of the search for ψ and the chosen order."""
    intro = (
        "ψ is the number of times that each node's values are averaged with its neighbours'. The run tried "
        f"{len(search.values)} values and took ψ = {search.psi}: {search.reason}."
    )
    data = table(
        "What each ψ gave",
        ["ψ", "Modularity of held-out edges", "Error of the difference to the best"],
        [
            [str(psi), f"{one:.3f}", f"{error:.3f}"]
            for psi, one, error in zip(search.values, search.modularity, search.error, strict=True)
        ],
        numeric=range(3),
    )
    place = search.values.index(search.psi)
    drawn = _chart(
        ids,
        "Modularity of held-out edges",
        f"A line over {len(search.values)} values of ψ. It is highest at ψ = {search.psi}.",
        search.values,
        search.modularity,
        "ψ",
        shaded=(place, place),
        above=search.error,
    )
    caption: list[Part] = [
        tag("strong", "Modularity of held-out edges. "),
        "The chosen ψ is shaded. Smoothing does not use the held-out edges, so too much smoothing does not raise this "
        "curve. A bar above a point is one standard error of the difference to the best value. Where it reaches the "
        "dashed line, the two values are about equally good.",
    ]
    return section("psi", "How far to smooth", intro, figure(drawn, caption, data))


def modularity_chart(sweep: Sweep, ids: ElementIds, data: Html | None = None) -> Html:
    """Return the chart of the modularity of held-out edges, which the recommended range is read from."""
    drawn = _sweep_chart(
        sweep,
        ids,
        "Modularity of held-out edges",
        sweep.modularity,
        f"The run recommends {sweep.recommendation}.",
        above=[NEAR_ERRORS * error for error in sweep.error],
    )
    caption: list[Part] = [
        tag("strong", "Modularity of held-out edges. "),
        "The share of held-out edges within clusters, less the share expected by chance. The clusters were found "
        "without these edges. A recommended range is shaded. A bar above a point is "
        f"{NEAR_ERRORS:g} standard errors of the difference to the best k. Where it reaches the dashed line, that k is "
        "not clearly worse than the best.",
    ]
    return figure(drawn, caption, data)


def _stability_chart(sweep: Sweep, ids: ElementIds) -> Html:
    drawn = _sweep_chart(sweep, ids, "Stability", sweep.stability, "1 means that all restarts agree.", top=1.0)
    caption: list[Part] = [
        tag("strong", "Stability. "),
        "How well attempts of k-means from different starts (restarts) agree about pairs of nodes: 1 is full "
        "agreement, 0 is chance. Low values mean that another run may find other clusters. Stability does not change "
        "the range.",
    ]
    return figure(drawn, caption, _numbers(sweep, "Stability", sweep.stability, "{:.2f}"))


def _cost_chart(sweep: Sweep, ids: ElementIds) -> Html:
    drawn = _sweep_chart(sweep, ids, "Cost", sweep.cost, "It falls with k.")
    caption: list[Part] = [
        tag("strong", "Cost. "),
        "The mean squared distance of nodes to their cluster centre, for every k in the same space. It falls with "
        "every further cluster, even if there is nothing to find. Do not choose k by it.",
    ]
    return figure(drawn, caption, _numbers(sweep, "Cost", sweep.cost, "{:.4f}"))


def _numbers(sweep: Sweep, title: str, values: Sequence[float], form: str) -> Html:
    rows = [[str(k), form.format(value)] for k, value in zip(sweep.ks, values, strict=True)]
    return table(f"{title}, by number of clusters", ["k", title], rows, numeric=(0, 1))


def _sweep_chart(
    sweep: Sweep,
    ids: ElementIds,
    title: str,
    values: Sequence[float],
    description: str,
    *,
    above: Sequence[float] | None = None,
    top: float | None = None,
) -> Html:
    words = f"A line over k from {sweep.ks[0]} to {sweep.ks[-1]}. {description}"
    shaded = (sweep.ks.index(sweep.low), sweep.ks.index(sweep.high)) if sweep.clear else None
    return _chart(ids, title, words, sweep.ks, values, "number of clusters k", shaded=shaded, above=above, top=top)


def _chart(
    ids: ElementIds,
    title: str,
    description: str,
    values: Sequence[int],
    heights: Sequence[float],
    x_label: str,
    *,
    shaded: tuple[int, int] | None,
    above: Sequence[float] | None = None,
    top: float | None = None,
) -> Html:
    """Draw a line over values at equal distances, a shaded range of them, and bars above the points.

    The vertical axis starts at zero; a negative height is drawn there.
    """
    points = [(float(place), max(height, 0.0)) for place, height in enumerate(heights)]
    best = max(height for _, height in points)
    wide = _WIDE if above is None else _WIDEST
    area = ChartArea(wide, _HIGH, len(values) - 0.5, max(top or best, best), low_x=-0.5)
    parts: list[Part] = [area.band(shaded[0] - 0.5, shaded[1] + 0.5)] if shaded else []
    step = -(-len(values) // _MANY)
    number: Callable[[float], str] = lambda place: str(values[round(place)])  # noqa: E731
    parts.append(area.axes([float(place) for place in range(0, len(values), step)], number, "{:g}".format, x_label))
    if above is not None:
        parts.append(area.level(best))
        parts += [
            area.whisker(place, height, min(height + more, best))
            for (place, height), more in zip(points, above, strict=True)
        ]
    parts.append(area.line(points, "accent"))
    return picture(ids, wide, _HIGH, title, description, parts)
