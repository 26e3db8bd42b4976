"""The ledger in plain words: what left or opened, how often, and what whoever received it learns."""

from __future__ import annotations

from dataclasses import dataclass, field

from kcagc.report.folder import RunFolder, Sent
from kcagc.report.markup import Html, Part, tag
from kcagc.text import count, size

_TITLES = {
    "link/opening": "Connecting",
    "link/welcome": "Letting in",
    "message/hello": "Greeting",
    "message/hellos": "All greetings",
    "message/encrypted": "Sealed boxes, given to the relay",
    "message/relayed": "Sealed boxes, passed on",
    "message/masked": "Masked vectors",
    "message/plain": "Vectors without a mask",
    "message/answer": "Answers to sums",
    "message/choice": "Choices",
    "message/finished": "Word that a group is done",
    "message/abort": "Word that the run ends",
    "inside/confirmation": "Comparison of ids and graph",
    "inside/confirmation.starts": "Comparison, with proposed starts",
    "inside/labels": "Local cluster numbers",
    "inside/labels.whole": "Local cluster numbers that tell a whole table",
    "inside/labels.merged": "Cluster numbers of a lower merge",
    "inside/receipt": "Receipts",
    "output/labels": "The result",
    "output/prediction": "The result",
}
_ABOUT_DATA = (
    "opened/",
    "inside/labels",
    "inside/confirmation.starts",
    "message/answer",
    "message/choice",
    "output/",
)
_SUMS = {
    "distances": "sums of distances",
    "seeding": "sums for drawing starts",
    "inertia": "what each start costs",
}


@dataclass
class Disclosure:
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
    def about_data(self) -> bool:
        """Whether it tells something about data."""
        return self.weaker or self.kind.startswith(_ABOUT_DATA)

    @property
    def title(self) -> str:
        """What to call it."""
        if self.kind.startswith("opened/"):
            return "Opened: " + _SUMS.get(self.kind.removeprefix("opened/").partition(".")[0], "sums")
        return _TITLES.get(self.kind, self.kind)


def disclosures_of(ledger: list[Sent]) -> list[Disclosure]:
    """Put together entries of the same kind and sender, in the order they first came."""
    found: dict[tuple[str, str, str], Disclosure] = {}
    for one in ledger:
        key = (one.kind, one.sender, one.learns)
        kept = found.setdefault(key, Disclosure(one.kind, one.sender, one.learns, one.paper, one.weaker))
        kept.receivers[one.receiver] = None
        kept.times += 1
        kept.bytes += one.bytes
    return list(found.values())


def ledger_section(run: RunFolder) -> Html | None:
    """Tell first what says something about data, then the rest."""
    found = disclosures_of(run.ledger)
    if not found:
        return None
    about, other = ([one for one in found if one.about_data is wanted] for wanted in (True, False))
    weaker = [one for one in found if one.weaker]
    verdict = (
        f"{len(weaker)} kinds of disclosure open more than the default mode does; they are marked, and whoever runs "
        f"{run.name} has accepted them by name."
        if weaker
        else "Nothing opened more than the default mode does."
    )
    lede = (
        f"Everything that left {run.name} or opened to it is in the ledger, {count(len(run.ledger))} entries. {verdict}"
    )
    parts: list[Part] = [tag("h2", "What was disclosed, in plain words"), tag("p", lede, class_="lede")]
    if about:
        parts += [
            tag("h3", "What tells something about data"),
            tag("ul", [_item(one) for one in about], class_="ledger"),
        ]
    if other:
        parts += [
            tag("h3", "What tells nothing about anybody's columns"),
            tag("ul", [_item(one) for one in other], class_="ledger two"),
        ]
    return tag("section", parts, id="ledger")


def _item(one: Disclosure) -> Html:
    receivers = ", ".join(one.receivers)
    if one.kind.startswith("output/"):
        way = f"put out at {receivers}"
    elif one.kind.startswith("opened/"):
        way = f"opened to {receivers}"
    else:
        way = f"{one.sender} → {receivers}"
    facts = f"{count(one.times)} time{'s' if one.times != 1 else ''}" + (f", {size(one.bytes)}" if one.bytes else "")
    flag = tag("span", "more than the default", class_="flag") if one.weaker else None
    paper = tag("p", f"In the paper: {one.paper}.", class_="hint") if one.paper else None
    told = one.learns[:1].upper() + one.learns[1:]
    return tag(
        "li",
        tag("div", tag("strong", one.title), flag, class_="what"),
        tag("div", tag("span", way), tag("span", facts, class_="num"), class_="hint way"),
        tag("p", f"{told}."),
        paper,
        class_="card weaker" if one.weaker else "card",
    )
