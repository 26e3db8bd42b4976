"""The whole page: a header with the key figures, then the sections; nothing is loaded from anywhere."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from kcagc.data.files import PRIVATE, write_text
from kcagc.report.clusters import clusters_section, sizes_section
from kcagc.report.disclosures import disclosures_section
from kcagc.report.document import document
from kcagc.report.drawing import ElementIds
from kcagc.report.folder import REPORT, RunFolder
from kcagc.report.markup import Html, section, tag, tiles
from kcagc.report.names import ClusterNames, add_names
from kcagc.report.nodes import nodes_section
from kcagc.report.quality import links_section, map_section, matched, quality_section
from kcagc.report.run import rounds_section, settings_section, traffic_section
from kcagc.report.search import psi_section, sweep_figures, sweep_section
from kcagc.report.worth import worth_section
from kcagc.text import count, decimal, listed, percent, seconds, size

LARGEST = 3_000_000  # bytes of a page
_FRAME = 100_000  # bytes of its header, its style and its script


def write_page(folder: Path) -> Path:
    """Write the page of a result folder, readable by its owner only; the file is complete or absent."""
    path = folder / REPORT
    write_text(path, build_report(RunFolder.read(folder)), mode=PRIVATE)
    return path


def rename(folder: Path, summary: dict[str, Any], names: ClusterNames) -> None:
    """Write the names of clusters, add them to the file of labels, and write the page again if there is one."""
    names.save(folder)
    labels = str(dict(summary.get("files", {})).get("labels", ""))
    if labels and Path(labels).name == labels and (folder / labels).exists():
        add_names(folder / labels, names)
    if (folder / REPORT).exists():
        write_page(folder)


def build_report(run: RunFolder) -> str:
    """Return the page; the same folder always gives the same page."""
    ids = ElementIds()
    sections: dict[str, tuple[str, Html | None]] = {
        "At a glance": ("overview", overview_section(run)),
        "Number of clusters": ("sweep", sweep_section(run.sweep, ids) if run.sweep else None),
        "Sizes": ("sizes", sizes_section(run, ids)),
        "Clusters": ("clusters", clusters_section(run)),
        "Map": ("map", None if run.sweeps else map_section(run, ids)),
        "Find a node": ("nodes", None),
        "Edges": ("links", links_section(run)),
        "Quality": ("quality", quality_section(run)),
        "Was it worth it?": ("worth", worth_section(run)),
        "Smoothing": ("psi", psi_section(run.psi_search, ids) if run.psi_search else None),
        "Rounds": ("rounds", rounds_section(run, ids)),
        "Messages": ("traffic", traffic_section(run, ids)),
        "Disclosures": ("disclosures", disclosures_section(run)),
        "Settings": ("settings", settings_section(run)),
    }
    used = sum(len(content.encode()) for _, content in sections.values() if content is not None)
    finder = nodes_section(run, LARGEST - used - _FRAME)
    sections["Find a node"] = ("nodes", None if finder is None else finder.section)
    title = f"{title_of(run)} · {run.name}"
    return document(title, header(run), sections, _footer(run), None if finder is None else finder.data)


def title_of(run: RunFolder) -> str:
    """Return the result of the run in a few words."""
    if run.sizes and run.predicts:
        return f"{count(sum(run.sizes), 'new node')} assigned"
    if run.sizes:
        return f"{count(sum(run.sizes), 'node')} in {count(sum(size > 0 for size in run.sizes), 'cluster')}"
    if run.sweep:
        return f"{run.sweep.recommendation} recommended".capitalize()
    if run.sweeps:
        return "Sweep over numbers of clusters: the coordinator's view"
    return "Prediction: the coordinator's view" if run.predicts else "Run: the coordinator's view"


def header(run: RunFolder) -> Html:
    """Return the title and who took part."""
    parties = [str(one["name"]) for one in run.summary.get("roles", ()) if one.get("role") == "party"]
    others = listed([name for name in parties if name != run.name])
    if run.is_party:
        intro = f"This page shows what {run.name} knows about its run with {others}. "
    else:
        intro = f"This page shows what {run.name}, which holds no data, knows about the run of {others}. "
    if run.aggregator in parties:
        intro += f"One of the parties, {run.aggregator}, was also the aggregator."
    elif run.is_party:
        intro += (
            f"The role {run.aggregator}, which holds no data, added numbers that the parties had hidden with random "
            "masks (it was the aggregator). No party sent its columns to anyone."
        )
    return tag(
        "header",
        tag("p", tag("span", "kcagc", class_="brand"), " report", class_="kicker"),
        tag("h1", title_of(run)),
        tag("p", intro, class_="intro"),
        tag("p", _start(run), class_="hint"),
        class_="masthead",
    )


def _start(run: RunFolder) -> str | None:
    try:
        start = datetime.fromisoformat(str(run.summary["started"]))
    except (KeyError, ValueError):
        return None
    return f"Started on {start.day} {start:%B %Y, %H:%M:%S} UTC"


def overview_section(run: RunFolder) -> Html:
    """Return the key figures."""
    summary, figures = run.summary, []
    if run.sweep:
        figures += sweep_figures(run.sweep)
    if run.psi_search:
        tried = listed([str(psi) for psi in run.psi_search.values])
        figures.append(("ψ", str(run.psi_search.psi), f"averaging steps, chosen among {tried}"))
    measures, own = run.quality.get("measures", {}), run.clusters.get("quality", {})
    if "ari" in measures:
        figures.append(("ARI", decimal(measures["ari"]), "agreement with known classes: 0 is chance, 1 is full"))
    if "accuracy" in measures and matched(run.quality["counts"]) is not None:
        figures.append(("Accuracy", percent(measures["accuracy"]), "nodes whose cluster matches their known class"))
    elif "modularity" in own and "ari" not in measures:
        figures.append(("Modularity", decimal(own["modularity"]), "edges inside clusters: 0 is chance, 1 the maximum"))
    spread = run.clusters.get("confidence")
    if spread is not None:
        figures.append(("Confidence", decimal(spread["median"]), f"median, with the columns of {run.name} alone"))
    if "rounds" in summary:
        figures.append(("Rounds", count(summary["rounds"]), "secure sums: the aggregator adds hidden numbers"))
    if "bytes_sent" in summary:
        messages = count(summary.get("messages_sent", 0), "message")
        figures.append(("Sent", size(summary["bytes_sent"]), f"by {run.name}, in {messages}"))
    if "seconds" in summary:
        figures.append(("Duration", seconds(summary["seconds"]), "from the first message to the results"))
    return section("overview", "At a glance", None, tiles(figures))


def _footer(run: RunFolder) -> str:
    version = dict(run.summary.get("packages", {})).get("kcagc", "")
    content = (
        f"This page contains data of {run.name}. Do not pass it on to other participants; give them the ledger instead."
        if run.is_party
        else "This page contains only what a coordinator may see: no data, no labels, no ids."
    )
    return (
        f"kcagc {version} made this page from the files in its folder. {content} The page loads nothing from a network."
    )
