"""Points in clear groups, and a graph: what the tests of insights share."""

import numpy as np
from scipy import sparse

from kcagc.graph import Graph


def blobs(n=90, k=3, q=4, seed=0):
    random = np.random.default_rng(seed)
    labels = np.arange(n) % k
    return random.normal(scale=6, size=(k, q))[labels] + random.normal(size=(n, q)), labels


def ring(n):
    there = np.arange(n)
    matrix = sparse.coo_array((np.ones(n), (there, (there + 1) % n)), shape=(n, n)).tocsr()
    return Graph.from_matrix(sparse.csr_array(matrix + matrix.T))
