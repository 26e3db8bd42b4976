"""Unsupervised GraphSAGE as the paper's Table 3 trains it; needs PyTorch and PyTorch Geometric.

    hᵢ' = ReLU(W₁ hᵢ + W₂ mean of hⱼ over up to ten neighbours j of i)          twice, to 128 dimensions
    loss of i = max(0, max over far j of s(i, j) - min over near j of s(i, j) + 3),  s = log sigmoid cosine

Near are the nodes that four walks of four steps reach, far are six nodes more than five hops away. The paper gives no
settings and names a public implementation instead (zhao-tong/GNNs-easy-to-use); everything above, and what follows, is
that program's default, so that nothing had to be tuned:

- raw features; no bias; Glorot's uniform weights for W₁ and W₂ side by side; ReLU after the last layer too;
- plain gradient descent, gradients cut to norm 5; a batch is 20 nodes and whatever they are compared with;
- an epoch ends early once every node was in some batch, be it for comparison;
- neighbours are drawn again for each batch, and for the final embeddings.

After a ReLU no cosine is negative, so that s lies between -0.70 and -0.31 and the loss close to 3: the margin is never
met, and no node is ever good enough to be left alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from experiments.paper import graphsage_sampling as sampling
from kcagc._types import AnyFloatArray, Features, IntArray, Sparse

NEIGHBOURS = 10
FAR_HOPS = 5
MARGIN = 3.0
LARGEST_GRADIENT = 5.0


class GraphSAGE(nn.Module):
    """Mean-aggregator layers that compute the requested nodes, and in lower layers only the nodes they need."""

    def __init__(self, width: int, dims: int, layers: int, generator: torch.Generator) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            SAGEConv(width if layer == 0 else dims, dims, aggr="mean", bias=False) for layer in range(layers)
        )
        for convolution in self.convolutions:
            for weight in convolution.parameters():
                # The two matrices stand side by side, so that both have the bound of one twice as wide.
                bound = (6 / (dims + 2 * weight.shape[1])) ** 0.5
                nn.init.uniform_(weight, -bound, bound, generator=generator)

    def forward(self, graph: Sparse, features: Sparse, nodes: IntArray, rng: np.random.Generator) -> Tensor:
        """Return the embeddings of `nodes`, which are all different."""
        hops = []
        for _ in self.convolutions:
            owner, neighbour = sampling.neighbours(graph, nodes, at_most=NEIGHBOURS, rng=rng)
            # SAGEConv needs the nodes themselves first, then the other aggregated nodes.
            needed = np.concatenate([nodes, np.setdiff1d(neighbour, nodes)])
            position = np.empty(graph.shape[0], dtype=np.int64)
            position[needed] = np.arange(len(needed))
            hops.append((len(nodes), torch.from_numpy(np.stack([position[neighbour], owner]))))
            nodes = needed
        hidden = torch.from_numpy(features[nodes].toarray())
        for convolution, (n_nodes, edges) in zip(self.convolutions, reversed(hops), strict=True):
            hidden = convolution((hidden, hidden[:n_nodes]), edges).relu()
        return hidden


def margin_loss(embedded: Tensor, target: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Compare each target's least similar near node with its most similar far one; a target without either is skipped.

    `target`, and a row for each in `near` and `far`, number the rows of `embedded`; -1 means no node.
    """
    counted = (near >= 0).any(dim=1) & (far >= 0).any(dim=1)
    target, near, far = target[counted], near[counted], far[counted]
    worst_near = _similarity(embedded, target, near).masked_fill(near < 0, torch.inf).amin(dim=1)
    best_far = _similarity(embedded, target, far).masked_fill(far < 0, -torch.inf).amax(dim=1)
    return nn.functional.relu(best_far - worst_near + MARGIN).mean()


def _similarity(embedded: Tensor, target: Tensor, others: Tensor) -> Tensor:
    cosine = nn.functional.cosine_similarity(embedded[target][:, None], embedded[others.clamp(min=0)], dim=2)
    return nn.functional.logsigmoid(cosine)


def train_embeddings(
    adjacency: Sparse,
    features: Features,
    *,
    seed: int,
    dims: int = 128,
    layers: int = 2,
    epochs: int = 5,
    batch: int = 20,
    lr: float = 0.7,
    walks: int = 4,
    steps: int = 4,
    negatives: int = 6,
    progress: Callable[[int, float], None] | None = None,
) -> AnyFloatArray:
    """Train on the graph and return an embedding of every node; `progress` gets each epoch and its mean loss."""
    graph = sampling.without_loops(adjacency)
    table = sparse.csr_array(features).astype(np.float32)
    rng = np.random.default_rng(seed)
    model = GraphSAGE(table.shape[1], dims, layers, torch.Generator().manual_seed(seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    reach = sampling.within_reach(graph, FAR_HOPS)
    all_nodes = np.arange(graph.shape[0])
    for epoch in range(epochs):
        order, seen, losses = rng.permutation(all_nodes), np.zeros(len(all_nodes), dtype=bool), []
        for start in range(0, len(order), batch):
            if seen.all():
                break
            target = order[start : start + batch, None]
            walked = sampling.walk(graph, target[:, 0], walks=walks, steps=steps, rng=rng)
            near = np.where(walked == target, -1, walked)  # a walk that returned to its start has no pair
            far = sampling.far_away(reach, target[:, 0], count=negatives, rng=rng)
            compared = np.hstack([target, near, far])
            nodes = np.unique(compared[compared >= 0])
            seen[nodes] = True
            if not ((near >= 0).any(axis=1) & (far >= 0).any(axis=1)).any():
                continue
            rows = torch.from_numpy(np.where(compared < 0, -1, np.searchsorted(nodes, compared)))
            loss = margin_loss(
                model(graph, table, nodes, rng), rows[:, 0], *rows[:, 1:].split([walks * steps, negatives], dim=1)
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
            optimizer.step()
            losses.append(loss.item())
        if not losses:
            raise ValueError(f"no node has both a neighbour and a node more than {FAR_HOPS} hops away to learn from")
        if progress is not None:
            progress(epoch, float(np.mean(losses)))
    with torch.no_grad():
        return model(graph, table, all_nodes, rng).numpy()
