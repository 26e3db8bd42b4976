"""Compare accuracy: each party alone, all parties with kcagc, and all features in one table.

python examples/pooled_against_collaborative.py [NODES]
"""

from __future__ import annotations

import sys

from kcagc import AGC, KCAGC, metrics
from kcagc.datasets import generate

PSI = 2  # steps of smoothing along the graph


def main(n_nodes: int) -> None:
    """Cluster the same graph in all three ways, and compare with the true classes."""
    data = generate(n_nodes, 5, degree=6, homophily=0.5, signal=1.6, features=(16, 16, 16), seed=3)
    tables = data.parties()
    print(f"{n_nodes} nodes, 5 classes, 3 parties with 16 columns each\n")
    print(f"{'clustered by':<22}{'accuracy':>10}{'NMI':>8}{'sent':>10}")

    for number, table in enumerate(tables, start=1):
        alone = AGC(n_clusters=5, psi=PSI, random_state=0).fit(table, adjacency=data.adjacency)
        show(f"party {number} alone", data.labels, alone.labels_, "–")

    for method in ("joint", "cells", "basic"):
        model = KCAGC(n_clusters=5, psi=PSI, method=method, random_state=0).fit(tables, adjacency=data.adjacency)
        show(f"together, {method}", data.labels, model.labels_, f"{model.bytes_sent_ / 1e6:.1f} MB")

    pooled = AGC(n_clusters=5, psi=PSI, random_state=0).fit(data.features, adjacency=data.adjacency)
    show("all pooled", data.labels, pooled.labels_, "all of it")


def show(who: str, true, found, sent: str) -> None:
    """Print one row."""
    print(f"{who:<22}{metrics.accuracy(true, found):>10.1%}{metrics.nmi(true, found):>8.2f}{sent:>10}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
