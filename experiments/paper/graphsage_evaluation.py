"""How well embeddings tell the classes: a linear classifier on them, as the paper's Table 3 scores GraphSAGE.

The paper's way, after the program it names, fits the classifier to the labels of all nodes and scores it on the same
nodes. That is the figure to put beside the table; it rewards whatever the classifier remembers. The held-out figure,
which scores only nodes whose labels were kept from it, stands beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier


def score(embeddings: ArrayLike, labels: ArrayLike, *, held_out: float | None, seed: int) -> dict[str, float]:
    """Give accuracy and macro F1 in per cent, on all nodes or on a stratified share `held_out` of them.

    `seed` draws that share; without it nothing here is random.
    """
    rows, classes = np.asarray(embeddings, dtype=np.float64), np.asarray(labels)
    fitted = scored = np.arange(len(classes))
    if held_out is not None:
        fitted, scored = train_test_split(fitted, test_size=held_out, stratify=classes, random_state=seed)
    # One classifier against the rest for each class, each with L2 penalty 1 on its intercept too: what this solver
    # was in the program the paper names. The embeddings stay as they are, though their scale then matters.
    classifier = OneVsRestClassifier(LogisticRegression(solver="liblinear", random_state=0))
    found = classifier.fit(rows[fitted], classes[fitted]).predict(rows[scored])
    return {
        "accuracy": 100 * float(accuracy_score(classes[scored], found)),
        "f1": 100 * float(f1_score(classes[scored], found, average="macro", zero_division=0)),
    }
