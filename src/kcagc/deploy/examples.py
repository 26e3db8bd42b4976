"""The embedded dataset as the files of organisations that each know some columns of it."""

from __future__ import annotations

from pathlib import Path

from scipy import sparse

from kcagc._types import Features
from kcagc.datasets.dataset import Dataset
from kcagc.files.atomic import write_text


def write_examples(dataset: Dataset, configs: dict[str, Path], parties: list[str]) -> None:
    """Write, beside each party's configuration, its share of the columns, and the edges that all know."""
    names = [f"person-{number:03}" for number in range(dataset.n_nodes)]
    own = dataset.party_columns is not None and len(dataset.party_columns) == len(parties)
    tables = dataset.parties(None if own else len(parties))
    edges = sparse.triu(dataset.adjacency).tocoo()
    pairs = [
        f"{names[one]},{names[other]}\n" for one, other in zip(edges.row.tolist(), edges.col.tolist(), strict=True)
    ]
    for party, table in zip(parties, tables, strict=True):
        data = configs[party].parent / "data"
        write_text(data / "features.csv", "".join(_table(party, names, table)))
        write_text(data / "edges.csv", "".join(("source,target\n", *pairs)))


def _table(party: str, names: list[str], features: Features) -> list[str]:
    dense = features.toarray() if sparse.issparse(features) else features
    head = ",".join(("id", *(f"{party}-{column}" for column in range(dense.shape[1]))))
    rows = [
        f"{name},{','.join(map(repr, row))}\n" for name, row in zip(names, dense.astype(float).tolist(), strict=True)
    ]
    return [f"{head}\n", *rows]
