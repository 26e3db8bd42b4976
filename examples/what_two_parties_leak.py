"""Why two parties need a coordinator: with the sum, one subtraction reveals the distances of the other party.

    python examples/what_two_parties_leak.py

In the paper the last party is the aggregator. With two parties its Protocol 4 adds no mask (its loops exclude the last
party), and masks would not help: a party that knows the sum and its own term knows the other term.
"""

from __future__ import annotations

import textwrap

import numpy as np

from kcagc import KCAGC, Graph
from kcagc.cluster import cluster_locally
from kcagc.datasets import load
from kcagc.errors import PolicyError
from kcagc.graph import HalfFilter

K = 5


def main() -> None:
    """Recover the bank's centre distances as the telecom could, then show how kcagc prevents this."""
    data = load("demo")
    bank, telecom, _ = data.parties()
    graph = Graph.from_matrix(data.adjacency)

    # What both do in Protocol 3: cluster alone, exchange cluster numbers, put cells at the centres of local clusters.
    mine, theirs = (cluster_locally(graph, table, K, filter=HalfFilter(2), random_state=0) for table in (telecom, bank))
    mine_at, theirs_at = mine.clusters.centers, theirs.clusters.centers
    cells = np.unique(np.stack([theirs.labels, mine.labels], axis=1), axis=0)
    starts = cells[:: max(1, len(cells) // K)][:K]

    def distances(centers: np.ndarray, column: int) -> np.ndarray:
        away = centers[cells[:, column]][:, None] - centers[starts[:, column]][None]
        return (away**2).sum(axis=2)

    # The telecom receives the sum of both and subtracts its own term.
    total = distances(theirs_at, 0) + distances(mine_at, 1)
    recovered = total - distances(mine_at, 1)
    between = {
        (int(cell[0]), int(start[0])): recovered[row, column]
        for row, cell in enumerate(cells)
        for column, start in enumerate(starts)
    }
    true = {pair: float(((theirs_at[pair[0]] - theirs_at[pair[1]]) ** 2).sum()) for pair in between}
    worst = max(abs(between[pair] - true[pair]) for pair in between)
    print("The paper's protocol, two parties: the telecom computes distances between the bank's local centres")
    for pair in sorted(pair for pair in between if pair[0] < pair[1])[:3]:
        print(f"  centres {pair[0]} and {pair[1]}: recovered {between[pair]:.6f}, true {true[pair]:.6f}")
    print(f"  {len(between)} distances, largest error {worst:.0e}\n")

    print("What kcagc does")
    try:
        KCAGC(n_clusters=K, psi=2, aggregator="party").fit([bank, telecom], adjacency=data.adjacency)
    except PolicyError as error:
        print(textwrap.fill(f"refused: {error}", 110, initial_indent="  ", subsequent_indent="  "), end="\n\n")

    model = KCAGC(n_clusters=K, psi=2, random_state=0).fit([bank, telecom], adjacency=data.adjacency)
    print("The default: a coordinator without data compares sums that secret factors hide, in a secret order")
    for line in model.ledger_.summary():
        if line.kind.startswith("opened/"):
            print(f"  {line.kind} × {line.count}, to the {', '.join(line.receivers)}")
    weaker = [line.kind for line in model.ledger_.summary() if line.weaker]
    print(f"  disclosures that are weaker than the default: {weaker or 'none'}")


if __name__ == "__main__":
    main()
