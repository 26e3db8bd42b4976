"""The head of the page: what was found, by whom, and the few numbers that say most."""

from __future__ import annotations

from datetime import datetime

from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, tag
from kcagc.text import count, percent, seconds, size


def title_of(run: RunFolder) -> str:
    """Say in a line what the run found."""
    if run.sizes and run.predicts:
        return f"{count(sum(run.sizes))} new nodes placed"
    if run.sizes:
        return f"{count(sum(run.sizes))} nodes in {len([size for size in run.sizes if size])} clusters"
    return "A prediction, as its coordinator saw it" if run.predicts else "A run, as its coordinator saw it"


def header(run: RunFolder) -> Html:
    """Give the title, and who did what with whom."""
    parties = [str(one["name"]) for one in run.summary.get("roles", ()) if one.get("role") == "party"]
    others = [name for name in parties if name != run.name]
    if run.is_party:
        who = f"What {run.name} sees of a run with {_listed(others)}. "
    else:
        who = f"What {run.name}, which holds no data, sees of a run of {_listed(parties)}. "
    if run.aggregator in parties:
        who += f"One of the parties, {run.aggregator}, summed as well."
    elif run.is_party:
        who += f"Masked values were added up by {run.aggregator}; nobody's columns left their owner."
    moment = _moment(run)
    return tag(
        "header",
        tag("p", tag("span", "kcagc", class_="brand"), " report", class_="kicker"),
        tag("h1", title_of(run)),
        tag("p", who, class_="lede"),
        tag("p", moment, class_="hint") if moment else None,
        class_="masthead",
    )


def overview_section(run: RunFolder) -> Html:
    """Give the few numbers that say most."""
    summary = run.summary
    tiles: list[tuple[str, str, str]] = []
    measures = (run.quality or {}).get("measures", {})
    if "accuracy" in measures:
        tiles.append(("Accuracy", percent(measures["accuracy"]), "against known labels, best matching"))
    elif "modularity" in run.clusters.get("quality", {}):
        tiles.append(
            ("Modularity", f"{run.clusters['quality']['modularity']:.2f}", "links inside clusters, beyond chance")
        )
    spread = run.clusters.get("confidence")
    if spread is not None:
        tiles.append(("Median confidence", f"{spread['median']:.2f}", f"as {run.name} alone sees it"))
    if "rounds" in summary:
        tiles.append(("Rounds", count(summary["rounds"]), "masked sums, one after the other"))
    tiles.append(("Sent", size(summary.get("bytes_sent", 0)), f"in {count(summary.get('messages_sent', 0))} messages"))
    tiles.append(("Took", seconds(summary.get("seconds", 0.0)), "from the first message to the results"))
    drawn = [
        tag("div", tag("dt", one), tag("dd", two, class_="value"), tag("dd", three, class_="hint"))
        for one, two, three in tiles
    ]
    return tag("section", tag("h2", "At a glance"), tag("dl", drawn, class_="tiles"), id="overview")


def _listed(names: list[str]) -> str:
    shown: list[Part] = list(names)
    return " and ".join([", ".join(map(str, shown[:-1])), str(shown[-1])]) if len(shown) > 1 else "".join(names)


def _moment(run: RunFolder) -> str:
    try:
        begun = datetime.fromisoformat(str(run.summary["begun"]))
    except (KeyError, ValueError):
        return ""
    return f"Begun {begun.day} {begun:%B %Y, %H:%M:%S} UTC"
