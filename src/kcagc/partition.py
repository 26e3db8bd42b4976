"""A partition of rows as a matrix, so that sums over clusters are one sparse product."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from kcagc._types import FloatArray, Labels, Sparse


def membership(labels: Labels, n_clusters: int, weights: FloatArray | None = None) -> Sparse:
    """Give the n × k matrix whose row i holds the weight of row i (1 if none is given) in the column of its cluster.

    Its transpose times a table adds up the rows of each cluster in row order, whatever the number of threads.
    """
    n = len(labels)
    return sparse.csr_array(
        (np.ones(n) if weights is None else weights, labels, np.arange(n + 1)), shape=(n, n_clusters)
    )
