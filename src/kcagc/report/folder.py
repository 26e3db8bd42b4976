"""The files of a result folder that the report is made from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kcagc.cluster.search import PsiSearch
from kcagc.cluster.sweep import Sweep
from kcagc.disclosure import Disclosure
from kcagc.errors import DataError, ParameterError
from kcagc.report.insights.nodes import NodeInsights
from kcagc.report.names import NAMES, ClusterNames
from kcagc.text import read_json

SUMMARY, LEDGER, CLUSTERS, QUALITY, REPORT = "run.json", "ledger.jsonl", "clusters.json", "quality.json", "report.html"
NODES = "nodes.npz"
CLUSTERS_FORMAT = "kcagc clusters 2"


@dataclass(frozen=True)
class LedgerLine:
    """One line of the ledger file; `at` counts seconds from the first line."""

    at: float
    sender: str
    receiver: str
    kind: str
    stage: str
    bytes: int
    learns: str
    paper: str
    weaker: bool


@dataclass(frozen=True, eq=False)
class RunFolder:
    """The content of a result folder.

    Attributes
    ----------
    summary, ledger : dict, list of LedgerLine
        The summary of the run and its disclosure ledger.
    clusters, nodes : dict, NodeInsights or None
        The description of the clusters, and what the party knows about its nodes.
    quality : dict
        The comparison with known classes; empty without one.
    digests : dict of str to str
        The SHA-256 checksums of the files.
    names : ClusterNames
        Names that the operator gave to clusters.
    """

    summary: dict[str, Any]
    ledger: list[LedgerLine]
    clusters: dict[str, Any]
    quality: dict[str, Any]
    digests: dict[str, str]
    nodes: NodeInsights | None = None
    names: ClusterNames = field(default_factory=ClusterNames)

    @classmethod
    def read(cls, folder: Path) -> RunFolder:
        """Read a result folder; an error names the file that is missing or damaged."""
        summary = read_summary(folder)
        clusters = _document(folder / CLUSTERS, missing={})
        if clusters and clusters.get("format") != CLUSTERS_FORMAT:
            raise DataError(
                f"{folder / CLUSTERS}: has the format {clusters.get('format')!r}, but this version of kcagc reads "
                f"{CLUSTERS_FORMAT!r}. Delete the file to get a report without it, or use the version that wrote it"
            )
        names = [LEDGER, *(str(name) for name in dict(summary.get("files", {})).values()), CLUSTERS, NODES, NAMES]
        paths = [folder / name for name in dict.fromkeys(names) if Path(name).name == name and name != SUMMARY]
        return cls(
            summary,
            _ledger(folder / LEDGER),
            clusters,
            _document(folder / QUALITY, missing={}),
            {path.name: _digest(path) for path in paths if path.is_file()},
            NodeInsights.load(folder / NODES) if (folder / NODES).exists() else None,
            names_in(folder, summary),
        )

    @classmethod
    def in_memory(
        cls,
        summary: dict[str, Any],
        *,
        ledger: Iterable[Disclosure] = (),
        clusters: dict[str, Any] | None = None,
        nodes: NodeInsights | None = None,
        quality: dict[str, Any] | None = None,
        names: ClusterNames | None = None,
    ) -> RunFolder:
        """Return the content of a result folder that was never written, for a report of results in memory.

        `summary` needs `name` and `role` ("party" or "coordinator"), and for a party `nodes` and `cluster_sizes`. All
        other entries of `run.json` are optional; what is missing has no place in the report.
        """
        lines = [
            LedgerLine(0.0, one.sender, one.receiver, one.kind, one.stage, one.bytes, one.learns, one.paper, one.weaker)
            for one in ledger
        ]
        return cls(summary, lines, clusters or {}, quality or {}, {}, nodes, names or ClusterNames())

    @property
    def name(self) -> str:
        """The name of the role that owns the folder."""
        return str(self.summary.get("name", ""))

    @property
    def is_party(self) -> bool:
        """Whether the role holds data."""
        return self.summary.get("role") == "party"

    @property
    def predicts(self) -> bool:
        """Whether the run assigned new nodes to existing clusters."""
        return self.summary.get("task") == "predict"

    @property
    def sweeps(self) -> bool:
        """Whether the run compared numbers of clusters."""
        return not self.predicts and bool(self.parameters.get("most_clusters"))

    @property
    def sweep(self) -> Sweep | None:
        """The curves over numbers of clusters, if the run is a sweep; a coordinator does not know them."""
        return None if "sweep" not in self.summary else Sweep.from_document(self.summary["sweep"])

    @property
    def psi_search(self) -> PsiSearch | None:
        """How the order of the filter was found, if the parties searched for it."""
        return None if "psi_search" not in self.summary else PsiSearch.from_document(self.summary["psi_search"])

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that all roles agreed on."""
        return dict(self.summary.get("parameters", {}))

    @property
    def sizes(self) -> list[int]:
        """Number of nodes in each cluster; empty at a coordinator, which does not know it."""
        return [int(size) for size in self.summary.get("cluster_sizes", ())]

    @property
    def aggregator(self) -> str:
        """The name of the aggregator, which is the last of the participants."""
        roles = self.summary.get("roles", ())
        return str(roles[-1].get("name", "")) if roles else ""


