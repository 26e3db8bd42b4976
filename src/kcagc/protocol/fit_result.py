"""The result of a fit for one party: labels, its part of the model, and the effort."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kcagc._types import FloatArray, IntArray
from kcagc.cluster.search import PsiSearch
from kcagc.cluster.sweep import Sweep
from kcagc.protocol.joint_kmeans import JointClusters, SumCounts
from kcagc.protocol.local import PartyModel
from kcagc.protocol.plan import Merge

EXCHANGE = 2  # one-way delays: to the aggregator, and back from it


@dataclass(frozen=True, eq=False)
class MergeReport:
    """Effort of one merge: its rows (cells, or nodes in the basic method), how many are a single node, its sums."""

    group: str
    layer: int
    n_parties: int
    n_rows: int
    n_single: int
    n_clusters: int
    n_iter: int
    converged: bool
    rounds: int
    sums: SumCounts
    moved: list[int]  # nodes that changed their cluster in each iteration

    @property
    def distances(self) -> int:
        """Sums of distances that Protocol 2 opens for the winning restart: rows times centres in each round."""
        return (self.n_iter + 1) * self.n_rows * self.n_clusters if self.rounds else 0


@dataclass(frozen=True, eq=False)
class Restarts:
    """The clusters in the restarts that were not kept but ran to their end; every party knows them from the run.

    `labels` holds the clusters of the rows that were clustered (restarts × rows), `row_of_node` the row of each node;
    -1 for a node that was not clustered because the run took a sample. Numbers of clusters differ among restarts.
    """

    labels: IntArray
    row_of_node: IntArray

    @classmethod
    def of(cls, joint: JointClusters, row_of_node: IntArray) -> Restarts:
        """Return the restarts that were not kept."""
        labels = np.array(joint.others, dtype=np.int64).reshape(len(joint.others), len(joint.labels))
        return cls(labels, row_of_node)


@dataclass(frozen=True, eq=False)
class FitResult:
    """A party's result: the joint clusters, its part of the model, and the effort of its merges.

    `delays` counts the messages that had to travel one after another until the labels were known. The receipts that
    confirm the labels take one `EXCHANGE` more.
    """

    labels: IntArray
    cost: float  # mean squared distance of the nodes to their centres, summed over the parties
    model: PartyModel
    merges: list[MergeReport]
    delays: int
    rows: FloatArray | None = None  # the party's own points, for its report
    psi_search: PsiSearch | None = None  # how the order of the filter was found, if the parties searched for it
    restarts: Restarts | None = None  # for its report; None if only one restart ran, or a coordinator ran them


@dataclass(frozen=True, eq=False)
class SweepResult:
    """A party's result of a session that compares numbers of clusters: no labels of any of them.

    `n_nodes` counts the nodes that were clustered, `rounds` the secure sums, `delays` the messages that had to travel
    one after another.
    """

    session: str
    sweep: Sweep
    psi_search: PsiSearch | None
    n_nodes: int
    rounds: int
    delays: int


def every_merge(results: Iterable[FitResult]) -> list[MergeReport]:
    """Return each merge of all parties once, from the leaves to the root."""
    by_name = {merge.group: merge for result in results for merge in result.merges}
    return sorted(by_name.values(), key=lambda merge: (merge.layer, len(merge.group), merge.group))


def merge_report(merge: Merge, sizes: IntArray, n_clusters: int, joint: JointClusters) -> MergeReport:
    """Return the effort of one merge."""
    group, n_single = merge.group, int(np.count_nonzero(sizes == 1))
    effort = (joint.n_iter, joint.converged, joint.rounds, joint.sums, joint.moved)
    return MergeReport(group.name, group.layer, len(group.members), len(sizes), n_single, n_clusters, *effort)
