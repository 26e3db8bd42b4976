import numpy as np
import pytest
from scipy import sparse

from experiments.paper.split_graph import split_edges
from kcagc.datasets import load

DEMO = load("demo").adjacency


@pytest.mark.parametrize("share", [0.5, 0.7, 1.0])
def test_together_they_have_all_edges_and_each_its_share(share):
    first, second = split_edges(DEMO, share, seed=0)
    total = DEMO.nnz
    assert ((first + second) != 0).nnz == total
    for one in (first, second):
        assert one.nnz == pytest.approx(share * total, abs=2)
        assert (one != one.T).nnz == 0
        assert ((one != 0) > (DEMO != 0)).nnz == 0


def test_at_one_half_they_have_none_in_common():
    first, second = split_edges(DEMO, 0.5, seed=1)
    assert first.multiply(second).nnz == 0


def test_with_all_edges_both_have_the_graph_itself():
    first, second = split_edges(DEMO, 1.0, seed=2)
    for one in (first, second):
        np.testing.assert_array_equal(one.toarray(), DEMO.toarray())


def test_self_loops_and_weights_are_kept():
    graph = sparse.csr_array(np.array([[2.0, 3.0, 0.0], [3.0, 0.0, 5.0], [0.0, 5.0, 0.0]]))
    first, _ = split_edges(graph, 1.0, seed=0)
    np.testing.assert_array_equal(first.toarray(), graph.toarray())
