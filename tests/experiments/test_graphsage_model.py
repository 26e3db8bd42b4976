"""GraphSAGE learns from a graph, repeatably; only where PyTorch and PyTorch Geometric are installed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from kcagc.datasets import Dataset, generate

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from experiments.paper import graphsage_model as model  # noqa: E402 - needs what is asked for above


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Words and edges that depend on the classes; few edges: some nodes have none, all have distant nodes."""
    return generate(400, 8, degree=2.5, homophily=1.0, features=200, sparsity=0.9, signal=20.0, seed=0)


def test_the_loss_falls(data: Dataset) -> None:
    epochs: list[tuple[int, float]] = []

    model.train_embeddings(data.adjacency, data.features, seed=0, progress=lambda *epoch: epochs.append(epoch))

    assert [epoch for epoch, _ in epochs] == [0, 1, 2, 3, 4]
    assert epochs[-1][1] < epochs[0][1] - 0.1  # of the 0.38 there are between indifferent and perfect


def test_training_brings_linked_nodes_together(data: Dataset) -> None:
    def closeness(epochs: int) -> float:
        rows = model.train_embeddings(data.adjacency, data.features, seed=0, epochs=epochs).astype(float)
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        one, other = data.adjacency.nonzero()
        return (rows[one] * rows[other]).sum(axis=1).mean() - (rows @ rows.T).mean()

    assert closeness(5) > 2 * closeness(0)


def test_the_same_seed_gives_the_same_embeddings(data: Dataset) -> None:
    first, again, other = (
        model.train_embeddings(data.adjacency, data.features, seed=seed, epochs=1) for seed in (0, 0, 1)
    )

    np.testing.assert_array_equal(first, again)
    assert first.shape == (400, 128)
    assert not np.allclose(first, other)


def test_dense_features_count_as_sparse_ones_do(data: Dataset) -> None:
    dense = model.train_embeddings(data.adjacency, data.features.toarray(), seed=0, epochs=1)

    np.testing.assert_array_equal(dense, model.train_embeddings(data.adjacency, data.features, seed=0, epochs=1))


def test_a_layer_is_the_formula(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "NEIGHBOURS", 400)  # all of them, so that nothing is left to chance
    sage = model.GraphSAGE(200, 8, 2, torch.Generator().manual_seed(0))
    graph = model.sampling.without_loops(data.adjacency)
    nodes = np.array([7, 3, 250])

    with torch.no_grad():
        found = sage(graph, data.features.astype(np.float32), nodes, np.random.default_rng(0)).numpy()

    mean = graph.toarray() / np.maximum(graph.sum(axis=1), 1)[:, None]
    hidden = data.features.toarray()
    for layer in sage.convolutions:
        own, others = layer.lin_r.weight.detach().numpy(), layer.lin_l.weight.detach().numpy()
        hidden = np.maximum(hidden @ own.T + mean @ hidden @ others.T, 0)
    np.testing.assert_allclose(found, hidden[nodes], rtol=1e-4, atol=1e-6)


def test_the_loss_takes_the_worst_near_and_the_best_far_node() -> None:
    angle = torch.tensor([0.0, 0.1, 0.9, 0.4, 1.2])
    embedded = torch.stack([angle.cos(), angle.sin()], dim=1)
    target, near, far = torch.tensor([0, 0]), torch.tensor([[1, 2], [1, -1]]), torch.tensor([[3, 4], [4, -1]])

    loss = model.margin_loss(embedded, target, near, far)

    def similarity(between: float) -> float:
        return -math.log1p(math.exp(-math.cos(between)))

    first = similarity(0.4) - similarity(0.9) + 3
    second = similarity(1.2) - similarity(0.1) + 3
    assert loss.item() == pytest.approx((first + second) / 2, rel=1e-5)


def test_a_target_with_nobody_to_compare_does_not_count() -> None:
    embedded = torch.eye(4, requires_grad=True)
    near, far = torch.tensor([[1], [-1], [1]]), torch.tensor([[3], [3], [-1]])

    loss = model.margin_loss(embedded, torch.tensor([0, 2, 2]), near, far)
    loss.backward()

    assert loss.item() == pytest.approx(3)
    assert torch.isfinite(embedded.grad).all()
    assert (embedded.grad[2] == 0).all()


def test_a_graph_without_far_nodes_is_refused() -> None:
    everybody_linked = sparse.csr_array(np.ones((30, 30)))

    with pytest.raises(ValueError, match="more than 5 hops"):
        model.train_embeddings(everybody_linked, np.eye(30), seed=0, epochs=1)
