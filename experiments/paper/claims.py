"""The claims in the text of the paper, our figures for them, and an outcome that follows from the figures alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.paper import published
from experiments.paper.configurations import SHOWN, dataset, fit
from experiments.paper.experiment import PUBLIC, Config, Experiment, Options, Result
from experiments.paper.plots import Figures
from experiments.paper.store import Book
from experiments.paper.tables import table
from experiments.paper.utility import compared

_COUNTED = (("cora", 2), ("cora", 3), ("cora", 5), ("pubmed", 2), ("pubmed", 3), ("pubmed", 16))


def cells(options: Options) -> list[Config]:
    """Return the runs whose secure sums are counted: the paper's L and k̂ = k, and the basic method."""
    counted = [(name, number) for name, number in _COUNTED if name in options.pick("cora", "pubmed")]
    counted += [(name, 2) for name in options.pick("cora", "pubmed") if name not in PUBLIC]
    if options.quick:
        counted = [(name, number) for name, number in counted if number == 2][:1]
    return [
        {"dataset": name, "parties": number, "method": method, "configuration": "paper", "local": "k", "seed": 0}
        for name, number in counted
        for method in ("kcagc", "basic")
    ]


def compute(cell: Config) -> Result:
    """Run, and return the number of summed values."""
    data = dataset(cell["dataset"])
    return fit(cell) | {"nodes": data.n_nodes, "clusters": data.n_classes}


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, our figures, and the outcome."""

    words: str
    found: str
    outcome: str


def render(book: Book, figures: Figures) -> str:
    """Return the table of claims, without those whose experiment has not run."""
    claims = [claim for check in CHECKS for claim in check(book)]
    rows = [[claim.words, claim.found, f"**{claim.outcome}**"] for claim in claims]
    return (
        "Each outcome follows from the numbers on this page by a fixed rule: *holds*, *partly* (in more than half of "
        "the cases, or within a factor of two of the figure), *does not hold*.\n\n"
        + table(["claim of the paper", "found here", "outcome"], rows, left=3)
    )


def _share_outcome(share: float) -> str:
    return "holds" if share >= 0.95 else "partly" if share > 0.5 else "does not hold"


def _iterations(book: Book) -> list[Claim]:
    found, parts = [], []
    for one in ("paper", "default"):
        stat = book["utility"].stat("iterations", configuration=one, method="kcagc")
        if stat:
            found.append(stat.mean)
            parts.append(f"`{SHOWN[one]}` {stat.mean:.1f} ± {stat.std:.1f}")
    centralised = book["agc-time"].stat("iterations")
    if centralised:
        parts.append(f"centralised AGC {centralised.mean:.1f} ± {centralised.std:.1f} (best restart)")
    if not found:
        return []
    outcome = "holds" if max(found) <= 5 else "partly" if max(found) <= 8 else "does not hold"
    words = "about 4 iterations to converge, for kCAGC and for the centralised protocol"
    return [Claim(words, f"iterations of the last merge: {'; '.join(parts)}", outcome)]


def _near_gcc(book: Book) -> list[Claim]:
    records, parts, shares = book["utility"], [], []
    gcc = {name: records.stat("accuracy", dataset=name, method="gcc") for name in PUBLIC}
    for one in ("paper", "default"):
        rows = [(name, ours) for name, method, *_, ours, _ in compared(records, one) if method == "kcagc" and gcc[name]]
        if rows:
            near = sum(ours >= gcc[name].mean - 5 for name, ours in rows)  # type: ignore[union-attr]
            shares.append(near / len(rows))
            parts.append(f"`{SHOWN[one]}` in {near} of {len(rows)} cells")
    if not parts:
        return []
    outcome = "holds" if max(shares) > 0.8 else "partly" if max(shares) > 0.5 else "does not hold"
    return [Claim("accuracy within 5 % of GCC in most cases", "; ".join(parts), outcome)]


def _isolated(book: Book) -> list[Claim]:
    records, parts, wins = book["graphsage"], [], []
    for name in ("cora", "pubmed"):
        for part in ("A", "B"):
            stat = records.stat("accuracy", dataset=name, method="graphsage", columns=part)
            held = records.stat("held_out_accuracy", dataset=name, method="graphsage", columns=part)
            ours = [records.stat("accuracy", dataset=name, configuration=one) for one in ("paper", "default")]
            best = max((one.mean for one in ours if one), default=0.0)
            if stat and held and best:
                wins.append(best > stat.mean)
                parts.append(f"{name} {part} {stat.mean:.1f} ({held.mean:.1f} held out) against {best:.1f}")
    if not parts:
        return []
    words = "kCAGC consistently surpasses GraphSAGE trained on isolated data"
    return [Claim(words, "; ".join(parts), _share_outcome(float(np.mean(wins))))]


def _secure_sums(book: Book) -> list[Claim]:
    """Compare with (Q+1)nk for basic: k^L/n for L ≤ 3, L·k³/n beyond."""
    printed = {
        ("cora", 2): "1.8 %",
        ("pubmed", 2): "0.5 %",
        ("cora", 3): "12.4 %",
        ("pubmed", 3): "1.4 %",
        ("cora", 5): "less than 64 %",
        ("pubmed", 16): "less than 5 %",
    }
    claims = []
    for (name, number), words in printed.items():
        wanted = {"dataset": name, "parties": number}
        ours, basic = (book["claims"].one(method=method, **wanted) for method in ("kcagc", "basic"))
        if not (ours and basic):
            continue
        n, k = ours["nodes"], ours["clusters"]
        exact = 100 * (k**number if number <= 3 else number * k**3) / n
        each = [one["secure_sums"] / (one["iterations"] + 1) for one in (ours, basic)]
        claimed = float(words.removeprefix("less than ").removesuffix(" %"))
        holds = exact <= claimed * 1.03 if words.startswith("less") else abs(exact - claimed) <= 0.05 * claimed
        claims.append(
            Claim(
                f"{name.capitalize()}, L = {number}, k̂ = k: {words} of basic's secure sums",
                f"the formula gives {exact:.3g} %; summed here for the winning restart {100 * each[0] / each[1]:.3g} % "
                f"in an iteration, {100 * ours['secure_sums'] / basic['secure_sums']:.3g} % in all "
                "(only non-empty cells exist)",
                "holds" if holds else "does not hold",
            )
        )
    return claims


def _few_cells(book: Book) -> list[Claim]:
    records, parts, checks = book["utility"], [], []
    for name, many in (("cora", "k"), ("citeseer", "k"), ("pubmed", "4k"), ("wiki", "k")):
        stat = records.stat("cells", dataset=name, configuration="paper", method="kcagc", parties=2, local=many)
        if stat:
            nodes, k = published.PUBLISHED["datasets"][name][0], published.PUBLISHED["datasets"][name][3]
            most = (int(many.removesuffix("k") or 1) * k) ** 2
            parts.append(f"{name} k̂ = {many}: at most {most / nodes:.3f} n, found {stat.mean / nodes:.3f} n")
            checks.append(most <= (0.125 if name == "wiki" else 0.1) * nodes)
    if not parts:
        return []
    words = "L = 2: at most n/10 intersections for k̂ ≤ k (Cora, Citeseer), ≤ 4k (Pubmed); 0.12 n for Wiki at k̂ = k"
    return [Claim(words, "; ".join(parts), _share_outcome(float(np.mean(checks))))]


def _time_and_nodes(book: Book) -> list[Claim]:
    parts, most = [], []
    for one in ("paper", "default"):
        found = []
        for config, pubmed in book["lan"].all(dataset="pubmed", configuration=one):
            cora = book["lan"].one(**(config | {"dataset": "cora"}))
            if cora:
                found.append(pubmed["seconds"] / cora["seconds"])
        if found:
            most.append(float(np.median(found)))
            parts.append(f"`{SHOWN[one]}` {np.median(found):.2f} times (from {min(found):.2f} to {max(found):.2f})")
    if not parts:
        return []
    outcome = "holds" if max(most) <= 1.25 else "partly" if max(most) <= 2 else "does not hold"
    words = "training time does not depend on the number of nodes (Pubmed has 7 times as many as Cora)"
    return [Claim(words, f"Pubmed's LAN time is, in the median of all cells, Cora's × {'; '.join(parts)}", outcome)]


def _part_of_the_graph(book: Book) -> list[Claim]:
    records, parts, gaps = book["split-graph"], [], []
    pooled = records.stat("accuracy", dataset="cora", method="agc")
    for one in ("paper", "default"):
        stat = records.stat("accuracy", dataset="cora", method="kcagc", configuration=one, share=70)
        if stat and pooled:
            gaps.append(pooled.mean - stat.mean)
            parts.append(f"`{SHOWN[one]}` {stat.mean:.1f} at 70 %")
    if not parts or not pooled:
        return []
    outcome = "holds" if min(gaps) <= 2 else "partly" if min(gaps) <= 4 else "does not hold"
    words = "with 70 % of the graph at each party kCAGC is similar to the centralised method"
    return [Claim(words, f"{'; '.join(parts)}; AGC on everything {pooled.mean:.1f}", outcome)]


def _number_of_parties(book: Book) -> list[Claim]:
    parts, shares = [], []
    for one in ("paper", "default"):
        ranges = []
        for name in PUBLIC:
            for many in published.LOCAL:
                means = [
                    ours
                    for other, method, local, _, ours, _ in compared(book["utility"], one)
                    if (other, method, local) == (name, "kcagc", many)
                ]
                if len(means) > 1:
                    ranges.append(max(means) - min(means))
        if ranges:
            shares.append(float(np.mean(np.array(ranges) <= 3)))
            parts.append(
                f"`{SHOWN[one]}`: from the best L to the worst {np.median(ranges):.1f} points in the median row, "
                f"{max(ranges):.1f} at most"
            )
    if not parts:
        return []
    words = "the number of participants does not significantly affect the results (at most 3 points in a row)"
    return [Claim(words, "; ".join(parts), _share_outcome(max(shares)))]


def _wan_minutes(book: Book) -> list[Claim]:
    parts, most = [], []
    for one in ("paper", "default"):
        found = [
            result["seconds"]
            for config, result in book["wan"].all(configuration=one)
            if config["local"] in ("k", "2k") and config["dataset"] in PUBLIC
        ]
        if found:
            most.append(max(found))
            parts.append(f"`{SHOWN[one]}` at most {max(found):.1f} s")
    words = "WAN training within 1.5 minutes for k̂ ≤ 2k"
    return [Claim(words, "; ".join(parts), "holds" if max(most) <= 90 else "does not hold")] if parts else []


CHECKS: tuple[Callable[[Book], list[Claim]], ...] = (
    _iterations,
    _near_gcc,
    _isolated,
    _secure_sums,
    _few_cells,
    _time_and_nodes,
    _part_of_the_graph,
    _number_of_parties,
    _wan_minutes,
)

EXPERIMENT = Experiment("claims", "What the text claims", cells, compute, render)
