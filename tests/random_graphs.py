"""Hypothesis strategies for small graphs and features."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy import sparse


@st.composite
def adjacencies(draw: st.DrawFn, max_nodes: int = 24) -> sparse.csr_array:
    """Symmetric weighted graphs: any density, self loops and isolated nodes included."""
    n = draw(st.integers(1, max_nodes))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.0, 0.1, 0.3, 1.0]))
    weights = random.uniform(0.1, 3.0, (n, n)) * (random.random((n, n)) < density)
    return sparse.csr_array(np.triu(weights) + np.triu(weights, 1).T)


@st.composite
def attributed(draw: st.DrawFn, max_nodes: int = 24) -> tuple[sparse.csr_array, np.ndarray]:
    """A graph and dense features for it."""
    adjacency = draw(adjacencies(max_nodes))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return adjacency, random.standard_normal((adjacency.shape[0], draw(st.integers(1, 7))))
