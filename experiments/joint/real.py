"""Real graphs with known classes that come from Debian packages or from scikit-learn.

Their tables are not part of the project: they are read from the machine where the study runs, if they are there.
`apt-get install wordnet-base` brings WordNet, and `apt-get update` the descriptions of all packages.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn import datasets as bundled
from sklearn.neighbors import kneighbors_graph

from kcagc._types import Sparse
from kcagc.datasets import Dataset
from kcagc.errors import DataError

WORDNET = Path("/usr/share/wordnet")
_LEAST_NODES, _MOST_SHARE = 5, 0.1  # of the nodes of a word: rarer and more frequent ones are left out
_LANGUAGES = (
    "perl",
    "python",
    "haskell",
    "ruby",
    "javascript",
    "golang",
    "rust",
    "java",
    "php",
    "ocaml",
    "gnu-r",
    "lisp",
)
_SECTIONS = (*_LANGUAGES, "fonts", "games", "science", "sound", "kde", "gnome")
_RELATIONS = ("Depends", "Recommends", "Suggests")


@dataclass(frozen=True)
class Real:
    """A graph that is read from this machine."""

    words: str
    read: Callable[[str], Dataset]
    available: Callable[[], bool] = lambda: True
    text: bool = True  # whether its columns are words
    parties: bool = False

    def build(self, name: str) -> Dataset:
        """Read the graph."""
        if not self.available():
            raise DataError(f"{name}: its source is not on this machine; see experiments/joint/real.py")
        return self.read(name)


def wordnet(name: str) -> Dataset:
    """Read the nouns or the verbs of WordNet: meanings, their relations, and the words that define them."""
    kind = name.removeprefix("wordnet-").removesuffix("s")
    places, texts, classes, relations = {}, [], [], []
    for line in (WORDNET / f"data.{kind}").read_text(encoding="latin-1").splitlines():
        if line.startswith(" "):  # the licence
            continue
        head, definition = line.split(" | ", 1)
        fields = head.split()
        begin = 4 + 2 * int(fields[3], 16)  # after the words of the meaning
        pointers = [fields[begin + 1 + 4 * number :][:3] for number in range(int(fields[begin]))]
        relations += [(len(texts), target) for _, target, part in pointers if part == kind[0]]
        places[fields[0]] = len(texts)
        texts.append(definition.partition('; "')[0])
        classes.append(fields[1])
    edges = [(source, places[target]) for source, target in relations if target in places]
    return _connected(name, texts, edges, classes)


def packages(name: str) -> Dataset:
    """Read the packages of some sections of Debian: their relations, and the words of description and tags."""
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    found = {}
    for paragraph in listed.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*(?:\n .*)*)", paragraph, flags=re.MULTILINE))
        if fields.get("Section", "").rpartition("/")[2] in _SECTIONS:
            found[fields["Package"]] = fields
    places = {package: number for number, package in enumerate(found)}
    edges = [
        (places[package], places[other])
        for package, fields in found.items()
        for relation in _RELATIONS
        for other in re.findall(r"[a-z0-9][a-z0-9+.-]+", fields.get(relation, ""))
        if other in places
    ]
    texts = [f"{fields.get('Description', '')} {fields.get('Tag', '')}" for fields in found.values()]
    return _connected(name, texts, edges, [fields["Section"].rpartition("/")[2] for fields in found.values()])


def neighbours(load: Callable[[], object]) -> Callable[[str], Dataset]:
    """Return a reader that links each row with the five nearest by the even columns, and keeps the odd columns."""

    def read(name: str) -> Dataset:
        table: Any = load()
        values, labels = np.asarray(table.data, dtype=float), np.asarray(table.target)
        values = (values - values.mean(axis=0)) / np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
        links = sparse.csr_array(kneighbors_graph(values[:, ::2], 5))
        adjacency = sparse.csr_array(((links + links.T) > 0).astype(float))
        own = values[:, 1::2]
        return Dataset(name, adjacency, own, labels, len(set(labels.tolist())), (own.shape[1],), {"source": "bundled"})

    return read


def _connected(name: str, texts: Sequence[str], edges: Iterable[tuple[int, int]], classes: Sequence[str]) -> Dataset:
    """Return the largest connected part of a graph whose nodes have texts."""
    ends = np.array([pair for pair in edges if pair[0] != pair[1]])
    half = sparse.csr_array((np.ones(len(ends)), tuple(ends.T)), shape=(len(texts),) * 2)
    adjacency = sparse.csr_array(((half + half.T) > 0).astype(float))
    _, part = connected_components(adjacency)
    kept = np.flatnonzero(part == np.bincount(part).argmax())
    labels = np.unique(np.array(classes)[kept], return_inverse=True)[1]
    table = _occurrences([texts[number] for number in kept])
    return Dataset(
        name,
        sparse.csr_array(adjacency[kept][:, kept]),
        table,
        labels,
        int(labels.max()) + 1,
        (table.shape[1],),
        {"source": "Debian packages"},
    )


def _occurrences(texts: Sequence[str]) -> Sparse:
    """Return which words occur in which text."""
    words = [set(re.findall(r"[a-z]{3,}", text.lower())) for text in texts]
    count = Counter(word for some in words for word in some)
    most = _MOST_SHARE * len(texts)
    column = {
        word: place for place, word in enumerate(sorted(w for w, n in count.items() if _LEAST_NODES <= n <= most))
    }
    ends = [(row, column[word]) for row, some in enumerate(words) for word in sorted(some) if word in column]
    return sparse.csr_array((np.ones(len(ends)), tuple(np.array(ends).T)), shape=(len(texts), len(column)))


def _has_wordnet() -> bool:
    return (WORDNET / "data.noun").exists()


def _has_packages() -> bool:
    if which("apt-cache") is None:
        return False
    shown = subprocess.run(["apt-cache", "show", "r-base-core", "ghc"], capture_output=True, text=True, check=False)
    return shown.returncode == 0


# The rule for ψ was changed with the first two in view.
REAL: dict[str, Real] = {
    "wordnet-verbs": Real("verbs of WordNet, 13,528 meanings", wordnet, _has_wordnet),
    "packages": Real("packages of 18 sections of Debian", packages, _has_packages),
    "wordnet-nouns": Real("nouns of WordNet, 82,115 meanings", wordnet, _has_wordnet),
    "digits": Real(
        "handwritten digits, neighbours by half of the columns", neighbours(bundled.load_digits), text=False
    ),
    "wine": Real("wines, neighbours by half of the columns", neighbours(bundled.load_wine), text=False),
    "cancer": Real("tumours, neighbours by half of the columns", neighbours(bundled.load_breast_cancer), text=False),
}
