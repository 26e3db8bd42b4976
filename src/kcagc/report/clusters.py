"""The clusters: their sizes, and for each its members, its edges and its top features in the party's own columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcagc.report.drawing import (
    ChartArea,
    ElementIds,
    bar,
    cluster_class,
    cluster_id,
    cluster_name,
    picture,
    signed_bar,
)
from kcagc.report.folder import RunFolder
from kcagc.report.markup import (
    Html,
    Part,
    breakable,
    column_name,
    figure,
    panel,
    section,
    table,
    tag,
    text_of,
    unbroken,
)
from kcagc.text import amount, count, decimal, listed, number, percent

_SMALL, _LARGE = 0.2, 0.8  # effects that are usually called small and large
_DRAWN = 5  # top features of a cluster that are drawn; its table has all
_SENTENCES = 3  # about the top features of a cluster
_SHOWN = 128  # clusters that have a place of their own on the page
_WIDE, _HIGH = 520.0, 240.0


def sizes_section(run: RunFolder, ids: ElementIds) -> Html | None:
    """Show how the nodes are divided among the clusters."""
    if not run.sizes:
        return None
    nodes, largest = sum(run.sizes), max(run.sizes)
    described = {one["cluster"]: one for one in run.clusters.get("clusters", ())}
    shown = {one["cluster"] for one in shown_clusters(run)}
    rows: list[list[Part]] = []
    for cluster, size in enumerate(run.sizes):
        share = percent(size / nodes if nodes else None)
        drawn = bar(size / largest if largest else 0, cluster_class(cluster))
        spread = (described.get(cluster) or {}).get("confidence")
        confidence = ["–" if spread is None else decimal(spread["mean"])] if described else []
        name = cluster_name(cluster, run.names.of(cluster), link=cluster in shown)
        rows.append([name, count(size), share, drawn, *confidence])
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
        f"Histogram of the confidence of all nodes. The median is {decimal(spread['median'])}.",
        area.axes(ticks, lambda one: f"{one / len(bins):.1f}", count, "confidence"),
        [area.column(at, at + 1, value, "accent") for at, value in enumerate(bins)],
    )
    rows = [[f"{at / len(bins):.1f} to {(at + 1) / len(bins):.1f}", count(value)] for at, value in enumerate(bins)]
    caption = [
        tag("strong", "Confidence of the nodes. "),
        f"It is 1 for a node at the centre of its cluster, and 0 if another centre is equally near or nearer. The "
        f"median is {decimal(spread['median'])}; {percent(spread['none'])} of the nodes have 0. Confidence uses only "
        f"the columns of {party}. The run used the columns of all parties, so a node with confidence 0 can still "
        "be in the right cluster.",
    ]
    return figure(drawn, caption, table("Nodes by confidence", ["Confidence", "Nodes"], rows, numeric=(1,)))


def shown_clusters(run: RunFolder) -> list[dict[str, Any]]:
    """Return the descriptions of the clusters that the page shows: those with nodes, the largest if there are many."""
    described = [one for one in run.clusters.get("clusters", ()) if one["size"]]
    largest = sorted(described, key=lambda one: (-one["size"], one["cluster"]))[:_SHOWN]
    return sorted(largest, key=lambda one: int(one["cluster"]))


def clusters_section(run: RunFolder) -> Html | None:
    """Show each cluster: its members, its edges, and the columns in which it differs most from the rest."""
    shown = shown_clusters(run)
    if not shown:
        return None
    effects = [abs(feature["effect"]) for one in shown for feature in one["top_features"]]
    intro = (
        f"This section uses only the {count(run.clusters['columns'], 'column')} of {run.name} and the graph. The "
        "effect of a column is its mean inside the cluster minus its mean outside, divided by its standard deviation "
        "over all nodes. An effect of 0.2 is small. An effect of 0.8 or more is large. A missing "
        "value counts as the value that replaces it."
    )
    used = sum(size > 0 for size in run.sizes)
    if used > len(shown):
        intro += f" The page shows the {count(len(shown))} largest of the {count(used)} clusters that have nodes."
    cards = [_cluster(one, max(effects, default=0.0), run) for one in shown]
    return section("clusters", "Each cluster", intro, tag("div", cards, class_="cards"))


def _cluster(described: dict[str, Any], largest: float, run: RunFolder) -> Html:
    cluster, features = int(described["cluster"]), described["top_features"]
    rows = [
        tag(
            "li",
            tag("span", column_name(one["feature"], "span")),
            tag("span", decimal(one["effect"], signed=True), class_="effect", title="effect"),
            signed_bar(one["effect"], largest, cluster_class(cluster)),
            class_="weak" if abs(one["effect"]) < _SMALL else None,
        )
        for one in features[:_DRAWN]
    ]
    facts = f"{count(described['size'], 'node')} · {percent(described['share'])}"
    if described.get("confidence") is not None:
        facts += f" · confidence {decimal(described['confidence']['mean'])}"
    table_of_features = tag("details", tag("summary", "Show means and more columns"), _feature_table(cluster, features))
    return tag(
        "article",
        tag("h3", cluster_name(cluster, run.names.of(cluster))),
        tag("p", facts, class_="hint"),
        [tag("p", sentence, class_="sentence") for sentence in feature_sentences(described, run.name)],
        tag("ol", rows, class_="features") if rows else None,
        table_of_features if features else None,
        _members(described, linked=run.nodes is not None),
        _edges(described),
        class_="card",
        id=cluster_id(cluster),
        tabindex="-1",
    )


def feature_sentences(described: dict[str, Any], party: str) -> list[Html]:
    """Describe in plain words how the nodes of a cluster differ from all other nodes in the party's columns."""
    clear = [one for one in described["top_features"] if abs(one["effect"]) >= _SMALL][:_SENTENCES]
    if not clear:
        return [text_of(f"No column of {party} has more than a small effect in this cluster.")]
    found = []
    for one in clear:
        name, large = column_name(one["feature"], "strong"), abs(one["effect"]) >= _LARGE
        if "present" in one:
            here, there = percent(one["present"], 0), percent(one["present_outside"], 0)
            found.append(text_of([f"{here} of its nodes have ", name, f"; of all other nodes, {there} do."]))
            continue
        way = ("much " if large else "") + ("higher" if one["effect"] > 0 else "lower")
        kind = "is typical (mean of the logarithms)" if one.get("by_logarithm") else "on average"
        means = f"{number(one['mean'])} {kind}; {number(one['mean_outside'])} in all other nodes"
        found.append(text_of([name, f" is {way}: {means}."]))
    return found


