"""Use a filter of your own: any response p(λ) that is not negative and does not rise on [0, 2].

python examples/chebyshev_filter.py

The filter is stored as the coefficients of a Chebyshev expansion, so that a fitted model can be saved and loaded.
"""

import tempfile
from pathlib import Path

import numpy as np

from kcagc import KCAGC, metrics
from kcagc.datasets import load
from kcagc.graph import ChebyshevFilter, HalfFilter


def main() -> None:
    """Compare a heat kernel exp(-tλ) with the default filter; save the model and predict new nodes with the copy."""
    data = load("demo")
    heat = ChebyshevFilter(lambda eigenvalue: np.exp(-2 * eigenvalue), tolerance=1e-6)
    known = round(0.9 * data.n_nodes)
    graph = data.adjacency[:known, :known]
    print(f"heat kernel: {heat.degree} sparse products, error {heat.error:.0e}")
    for name, chosen in (("(1 - λ/2)^2", HalfFilter(2)), ("exp(-2λ)", heat)):
        model = KCAGC(n_clusters=5, filter=chosen, random_state=0)
        model.fit([table[:known] for table in data.parties()], adjacency=graph)
        print(f"{name:12} accuracy {metrics.accuracy(data.labels[:known], model.labels_):.1%}")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.kcagc")
        copy = KCAGC.load(Path(folder) / "model.kcagc")
    new = copy.predict(data.parties(), adjacency=data.adjacency)
    stands_for = metrics.matching(data.labels[:known], model.labels_)
    score = metrics.matched_accuracy(stands_for, data.labels[known:], new)
    print(f"loaded model: {len(new)} new nodes, accuracy {score:.1%}")


if __name__ == "__main__":
    main()