def read_summary(folder: Path) -> dict[str, Any]:
    """Read the summary of a run; an error explains which folder to name."""
    if not (folder / SUMMARY).is_file():
        raise ParameterError(
            f"{folder}: has no {SUMMARY}, so it is not the result folder of a finished run. Finish the run, or name "
            f"the folder that holds {SUMMARY}"
        )
    summary = _document(folder / SUMMARY)
    if not str(summary.get("format", "")).startswith("kcagc run "):
        raise DataError(f"{folder / SUMMARY}: is not the summary of a run of kcagc")
    return summary


def names_in(folder: Path, summary: dict[str, Any]) -> ClusterNames:
    """Read the names that an operator gave to the clusters of a run.

    A prediction has the clusters of its fit, so without names of its own it has those in the folder above, if they
    belong to the session of that fit.
    """
    n_clusters, above = len(summary.get("cluster_sizes", ())), folder.absolute().parent
    names = ClusterNames.load(folder, n_clusters=n_clusters)
    if names.by_cluster or summary.get("task") != "predict" or not (above / SUMMARY).is_file():
        return names
    session = dict(summary.get("parameters", {})).get("model")
    same = session and _document(above / SUMMARY).get("session") == session
    return ClusterNames.load(above, n_clusters=n_clusters) if same else names


def nodes_in(folder: Path, summary: dict[str, Any]) -> NodeInsights:
    """Read what a party knows about its nodes; an error explains why there is nothing."""
    if (folder / NODES).exists():
        return NodeInsights.load(folder / NODES)
    if summary.get("role") != "party":
        raise ParameterError(f"{folder}: is the folder of a coordinator, which knows no nodes; use that of a party")
    if "cluster_sizes" not in summary:
        raise ParameterError(f"{folder}: is the result of a sweep, which gives no clusters; run again with one k")
    raise ParameterError(
        f"{folder}: has no {NODES}. A run writes it together with its report, from version 0.10 on; a run with "
        "--no-report does not. To get it, start a new session of all roles with --new-session"
    )


def _document(path: Path, missing: dict[str, Any] | None = None) -> dict[str, Any]:
    if missing is not None and not path.exists():
        return missing
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path}: is not a JSON file: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: must hold one JSON object")
    return found


def _ledger(path: Path) -> list[LedgerLine]:
    if not path.exists():
        return []
    lines: list[LedgerLine] = []
    start: float | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            fields = read_json(line)
            moment = datetime.fromisoformat(fields["at"]).timestamp()
            start = moment if start is None else start
            sender, receiver, kind, stage = (str(fields[name]) for name in ("sender", "receiver", "kind", "stage"))
            rest = (int(fields["bytes"]), str(fields["learns"]), str(fields["paper"]), bool(fields["weaker"]))
            lines.append(LedgerLine(moment - start, sender, receiver, kind, stage, *rest))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: line {number}: is not an entry of a disclosure ledger: {error}") from error
    return lines


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
