"""How good the clusters are, as far as this role can tell."""

from __future__ import annotations

from typing import Any

from kcagc.report.clusters import chip
from kcagc.report.folder import RunFolder
from kcagc.report.heat import heat_table
from kcagc.report.markup import Html, Part, tag
from kcagc.text import count, number, percent

_WORDS = {
    "accuracy": ("Accuracy", "nodes whose cluster stands for their class, under the best one-to-one matching"),
    "nmi": ("NMI", "normalised mutual information: 1 for equal partitions, 0 for unrelated ones"),
    "ari": ("ARI", "pairs of nodes on which both agree, corrected for chance"),
    "macro_f1": ("Macro F1", "mean over classes of the F1 score of the matched cluster"),
    "modularity": ("Modularity", "links inside clusters, beyond what chance would give: 0 is none, 1 the most"),
    "silhouette": ("Silhouette", "how much nearer a node's own cluster is than the next, in own columns: −1 to 1"),
    "inertia": ("Joint inertia", "mean squared distance to the centres, summed over all parties"),
}


def quality_section(run: RunFolder) -> Html | None:
    """Show measures without labels, and with them where somebody gave them."""
    without = dict(run.clusters.get("quality", {}))
    inertia = joint_inertia(run)
    if inertia is not None:
        without["inertia"] = inertia
    known = run.quality
    if not without and not known:
        return None
    parts: list[Part] = [tag("h2", "Quality")]
    if known:
        parts += [_known(known)]
    tiles = [_tile(name, without[name]) for name in ("modularity", "silhouette", "inertia") if name in without]
    if tiles:
        parts.append(tag("h3", "Without known labels"))
        parts.append(tag("dl", tiles, class_="tiles"))
        sampled = int(without.get("silhouette_nodes", 0))
        if sampled and sampled < sum(run.sizes):
            parts.append(tag("p", f"The silhouette is that of a sample of {count(sampled)} nodes.", class_="hint"))
    return tag("section", parts, id="quality")


def joint_inertia(run: RunFolder) -> float | None:
    """Give the last joint inertia that the run tells of, of its last merge."""
    merges = run.summary.get("merges") or ()
    history = merges[-1].get("history") if merges else None
    told = [one.get("inertia") for one in history or () if one.get("inertia") is not None]
    return float(told[-1]) if told else None


def _tile(name: str, value: float) -> Html:
    title, words = _WORDS[name]
    shown = (
        percent(value) if name in ("accuracy", "macro_f1") else number(value) if name == "inertia" else f"{value:.3f}"
    )
    return tag("div", tag("dt", title), tag("dd", shown, class_="value"), tag("dd", words, class_="hint"))


def _known(known: dict[str, Any]) -> Html:
    measures = known["measures"]
    tiles = [_tile(name, measures[name]) for name in ("accuracy", "nmi", "ari", "macro_f1") if name in measures]
    matched = {int(cluster): name for cluster, name in known["matched"].items()}
    counts = known["counts"]
    columns: list[Part] = [chip(cluster) for cluster in range(len(counts[0]))]
    rows: list[tuple[Part, list[tuple[str, float | None]]]] = []
    for name, row in zip(known["classes"], counts, strict=True):
        total = sum(row)
        rows.append((name, [(count(value), value / total if total else None) for value in row]))
    drawn = heat_table("Nodes by known class and cluster", "class", columns, rows)
    pairs = ", ".join(f"cluster {cluster}: {name}" for cluster, name in sorted(matched.items()))
    return tag(
        "div",
        tag("h3", "Against known labels"),
        tag("p", f"Compared with the known labels of {count(known['nodes'])} nodes.", class_="lede"),
        tag("dl", tiles, class_="tiles"),
        tag(
            "figure",
            drawn,
            tag("figcaption", f"Each row is a known class, each column a cluster. Best matching: {pairs}."),
            class_="card",
        ),
    )
