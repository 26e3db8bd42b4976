"""The page for a data protection officer: what a run with a given configuration discloses, in plain words.

The page follows from the participants and the parameters alone, so a party can read it before it reads or sends any
data. Its sentences are in `page.toml`, the figures that the attack suite measured in `figures.json`.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
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
        Anchor of the attack on the page of attacks.
    """

    name: str
    text: str
    attack: str


def _read_figures() -> dict[str, Figure]:
    rows = json.loads(Path(__file__).with_name("figures.json").read_text(encoding="utf-8"))
    return {row["name"]: Figure(**row) for row in rows}


FIGURES = _read_figures()


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

    def as_markdown(self, attacks: str = "") -> str:
        """Return the page in Markdown; `attacks` is the address of the page of attacks, to which figures then link."""
        parts = [f"# {self.title}", _wrapped(self.intro)]
        for section in self.sections:
            parts.append(f"## {section.heading}")
            parts.append("\n".join(_wrapped(_sentence(item, attacks), "- ") for item in section.items))
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
    return _Writer(outline, reader, tuple(accepted)).page()


class _Writer:
    """Chooses the statements that a configuration needs, and fills in names and numbers."""

    def __init__(self, outline: RunOutline, reader: str, accepted: tuple[str, ...]) -> None:
        self.outline, self.reader, self.accepted = outline, reader, accepted
        self.is_party = reader in outline.parties
        self.others = tuple(party for party in outline.parties if party != reader)
        groups = " ".join(f"{_names(group)} are one group." for group in outline.groups)
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
            "groups": groups,
        }

    def page(self) -> DisclosurePage:
        """Return the page."""
        sections = {
            "run": self._run(),
            "parties": self._learned_by_parties(),
            "aggregator": self._learned_by_aggregator(),
            "hidden": self._hidden(),
            "collusion": self._collusion(),
            "cheating": self._cheating(),
            "disk": self._disk(),
            "accepted": self._accepted(),
            "decide": self._decide(),
        }
        head, texts = _TEXTS["heading"], _TEXTS["page"]
        return DisclosurePage(
            self._filled(texts["title"]),
            self._filled(texts["party" if self.is_party else "coordinator"]),
            tuple(PageSection(self._filled(head[name]), tuple(items)) for name, items in sections.items()),
        )

    def _run(self) -> Iterator[PageItem]:
        yield self._item("run.parties")
        yield self._item(f"run.{self.outline.graph}")
        yield self._item("run.coordinator" if self.outline.has_coordinator else "run.aggregator")
        yield self._item(f"run.{self.outline.task}")

    def _learned_by_parties(self) -> Iterator[PageItem]:
        outline = self.outline
        mutual = {"route": "each party from every other party"}
        yield self._item("learns.same_data" if outline.graph == "shared" else "learns.same_ids", **mutual)
        if outline.task == "predict":
            yield self._item("learns.order_of_centres")
            yield self._item("learns.predicted")
            return
        if outline.method == "basic":
            yield self._item("learns.starts", **mutual)
        else:
            least = self._filled(_TEXTS["learns"]["least_size"]) if outline.min_local_size > 1 else ""
            yield self._item("learns.labels", route=self._label_route(), least_size=least)
            if outline.groups:
                yield self._item("learns.merged")
        yield self._item("learns.assignments")
        yield self._item("learns.order")
        yield self._item("learns.cost_of_two" if len(outline.parties) == 2 else "learns.cost")
        yield self._item("learns.clusters")

    def _label_route(self) -> str:
        """Return which parties receive local labels, and from which."""
        receivers = self.outline.label_receivers
        if not self.is_party:
            parts = [f"{_names(to)} from {_plain(sender)}" for sender, to in receivers.items()]
            return "each party from every other party" if not self.outline.groups else "; ".join(parts)
        to = receivers.get(self.reader, ())
        senders = [party for party in self.others if self.reader in receivers.get(party, ())]
        back = f"; {_plain(self.reader)} from {_names(senders)}" if senders else ""
        return f"{_names(to)} from {_plain(self.reader)}{back}"

    def _learned_by_aggregator(self) -> Iterator[PageItem]:
        nodes = "exact_nodes" if self.outline.label_receivers else "rough_nodes"
        yield self._item("aggregator.contacts", nodes=self._filled(_TEXTS["aggregator"][nodes]))
        if self.outline.has_coordinator:
            yield self._item("aggregator.blinded")
        else:
            yield self._item("aggregator.two" if len(self.outline.parties) == 2 else "aggregator.labelled")

    def _hidden(self) -> Iterator[PageItem]:
        yield self._item("hidden.tables")
        if self.outline.has_coordinator:
            yield self._item("hidden.coordinator")
        yield self._item("hidden.distances" if self.outline.task == "fit" else "hidden.predicted_distances")
        yield self._item("hidden.network")

    def _collusion(self) -> Iterator[PageItem]:
        n_parties, coordinator = len(self.outline.parties), self.outline.has_coordinator
        if n_parties == 2:
            yield self._item("collusion.coordinator_of_two" if coordinator else "collusion.only_two")
            return
        yield self._item("collusion.coordinator" if coordinator else "collusion.aggregator")
        among = "two_of_three" if n_parties == 3 else "parties"
        yield self._item(f"collusion.{among if self.outline.task == 'fit' else 'prediction'}")

    def _cheating(self) -> Iterator[PageItem]:
        yield self._item("cheating.coordinator" if self.outline.has_coordinator else "cheating.aggregator")
        yield self._item("cheating.party")

    def _disk(self) -> Iterator[PageItem]:
        what = ("party" if self.outline.task == "fit" else "prediction") if self.is_party else "coordinator"
        yield self._item(f"disk.{what}")
        yield self._item("disk.journal")
        yield self._item("disk.others")

    def _accepted(self) -> Iterator[PageItem]:
        if not self.is_party:
            yield self._item("accepted.coordinator")
            return
        for name in dict.fromkeys((*self.outline.needs, *self.accepted)):
            state = "unneeded" if name not in self.outline.needs else "needed" if name in self.accepted else "refused"
            yield self._item(f"accepted.{state}", name=name, discloses=self._filled(_TEXTS["risk"][name]))
        if not self.outline.needs and not self.accepted:
            yield self._item("accepted.none_needed")
        if self.outline.task == "fit" and self.outline.method != "basic":
            yield self._item("accepted.data")

    def _decide(self) -> Iterator[PageItem]:
        if self.is_party and self.outline.task == "fit":
            yield self._item("decide.starts" if self.outline.method == "basic" else "decide.labels")
        yield self._item("decide.clusters")
        if self.outline.has_coordinator:
            yield self._item("decide.independent")
        yield self._item("decide.again")
        yield self._item("decide.noise")

    def _item(self, key: str, *, route: str = "", **values: str) -> PageItem:
        group, _, name = key.partition(".")
        found = _TEXTS[group][name]
        figures = tuple(FIGURES[one] for one in found.get("figures", ()) if one in FIGURES)
        text, source = self._filled(found["text"], **values), self._filled(found.get("source", ""), route=route)
        return PageItem(text, found.get("title", ""), source, found.get("when", ""), figures)

    def _filled(self, text: str, **values: object) -> str:
        return text.format(**{**self.values, **values})


def _plain(name: str) -> str:
    """Return a name so that Markdown shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", name)


def _named(name: str) -> str:
    return f"the {name}" if name == "coordinator" else _plain(name)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith("the ") else text


def _names(names: Iterable[str]) -> str:
    return listed([_plain(name) for name in names])


def _sentence(item: PageItem, attacks: str) -> str:
    """Return an item as one paragraph of Markdown."""
    text = item.text
    if item.title:
        text = f"**{item.title}** ({item.source}; {item.when}). {text}"
    for figure in item.figures:
        where = f" ([attack]({attacks}#{figure.attack}))" if attacks else ""
        text += f" *Measured:* {figure.text}{where}"
    return text


def _wrapped(text: str, bullet: str = "") -> str:
    indent = " " * len(bullet)
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, _WIDTH, initial_indent=bullet, subsequent_indent=indent, **options)  # type: ignore[arg-type]
