"""Pictures of results: how many nodes are right, and what each organisation knows about a cluster."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from importlib.resources import files

import numpy as np

from kcagc import KCAGC, metrics
from kcagc.baselines import AGC
from kcagc.data import TablePreprocessor
from kcagc.datasets import load

# The colours of the clusters, in the order in which the style of the report declares them first: for a light page.
COLOURS = tuple(re.findall(r"--c\d+: (#\w{6})", files("kcagc.report").joinpath("style.css").read_text("utf-8"))[:16])
_SAME_SCALE = TablePreprocessor(default={"scale": "standard"})


@cache
def result() -> str:
    """Cluster the demo, and draw its accuracy and a card for each cluster."""
    data = load("demo")
    frames = data.frames()
    model = KCAGC(n_clusters=data.n_classes, transformers=_SAME_SCALE, random_state=0)
    found = model.fit(list(frames.values()), adjacency=data.adjacency).labels_
    shares = {}
    for name, frame in frames.items():
        alone = AGC(data.n_classes, psi="auto", method="joint", random_state=0)
        labels = alone.fit(_SAME_SCALE.fit_transform(frame), adjacency=data.adjacency).labels_
        shares[f"{name} alone"] = metrics.accuracy(data.labels, labels)
    shares["together"] = metrics.accuracy(data.labels, found)
    lead = f"Share of {data.n_nodes} people in the right one of {data.n_classes} groups"
    cards = [card(f"Cluster {one}", COLOURS[one], found == one, frames, "people") for one in range(data.n_classes)]
    return picture(lead, shares, cards)


def picture(lead: str, shares: dict[str, float], cards: list[str]) -> str:
    """Put bars and cards together."""
    bars = "".join(_bar(name, share) for name, share in shares.items())
    return (
        f'<div class="kcagc-result"><p class="kcagc-lead">{escape(lead)}</p><div class="kcagc-bars">{bars}</div>'
        f'<div class="kcagc-cards">{"".join(cards)}</div></div>'
    )


def _bar(name: str, share: float) -> str:
    kind = ' class="kcagc-together"' if name == "together" else ""
    return (
        f'<div{kind}><span>{escape(name)}</span><span class="kcagc-bar"><i style="width:{share:.1%}"></i></span>'
        f"<b>{100 * share:.0f} %</b></div>"
    )


def card(title: str, colour: str, members: np.ndarray, frames: dict, nodes: str) -> str:
    """Draw a cluster: for each organisation, the column in which it differs most from all other nodes."""
    lines = []
    for name, frame in frames.items():
        values = frame.to_numpy()
        inside, outside = np.nanmean(values[members], axis=0), np.nanmean(values[~members], axis=0)
        most = int(np.argmax(np.abs(inside - outside) / np.nanstd(values, axis=0)))
        column, _, unit = frame.columns[most].partition(" (")
        arrow = "▲" if inside[most] > outside[most] else "▼"
        word = "more" if inside[most] > outside[most] else "less"
        digits = 0 if outside[most] >= 20 else 1
        lines.append(
            f'<li><small>{escape(name)}</small><span><abbr title="{word} than the others">{arrow}</abbr> '
            f"{escape(column)}</span><em>{inside[most]:,.{digits}f} {escape(unit.rstrip(')'))}, "
            f"others {outside[most]:,.{digits}f}</em></li>"
        )
    return (
        f'<section style="border-top-color:{colour}"><h4>{escape(title)}</h4>'
        f"<p>{int(members.sum())} {nodes}</p><ul>{''.join(lines)}</ul></section>"
    )
