"""The page for a data protection officer: what a run with a given configuration discloses, in plain words.

The page follows from the participants and the parameters alone, so a party can read it before it reads or sends any
data. Its sentences are in `page.toml`, the figures that the attack suite measured in `figures.json`.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kcagc.errors import ParameterError
from kcagc.text import listed

_WIDTH = 124  # characters of a line of Markdown
_TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("page.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Figure:
    """One result of the attack suite, as a sentence.

    Attributes
    ----------
    name : str
        Name by which texts refer to the figure.
    text : str
        What was attacked, how, and the result, in full sentences.
    attack : str
        Address of the attack among the pages of the documentation.
    """

    name: str
    text: str
    attack: str


def read_figures() -> dict[str, Figure]:
    """Read the figures that `make disclosure` has written."""
    rows = json.loads(Path(__file__).with_name("figures.json").read_text(encoding="utf-8"))
    return {row["name"]: Figure(**row) for row in rows}


FIGURES = read_figures()


@dataclass(frozen=True, kw_only=True)
class RunOutline:
    """What decides what a run discloses: its participants, a few of its parameters, and who receives which labels.

    Attributes
    ----------
    parties : tuple of str
        Names of the parties.
    aggregator : str
        Name of the coordinator, or of the last party if that is the aggregator.
    task, method, graph : str
        Parameters of the run.
    n_clusters, n_local_clusters, min_local_size, n_init : int
        Parameters of the run.
    joint_rows : str
        Parameter of the run if its method is "joint"; otherwise empty.
    n_components : int
        Number of components of a party with many columns, if the method is "joint"; otherwise 0.
    orders : tuple of int
        Values of ψ that the parties compare; empty if ψ is set.
    most_clusters : int
        Largest number of clusters, if the run compares all numbers from `n_clusters` on; otherwise 0.
    search_attempts, search_steps : int
        Attempts for each value that is compared, and steps of an attempt; 0 if nothing is compared.
    label_receivers : mapping of str to tuple of str
        For each party that sends local labels, the parties that receive them.
    groups : tuple of tuple of str
        Groups of parties whose clusters other parties receive; empty unless the method is a tree with several merges.
    needs : tuple of str
        Names of the risks that this run has beyond the default.
    """

    parties: tuple[str, ...]
    aggregator: str
    task: str
    method: str
    graph: str
    n_clusters: int
    n_local_clusters: int
    min_local_size: int
    n_init: int
    joint_rows: str = ""
    n_components: int = 0
    orders: tuple[int, ...] = ()
    most_clusters: int = 0
    search_attempts: int = 0
    search_steps: int = 0
    label_receivers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def has_coordinator(self) -> bool:
        """Whether the aggregator is a coordinator, which holds no data."""
        return self.aggregator not in self.parties


@dataclass(frozen=True)
class PageItem:
    """One statement of the page.

    Attributes
    ----------
    text : str
        Full sentences, in Markdown.
    title, source, when : str
        For something that a role learns: its name, which roles learn it from which others, and when; otherwise empty.
    figures : tuple of Figure
        Results of the attack suite for this statement.
    """

    text: str
    title: str = ""
    source: str = ""
    when: str = ""
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class PageSection:
    """A heading, and the statements below it."""

    heading: str
    items: tuple[PageItem, ...]


@dataclass(frozen=True)
class DisclosurePage:
    """What a run discloses, for one reader.

    Attributes
    ----------
    title, intro : str
        Title of the page, and what it is.
    sections : tuple of PageSection
        Its sections, in order.

    Examples
    --------
    >>> outline = RunOutline(parties=("bank", "shop"), aggregator="coordinator", task="fit", method="cells",
    ...     graph="shared", n_clusters=5, n_local_clusters=10, min_local_size=5, n_init=10,
    ...     label_receivers={"bank": ("shop",), "shop": ("bank",)})
    >>> page = describe_run(outline, "bank")
    >>> page.as_markdown().splitlines()[0]
    '# What this run discloses: page for bank'
    """

    title: str
    intro: str
    sections: tuple[PageSection, ...]

    def as_markdown(self, *, links: bool = False) -> str:
        """Return the page in Markdown; with `links`, figures link to the page of attacks in the same folder."""
        parts = [f"# {self.title}", _wrapped(self.intro)]
        for section in self.sections:
            parts.append(f"## {section.heading}")
            parts.append("\n".join(_wrapped(_sentence(item, links=links), "- ") for item in section.items))
        return "\n\n".join(parts) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """Return the page as plain data, for scripts."""
        return asdict(self)


def describe_run(outline: RunOutline, reader: str, accepted: Iterable[str] = ()) -> DisclosurePage:
    """Return the page of one participant.

    Parameters
    ----------
    outline : RunOutline
        The run.
    reader : str
        Name of the participant whose data protection officer reads the page.
    accepted : iterable of str, default ()
        Names of the risks that the operator of the reader accepted.

    Returns
    -------
    DisclosurePage

    Raises
    ------
    ParameterError
        If the reader does not take part.

    Examples
    --------
    >>> outline = RunOutline(parties=("bank", "shop"), aggregator="shop", task="fit", method="basic", graph="shared",
    ...     n_clusters=5, n_local_clusters=0, min_local_size=5, n_init=10, needs=("two-party-sum",))
    >>> "refuses this run" in describe_run(outline, "bank").as_markdown()
    True
    """
    if reader not in (*outline.parties, outline.aggregator):
        raise ParameterError(f"participants: there is no {reader!r}")
    writer = _Writer(outline, reader, tuple(accepted))
    sections = tuple(writer.section(one) for one in _TEXTS["section"])
    return DisclosurePage(writer.fill(_TEXTS["title"]), writer.fill(_TEXTS["intro"]), sections)


class _Writer:
    """Fills in names and numbers, and chooses the items that a configuration needs."""

    def __init__(self, outline: RunOutline, reader: str, accepted: tuple[str, ...]) -> None:
        self.outline, self.reader, self.accepted = outline, reader, accepted
        n_parties, phrases = len(outline.parties), _TEXTS["phrase"]
        self.facts = {
            outline.task,
            outline.graph,
            "" if outline.graph == "shared" else "not-shared",
            "" if outline.graph == "none" else "with-links",
            *self._of_method(),
            "groups" if outline.groups else "",
            "coordinator" if outline.has_coordinator else "party-aggregates",
            "" if "sweep" in self._of_method() else "not-sweep",
            "two" if n_parties == 2 else "not-two",
            "three" if n_parties == 3 else "many" if n_parties > 3 else "",
            "party" if reader in outline.parties else "neutral",
            "" if outline.needs or accepted else "nothing",
        }
        self.values: dict[str, object] = {
            "reader": _named(reader),
            "Reader": _capitalised(_named(reader)),
            "parties": _names(outline.parties),
            "aggregator": _named(outline.aggregator),
            "Aggregator": _capitalised(_named(outline.aggregator)),
            "k": outline.n_clusters,
            "k_local": outline.n_local_clusters,
            "min_size": outline.min_local_size,
            "attempts": outline.n_init,
            "n_starts": outline.n_init * outline.n_clusters,
            "n_components": outline.n_components,
            "most": outline.most_clusters,
            "orders": listed([str(psi) for psi in outline.orders]),
            "n_orders": len(outline.orders),
            "n_numbers": outline.most_clusters - outline.n_clusters + 1,
            "search_attempts": outline.search_attempts,
            "search_steps": outline.search_steps,
            "first": _plain(outline.parties[0]),
            "second": _plain(outline.parties[1]),
            "groups": " ".join(f"{_names(group)} are one group." for group in outline.groups),
            "label_route": self._label_route(),
            "nodes": phrases["exact_nodes" if outline.label_receivers or "joint" in self.facts else "rough_nodes"],
        }
        self.values["least_size"] = self.fill(phrases["least_size"]) if outline.min_local_size > 1 else ""

    def _of_method(self) -> set[str]:
        """Return the facts that follow from the method.

        "comparisons": the aggregator answers questions; "attempts": the parties cluster in several attempts; "final":
        the run has final clusters; "search", "sweep": the parties compare values of ψ, or numbers of clusters.
        """
        outline = self.outline
        if outline.task == "fit":
            search = "search" if outline.orders else ""
            return {"sweep" if outline.most_clusters else "final", search, *self._of_fit()}
        return {"comparisons", "unopened", "joint-prediction" if outline.joint_rows == "shares" else ""}

    def _of_fit(self) -> set[str]:
        """Return the facts that follow from the method of a fit."""
        outline = self.outline
        in_shares = outline.joint_rows == "shares"
        if outline.method != "joint":
            kind = "labels" if outline.label_receivers else "starts"
            return {"local", kind, "comparisons", "attempts", "unopened"}
        return {"joint", "in-shares", "attempts", "unopened"} if in_shares else {"joint", "opened"}

    def section(self, found: dict[str, Any]) -> PageSection:
        """Return one section with the items that the configuration needs."""
        risks = self._risks() if found.get("risks") and "party" in self.facts else ()
        chosen = [one for one in found["item"] if self.facts.issuperset(one.get("if", "").split())]
        return PageSection(self.fill(found["heading"]), (*risks, *map(self._item, chosen)))

    def fill(self, text: str, **values: object) -> str:
        """Fill in the values of this configuration."""
        return text.format(**{**self.values, **values})

    def _item(self, found: dict[str, Any]) -> PageItem:
        text, source = self.fill(found["text"]), self.fill(found.get("source", ""))
        figures = tuple(FIGURES[name] for name in found.get("figures", ()) if name in FIGURES)
        return PageItem(text, found.get("title", ""), source, found.get("when", ""), figures)

    def _risks(self) -> Iterator[PageItem]:
        for name in dict.fromkeys((*self.outline.needs, *self.accepted)):
            state = "unneeded" if name not in self.outline.needs else "needed" if name in self.accepted else "refused"
            discloses = self.fill(_TEXTS["risk"][name])
            yield PageItem(self.fill(_TEXTS["phrase"][state], name=name, discloses=discloses))

    def _label_route(self) -> str:
        """Return which parties receive local labels, and from which."""
        receivers, reader = self.outline.label_receivers, self.reader
        if reader not in receivers:
            parts = [_learn(to, [sender]) for sender, to in receivers.items()]
            return "; ".join(parts) if self.outline.groups else "each party learns this from every other party"
        senders = [party for party in self.outline.parties if reader in receivers.get(party, ())]
        back = f"; {_learn([reader], senders)}" if senders else ""
        return f"{_learn(receivers[reader], [reader])}{back}"


def _learn(receivers: Sequence[str], senders: Sequence[str]) -> str:
    return f"{_names(receivers)} {'learns' if len(receivers) == 1 else 'learn'} this from {_names(senders)}"


def _plain(name: str) -> str:
    """Return a name so that Markdown shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", name)


def _named(name: str) -> str:
    return f"the {name}" if name == "coordinator" else _plain(name)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith("the ") else text


def _names(names: Iterable[str]) -> str:
    return listed([_plain(name) for name in names])


def _sentence(item: PageItem, *, links: bool) -> str:
    """Return an item as one paragraph of Markdown."""
    text = item.text
    if item.title:
        text = f"**{item.title}** ({item.source}, {item.when}). {text}"
    for figure in item.figures:
        where = f" ([attack]({figure.attack}))" if links else ""
        text += f" *Measured:* {figure.text}{where}"
    return text


def _wrapped(text: str, bullet: str = "") -> str:
    indent = " " * len(bullet)
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, _WIDTH, initial_indent=bullet, subsequent_indent=indent, **options)  # type: ignore[arg-type]
