"""One GraphSAGE training of the paper's Table 3 and its scores, as a line of JSON.

    python experiments/paper/graphsage_worker.py DATASET A|B|A+B SEED

A separate program, because PyTorch is installed in a separate environment.
A and B are the halves of the columns that two parties would hold; the graph is the same for both.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

import numpy as np
import scipy
import sklearn
import torch
import torch_geometric

# Called by its path, this file sees its own folder only, not its package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from experiments.paper.graphsage_evaluation import score
from experiments.paper.graphsage_model import train_embeddings
from kcagc.datasets import Dataset, load, names

HELD_OUT = 0.5


def main() -> None:
    """Train once, score twice, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=names())
    parser.add_argument("features", choices=("A", "B", "A+B"))
    parser.add_argument("seed", type=int)
    asked = parser.parse_args()
    # Sums of floats depend on the number of threads, and so would the figures.
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps(measure(load(asked.dataset), asked.features, asked.seed)) + "\n")


def measure(dataset: Dataset, half: str, seed: int) -> dict[str, object]:
    """Train on one half of the columns or all of them, and return the scores, the loss of each epoch and the time."""
    begin = time.perf_counter()
    features = dataset.features if half == "A+B" else dataset.parties(2)["AB".index(half)]
    losses: list[float] = []
    embeddings = train_embeddings(
        dataset.adjacency, features, seed=seed, progress=lambda _, loss: losses.append(round(loss, 4))
    )
    on_all = score(embeddings, dataset.labels, held_out=None, seed=seed)
    on_held_out = score(embeddings, dataset.labels, held_out=HELD_OUT, seed=seed)
    return {
        "dataset": dataset.name,
        "features": half,
        "seed": seed,
        **{name: round(value, 2) for name, value in on_all.items()},
        **{f"held_out_{name}": round(value, 2) for name, value in on_held_out.items()},
        "loss": losses,
        "seconds": round(time.perf_counter() - begin, 1),
        "versions": {
            "python": platform.python_version(),
            **{module.__name__: module.__version__ for module in (np, scipy, sklearn, torch, torch_geometric)},
        },
    }


if __name__ == "__main__":
    main()
