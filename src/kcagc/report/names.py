"""Names that an operator gives to clusters; they are kept beside the results and shown in place of bare numbers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kcagc.data.files import PRIVATE, write_bytes, write_text
from kcagc.errors import DataError, ParameterError
from kcagc.text import amount, printable, quoted, read_json

NAMES = "names.json"
_FORMAT = "kcagc names 1"
_LONGEST = 60


@dataclass(frozen=True)
class ClusterNames:
    """The names of some clusters, by number.

    Examples
    --------
    >>> names = ClusterNames().renamed(2, "Night shift", n_clusters=5)
    >>> names.of(2), names.of(0)
    ('Night shift', '')
    """

    by_cluster: Mapping[int, str] = field(default_factory=dict)

    def of(self, cluster: int) -> str:
        """Return the name of a cluster; "" without one."""
        return self.by_cluster.get(cluster, "")

    def renamed(self, cluster: int, name: str, *, n_clusters: int) -> ClusterNames:
        """Return these names with another one for a cluster; an empty name removes it."""
        if not 0 <= cluster < n_clusters:
            raise ParameterError(
                f"CLUSTER: there is no cluster {cluster}; this run has the clusters 0 to {n_clusters - 1}"
            )
        wanted = " ".join(name.split())
        if printable(wanted) != wanted or len(wanted) > _LONGEST:
            raise ParameterError(
                f"NAME: {quoted(name)} cannot name a cluster; use 1 to {_LONGEST} printable characters, or an empty "
                "text to remove the name"
            )
        kept = {number: text for number, text in self.by_cluster.items() if number != cluster}
        return ClusterNames(dict(sorted((kept | ({cluster: wanted} if wanted else {})).items())))

    def save(self, folder: Path) -> Path:
        """Write the names beside the results, readable by the owner only."""
        path = folder / NAMES
        document = {"format": _FORMAT, "names": {str(number): text for number, text in self.by_cluster.items()}}
        write_text(path, json.dumps(document, ensure_ascii=False, indent=2) + "\n", mode=PRIVATE)
        return path

    @classmethod
    def load(cls, folder: Path, *, n_clusters: int) -> ClusterNames:
        """Read the names in a result folder, which may have none; an operator may have edited them by hand."""
        path = folder / NAMES
        if not path.exists():
            return cls()
        try:
            found = read_json(path.read_text(encoding="utf-8"))
            if found["format"] != _FORMAT:
                raise ValueError(f"its format is not {_FORMAT!r}")
            given = {int(number): text for number, text in found["names"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path}: is not a file of cluster names ({error}). Correct it, or delete it to lose the names"
            ) from error
        names = cls()
        for number, text in given.items():
            if not isinstance(text, str):
                raise DataError(f"{path}: the name of cluster {number} is not a text; put it in quotes")
            try:
                names = names.renamed(number, text, n_clusters=n_clusters)
            except ParameterError as error:
                raise DataError(f"{path}: {error}") from error
        return names

    def __str__(self) -> str:
        return amount(len(self.by_cluster), "name")


_CLUSTER, _NAME = "cluster", "name"  # columns of a file of labels


def add_names(labels: Path, names: ClusterNames) -> None:
    """Write the names of clusters as the last column of a file of labels; without any name, remove that column."""
    if labels.suffix == ".parquet":
        _add_to_parquet(labels, names)
        return
    with labels.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        if _CLUSTER not in header:
            raise DataError(f"{labels}: has no column {_CLUSTER!r}; it is not a file of labels that kcagc wrote")
        kept, place = [at for at, column in enumerate(header) if column != _NAME], header.index(_CLUSTER)
        target = io.StringIO(newline="")
        writer = csv.writer(target, lineterminator="\n")
        named = bool(names.by_cluster)
        writer.writerow([*(header[at] for at in kept), *([_NAME] if named else [])])
        for row in rows:
            writer.writerow([*(row[at] for at in kept), *([names.of(int(row[place]))] if named else [])])
    write_text(labels, target.getvalue(), mode=PRIVATE)


def _add_to_parquet(labels: Path, names: ClusterNames) -> None:
    from kcagc.data.parquet import pyarrow_for  # noqa: PLC0415 - an extra

    arrow, parquet = pyarrow_for(labels)
    found = parquet.read_table(labels)
    if _NAME in found.column_names:
        found = found.drop_columns([_NAME])
    if names.by_cluster:
        texts = [names.of(int(cluster)) for cluster in found[_CLUSTER].to_pylist()]
        found = found.append_column(_NAME, arrow.array(texts, type=arrow.string()))
    content = io.BytesIO()
    parquet.write_table(found, content)
    write_bytes(labels, content.getvalue(), mode=PRIVATE)
