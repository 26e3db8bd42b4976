"""How well the clusters are separated: on a map, along the edges of the graph, and in measures of quality."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from kcagc.report.clusters import shown_clusters
from kcagc.report.drawing import COLOURS, ElementIds, cluster_class, cluster_name, picture, points
from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, breakable, figure, heat_table, panel, section, table, tag, tiles
from kcagc.text import count, decimal, number, percent

_WIDE, _EDGE, _LEAST_HIGH = 720.0, 36.0, 320.0  # of the map
_RADIUS = {"few": 4.0, "some": 3.25, "many": 2.25}  # of its points, by how many there are
_MATRIX = 64  # clusters up to which a table has a column for each
_CELLS = 4_096  # of a table of classes and clusters

_MEASURES = {
    "accuracy": (
        "Accuracy",
        "share of nodes whose cluster is matched with their class, with one cluster for each class",
    ),
    "purity": ("Purity", "share of nodes that are in the majority class of their cluster; more clusters raise it"),
    "nmi": ("NMI", "normalised mutual information: 1 if clusters and classes agree, 0 if they are unrelated"),
    "ari": ("ARI", "adjusted Rand index, agreement on pairs of nodes: 1 is full agreement, 0 is chance"),
    "macro_f1": ("Macro F1", "mean over the classes of the F1 score of the matching cluster"),
    "modularity": ("Modularity", "edges inside clusters compared with chance: 0 is chance, 1 is the maximum"),
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
    return section("map", title, intro, _map(drawn, ids, run))


def map_places(drawn: dict[str, Any]) -> tuple[list[tuple[float, float]], float]:
    """Return the places of the nodes in the drawing of the map, and its height."""
    ys, low, inner = drawn["y"], min(drawn["y"]), _WIDE - 2 * _EDGE
    high = max((max(ys) - low) * inner + 2 * _EDGE, _LEAST_HIGH)
    offset = (high - (max(ys) - low) * inner) / 2
    places = [(_EDGE + x * inner, offset + (y - low) * inner) for x, y in zip(drawn["x"], ys, strict=True)]
    return places, high


def _map(drawn: dict[str, Any], ids: ElementIds, run: RunFolder) -> Html:
    every, high = map_places(drawn)
    by_cluster: dict[int, list[tuple[float, float]]] = {}
    for place, cluster in zip(every, drawn["cluster"], strict=True):
        by_cluster.setdefault(int(cluster), []).append(place)
    size = "few" if len(every) <= 400 else "some" if len(every) <= 1200 else "many"
    layers, labels, rows = [], [], []
    for cluster, places in sorted(by_cluster.items()):
        path = points(places, cluster, _RADIUS[size])
        own = f"points {size} {cluster_class(cluster)}"
        layers.append(tag("path", d=path, class_=own, data_cluster=cluster))
        x, y = median(one for one, _ in places), median(two for _, two in places)
        labels.append(_map_label(cluster, x, y))
        name = cluster_name(cluster, run.names.of(cluster))
        rows.append([name, count(len(places)), f"{x / _WIDE:.2f}", f"{y / high:.2f}"])
    description = (
        f"A scatter plot of {count(len(every), 'node')} in {count(len(by_cluster), 'cluster')}. The number of each "
        "cluster is shown in the middle of its nodes."
    )
    header = [
        "Cluster",
        "Nodes drawn",
        "Middle, from the left (share of the width)",
        "Middle, from the top (share of the height)",
    ]
    data = table("Position of each cluster on the map", header, rows, numeric=(1, 2, 3))
    shown = {one["cluster"] for one in shown_clusters(run)}
    entries = [cluster_name(cluster, run.names.of(cluster), link=cluster in shown) for cluster in sorted(by_cluster)]
    caption = [
        tag("ul", [tag("li", entry) for entry in entries], class_="legend"),
        "Only closeness has a meaning. Directions, areas, and distances between groups that are far apart have none.",
    ]
    whole = picture(ids, _WIDE, high, "Map of the nodes", description, layers, labels)
    return figure(whole, caption, data, class_="card map")


def _map_label(cluster: int, x: float, y: float) -> Html:
    half = 10.0 + 5 * len(str(cluster))
    own = f"badge {cluster_class(cluster)}"
    corner = 13.0 if cluster < COLOURS else 4.0
    badge = tag("rect", x=x - half, y=y - 13, width=2 * half, height="26", rx=corner, class_=own)
    text = tag("text", str(cluster), x=x, y=y + 5, text_anchor="middle", class_="badge-text")
    return tag("g", badge, text, class_="label", data_cluster=cluster)


def links_section(run: RunFolder) -> Html | None:
    """Show which share of each cluster's edges leads to which cluster."""
    links = run.clusters.get("links")
    if links is None:
        return None
    total = sum(map(sum, links["weights"]))
    if not total:
        return section("links", "Edges between clusters", "The graph has no edges.")
    inside = sum(row[at] for at, row in enumerate(links["weights"]))
    graph = f"{run.name}'s own graph" if run.parameters.get("graph") == "own" else "the shared graph"
    intro = f"{percent(inside / total)} of the edges in {graph} (by weight) connect two nodes of the same cluster. "
    if len(links["weights"]) > _MATRIX:
        intro += "The section about each cluster names the clusters that it is most linked to."
        return section("links", "Edges between clusters", intro)
    intro += "Each row shows where the edges of one cluster lead. A row adds up to 100 %."
    rows = [
        (cluster_name(cluster, run.names.of(cluster)), [(percent(share, 0), share) for share in row])
        for cluster, row in enumerate(links["shares"])
    ]
    columns = [str(cluster) for cluster in range(len(rows))]
    drawn = heat_table("Share of each cluster's edges by the cluster they lead to", "from \\ to", columns, rows)
    caption = "A stronger shade is a larger share. On the diagonal are the edges that stay inside their cluster."
    return section("links", "Edges between clusters", intro, figure(drawn, caption))


