"""The map: nodes in two dimensions, drawn from a party's own points and coloured by cluster."""

from __future__ import annotations

from statistics import median
from typing import Any

from kcagc.report.clusters import chip
from kcagc.report.drawing import COLOURS, Names, colour_class, picture
from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, figure, table, tag
from kcagc.text import count

_WIDE, _EDGE = 720.0, 36.0
_LEAST_HIGH = 320.0


def map_section(run: RunFolder, names: Names) -> Html:
    """Show the map, or say why there is none."""
    drawn = run.clusters.get("map")
    heading = tag("h2", "Map of the nodes")
    if drawn is None:
        return tag("section", heading, tag("p", _why_not(run), class_="lede"), id="map")
    shown, of = len(drawn["x"]), int(drawn["of"])
    which = f"all {count(of)} nodes" if shown == of else f"a sample of {count(shown)} of {count(of)} nodes"
    lede = (
        f"{which[0].upper()}{which[1:]}, placed by {drawn['method']} from {run.name}'s own smoothed and projected "
        "columns: nodes that are alike there lie together. Colours are the joint clusters, found with everybody's "
        f"columns; where colours mix, the others' columns tell apart what {run.name}'s do not."
    )
    return tag("section", heading, tag("p", lede, class_="lede"), _figure(drawn, names), id="map")


def _why_not(run: RunFolder) -> str:
    if not run.is_party:
        return (
            f"{run.name} holds no data, no labels and no ids, and so has nothing to draw a map from. Each party draws "
            "one from its own data, in its own report."
        )
    return (
        "This folder has no map: the run was made without a report, or there were too few different nodes. "
        "A new run makes one."
    )


def _figure(drawn: dict[str, Any], names: Names) -> Html:
    xs, ys, clusters = drawn["x"], drawn["y"], drawn["cluster"]
    low = min(ys)
    inner = _WIDE - 2 * _EDGE
    high = max((max(ys) - low) * inner + 2 * _EDGE, _LEAST_HIGH)
    offset = (high - (max(ys) - low) * inner) / 2
    by_cluster: dict[int, list[tuple[float, float]]] = {}
    for x, y, cluster in zip(xs, ys, clusters, strict=True):
        by_cluster.setdefault(int(cluster), []).append((_EDGE + x * inner, offset + (y - low) * inner))
    size = "few" if len(xs) <= 400 else "some" if len(xs) <= 1200 else "many"
    layers, labels, rows = [], [], []
    for cluster, places in sorted(by_cluster.items()):
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
        shape = " square" if cluster >= COLOURS else ""
        layers.append(tag("path", d=path, class_=f"points {size}{shape} {colour_class(cluster)}"))
        x, y = median(one for one, _ in places), median(two for _, two in places)
        labels.append(_label(cluster, x, y))
        rows.append([f"Cluster {cluster}", count(len(places)), f"{x / _WIDE:.2f}", f"{y / high:.2f}"])
    told = (
        f"A scatter plot of {len(xs)} nodes in {len(by_cluster)} colours, one for each cluster; the number of each "
        "cluster stands at the middle of its nodes."
    )
    seen: list[list[Part]] = [list(row) for row in rows]
    data = table(
        "Where each cluster lies on the map",
        ["Cluster", "Nodes drawn", "Middle, from the left", "Middle, from the top"],
        seen,
        numeric=(1, 2, 3),
    )
    legend = tag("ul", [tag("li", chip(cluster)) for cluster in sorted(by_cluster)], class_="legend")
    whole = picture(names, _WIDE, high, "Map of the nodes", told, layers, labels)
    words = [legend, "Only nearness means something: directions, sizes and distances between far groups do not."]
    return figure(whole, words, data, class_="card map")


def _label(cluster: int, x: float, y: float) -> Html:
    wide = 10.0 + 5 * len(str(cluster))
    disc = tag(
        "rect", x=x - wide, y=y - 13, width=2 * wide, height="26", rx="13", class_=f"badge {colour_class(cluster)}"
    )
    return tag(
        "g", disc, tag("text", str(cluster), x=x, y=y + 5, text_anchor="middle", class_="badge-text"), class_="label"
    )
