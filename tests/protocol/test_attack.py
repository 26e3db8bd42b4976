"""What an aggregator can compute from what it sees: everything in the paper's mode, nothing in the default one.

At the first sum the centres are cells, so the summed distance of cell (a, b) to start (c, d) is about D[a, c] + E[b, d]
with D and E the squared distances between the local centres of the two parties: a linear equation. Whoever can tell
which cell and which start it belongs to has enough of them to solve for all.
"""

import numpy as np
import pytest

from collaborations import EVERYTHING, parameters
from kcagc.cluster.lloyd import squared_distances
from kcagc.datasets import load
from kcagc.disclosure import Ledger
from kcagc.graph import Graph, HalfFilter
from kcagc.protocol import aggregator, fit
from kcagc.protocol.cells import initial_cells, intersect
from kcagc.protocol.local import PartyData
from kcagc.protocol.secure_sum import SecureSums
from kcagc.secagg import blinding
from kcagc.secagg.masks import decode, encode
from kcagc.simulation import simulate_fit

K = 5
SEED = 11


class Seen:
    """A run of two or three parties, with what opened to the aggregator and the truth that it is after."""

    def __init__(self, n_parties, **mode):
        demo = load("demo")
        graph = Graph.from_matrix(demo.adjacency)
        names = [f"party-{number}" for number in range(1, n_parties + 1)]
        data = {
            name: PartyData.build(name, graph, table, HalfFilter(2))
            for name, table in zip(names, demo.parties()[:n_parties], strict=True)
        }
        chosen = parameters(
            filter="HalfFilter(psi=2)", n_clusters=K, n_local_clusters=K, n_components=K, n_init=10, **mode
        )
        self.sums, self.local = [], {}
        with pytest.MonkeyPatch.context() as patch:
            real_sum, real_local = aggregator.open_sum, fit.compute_local

            def spied_sum(total, count):
                self.sums.append(real_sum(total, count))
                return self.sums[-1]

            def spied_local(one, *rest):
                found = real_local(one, *rest)
                self.local[next(name for name in names if data[name] is one)] = found
                return found

            patch.setattr(aggregator, "open_sum", spied_sum)
            patch.setattr(fit, "compute_local", spied_local)
            simulate_fit(
                chosen, data, policy=EVERYTHING, seeds=dict.fromkeys(names, SEED), aggregator_seed=0, ledger=Ledger()
            )
        self.cells = intersect([self.local[name].labels for name in names])
        self.starts = initial_cells(self.cells.codes, self.cells.sizes, K, 10, SEED)
        self.first = decode(self.sums[0]).reshape(10, len(self.cells), K)
        self.truth = [_between_centers(self.local[name]) for name in names]

    def separated(self, known=None):
        """Solve for every party's distances by least squares, taking the sums as if they came in the cells' order.

        `known` are the distances of a party that the aggregator is itself.
        """
        codes, pairs = self.cells.codes, np.triu_indices(K, 1)
        number = np.zeros((K, K), dtype=int)
        number[pairs] = np.arange(len(pairs[0]))
        number += number.T
        n_parties, unknown = codes.shape[1], len(pairs[0])
        equations, values = [], []
        for start, chosen in enumerate(self.starts):
            for cell in range(len(codes)):
                for column, center in enumerate(chosen):
                    row = np.zeros(n_parties * unknown)
                    for party in range(n_parties):
                        a, b = codes[cell, party], codes[center, party]
                        if a != b:
                            row[party * unknown + number[a, b]] = 1
                    equations.append(row)
                    values.append(self.first[start, cell, column])
        system, right = np.array(equations), np.array(values)
        if known is not None:
            others = (n_parties - 1) * unknown
            right = right - system[:, others:] @ known
            system = system[:, :others]
        solved, *_ = np.linalg.lstsq(system, right, rcond=None)
        return solved.reshape(-1, unknown)

    def correlation(self, solved):
        """Compare the order of distances only, which is the least that an attacker would want."""
        known = self.truth[: len(solved)]
        return float(np.mean([np.corrcoef(found, true)[0, 1] for found, true in zip(solved, known, strict=True)]))

    def error(self, solved):
        """Compare with guessing the same distance, the mean, for all pairs: 1 is no better than guessing."""
        off, guess = [], []
        for found, true in zip(solved, self.truth, strict=False):
            off.append(np.sqrt(np.mean((found - true) ** 2)))
            guess.append(np.std(true))
        return float(np.mean(off) / np.mean(guess))


def _between_centers(local):
    sizes = np.bincount(local.labels)
    means = np.stack([np.bincount(local.labels, column) / sizes for column in local.rows.T], axis=1)
    return squared_distances(means, means)[np.triu_indices(K, 1)]


