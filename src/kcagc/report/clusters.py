"""The clusters: their sizes, the confidence of their nodes, and their top features in the party's own columns."""

from __future__ import annotations

from typing import Any

from kcagc.report.drawing import (
    ChartArea,
    ElementIds,
    bar,
    cluster_class,
    cluster_name,
    picture,
    signed_bar,
)
from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, breakable, figure, panel, section, table, tag
from kcagc.text import count, number, percent

_SMALL, _LARGE = 0.2, 0.8  # effects that are usually called small and large
_DRAWN = 5  # top features of a cluster that are drawn; its table has all
_WIDE, _HIGH = 520.0, 240.0


def sizes_section(run: RunFolder, ids: ElementIds) -> Html | None:
    """Show how the nodes are divided among the clusters."""
    if not run.sizes:
        return None
    nodes, largest = sum(run.sizes), max(run.sizes)
    described = {one["cluster"]: one for one in run.clusters.get("clusters", ())}
    rows: list[list[Part]] = []
    for cluster, size in enumerate(run.sizes):
        share = percent(size / nodes if nodes else None)
        drawn = bar(size / largest if largest else 0, cluster_class(cluster))
        spread = (described.get(cluster) or {}).get("confidence")
        confidence = ["–" if spread is None else f"{spread['mean']:.2f}"] if described else []
        rows.append([cluster_name(cluster), count(size), share, drawn, *confidence])
    header: list[Part] = ["Cluster", "Nodes", "Share", tag("span", "Size as a bar", class_="unseen")]
    header += ["Confidence"] if described else []
    caption = "New nodes by cluster" if run.predicts else "Nodes by cluster"
    sizes = panel(table(caption, header, rows, numeric=(1, 2, 4), class_="sizes", hidden_caption=True))
    spread = run.clusters.get("confidence")
    content = sizes if spread is None else tag("div", sizes, _confidence(spread, ids, run.name), class_="pair")
    return section("sizes", "Cluster sizes", _size_intro(run, nodes), content)


def _size_intro(run: RunFolder, nodes: int) -> str:
    used = [size for size in run.sizes if size]
    if run.predicts:
        return f"The run assigned {count(nodes, 'new node')} to {len(used)} of the {count(len(run.sizes), 'cluster')}."
    empty = len(run.sizes) - len(used)
    largest, smallest = percent(max(used) / nodes), percent(min(used) / nodes)
    return f"The largest cluster has {largest} of the {count(nodes)} nodes. The smallest has {smallest}." + (
        f" {count(empty, 'cluster')} {'is' if empty == 1 else 'are'} empty." if empty else ""
    )


def _confidence(spread: dict[str, Any], ids: ElementIds, party: str) -> Html:
    bins = [int(value) for value in spread["bins"]]
    area = ChartArea(_WIDE, _HIGH, len(bins), max(bins))
    ticks = range(0, len(bins) + 1, 2)
    drawn = picture(
        ids,
        _WIDE,
        _HIGH,
        "Confidence of the nodes",
        f"Histogram of the confidence of all nodes. The median is {spread['median']:.2f}.",
        area.axes(ticks, lambda one: f"{one / len(bins):.1f}", count, "confidence"),
        [area.column(at, at + 1, value, "accent") for at, value in enumerate(bins)],
    )
    rows = [[f"{at / len(bins):.1f} to {(at + 1) / len(bins):.1f}", count(value)] for at, value in enumerate(bins)]
    caption = [
        tag("strong", "Confidence of the nodes. "),
        f"It is 1 for a node at the centre of its cluster, and 0 if another centre is equally near or nearer. The "
        f"median is {spread['median']:.2f}; {percent(spread['none'])} of the nodes have 0. Confidence uses only the "
        f"columns of {party}. The run used the columns of all parties, so a node with confidence 0 can still be in the "
        "right cluster.",
    ]
    return figure(drawn, caption, table("Nodes by confidence", ["Confidence", "Nodes"], rows, numeric=(1,)))


def features_section(run: RunFolder) -> Html | None:
    """Show for each cluster the columns in which it differs most from the rest."""
    described = [one for one in run.clusters.get("clusters", ()) if one["top_features"]]
    if not described:
        return None
    largest = max(abs(feature["effect"]) for one in described for feature in one["top_features"])
    intro = (
        f"This section uses only the {count(run.clusters['columns'], 'column')} of {run.name}. The effect of a column "
        "is its mean inside the cluster minus its mean outside, divided by its standard deviation over all nodes. "
        "An effect of 0.2 is small. An effect of 0.8 or more is large."
    )
    cards = [_features(one, largest) for one in described]
    return section("features", "Top features of each cluster", intro, tag("div", cards, class_="cards"))


def _features(described: dict[str, Any], largest: float) -> Html:
    cluster, features = int(described["cluster"]), described["top_features"]
    rows = [
        tag(
            "li",
            tag("span", breakable(one["feature"]), class_="feature"),
            tag("span", f"{one['effect']:+.2f}", class_="effect", title="effect"),
            signed_bar(one["effect"], largest, cluster_class(cluster)),
            class_="weak" if abs(one["effect"]) < _SMALL else None,
        )
        for one in features[:_DRAWN]
    ]
    facts = f"{count(described['size'], 'node')} · {percent(described['share'])}"
    if described.get("confidence") is not None:
        facts += f" · mean confidence {described['confidence']['mean']:.2f}"
    has_large = any(abs(one["effect"]) >= _LARGE for one in features)
    return tag(
        "article",
        tag("h3", cluster_name(cluster)),
        tag("p", facts, class_="hint"),
        tag("ol", rows, class_="features"),
        None if has_large else tag("p", "No column has a large effect in this cluster.", class_="hint"),
        tag("details", tag("summary", "Show means and more columns"), _feature_table(cluster, features)),
        class_="card",
    )


def _feature_table(cluster: int, features: list[dict[str, Any]]) -> Html:
    caption = f"Top features of cluster {cluster}"
    if not any("lift" in one for one in features):
        means = [[number(one["mean"]), number(one["mean_outside"])] for one in features]
        header: list[Part] = ["Column", "Effect", "Mean inside", "Mean outside"]
    else:
        means = [[percent(one["present"]), percent(one["present_outside"]), f"{one['lift']:.1f}×"] for one in features]
        lift = "Share inside divided by the share among all nodes"
        header = ["Column", "Effect", "Nodes with it inside", "outside", tag("span", "Lift", title=lift)]
    rows = [
        [breakable(one["feature"]), f"{one['effect']:+.2f}", *mean] for one, mean in zip(features, means, strict=True)
    ]
    return table(caption, header, rows, numeric=(1, 2, 3, 4), hidden_caption=True)
