"""The disclosure ledger in plain words: who received what, how often, and what the receiver learns."""

from __future__ import annotations

from kcagc.disclosure import DisclosureSummary, summarise
from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, section, tag
from kcagc.text import count, listed, size

# Families of messages: title and style class.
FAMILIES = {
    "setup": ("Setup and end", "f0"),
    "encrypted": ("Encrypted messages", "f1"),
    "vectors": ("Vectors for secure sums", "f2"),
    "answers": ("Answers of the aggregator", "f3"),
}
FAMILY_OF_KIND = {
    "message/encrypted": "encrypted",
    "message/relayed": "encrypted",
    "message/masked": "vectors",
    "message/plain": "vectors",
    "message/padded": "vectors",
    "message/answer": "answers",
    "message/split": "answers",
    "message/clusters": "answers",
}


def disclosures_section(run: RunFolder) -> Html | None:
    """Show first the disclosures about data, then all others."""
    groups = summarise(run.ledger, by_receiver=False)
    if not groups:
        return None
    weaker = [one for one in groups if one.weaker]
    beyond = "The ledger contains nothing beyond what a run with the default settings discloses."
    if weaker:
        beyond = (
            f"The disclosures marked below ({len(weaker)}) reveal more than the default settings do. kcagc makes them "
            "only if the operator of the party that sends them has accepted them by name."
        )
    intro = (
        f"The disclosure ledger of {run.name} has {len(run.ledger):,} entries: every message that {run.name} sent and "
        f"every sum that became readable to the aggregator (was opened). {beyond}"
    )
    if sessions := run.summary.get("sessions"):
        with_data, with_parties = sessions.get("with_these_data"), sessions.get("with_these_parties")
        intro += f" Sessions with these data: {with_data} ({with_parties} with the same parties)."
    if any(one.paper for one in groups):
        intro += " The paper is Attributed Graph Clustering in Collaborative Settings (arXiv 2411.12329)."
    parts: list[Part] = []
    for title, about_data, layout in (
        ("Disclosures about data", True, "ledger"),
        ("Messages that reveal nothing about the columns of any party", False, "ledger two"),
    ):
        chosen = [one for one in groups if one.about_data is about_data]
        if chosen:
            parts += [tag("h3", title), tag("ul", [_item(one) for one in chosen], class_=layout)]
    return section("disclosures", "What was disclosed", intro, *parts)


def _item(one: DisclosureSummary) -> Html:
    receivers = listed(list(one.receivers))
    routes = {"opened": f"opened to {receivers}", "output": f"written by {receivers}"}
    way = routes.get(one.kind.partition("/")[0], f"{listed(list(one.senders))} → {receivers}")
    facts = count(one.count, "time") + (f", {size(one.bytes)}" if one.bytes else "")
    return tag(
        "li",
        tag(
            "div",
            tag("strong", one.title),
            tag("span", "more than the default", class_="flag") if one.weaker else None,
            class_="what",
        ),
        tag("div", tag("span", way), tag("span", facts, class_="num"), class_="hint way"),
        tag("p", one.learns),
        tag("p", f"In the paper: {one.paper}.", class_="hint") if one.paper else None,
        class_="card weaker" if one.weaker else "card",
    )
