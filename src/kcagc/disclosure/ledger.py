"""The disclosure ledger, and the policy of an operator.

The ledger has one record for every message that a role sends and every sum that a role opens. Each role has its own
policy. It is not a parameter of the session, so no role can accept for another. All risks follow from the participants
and the parameters, so a role refuses a run before it sends anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

from kcagc.disclosure.texts import ANONYMOUS_GEOMETRY, PARTIAL_MATCHES, RISKS, TEXTS
from kcagc.errors import KcagcError, ParameterError, PolicyError
from kcagc.text import read_json, size


@dataclass(frozen=True)
class Disclosure:
    """One disclosure.

    Parameters
    ----------
    sender, receiver : str
        Names of the roles. The sender of a sum is the list of its parties.
    kind : str
        Kind of disclosure, for example "message/masked". The part before the slash is "link" (connections), "message",
        "encrypted" (content of a message that only the receiver can decrypt), "opened" (sums) or "output" (results).
    stage : str
        Step of the protocol.
    shape : tuple of int
        Shape of the values, if there are any.
    bytes : int
        Size of the message or content; 0 for sums and results.

    Raises
    ------
    KcagcError
        If the kind has no text.

    Examples
    --------
    >>> Disclosure("bank", "coordinator", "message/hello", "hello", (), 321).learns[:33]
    'The aggregator learns who takes p'
    """

    sender: str
    receiver: str
    kind: str
    stage: str
    shape: tuple[int, ...]
    bytes: int

    def __post_init__(self) -> None:
        if self.kind not in TEXTS:
            raise KcagcError(f"{self.kind}: a kind of disclosure without a text is not allowed; nothing was sent")

    @property
    def learns(self) -> str:
        """What the receiver learns, in full sentences."""
        return TEXTS[self.kind].learns

    @property
    def paper(self) -> str:
        """Place in the paper that names this disclosure; empty if there is none."""
        return TEXTS[self.kind].paper

    @property
    def weaker(self) -> bool:
        """Whether this discloses more than the default settings do."""
        return TEXTS[self.kind].weaker

    def fields(self) -> dict[str, Any]:
        """Return the fields without the texts."""
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Self:
        """Return the disclosure whose `fields` these are."""
        return cls(**{**fields, "shape": tuple(fields["shape"])})

    def as_dict(self) -> dict[str, object]:
        """Return fields and texts, as they stand in ``ledger.jsonl``."""
        return {**self.fields(), "learns": self.learns, "paper": self.paper, "weaker": self.weaker}


@dataclass(frozen=True)
class DisclosureSummary:
    """All disclosures of one kind between some senders and receivers.

    Attributes
    ----------
    kind : str
        Kind of disclosure.
    senders, receivers : tuple of str
        Names of the roles, in the order in which they first appear.
    count, bytes : int
        Number of disclosures, and their size together.
    learns, paper : str
        What the receiver learns, and the place in the paper that names it.
    weaker : bool
        Whether this discloses more than the default settings do.

    Examples
    --------
    >>> ledger = Ledger([Disclosure("bank", "coordinator", "message/hello", "hello", (), 321)])
    >>> [(line.title, line.count, line.about_data) for line in ledger.summary()]
    [('Hello: parameters and public keys', 1, False)]
    """

    kind: str
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    count: int
    bytes: int
    learns: str
    paper: str
    weaker: bool

    @property
    def title(self) -> str:
        """Name of the kind in a few words."""
        return TEXTS[self.kind].title if self.kind in TEXTS else self.kind

    @property
    def about_data(self) -> bool:
        """Whether a receiver learns something about data; True for an unknown kind."""
        return self.kind not in TEXTS or TEXTS[self.kind].about_data


def summarise(
    disclosures: Iterable[Any], *, by_sender: bool = True, by_receiver: bool = True
) -> list[DisclosureSummary]:
    """Summarise disclosures by kind, in the order of the first of each.

    Parameters
    ----------
    disclosures : iterable of Disclosure
        A `Ledger`, several ledgers in a row, or lines of a ledger file.
    by_sender, by_receiver : bool, default True
        Whether each sender and each receiver has a summary of its own.

    Returns
    -------
    list of DisclosureSummary

    Examples
    --------
    >>> hellos = [Disclosure(name, "coordinator", "message/hello", "hello", (), 321) for name in ("bank", "shop")]
    >>> [(line.senders, line.bytes) for line in summarise(hellos, by_sender=False)]
    [(('bank', 'shop'), 642)]
    """
    groups: dict[tuple[str, str, str], list[Any]] = {}
    for one in disclosures:
        key = (one.kind, one.sender if by_sender else "", one.receiver if by_receiver else "")
        groups.setdefault(key, []).append(one)
    found = []
    for (kind, _, _), members in groups.items():
        senders = tuple(dict.fromkeys(one.sender for one in members))
        receivers = tuple(dict.fromkeys(one.receiver for one in members))
        total, first = sum(one.bytes for one in members), members[0]
        texts = (first.learns, first.paper, first.weaker)
        found.append(DisclosureSummary(kind, senders, receivers, len(members), total, *texts))
    return found


class Ledger:
    """Disclosures in the order in which they happened.

    Parameters
    ----------
    entries : iterable of Disclosure, default ()
        Disclosures to begin with.

    Examples
    --------
    >>> ledger = Ledger([Disclosure("bank", "coordinator", "message/hello", "hello", (), 321)])
    >>> ledger.bytes_sent("bank")
    321
    """

    def __init__(self, entries: Iterable[Disclosure] = ()) -> None:
        self.entries = list(entries)

    def record(self, entry: Disclosure) -> None:
        """Add a disclosure."""
        self.entries.append(entry)

    def __iter__(self) -> Iterator[Disclosure]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Ledger({len(self)} disclosures, {self.bytes_sent():,} bytes sent)"

    def _repr_html_(self) -> str:
        """Return a table for a notebook: each disclosure, and what its receiver learned."""
        cell = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
        rows = [
            (
                escape(", ".join(line.senders)),
                escape(", ".join(line.receivers)),
                f"{line.count:,}",
                size(line.bytes),
                f"<details><summary>{escape(line.title)}</summary>{escape(line.learns)}</details>",
            )
            for line in self.summary()
        ]
        lines = [("from", "to", "number", "size", "what, and what the receiver learned"), *rows]
        style = f'style="{cell}"'
        body = "".join(f"<tr>{''.join(f'<td {style}>{one}</td>' for one in line)}</tr>" for line in lines)
        return f"<p>{escape(repr(self))}</p><table>{body}</table>"

    def of(self, prefix: str) -> list[Disclosure]:
        """Return the disclosures whose kind starts with a prefix, for example ``"opened/"``."""
        return [entry for entry in self if entry.kind.startswith(prefix)]

    def bytes_sent(self, sender: str | None = None) -> int:
        """Return the size of all messages of one sender, or of all senders; encrypted content is not counted twice."""
        return sum(entry.bytes for entry in self.of("message/") if sender in (None, entry.sender))

    def summary(self) -> list[DisclosureSummary]:
        """Return one summary for each kind, sender and receiver."""
        return summarise(self)

    def __str__(self) -> str:
        return "\n".join(
            f"{', '.join(line.senders)} -> {', '.join(line.receivers)}  {line.kind} × {line.count}, "
            f"{line.bytes:,} bytes: {line.learns}"
            + (" [more than the default]" if line.weaker else "")
            + (f" (paper: {line.paper})" if line.paper else "")
            for line in self.summary()
        )

    def as_lines(self) -> str:
        """Return JSON lines, one for each disclosure."""
        return "".join(json.dumps(entry.as_dict(), ensure_ascii=False) + "\n" for entry in self)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read JSON lines that `save` or a role wrote."""
        names = Disclosure.__dataclass_fields__
        rows = map(read_json, Path(path).read_text(encoding="utf-8").splitlines())
        return cls(Disclosure.from_fields({name: row[name] for name in names}) for row in rows)

    def save(self, path: Path | str) -> None:
        """Write JSON lines, one for each disclosure."""
        Path(path).write_text(self.as_lines(), encoding="utf-8")


