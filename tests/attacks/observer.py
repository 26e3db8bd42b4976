"""The network observer: TLS hides the content, so it has who sends to whom, how many bytes, and when.

It is assumed to know the settings of the run (method, k, number of restarts and of local clusters), but no key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attacks.coordinator_values import number_of_cells
from attacks.results import Figure
from attacks.transcripts import Case, Recording, record_prediction, recorded
from kcagc.protocol.messages import Masked, bits_for, decode
from kcagc.simulation import COORDINATOR

TITLE = "The network observer"
SENTENCES = {
    "lengths": (
        "A network observer sees which machines communicate, when, and how much: this reveals the number of nodes and "
        "roughly the number of comparisons of each sum."
    ),
    "times": "The times of messages can say a little more about the number of comparisons than their lengths do.",
}
_HEADER = 64  # bytes around a vector: names, numbers and check words


@dataclass(frozen=True)
class Seen:
    """One message as an observer sees it."""

    sender: str
    receiver: str
    length: int
    at: float


def seen(run: Recording) -> list[Seen]:
    """Return what an observer of all links sees."""
    return [Seen(one.sender, one.receiver, len(one.payload), one.at) for one in run.events]


def cases(short: bool) -> list[dict[str, Any]]:
    """Return the runs to attack."""
    runs = [("demo", 3, "cells"), ("demo", 3, "prediction")]
    if not short:
        runs += [("demo", 3, "basic"), ("cora", 2, "cells"), ("cora", 3, "cells"), ("wiki", 2, "cells")]
        runs += [("cora", 4, "tree"), ("cora", 2, "basic")]
    return [{"data": data, "parties": parties, "method": method} for data, parties, method in runs]


def attack(case: dict[str, Any]) -> list[Figure]:
    """Estimate counts from lengths and times."""
    common = ("network observer", case["method"], f"{case['data']}, {case['parties']} parties")
    if case["method"] == "prediction":
        return _attack_prediction(common, recorded(Case(case["data"], case["parties"])))
    run = recorded(Case(case["data"], case["parties"], case["method"]))
    messages, parameters = seen(run), run.case.parameters()
    n_nodes = len(next(iter(run.results.values())).labels)
    found = []
    if parameters.method != "basic":
        claim = number_of_nodes(messages, case["parties"], parameters.n_local_clusters)
        found.append(
            Figure(
                *common, "number of nodes", "length of the encrypted labels", "relative error",
                abs(claim / n_nodes - 1), 1.0, None, 1, "lengths",
            )
        )  # fmt: skip
    (_, joint), *_ = run.inside.joint.items()
    n_restarts = parameters.n_init if joint.starts is None else len(joint.starts)
    rows = number_of_cells(first_vector(messages, parameters.method), joint.k, n_restarts)
    found.append(
        Figure(
            *common, "number of cells or nodes that are clustered", "length of the first vector", "relative error",
            abs(rows / len(joint.sizes) - 1), 1.0, None, 1, "lengths",
        )
    )  # fmt: skip
    rounds = number_of_sums(messages, parameters.method)
    true = len({(message.group, message.number) for _, message in run.coordinator().messages(Masked)})
    found.append(
        Figure(
            *common, "number of sums", "number of messages", "relative error", abs(rounds / true - 1), 1.0, None, 1,
            "lengths",
        )
    )  # fmt: skip
    return [*found, _timing(common, run)]


def number_of_nodes(messages: list[Seen], n_parties: int, n_local: int) -> float:
    """Return the number of nodes: a party's third message carries its labels, once for each other party."""
    sent: dict[str, list[int]] = {}
    for one in messages:
        if one.receiver == COORDINATOR:
            sent.setdefault(one.sender, []).append(one.length)
    lengths = [of_party[2] / (n_parties - 1) for of_party in sent.values()]
    around = 130  # bytes of names, transcript and authentication
    return max((float(np.mean(lengths)) - around) * 8 / bits_for(n_local), 1.0)


def first_vector(messages: list[Seen], method: str) -> int:
    """Return the length of the first vector, after hello, confirmation and labels; its padding tells the last bytes."""
    sender = messages[0].sender
    lengths = [one.length for one in messages if one.sender == sender]
    words = (lengths[2 if method in ("basic", "prediction") else 3] - _HEADER) // 8
    unit = 1 << max(words.bit_length() - 3, 0)
    return round(words / unit) * unit


def number_of_sums(messages: list[Seen], method: str) -> int:
    """Return how many vectors one party sent: all messages but hello, confirmation, labels, the end and the receipt."""
    sender = messages[0].sender
    return sum(1 for one in messages if one.sender == sender) - (4 if method == "basic" else 5)


def _timing(common: tuple[str, str, str], run: Recording) -> Figure:
    """Compare the time before each vector with the number of comparisons that the padding hides."""
    seconds, padded, hidden = [], [], []
    for before, event in zip(run.events, run.events[1:], strict=False):
        message = decode(event.payload, event.sender)
        if isinstance(message, Masked):
            blinded = run.inside.blinded[message.group, message.number]
            assert blinded.about is not None
            seconds.append(max(event.at - before.at, 1e-6))
            padded.append(len(message.words) / 8)
            hidden.append(len(blinded.about))
    time, length = np.log(seconds), np.log(padded)
    design = np.stack([np.ones(len(length)), length, length**2], axis=1)
    left = time - design @ np.linalg.lstsq(design, time, rcond=None)[0]
    share = np.log(np.array(hidden)) - length
    correlation = abs(np.corrcoef(left, share)[0, 1]) if np.ptp(share) else 0.0
    return Figure(
        *common, "number of comparisons within the padding", "time before a vector, all roles in one process",
        "correlation", float(correlation), 1 / np.sqrt(len(left)), None, len(left), "times",
    )  # fmt: skip


def _attack_prediction(common: tuple[str, str, str], fitted: Recording) -> list[Figure]:
    """Tell predictions of one node from predictions of more by their lengths."""
    counts = (1, 2, 5, 20, 100)
    lengths = [first_vector(seen(record_prediction(fitted, np.arange(count))), "prediction") for count in counts]
    k = fitted.case.parameters().n_clusters
    off = [
        abs(number_of_cells(length, k, 1) - k - count) / count for length, count in zip(lengths, counts, strict=True)
    ]
    return [
        Figure(
            *common, f"number of predicted nodes ({', '.join(map(str, counts))})", "length of the first vector",
            "relative error", float(np.median(off)), 1.0, None, len(counts), "lengths",
        )
    ]  # fmt: skip