def test_the_papers_aggregator_of_two_recovers_the_other_partys_distances_to_a_millionth():
    seen = Seen(2, aggregator="party", virtual_nodes="local")
    (recovered,) = seen.separated(known=seen.truth[1])
    np.testing.assert_allclose(recovered, seen.truth[0], atol=1e-6)


def test_the_papers_aggregator_of_three_separates_the_two_others_up_to_what_they_share():
    seen = Seen(3, aggregator="party", virtual_nodes="local")
    assert seen.error(seen.separated(known=seen.truth[2])) < 1e-6


@pytest.mark.parametrize("n_parties", [2, 3])
def test_the_coordinator_learns_no_more_than_a_guess_in_the_default_mode(n_parties):
    """It is even told which cells and starts there are; only the orders stay secret."""
    sessions = [Seen(n_parties) for _ in range(6)]
    solved = [seen.separated() for seen in sessions]
    assert min(seen.error(found) for seen, found in zip(sessions, solved, strict=True)) > 0.9
    assert abs(np.mean([seen.correlation(found) for seen, found in zip(sessions, solved, strict=True)])) < 0.4


@pytest.mark.parametrize("n_parties", [2, 3])
def test_without_the_secret_orders_the_coordinator_would_learn_the_distances(n_parties, monkeypatch):
    """The same attack on the same sums, unshuffled: it is the shuffle that stops it."""
    monkeypatch.setattr(SecureSums, "_blinded", lambda self, step, values: encode(values))
    monkeypatch.setattr(blinding.Shuffle, "apply", lambda self, values: values)
    monkeypatch.setattr(blinding.Shuffle, "restore_rows", lambda self, values: values)
    seen = Seen(n_parties)
    assert seen.correlation(seen.separated()) > 0.8


def most_repeated_difference(seen):
    """Sums f[a] + g[b] repeat the difference f[a] - f[a'] for every b: structure that shows in any order."""
    values = np.unique(seen.sums[0].ravel() // 64)
    apart = (values[:, None] - values[None, :])[np.triu_indices(len(values), 1)]
    _, counts = np.unique(np.abs(apart), return_counts=True)
    return counts.max()


def test_the_factors_hide_how_shares_add_up_which_the_order_alone_would_not(monkeypatch):
    blinded = most_repeated_difference(Seen(2, virtual_nodes="local"))
    monkeypatch.setattr(SecureSums, "_blinded", lambda self, step, values: encode(values))
    assert most_repeated_difference(Seen(2, virtual_nodes="local")) > 4 * blinded


def test_no_sum_comes_twice_though_most_distances_do(monkeypatch):
    """Centres that stay where they are give the same distances again, which would tell whose rows they are."""

    def share_that_repeats(seen):
        every = np.concatenate([sums.ravel() for sums in seen.sums])
        return 1 - len(np.unique(every)) / len(every)

    assert share_that_repeats(Seen(3)) < 1e-3
    monkeypatch.setattr(SecureSums, "_blinded", lambda self, step, values: encode(values))
    assert share_that_repeats(Seen(3)) > 0.2


def test_whole_rows_are_not_recognised_by_the_ratios_within_them(monkeypatch):
    """Factor and shift leave (b - a) / (c - a) as it is; the fillers see to it that no row keeps all of its columns."""

    def share_recognised(seen):
        rows = np.concatenate([sums.reshape(-1, K) for sums in seen.sums if sums.size % K == 0]).astype(float)
        ordered = np.sort(rows, axis=1)
        shapes = np.round((ordered[:, 1:-1] - ordered[:, :1]) / (ordered[:, -1:] - ordered[:, :1]), 9)
        return 1 - len(np.unique(shapes, axis=0)) / len(shapes)

    assert share_recognised(Seen(3)) < 1e-3
    monkeypatch.setattr(SecureSums, "with_fillers", lambda self, values, winners, settled: values)
    assert share_recognised(Seen(3)) > 0.05


def test_the_coordinator_sees_no_distance_and_no_zero():
    """Not even as a bag: the sums that open are not the distances, in any order; starting rows do not show."""
    seen = Seen(2)
    rows = np.hstack([_cell_means(seen.local[name], seen.cells) for name in seen.local])
    true = np.stack([squared_distances(rows, rows[start]) for start in seen.starts])
    assert (seen.first > 1e-6).all()
    assert np.isin(np.round(true[true > 1e-9], 9), np.round(seen.first, 9)).mean() < 0.01


def _cell_means(local, cells):
    return np.stack([np.bincount(cells.of_node, column) / cells.sizes for column in local.rows.T], axis=1)
