"""How well the clusters are separated: on a map, along the links of the graph, and in measures of quality."""

from __future__ import annotations

from statistics import median
from typing import Any

from kcagc.report.drawing import ElementIds, cluster_class, cluster_name, picture
from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, figure, heat_table, section, table, tag, tiles
from kcagc.text import count, number, percent

_WIDE, _EDGE, _LEAST_HIGH = 720.0, 36.0, 320.0  # of the map

_MEASURES = {
    "accuracy": ("Accuracy", "share of nodes whose cluster matches their class, with at most one cluster for a class"),
    "nmi": ("NMI", "normalised mutual information: 1 if clusters and classes agree, 0 if they are unrelated"),
    "ari": ("ARI", "adjusted Rand index, agreement on pairs of nodes: 1 is full agreement, 0 is chance"),
    "macro_f1": ("Macro F1", "mean over the classes of the F1 score of the matching cluster"),
    "modularity": ("Modularity", "links inside clusters compared with chance: 0 is chance, 1 is the maximum"),
    "silhouette": (
        "Silhouette",
        "how much nearer nodes are to their own cluster than to the next one, by this party's columns: from −1 to 1",
    ),
    "cost": (
        "Cost",
        "mean squared distance of nodes to their cluster centre, summed over all parties; it cannot compare runs with "
        "different numbers of clusters",
    ),
}


def map_section(run: RunFolder, ids: ElementIds) -> Html:
    """Show the nodes in two dimensions, or say why there is no map."""
    drawn, title = run.clusters.get("map"), "Map of the nodes"
    if drawn is None and not run.is_party:
        why = "A coordinator holds no data, no labels and no ids, so it cannot draw a map. Each party has a map."
        return section("map", title, why)
    if drawn is None:
        why = "This folder has no map. Either the run wrote no report, or there were too few different nodes."
        return section("map", title, why)
    shown, of = len(drawn["x"]), int(drawn["of"])
    which = f"all {count(of)} nodes" if shown == of else f"a sample of {count(shown)} of the {count(of)} nodes"
    averaged = "averaged with its neighbours' and " if run.parameters.get("graph") != "none" else ""
    intro = (
        f"The map shows {which}. A standard method ({drawn['method']}) placed them by the columns of {run.name} alone, "
        f"after each node's values were {averaged}reduced to fewer dimensions. Nodes with "
        "similar values lie close together. The colours are the joint clusters, which depend on the columns of all "
        f"parties. Where colours mix, the columns of {run.name} alone do not separate the clusters."
    )
    return section("map", title, intro, _map(drawn, ids))


def _map(drawn: dict[str, Any], ids: ElementIds) -> Html:
    ys, low, inner = drawn["y"], min(drawn["y"]), _WIDE - 2 * _EDGE
    high = max((max(ys) - low) * inner + 2 * _EDGE, _LEAST_HIGH)
    offset = (high - (max(ys) - low) * inner) / 2
    by_cluster: dict[int, list[tuple[float, float]]] = {}
    for x, y, cluster in zip(drawn["x"], ys, drawn["cluster"], strict=True):
        by_cluster.setdefault(int(cluster), []).append((_EDGE + x * inner, offset + (y - low) * inner))
    size = "few" if len(ys) <= 400 else "some" if len(ys) <= 1200 else "many"
    layers, labels, rows = [], [], []
    for cluster, places in sorted(by_cluster.items()):
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
        layers.append(tag("path", d=path, class_=f"points {size} {cluster_class(cluster)}"))
        x, y = median(one for one, _ in places), median(two for _, two in places)
        labels.append(_map_label(cluster, x, y))
        rows.append([f"Cluster {cluster}", count(len(places)), f"{x / _WIDE:.2f}", f"{y / high:.2f}"])
    description = (
        f"A scatter plot of {count(len(ys), 'node')} in {count(len(by_cluster), 'cluster')}. The number of each "
        "cluster is shown in the middle of its nodes."
    )
    header = [
        "Cluster",
        "Nodes drawn",
        "Middle, from the left (share of the width)",
        "Middle, from the top (share of the height)",
    ]
    data = table("Position of each cluster on the map", header, rows, numeric=(1, 2, 3))
    legend = tag("ul", [tag("li", cluster_name(cluster)) for cluster in sorted(by_cluster)], class_="legend")
    caption = [
        legend,
        "Only closeness has a meaning. Directions, areas, and distances between groups that are far apart have none.",
    ]
    whole = picture(ids, _WIDE, high, "Map of the nodes", description, layers, labels)
    return figure(whole, caption, data, class_="card map")


