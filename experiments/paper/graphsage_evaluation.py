"""The score of embeddings by a linear classifier, as in Table 3 of the paper for GraphSAGE.

The program that the paper names fits the classifier to the labels of all nodes and scores it on the same nodes. That
figure is comparable with the table, but it rewards memorised labels. The second score uses held-out nodes only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier


def score(embeddings: ArrayLike, labels: ArrayLike, *, held_out: float | None, seed: int) -> dict[str, float]:
    """Return accuracy and macro F1 in per cent, on all nodes or on a stratified share `held_out` of them.

    `seed` draws that share; nothing else is random.
    """
    rows, classes = np.asarray(embeddings, dtype=np.float64), np.asarray(labels)
    fitted = scored = np.arange(len(classes))
    if held_out is not None:
        fitted, scored = train_test_split(fitted, test_size=held_out, stratify=classes, random_state=seed)
    # One classifier against the rest for each class, with L2 penalty 1 also on the intercept, as in the program that
    # the paper names. The embeddings are not scaled, although their scale matters.
    classifier = OneVsRestClassifier(LogisticRegression(solver="liblinear", random_state=0))
    found = classifier.fit(rows[fitted], classes[fitted]).predict(rows[scored])
    return {
        "accuracy": 100 * float(accuracy_score(classes[scored], found)),
        "f1": 100 * float(f1_score(classes[scored], found, average="macro", zero_division=0)),
    }
