"""Who sent how much, and when: a strip for each receiver, from the moments in the ledger."""

from __future__ import annotations

import math

from kcagc.report.drawing import Names, picture
from kcagc.report.folder import RunFolder, Sent
from kcagc.report.markup import Html, Part, figure, table, tag
from kcagc.text import count, seconds, size

_BINS, _HIGH, _LEAST = 240, 40.0, 3.0  # moments along, and the heights of the highest and the lowest mark
FAMILIES = {
    "greetings": ("Greetings and endings", "f0"),
    "boxes": ("Sealed boxes", "f1"),
    "vectors": ("Masked vectors", "f2"),
    "answers": ("Answers to sums", "f3"),
}
_FAMILY = {
    "encrypted": "boxes",
    "relayed": "boxes",
    "masked": "vectors",
    "plain": "vectors",
    "answer": "answers",
    "choice": "answers",
}


def traffic_section(run: RunFolder, names: Names) -> Html | None:
    """Show the messages of this role along the time of the run."""
    sent = [one for one in run.ledger if one.kind.startswith("message/")]
    if not sent:
        return None
    total, lasts = sum(one.bytes for one in sent), max(one.at for one in sent)
    lede = (
        f"{run.name} sent {count(len(sent))} messages, {size(total)} in all, within {seconds(lasts)}. A ledger holds "
        "what left its own role; what others sent is in theirs."
    )
    return tag(
        "section",
        tag("h2", "Who sent how much, and when"),
        tag("p", lede, class_="lede"),
        _figure(sent, lasts, names),
        id="traffic",
    )


def family_of(kind: str) -> str:
    """Say what sort of message a kind is."""
    return _FAMILY.get(kind.removeprefix("message/"), "greetings")


def _figure(sent: list[Sent], lasts: float, names: Names) -> Html:
    heaps: dict[tuple[str, str], dict[int, dict[str, int]]] = {}
    span = lasts or 1.0
    for one in sent:
        at = min(int(one.at / span * _BINS), _BINS - 1)
        heap = heaps.setdefault((one.sender, one.receiver), {}).setdefault(at, dict.fromkeys(FAMILIES, 0))
        heap[family_of(one.kind)] += one.bytes
    heaviest = max(sum(heap.values()) for lane in heaps.values() for heap in lane.values()) or 1
    strips = [_strip(names, *who, lane, heaviest, seconds(lasts)) for who, lane in heaps.items()]
    ticks = tag("div", [tag("span", seconds(span * step / 4)) for step in range(5)], class_="ticks", aria_hidden="true")
    used = [family for family in FAMILIES if any(family_of(one.kind) == family for one in sent)]
    legend = tag("ul", [tag("li", _key(*FAMILIES[family])) for family in used], class_="legend")
    told = "Each mark is what left at one moment; the higher, the more bytes, on a square-root scale."
    return figure(tag("div", strips, ticks), [legend, told], _numbers(sent), class_="card")


def _strip(
    names: Names, sender: str, receiver: str, lane: dict[int, dict[str, int]], heaviest: int, lasts: str
) -> Html:
    parts: list[Part] = [tag("line", x1=0.0, x2=float(_BINS), y1=_HIGH, y2=_HIGH, class_="grid")]
    for at, heap in sorted(lane.items()):
        total, low = sum(heap.values()), _HIGH
        # Square roots, so that a greeting can be seen beside a vector a thousand times as long.
        height = max(_LEAST, math.sqrt(total / heaviest) * _HIGH)
        for family, (_, colour) in FAMILIES.items():
            part = height * heap[family] / total if total else 0.0
            if part:
                low -= part
                parts.append(tag("rect", x=float(at), y=low, width=1.2, height=part, class_=f"{colour} filled"))
    whole = sum(sum(heap.values()) for heap in lane.values())
    way, told = f"{sender} → {receiver}", f"{size(whole)} within {lasts}."
    drawn = picture(names, _BINS, _HIGH, f"Messages from {sender} to {receiver}", told, parts, stretched=True)
    return tag("div", tag("p", tag("strong", way), tag("span", size(whole), class_="hint"), class_="lane"), drawn)


def _key(words: str, colour: str) -> Html:
    return tag("span", tag("span", class_=f"dot {colour}", aria_hidden="true"), words, class_="chip")


def _numbers(sent: list[Sent]) -> Html:
    groups: dict[tuple[str, str, str], list[Sent]] = {}
    for one in sent:
        groups.setdefault((one.sender, one.receiver, family_of(one.kind)), []).append(one)
    rows: list[list[Part]] = [
        [
            f"{sender} → {receiver}",
            FAMILIES[family][0],
            count(len(found)),
            size(sum(one.bytes for one in found)),
            f"{seconds(found[0].at)} to {seconds(found[-1].at)}",
        ]
        for (sender, receiver, family), found in groups.items()
    ]
    return table(
        "Messages by receiver and sort", ["From and to", "Sort", "Messages", "Bytes", "When"], rows, numeric=(2, 3)
    )
