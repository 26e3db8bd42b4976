"""The part of the page that finds single nodes, and the data that its script reads."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from kcagc._types import IntArray
from kcagc.report.clusters import shown_clusters
from kcagc.report.drawing import cluster_class
from kcagc.report.folder import RunFolder
from kcagc.report.insights.nodes import NodeInsights
from kcagc.report.insights.quality import sample
from kcagc.report.markup import Html, Part, section, tag
from kcagc.report.quality import map_places
from kcagc.text import amount, count, printable

MOST_NODES = 20_000  # on a page
_REASONS = 2  # columns named for each node on the page; `kcagc explain` names more
_FEWEST = 100  # nodes of a sample that is still useful
_MARGIN = 0.95  # of the space, when a sample is made smaller
_ESCAPED = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}  # no text can end the block of data


class NodeFinder(NamedTuple):
    """A section of the page, and the JSON that the script of the page reads."""

    section: Html
    data: Html


def nodes_section(run: RunFolder, space: int) -> NodeFinder | None:
    """Return the part of the page that finds nodes; its data have at most `space` bytes."""
    nodes = run.nodes
    if nodes is None or not len(nodes):
        return None
    most, rows, data = MOST_NODES, np.arange(0), ""
    while True:
        rows = _rows(run, nodes, most)
        data = json.dumps(_data(run, nodes, rows), ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)
        size = len(data.encode())
        if size <= space:
            break
        most = int(min(most, len(rows)) * max(space, 0) / size * _MARGIN)
        if most < _FEWEST:
            return None
    return NodeFinder(_section(run, nodes, len(rows)), Html(data))


def _rows(run: RunFolder, nodes: NodeInsights, most: int) -> IntArray:
    """Return at most `most` rows: all, or those that the page names or draws, and a random sample."""
    if len(nodes) <= most:
        return np.arange(len(nodes))
    members = [
        row
        for one in shown_clusters(run)
        for node in (*one.get("typical", ()), *(border["id"] for border in one.get("borderline", ())))
        if (row := nodes.row_of(node)) is not None
    ]
    # A smaller sample is the beginning of a larger one, so this sample has the nodes of the map.
    random = sample(len(nodes), most - min(len(members), most))
    return np.union1d(random, np.array(members[:most], dtype=np.int64))


def _section(run: RunFolder, nodes: NodeInsights, shown: int) -> Html:
    command = tag("code", "kcagc explain ID")
    intro: list[Part] = [f"This page holds all {amount(len(nodes), 'node')}. "]
    if shown < len(nodes):
        intro = [
            f"This page holds a sample of {count(shown)} of the {count(len(nodes), 'node')}: the members that it "
            "names, the nodes on the map, and others drawn at random. For every other node, run ",
            *(command, " in the folder of the configuration. "),
        ]
    intro += [
        f"The nearest alternative is the other cluster whose centre is nearest by the columns of {run.name}. "
        "Confidence is 1 at the centre of the own cluster, and 0 if another centre is equally near or nearer."
    ]
    options = [tag("option", "all clusters", value="")]
    for cluster, size in enumerate(run.sizes):
        if size:
            name = run.names.of(cluster)
            options.append(tag("option", f"Cluster {cluster}" + (f" · {name}" if name else ""), value=str(cluster)))
    head = (
        "Node",
        "Cluster",
        "Nearest alternative",
        "Confidence",
        *(("Edges inside",) if nodes.edges is not None else ()),
    )
    listing = tag(
        "table",
        tag("caption", "Nodes found", class_="unseen"),
        tag(
            "thead",
            tag("tr", [tag("th", name, scope="col", class_="num" if at > 2 else None) for at, name in enumerate(head)]),
        ),
        tag("tbody"),
        class_="found",
    )
    finder = tag(
        "div",
        tag(
            "div",
            tag("label", "Id, or a part of it ", tag("input", type="search", id="node-id", autocomplete="off")),
            tag("label", "Cluster ", tag("select", options, id="node-cluster")),
            class_="controls",
        ),
        tag("p", role="status", class_="hint", id="node-count"),
        tag("div", class_="answer", id="node-answer", tabindex="-1", hidden=True),
        tag("div", listing, class_="scroll", tabindex="0", role="region", aria_label="Nodes found"),
        tag("button", "Show more", type="button", id="node-more", hidden=True),
        id="node-finder",
        class_="card",
        hidden=True,
    )
    without = tag(
        "p",
        "The search needs the script of this page, which has not run. Without it, run ",
        command,
        " in the folder of the configuration.",
        id="node-without",
        class_="hint",
    )
    return section("nodes", "Find a node", intro, without, finder)


def _data(run: RunFolder, nodes: NodeInsights, rows: IntArray) -> dict[str, Any]:
    """Return what the script shows, as arrays with an entry for each node."""
    found: dict[str, Any] = {
        "party": run.name,
        "of": len(nodes),
        "clusters": [{"name": run.names.of(one), "class": cluster_class(one)} for one in range(nodes.n_clusters)],
        "cards": [one["cluster"] for one in shown_clusters(run)],
        "columns": [printable(name) for name in nodes.columns],
        "present": nodes.mostly_zero,
        "by_logarithm": [] if nodes.by_logarithm is None else nodes.by_logarithm.tolist(),
        "id": [printable(str(nodes.id_of(row))) for row in rows.tolist()],
        "cluster": nodes.cluster[rows].tolist(),
        "other": nodes.other[rows].tolist(),
        "confidence": [_short(value) for value in nodes.confidence[rows].tolist()],
    }
    if nodes.edges is not None and nodes.inside is not None:
        found |= {"edges": nodes.edges[rows].tolist(), "inside": nodes.inside[rows].tolist()}
    found["reasons"] = [_reasons(nodes, row) for row in rows.tolist()]
    drawn = run.clusters.get("map")
    if drawn is not None and "row" in drawn:
        at = {row: place for place, row in enumerate(rows.tolist())}
        places, _ = map_places(drawn)
        found["map"] = [
            [at[row], round(x, 1), round(y, 1)] for row, (x, y) in zip(drawn["row"], places, strict=True) if row in at
        ]
    return found


def _short(value: float) -> float:
    """Return a share with two digits, but more if it would become zero."""
    return round(value, 2) or (0.001 if value > 0 else 0.0)


def _reasons(nodes: NodeInsights, row: int) -> list[list[float]]:
    """Return columns that fit the node's cluster: number, value, and the means of its cluster and the alternative."""
    cluster, other = int(nodes.cluster[row]), int(nodes.other[row])
    found = []
    for column, value in zip(nodes.reasons[row, :_REASONS].tolist(), nodes.values[row].tolist(), strict=False):
        if column >= 0:
            means = [nodes.means[cluster, column]] + ([nodes.means[other, column]] if other >= 0 else [])
            found.append([column, *(float(f"{one:.3g}") for one in (value, *means))])
    return found