def _members(described: dict[str, Any], *, linked: bool) -> Html | None:
    """Name members in the middle of the cluster and at its border."""

    def member(node: Any) -> Html:
        name = breakable(str(node))
        return tag("a", name, href="#nodes", data_node=str(node)) if linked else tag("span", name)

    typical, border = described.get("typical"), described.get("borderline")
    if not typical:
        return None
    parts: list[Part] = [tag("dt", "Typical"), tag("dd", _joined([member(node) for node in typical]))]
    if border:
        near = [[member(one["id"]), " ", _near(one["other"])] for one in border]
        parts += [tag("dt", "Borderline"), tag("dd", _joined(near))]
    return tag("dl", parts, class_="members")


def _near(cluster: int) -> Html:
    return tag("span", unbroken(f"(near cluster {cluster})"), class_="hint")


def _joined(parts: Sequence[Part]) -> list[Part]:
    return [part for one in parts for part in (one, ", ")][:-1]


def _edges(described: dict[str, Any]) -> Html | None:
    """Describe how densely the edges join the nodes of a cluster, and where its other edges lead."""
    if "edges_inside" not in described:
        return None
    inside, outside = int(described["edges_inside"]), int(described["edges_outside"])
    text = f"It has {amount(inside, 'edge')} inside"
    if described["density"] is not None and inside:
        text += f", which join {percent(described['density'])} of all pairs of its nodes (its density)"
    text += f", and {amount(outside, 'edge')} to other clusters."
    if described.get("linked"):
        most = [f"cluster {one['cluster']} ({percent(one['share'], 0)})" for one in described["linked"]]
        text += f" Most linked to {listed(most)}, as a share of its edges."
    return tag("p", unbroken(text), class_="sentence hint")


def _feature_table(cluster: int, features: list[dict[str, Any]]) -> Html:
    caption = f"Top features of cluster {cluster}"
    if not any("lift" in one for one in features):
        means = [[number(one["mean"]), number(one["mean_outside"])] for one in features]
        word = "Mean or typical value" if any(one.get("by_logarithm") for one in features) else "Mean"
        header: list[Part] = ["Column", "Effect", f"{word} inside", f"{word} outside"]
    else:
        means = [
            [percent(one["present"]), percent(one["present_outside"]), f"{decimal(one['lift'], 1)}×"]
            for one in features
        ]
        lift = "Share inside divided by the share among all nodes"
        header = ["Column", "Effect", "Nodes with it inside", "outside", tag("span", "Lift", title=lift)]
    rows = [
        [breakable(one["feature"]), decimal(one["effect"], signed=True), *mean]
        for one, mean in zip(features, means, strict=True)
    ]
    return table(caption, header, rows, numeric=(1, 2, 3, 4), hidden_caption=True)
