"""Choose k̂, the number of local clusters of each party: a larger k̂ is more accurate, reveals more and costs more.

python examples/choosing_local_clusters.py
"""

from __future__ import annotations

import warnings

from kcagc import KCAGC, metrics
from kcagc.datasets import load


def main() -> None:
    """Run the same data with k̂ from k to 8k, and without local clusters."""
    data = load("demo")
    tables = data.parties()
    print(f"{'k̂':>6} {'accuracy':>9} {'cells':>6} {'of one node':>12} {'rounds':>7} {'sent':>8}")
    for local in ("k", "2k", "4k", "8k"):
        model = KCAGC(n_clusters=5, n_local_clusters=local, psi=2, random_state=0)
        show(local, model.fit(tables, adjacency=data.adjacency), data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KCAGC(n_clusters=5, method="basic", psi=2, random_state=0)
        show("basic", model.fit(tables, adjacency=data.adjacency), data)
    print(
        "\nThe other parties see the local label of every node: a larger k̂ reveals more. A cell of one\n"
        "node hides nothing by its size. Take the smallest k̂ that is good enough; 2k is the default for three parties."
    )


def show(name: str, model: KCAGC, data) -> None:
    """Print one row."""
    accuracy = metrics.accuracy(data.labels, model.labels_)
    sent = f"{model.bytes_sent_ / 1e6:.1f} MB"
    print(f"{name:>6} {accuracy:>9.1%} {model.cells_:>6} {model.single_node_cells_:>12} {model.rounds_:>7} {sent:>8}")


if __name__ == "__main__":
    main()
