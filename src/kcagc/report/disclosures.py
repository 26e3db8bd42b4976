"""The disclosure ledger in plain words: who received what, how often, and what the receiver learns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kcagc.report.folder import LedgerLine, RunFolder
from kcagc.report.markup import Html, Part, section, tag
from kcagc.text import count, listed, size

# Families of messages: title and style class.
FAMILIES = {
    "setup": ("Setup and end", "f0"),
    "encrypted": ("Encrypted messages", "f1"),
    "vectors": ("Vectors for secure sums", "f2"),
    "answers": ("Answers to secure sums", "f3"),
}
_WHOLE_TABLE = "inside/labels.whole"


class DisclosureKind(NamedTuple):
    """How the report shows one kind of disclosure."""

    title: str
    about_data: bool = False
    family: str = "setup"
    route: str = ""  # instead of sender → receiver


_OPENED = {
    "distances": "Opened sums: distances to cluster centres",
    "seeding": "Opened sums: distances to initial centres",
    "inertia": "Opened sums: cost of each restart",
}
KINDS = {
    "link/opening": DisclosureKind("Connection opened"),
    "link/welcome": DisclosureKind("Connection accepted"),
    "message/hello": DisclosureKind("Hello: parameters and public keys"),
    "message/hellos": DisclosureKind("Hellos of all participants"),
    "message/encrypted": DisclosureKind("Encrypted messages, sent to the relay", family="encrypted"),
    "message/relayed": DisclosureKind("Encrypted messages, forwarded", family="encrypted"),
    "message/masked": DisclosureKind("Masked vectors", family="vectors"),
    "message/plain": DisclosureKind("Vectors without a mask", True, "vectors"),
    "message/answer": DisclosureKind("Answers to secure sums", True, "answers"),
    "message/choice": DisclosureKind("Chosen initial centres", True, "answers"),
    "message/finished": DisclosureKind("End of the secure sums of a group"),
    "message/abort": DisclosureKind("Abort of the run"),
    "inside/confirmation": DisclosureKind("Comparison of ids and graph"),
    "inside/confirmation.starts": DisclosureKind("Comparison of ids and graph, with proposed initial centres", True),
    "inside/labels": DisclosureKind("Local labels", True),
    _WHOLE_TABLE: DisclosureKind("Local labels that reveal a whole table", True),
    "inside/labels.merged": DisclosureKind("Labels of a lower merge", True),
    "inside/receipt": DisclosureKind("Receipts"),
    "output/labels": DisclosureKind("Result", True, route="written by"),
    "output/prediction": DisclosureKind("Result", True, route="written by"),
    **{
        f"opened/{summed}.{knows}": DisclosureKind(title, True, route="opened to")
        for summed, title in _OPENED.items()
        for knows in ("shuffled", "labelled", "two-party")
    },
}


@dataclass
class DisclosureGroup:
    """All entries of one kind from one sender."""

    kind: str
    sender: str
    learns: str
    paper: str
    weaker: bool
    receivers: dict[str, None] = field(default_factory=dict)
    times: int = 0
    bytes: int = 0

    @property
    def shown(self) -> DisclosureKind:
        """How to show the group; an unknown kind may concern data."""
        return KINDS.get(self.kind, DisclosureKind(self.kind, about_data=True))


def disclosure_groups(ledger: list[LedgerLine]) -> list[DisclosureGroup]:
    """Join entries of the same kind and sender, in the order of their first entries."""
    found: dict[tuple[str, str, str], DisclosureGroup] = {}
    for one in ledger:
        key = (one.kind, one.sender, one.learns)
        group = found.setdefault(key, DisclosureGroup(one.kind, one.sender, one.learns, one.paper, one.weaker))
        group.receivers[one.receiver] = None
        group.times += 1
        group.bytes += one.bytes
    return list(found.values())


def disclosures_section(run: RunFolder) -> Html | None:
    """Show first the disclosures about data, then all others."""
    groups = disclosure_groups(run.ledger)
    if not groups:
        return None
    weaker = [one for one in groups if one.weaker]
    beyond = "No disclosure reveals more than the default settings do."
    if weaker:
        beyond = f"{count(len(weaker), 'disclosure')} marked below reveal more than the default settings do."
        if any(one.kind != _WHOLE_TABLE for one in weaker):
            beyond += " kcagc runs with such settings only if the operator of each party has accepted them by name."
    intro = (
        f"The disclosure ledger of {run.name} has {len(run.ledger):,} entries: every message that {run.name} sent and "
        f"every secure sum that was opened. {beyond}"
    )
    parts: list[Part] = []
    for title, about_data, layout in (
        ("Disclosures about data", True, "ledger"),
        ("Messages that reveal nothing about the columns of any party", False, "ledger two"),
    ):
        chosen = [one for one in groups if one.shown.about_data is about_data]
        if chosen:
            parts += [tag("h3", title), tag("ul", [_item(one) for one in chosen], class_=layout)]
    return section("disclosures", "What was disclosed", intro, *parts)


def _item(one: DisclosureGroup) -> Html:
    receivers, route = listed(list(one.receivers)), one.shown.route
    way = f"{route} {receivers}" if route else f"{one.sender} → {receivers}"
    facts = count(one.times, "time") + (f", {size(one.bytes)}" if one.bytes else "")
    return tag(
        "li",
        tag(
            "div",
            tag("strong", one.shown.title),
            tag("span", "more than the default", class_="flag") if one.weaker else None,
            class_="what",
        ),
        tag("div", tag("span", way), tag("span", facts, class_="num"), class_="hint way"),
        tag("p", f"The receiver learns: {one.learns.rstrip('.')}."),
        tag("p", f"In the paper: {one.paper}.", class_="hint") if one.paper else None,
        class_="card weaker" if one.weaker else "card",
    )