def quality_section(run: RunFolder) -> Html | None:
    """Show measures that need no known classes and, if known classes were given, the comparison with them."""
    measures = dict(run.clusters.get("quality", {}))
    if run.summary.get("cost") is not None:
        measures["cost"] = float(run.summary["cost"])
    if not measures and not run.quality:
        return None
    parts: list[Part] = [_known(run)] if run.quality else []
    unknown = _tiles(measures, "modularity", "silhouette", "cost")
    if unknown:
        parts += [tag("h3", "Without known classes"), tiles(unknown)]
        sampled = int(measures.get("silhouette_nodes", 0))
        if sampled and sampled < sum(run.sizes):
            parts.append(tag("p", f"The silhouette uses a sample of {count(sampled)} nodes.", class_="hint"))
    return section("quality", "Quality", None, *parts)


def _tiles(measures: dict[str, float], *names: str) -> list[tuple[str, str, str]]:
    def text(name: str, value: float) -> str:
        if name in ("accuracy", "macro_f1", "purity"):
            return percent(value)
        return number(value) if name == "cost" else decimal(value, 3)

    return [(_MEASURES[name][0], text(name, measures[name]), _MEASURES[name][1]) for name in names if name in measures]


def purity_of(counts: list[list[int]]) -> float:
    """Return the share of nodes that are in the majority class of their cluster."""
    total = sum(map(sum, counts))
    return sum(max(column) for column in zip(*counts, strict=True)) / total if total else 0.0


def matched(counts: list[list[int]]) -> dict[int, int] | None:
    """Return the class of each cluster in the best one-to-one matching, if there are as many classes as clusters.

    Without equal numbers, such a matching would give some clusters a class that hardly any of its nodes have.
    """
    used = [cluster for cluster, column in enumerate(zip(*counts, strict=True)) if sum(column)]
    if len(used) != len(counts):
        return None
    clusters, classes = linear_sum_assignment(np.array(counts).T[used], maximize=True)
    return {used[cluster]: int(found) for cluster, found in zip(clusters, classes, strict=True)}


def _known(run: RunFolder) -> Html:
    known = run.quality
    classes, counts, measures = known["classes"], known["counts"], dict(known["measures"])
    measures["purity"] = purity_of(counts)
    pairs = matched(counts)
    intro = f"The classes of {count(known['nodes'], 'node')} are known. "
    if pairs is None:
        used = sum(any(column) for column in zip(*counts, strict=True))
        intro += (
            f"There {'is' if len(classes) == 1 else 'are'} {count(len(classes))} class"
            f"{'' if len(classes) == 1 else 'es'} and {count(used, 'cluster')} with such nodes, so clusters and "
            "classes cannot be matched one to one; a cluster has the name of its majority class."
        )
    else:
        intro += "There are as many classes as clusters, so each cluster is also matched with one class."
    figures = _tiles(measures, "ari", "nmi", "purity", *(("accuracy", "macro_f1") if pairs else ()))
    header: list[Part] = ["Cluster", "Majority class", "Its share", "Nodes of known class"]
    header += ["Matched class"] if pairs else []
    rows: list[list[Part]] = []
    for cluster, column in enumerate(zip(*counts, strict=True)):
        if total := sum(column):
            most = column.index(max(column))
            row: list[Part] = [cluster_name(cluster, run.names.of(cluster)), breakable(classes[most])]
            row += [percent(column[most] / total), count(total)]
            rows.append([*row, breakable(classes[pairs[cluster]])] if pairs else row)
    parts: list[Part] = [panel(table("Majority class of each cluster", header, rows, numeric=(2, 3)))]
    if len(classes) * len(counts[0]) <= _CELLS:
        shares = []
        for name, numbers in zip(classes, counts, strict=True):
            whole = sum(numbers)
            shares.append((breakable(name), [(count(value), value / whole if whole else None) for value in numbers]))
        columns = [cluster_name(cluster) for cluster in range(len(counts[0]))]
        drawn = heat_table("Nodes by known class and cluster", "class", columns, shares)
        parts.append(figure(drawn, "Each row is a class, each column a cluster. A stronger shade is a larger share."))
    return tag("div", tag("h3", "Compared with known classes"), tag("p", intro, class_="intro"), tiles(figures), parts)
