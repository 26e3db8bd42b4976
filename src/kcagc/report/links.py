"""How the graph joins the clusters."""

from __future__ import annotations

from kcagc.report.clusters import chip
from kcagc.report.folder import RunFolder
from kcagc.report.heat import heat_table
from kcagc.report.markup import Html, Part, tag
from kcagc.text import percent


def links_section(run: RunFolder) -> Html | None:
    """Show of the link ends in each cluster what share leads where."""
    links = run.clusters.get("links")
    if links is None:
        return None
    shares = links["shares"]
    weights = links["weights"]
    total = sum(map(sum, weights))
    inside = sum(row[at] for at, row in enumerate(weights))
    rows: list[tuple[Part, list[tuple[str, float | None]]]] = [
        (chip(cluster), [(percent(share, 0), share) for share in row]) for cluster, row in enumerate(shares)
    ]
    whose = (
        "the graph that all parties share"
        if run.summary.get("parameters", {}).get("graph") != "own"
        else (f"{run.name}'s own graph")
    )
    lede = (
        f"{percent(inside / total if total else None)} of the links in {whose} stay inside a cluster. Each row says "
        "where the links of one cluster lead; rows add up to 100 %."
    )
    columns: list[Part] = [str(cluster) for cluster in range(len(shares))]
    drawn = heat_table("Share of each cluster's links by where they lead", "from \\ to", columns, rows)
    return tag(
        "section",
        tag("h2", "Links between clusters"),
        tag("p", lede, class_="lede"),
        tag(
            "figure",
            drawn,
            tag(
                "figcaption",
                "The stronger the shade, the more. A strong diagonal means clusters that keep to themselves.",
            ),
            class_="card",
        ),
        id="links",
    )
