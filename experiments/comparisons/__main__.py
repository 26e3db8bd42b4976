"""The command line: `python -m experiments.comparisons` measures everything, checks every comparison, prints tables."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from experiments.comparisons import blinded_signs, function_shares, magnitudes, replicated_shares
from experiments.comparisons.links import Links
from experiments.paper.experiment import Config, Result
from experiments.paper.store import RESULTS, Records, provenance
from experiments.paper.tables import NOTHING, table

Numbers = NDArray[np.int64]
METHODS = {"signs": blinded_signs, "function shares": function_shares, "replicated shares": replicated_shares}
COUNTS = (1_000, 10_000, 100_000)
OCTAVES = (4, 25, 30, 90)  # 4 in version 0.5.0, 25 and 30 now, 90 with integers modulo 2^128
_TURNS = 5


def terms_of(
    count: int, parties: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return odd numbers of 32 bits, among them the smallest and the largest, and a random term for each party."""
    size = random.integers(0, 31, count)
    sums = (random.integers(-(2**30), 2**30, count) >> size) * 2 + 1
    sums[:4] = 1, -1, 2**31 - 1, 1 - 2**31
    terms = [random.integers(-(2**31), 2**31, count) for _ in range(parties - 1)]
    return sums, [*terms, sums - np.sum(terms, axis=0)]


def measure(method: str, count: int, parties: int) -> Result:
    """Compare random numbers, and count."""
    random, seconds, wrong = np.random.default_rng(count + parties), [], 0
    for _ in range(_TURNS):
        sums, terms = terms_of(count, parties, random)
        links = Links()
        wrong += int(np.count_nonzero(METHODS[method].compare(terms, links) != (sums > 0)))
        seconds.append(links.seconds)
    return {
        "wrong": wrong,
        "bytes": round(links.sent.total() / count, 3),
        "delays": links.delays,
        "microseconds": {role: round(min(one[role] for one in seconds) / count * 1e6, 3) for role in seconds[0]},
    }


def summary(records: Records) -> str:
    """Return the table of the threat model: two parties, as many comparisons as a large sum has."""

    def leak(octaves: int) -> str:
        found = [result["bits"] for _, result in records.all(octaves=octaves)]
        return f"{max(found):.2f} bit of the size, nothing of the sign"

    def row(words: str, method: str, learns: str) -> list[str]:
        found = records.one(method=method, comparisons=COUNTS[-1], parties=2)
        if found is None:
            raise LookupError(f"{method} was not measured")
        busiest = max(found["microseconds"].values())
        return [words, f"{found['bytes']:.1f}", str(found["delays"]), f"{busiest:.2f}", learns]

    signs = row("signs modulo 2⁶⁴ (used)", "signs", leak(30))
    wider = ["signs modulo 2¹²⁸", f"{2 * 16 + 2 / 8:.1f}", signs[2], NOTHING, leak(90)]
    shares = [
        row("replicated shares", "replicated shares", "nothing"),
        row("function shares", "function shares", "nothing"),
    ]
    header = [
        "a comparison of two parties",
        "bytes",
        "delays of a sum",
        "µs",
        "what the coordinator learns from a value",
    ]
    return table(header, [signs, wider, *shares])


def main() -> None:
    """Measure, store and print."""
    records = Records(RESULTS / "comparisons.json", lambda: provenance("src", "experiments/comparisons"))
    rows = []
    for parties in (2, 4):
        for count in COUNTS:
            for method in METHODS:
                config: Config = {"method": method, "comparisons": count, "parties": parties}
                found = measure(method, count, parties)
                records.add(config, found, 0.0)
                role = max(found["microseconds"], key=found["microseconds"].get)
                spent = f"{found['microseconds'][role]:.2f} ({role})"
                figures = [f"{found['bytes']:.1f}", str(found["delays"]), spent, str(found["wrong"])]
                rows.append([method, str(parties), f"{count:,}", *figures])
    header = ["", "parties", "comparisons", "bytes each", "delays", "busiest role, µs each", "wrong"]
    sys.stdout.write(table(header, rows) + "\n")
    rows = []
    for name, parties in (("cora", 2), ("cora", 3), ("wiki", 2)):
        values = magnitudes.differences(name, parties)
        for octaves in OCTAVES:
            found = magnitudes.leak(values, octaves, np.random.default_rng(octaves))
            records.add({"dataset": name, "parties": parties, "octaves": octaves}, found, 0.0)
            rows.append([name, str(parties), str(octaves), f"{found['bits']:.3f}", f"{found['rank_correlation']:.3f}"])
    sys.stdout.write(
        table(["graph", "parties", "octaves", "bits a comparison, at most", "rank correlation"], rows) + "\n"
    )
    sys.stdout.write(summary(records))


if __name__ == "__main__":
    main()
