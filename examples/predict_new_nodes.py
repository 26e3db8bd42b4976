"""Predict new nodes: cluster nine tenths of the graph, then predict the clusters of the rest.

python examples/predict_new_nodes.py
"""

from __future__ import annotations

import numpy as np

from kcagc import KCAGC, metrics
from kcagc.datasets import load


def main() -> None:
    """Fit without the new nodes, append them, and predict."""
    data = load("demo")
    order = np.random.RandomState(0).permutation(data.n_nodes)
    n_new = data.n_nodes // 10
    known, new = order[n_new:], order[:n_new]

    model = KCAGC(n_clusters=5, psi=2, random_state=0)
    model.fit([table[known] for table in data.parties()], adjacency=data.adjacency[known][:, known])
    print(f"fit      {len(known)} nodes  accuracy {metrics.accuracy(data.labels[known], model.labels_):.1%}")

    # Later: every party appends the rows of the new nodes, and all append their edges.
    both = np.concatenate([known, new])
    found = model.predict([table[both] for table in data.parties()], adjacency=data.adjacency[both][:, both])
    stands_for = metrics.matching(data.labels[known], model.labels_)
    right = metrics.matched_accuracy(stands_for, data.labels[new], found)
    print(f"predict   {len(new)} nodes  accuracy {right:.1%}  {model.prediction_sums_} values summed, k for each node")
    print("a session of its own, with new keys; the labels of the fit stay as they are")


if __name__ == "__main__":
    main()
