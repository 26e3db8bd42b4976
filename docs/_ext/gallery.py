"""Pictures of the gallery, from the data that `examples/gallery_data.py` writes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
from result import COLOURS, card, picture

from kcagc import KCAGC, metrics
from kcagc.baselines import AGC
from kcagc.data import TablePreprocessor

_SCRIPT = Path(__file__).parents[2] / "examples" / "gallery_data.py"
_RULE = TablePreprocessor(default={"scale": "standard", "missing": "mean"})
_RED = "#c5352b"
_SIZE = 210


def _read(case: str, parties: tuple[str, ...]) -> tuple[dict[str, pd.DataFrame], np.ndarray, nx.Graph]:
    """Return the tables, the true groups and the links; all in the order of the ids."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, _SCRIPT, case, folder], check=True, capture_output=True)  # noqa: S603
        truth = pd.read_csv(f"{folder}/truth.csv", index_col="id").sort_index()
        links = pd.read_csv(f"{folder}/links.csv")
        frames = {name: pd.read_csv(f"{folder}/{name}.csv", index_col="id").reindex(truth.index) for name in parties}
    graph = nx.Graph()
    if case == "ring":  # roles on the command line sort nodes by id; the page of the hospitals does not
        graph.add_nodes_from(truth.index)
    graph.add_edges_from(links.to_numpy().tolist())
    graph.add_nodes_from(truth.index)
    return frames, truth["group"].to_numpy(), graph


def _clusterings(frames: dict[str, pd.DataFrame], groups: np.ndarray, graph: nx.Graph) -> dict[str, np.ndarray]:
    """Return the clusters of each organisation alone, and of all together, with the same calls as on the pages."""
    k = len(set(groups))
    ids = next(iter(frames.values())).index
    known = [frame.dropna(how="all") for frame in frames.values()]
    model = KCAGC(n_clusters=k, nodes=list(ids), transformers=_RULE, random_state=0).fit(known, adjacency=graph)
    together = pd.Series(model.labels_, index=model.node_ids_)[ids].to_numpy()
    matrix = nx.to_scipy_sparse_array(graph, nodelist=ids)
    found = {}
    for name, frame in frames.items():
        alone = AGC(k, psi=model.psi_, method="joint", random_state=0).fit(_RULE.fit_transform(frame), adjacency=matrix)
        found[f"{name} alone"] = alone.labels_
    return found | {"together": together}


@cache
def fraud_ring() -> str:
    """Draw all firms by one column of each bank, and the cluster that holds the ring: alone, alone, together."""
    frames, groups, graph = _read("ring", ("north", "south"))
    across = frames["north"]["cash deposits (EUR/month)"].to_numpy()
    up = frames["south"]["money forwarded within a day (%)"].to_numpy()
    in_ring = groups == "ring"
    panels = []
    for title, labels in _clusterings(frames, groups, graph).items():
        suspects = labels == np.bincount(labels[in_ring]).argmax()
        panels.append(_panel(title, across, up, suspects, in_ring))
    return f'<div class="kcagc-panels">{"".join(panels)}</div>'


def _panel(title: str, across: np.ndarray, up: np.ndarray, suspects: np.ndarray, in_ring: np.ndarray) -> str:
    x = 24 + (_SIZE - 30) * across / across.max()
    y = _SIZE - 20 - (_SIZE - 26) * up / up.max()
    dots = [
        f'<circle cx="{x[node]:.1f}" cy="{y[node]:.1f}" r="2.6" fill="{_RED if suspects[node] else "#9aa3ab"}"/>'
        for node in np.argsort(suspects, kind="stable")
    ]
    said = f"{suspects.sum()} firms, {(suspects & in_ring).sum()} of the {in_ring.sum()} in the ring"
    return (
        f'<figure><h4>{title}</h4><svg viewBox="0 0 {_SIZE} {_SIZE}" role="img" aria-label="{title}: {said}" '
        f'class="kcagc-drawing"><path d="M22 4V{_SIZE - 18}H{_SIZE - 2}" class="kcagc-axis"/>{"".join(dots)}'
        f'<text x="{_SIZE / 2 + 10}" y="{_SIZE - 4}" text-anchor="middle">cash deposits (north) →</text>'
        f'<text transform="translate(14 {_SIZE / 2 - 8}) rotate(-90)" text-anchor="middle">forwarded in a day (south) →'
        f"</text></svg><figcaption>{said}</figcaption></figure>"
    )


@cache
def hospitals() -> str:
    """Draw what each hospital knows about the clusters of patients."""
    frames, groups, graph = _read("hospitals", ("heart-centre", "kidney-centre", "diabetes-clinic"))
    found = _clusterings(frames, groups, graph)
    labels = found["together"]
    shares = {name: metrics.accuracy(groups, one) for name, one in found.items()}
    cards = [card(f"Cluster {one}", COLOURS[one], labels == one, frames, "patients") for one in range(labels.max() + 1)]
    return picture(f"Share of {len(labels)} patients in the right one of {labels.max() + 1} groups", shares, cards)