_USE_COORDINATOR = "use a coordinator as aggregator"
_REMEDIES = {
    ANONYMOUS_GEOMETRY: 'set joint_rows = "shares" at all participants',
    PARTIAL_MATCHES: "agree on a list of nodes in another way",
}


class Policy:
    """The risks that one operator accepts.

    Parameters
    ----------
    accept : iterable of str, default ()
        Names of risks, see `RISKS`.

    Raises
    ------
    ParameterError
        If a name is unknown.

    Examples
    --------
    >>> Policy(["labelled-sums"]).check(["labelled-sums"])
    """

    def __init__(self, accept: Iterable[str] = ()) -> None:
        if isinstance(accept, str):
            raise ParameterError(f'accept: must be a list of names, for example ("{accept}",), not a single text')
        names = list(accept)
        if not all(isinstance(name, str) for name in names):
            raise ParameterError(f"accept: must be a list of names, not {names!r}")
        self.accept = frozenset(names)
        unknown = sorted(self.accept - RISKS.keys())
        if unknown:
            raise ParameterError(f"accept: there is no risk {unknown[0]!r}; the names are {', '.join(RISKS)}")

    def check(self, risks: Iterable[str]) -> None:
        """Raise `PolicyError` if the operator has not accepted one of these risks."""
        refused = [RISKS[name] for name in dict.fromkeys(risks) if name not in self.accept]
        if refused:
            listed = " ".join(f'"{risk.name}": {risk.discloses}' for risk in refused)
            names = ", ".join(f'"{risk.name}"' for risk in refused)
            remedies = dict.fromkeys(_REMEDIES.get(risk.name, _USE_COORDINATOR) for risk in refused)
            raise PolicyError(
                f"this run would disclose more than the default settings do. {listed} To run it, accept {names} in "
                f"your policy; otherwise {', and '.join(remedies)}"
            )