def _map_label(cluster: int, x: float, y: float) -> Html:
    half = 10.0 + 5 * len(str(cluster))
    own = f"badge {cluster_class(cluster)}"
    corner = 4.0 if "square" in own else 13.0
    badge = tag("rect", x=x - half, y=y - 13, width=2 * half, height="26", rx=corner, class_=own)
    text = tag("text", str(cluster), x=x, y=y + 5, text_anchor="middle", class_="badge-text")
    return tag("g", badge, text, class_="label")


def links_section(run: RunFolder) -> Html | None:
    """Show which share of each cluster's links leads to which cluster."""
    links = run.clusters.get("links")
    if links is None:
        return None
    total = sum(map(sum, links["weights"]))
    if not total:
        return section("links", "Links between clusters", "The graph has no links.")
    inside = sum(row[at] for at, row in enumerate(links["weights"]))
    graph = f"{run.name}'s own graph" if run.parameters.get("graph") == "own" else "the shared graph"
    intro = (
        f"{percent(inside / total)} of the links in {graph} connect two nodes of the same cluster. Each row shows "
        "where the links of one cluster lead. A row adds up to 100 %."
    )
    rows = [
        (cluster_name(cluster), [(percent(share, 0), share) for share in row])
        for cluster, row in enumerate(links["shares"])
    ]
    columns = [str(cluster) for cluster in range(len(rows))]
    drawn = heat_table("Share of each cluster's links by the cluster they lead to", "from \\ to", columns, rows)
    caption = "A stronger shade is a larger share. On the diagonal are the links that stay inside their cluster."
    return section("links", "Links between clusters", intro, figure(drawn, caption))


def quality_section(run: RunFolder) -> Html | None:
    """Show measures that need no known classes and, if known classes were given, the comparison with them."""
    measures = dict(run.clusters.get("quality", {}))
    if run.summary.get("cost") is not None:
        measures["cost"] = float(run.summary["cost"])
    if not measures and not run.quality:
        return None
    parts: list[Part] = [_known(run.quality)] if run.quality else []
    unknown = _tiles(measures, "modularity", "silhouette", "cost")
    if unknown:
        parts += [tag("h3", "Without known classes"), tiles(unknown)]
        sampled = int(measures.get("silhouette_nodes", 0))
        if sampled and sampled < sum(run.sizes):
            parts.append(tag("p", f"The silhouette uses a sample of {count(sampled)} nodes.", class_="hint"))
    return section("quality", "Quality", None, *parts)


def _tiles(measures: dict[str, float], *names: str) -> list[tuple[str, str, str]]:
    def text(name: str, value: float) -> str:
        if name in ("accuracy", "macro_f1"):
            return percent(value)
        return number(value) if name == "cost" else f"{value:.3f}"

    return [(_MEASURES[name][0], text(name, measures[name]), _MEASURES[name][1]) for name in names if name in measures]


def _known(known: dict[str, Any]) -> Html:
    classes, counts = known["classes"], known["counts"]
    rows = []
    for name, row in zip(classes, counts, strict=True):
        total = sum(row)
        rows.append((name, [(count(value), value / total if total else None) for value in row]))
    columns = [cluster_name(cluster) for cluster in range(len(counts[0]))]
    drawn = heat_table("Nodes by known class and cluster", "class", columns, rows)
    majority = []
    for cluster, column in enumerate(zip(*counts, strict=True)):
        if sum(column):
            most = max(column)
            text = f": {classes[column.index(most)]} ({percent(most / sum(column), 0)})"
            majority.append(tag("li", cluster_name(cluster), text))
    caption = [
        tag(
            "p",
            "Each row is a class, each column a cluster. The most frequent class of each cluster and its share:",
        ),
        tag("ul", majority, class_="legend"),
    ]
    return tag(
        "div",
        tag("h3", "Compared with known classes"),
        tag("p", f"The classes of {count(known['nodes'], 'node')} are known.", class_="intro"),
        tiles(_tiles(known["measures"], "accuracy", "nmi", "ari", "macro_f1")),
        figure(drawn, caption),
    )
