"""The clusters: how large they are, how sure their nodes, and which of the party's own columns mark each."""

from __future__ import annotations

from typing import Any

from kcagc.report.drawing import Frame, Names, bar, both_ways, colour_class, picture
from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, figure, table, tag
from kcagc.text import count, number, percent

_SMALL, _LARGE = 0.2, 0.8  # effects below and above which one speaks of small and large ones
_SHOWN = 5  # columns of a cluster that are drawn; the others are in its table


def sizes_section(run: RunFolder, names: Names) -> Html | None:
    """Show how the nodes are spread over clusters."""
    if not run.sizes:
        return None
    nodes, largest = sum(run.sizes), max(run.sizes)
    told = {one["cluster"]: one for one in run.clusters.get("clusters", ())}
    rows: list[list[Part]] = []
    for cluster, size in enumerate(run.sizes):
        sure = (told.get(cluster) or {}).get("confidence")
        row: list[Part] = [
            chip(cluster),
            count(size),
            percent(size / nodes if nodes else None),
            bar(size / largest if largest else 0, colour_class(cluster)),
        ]
        rows.append([*row, "–" if sure is None else f"{sure['mean']:.2f}"] if told else row)
    header: list[Part] = ["Cluster", "Nodes", "Share", tag("span", "Size as a bar", class_="unseen")]
    header += ["Confidence"] if told else []
    what = "New nodes by cluster" if run.predicts else "Nodes by cluster"
    shown = table(what, header, rows, numeric=(1, 2, 4), class_="sizes", seen=False)
    spread = run.clusters.get("confidence")
    sure = None if spread is None else _confidence(spread, names, run.name)
    inside = tag("div", tag("div", shown, class_="card"), sure, class_="pair" if sure else None)
    lede = _lede(run, nodes)
    return tag("section", tag("h2", "Cluster sizes"), tag("p", lede, class_="lede"), inside, id="sizes")


def _lede(run: RunFolder, nodes: int) -> str:
    used = [size for size in run.sizes if size]
    if run.predicts:
        return f"{count(nodes)} new nodes went to {len(used)} of the {len(run.sizes)} clusters of the fit."
    return (
        f"The largest cluster holds {percent(max(used) / nodes)} of the {count(nodes)} nodes, the smallest "
        f"{percent(min(used) / nodes)}."
        + (f" {len(run.sizes) - len(used)} are empty." if len(used) < len(run.sizes) else "")
    )


def _confidence(spread: dict[str, Any], names: Names, party: str) -> Html:
    bins = [int(value) for value in spread["bins"]]
    frame = Frame(520, 240, len(bins), max(bins))
    columns = [frame.column(at, at + 1, value, "accent") for at, value in enumerate(bins)]
    axes = frame.axes(
        range(0, len(bins) + 1, 2),
        lambda one: f"{one / len(bins):.1f}",
        count,
        "confidence (0: another centre is as near)",
    )
    drawn = picture(
        names,
        520,
        240,
        "How sure the nodes are",
        f"Histogram of the confidence of all nodes; the median is {spread['median']:.2f}.",
        axes,
        columns,
    )
    rows: list[list[Part]] = [
        [f"{at / len(bins):.1f} to {(at + 1) / len(bins):.1f}", count(value)] for at, value in enumerate(bins)
    ]
    words = [
        tag("strong", "How sure the nodes are. "),
        f"Half of them have a confidence above {spread['median']:.2f}; for {percent(spread['none'])} another centre is "
        f"as near, seen from {party} alone. The joint cluster was chosen with everybody's data, so that a node may "
        "have 0 here and be in the right place.",
    ]
    return figure(
        drawn, words, table("Nodes by confidence", ["Confidence", "Nodes"], rows, numeric=(1,)), class_="card"
    )


def marks_section(run: RunFolder) -> Html | None:
    """Show, for each cluster, the columns in which it differs from the rest."""
    told = [one for one in run.clusters.get("clusters", ()) if one["marks"]]
    if not told:
        return None
    largest = max(abs(mark["effect"]) for one in told for mark in one["marks"])
    cards = [_card(one, largest) for one in told]
    words = (
        f"Computed from {run.name}'s own {count(run.clusters['columns'])} columns alone. An effect is the mean in the "
        "cluster less the mean of all other nodes, divided by the standard deviation over all nodes: about 0.2 is "
        "small, 0.8 and more is large."
    )
    return tag(
        "section",
        tag("h2", "What marks each cluster"),
        tag("p", words, class_="lede"),
        tag("div", cards, class_="cards"),
        id="marks",
    )


def _card(told: dict[str, Any], largest: float) -> Html:
    cluster = int(told["cluster"])
    rows = []
    for mark in told["marks"][:_SHOWN]:
        weak = abs(mark["effect"]) < _SMALL
        rows.append(
            tag(
                "li",
                tag("span", mark["feature"], class_="feature"),
                tag("span", f"{mark['effect']:+.2f}", class_="effect", title="effect size"),
                both_ways(mark["effect"], largest, colour_class(cluster)),
                class_="weak" if weak else None,
            )
        )
    sure = told.get("confidence")
    facts = f"{count(told['size'])} nodes · {percent(told['share'])}" + (
        "" if sure is None else f" · confidence {sure['mean']:.2f}"
    )
    strong = sum(abs(mark["effect"]) >= _LARGE for mark in told["marks"])
    none = None if strong else tag("p", "No column has a large effect here.", class_="hint")
    return tag(
        "article",
        tag("h3", chip(cluster)),
        tag("p", facts, class_="hint"),
        tag("ol", rows, class_="marks"),
        none,
        tag("details", tag("summary", "Show means and more columns"), _table(cluster, told["marks"])),
        class_="card",
    )


def _table(cluster: int, marks: list[dict[str, Any]]) -> Html:
    terms = any("lift" in mark for mark in marks)
    header: list[Part] = ["Column", "Effect", *(("Have it", "elsewhere", "Lift") if terms else ("Mean", "elsewhere"))]
    rows: list[list[Part]] = []
    for mark in marks:
        told = [number(mark["mean"]), number(mark["elsewhere"])]
        if terms:
            told = [percent(mark["present"]), percent(mark["present_elsewhere"]), f"{mark['lift']:.1f}×"]
        rows.append([mark["feature"], f"{mark['effect']:+.2f}", *told])
    return table(f"Columns that mark cluster {cluster}", header, rows, numeric=(1, 2, 3, 4), seen=False)


def chip(cluster: int) -> Html:
    """Give a cluster's name beside its colour."""
    dot = tag("span", class_=f"dot {colour_class(cluster)}", aria_hidden="true")
    return tag("span", dot, tag("span", tag("span", "Cluster ", class_="word"), str(cluster)), class_="chip")
