"""The truth behind the sums that the coordinator opens, for evaluators: what each entry of a vector really is.

This module looks inside a run. Attacks never use it; evaluators compare their claims with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from kcagc.protocol import joint_kmeans, predict, search, secure_sum, shared_kmeans, tournament, weights
from kcagc.protocol.secure_sum import SecureSums
from kcagc.secagg.blinding import Blinding

LIVE, COST, PROBE, COPY = range(4)


@dataclass
class Blinded:
    """One sum: the parties' parts added up, the secrets of the vector, and what each comparison is about."""

    total: np.ndarray | None = None
    blinding: Blinding | None = None
    about: np.ndarray | None = None  # comparisons × (restart, row, first centre, second centre); -1 for costs
    copied: np.ndarray | None = None

    def entries(self) -> Entries:
        """Return the truth in the order of the vector."""
        assert self.total is not None
        assert self.blinding is not None
        assert self.about is not None
        assert self.copied is not None
        n, n_probes = len(self.about), len(self.total) - len(self.about) - len(self.copied)
        kind = np.where(self.about[:, 1] < 0, COST, LIVE)
        about = np.concatenate([self.about, self.about[self.copied], np.full((n_probes, 4), -1)])
        kinds = np.concatenate([kind, np.full(len(self.copied), COPY), np.full(n_probes, PROBE)])
        number = np.concatenate([np.arange(n), self.copied, np.arange(n, n + n_probes)])
        order = self.blinding.order
        return Entries(self.total[order], about[order], kinds[order], number[order], factors_of(self.blinding)[order])


def factors_of(blinding: Blinding) -> np.ndarray:
    """Return the secret factors of a vector, in the order of its comparisons."""
    return np.ldexp(blinding.mantissas.astype(float), blinding.octaves - 30)


@dataclass(frozen=True)
class Entries:
    """The truth of each entry of an opened vector."""

    delta: np.ndarray  # the blinded odd integer
    about: np.ndarray  # restart, row, first centre, second centre
    kind: np.ndarray
    number: np.ndarray  # of the comparison: a copy has the number of its original
    factors: np.ndarray

    @property
    def row(self) -> np.ndarray:
        return self.about[:, 1]

    @property
    def centres(self) -> np.ndarray:
        """Return one number for each restart and pair of centres; -1 for none."""
        restart, row, first, second = self.about.T
        low, high = np.minimum(first, second), np.maximum(first, second)
        return np.where(row < 0, -1, (restart * 4096 + low) * 4096 + high)


@dataclass
class _State:
    """What the spies know at the moment; all of it changes between two messages only."""

    label: bytes = b""
    pending: list[np.ndarray] = field(default_factory=list)  # row of the table, first centre, second centre
    unknown: list[tuple[Any, np.ndarray]] = field(default_factory=list)
    restarts: dict[int, list[Any]] = field(default_factory=dict)  # by sums
    tables: dict[int, tuple[np.ndarray, np.ndarray]] = field(
        default_factory=dict
    )  # by sums: restart numbers, distances
    others: dict[int, np.ndarray] = field(default_factory=dict)  # by sums, in the margin step: all but starting rows
    rows: dict[int, np.ndarray] = field(default_factory=dict)  # by sums: restart and row of each line of a table
    shared: dict[int, tuple[list[int], Any]] = field(default_factory=dict)  # by sums: restarts and labels, on shares
    search: dict[int, list[tuple[int, np.ndarray]]] = field(default_factory=dict)  # by sums: k and labels of each set


@contextmanager
def watch(into: dict[tuple[str, int], Blinded]) -> Iterator[None]:  # noqa: PLR0915 - one spy after another
    """Record the truth of every sum of a run."""
    state, by_label = _State(), dict[bytes, Blinded]()
    real_from_key, real_apply, real_signs = Blinding.from_key.__func__, Blinding.apply, SecureSums.signs
    real_positions, real_differences, real_margins = (
        secure_sum.draw_positions,
        tournament._differences,
        tournament._margins,
    )
    real_open, real_table = joint_kmeans._Restart.open_comparisons, joint_kmeans._distances
    real_nearest, real_margin_step = tournament.nearest, joint_kmeans._margin_step
    real_round = shared_kmeans._Run.round
    real_search, real_moved = search._cluster, search._moved

    def from_key(cls: type, key: bytes, session: bytes, label: bytes, *rest: Any) -> Blinding:
        state.label = label
        return real_from_key(cls, key, session, label, *rest)

    def apply(self: Blinding, parts: np.ndarray, **options: Any) -> Any:
        one = by_label[state.label]
        one.total = parts.copy() if one.total is None else one.total + parts
        one.blinding = self
        return real_apply(self, parts, **options)

    def draw_positions(key: bytes, session: bytes, label: bytes, *rest: Any) -> np.ndarray:
        by_label[label].copied = real_positions(key, session, label, *rest)
        return by_label[label].copied

    def differences(distances: Any, first: np.ndarray, second: np.ndarray, real: np.ndarray) -> Any:
        state.pending.append(np.stack([np.nonzero(real)[0], first[real], second[real]], axis=1))
        return real_differences(distances, first, second, real)

    def margins(distances: Any, candidates: np.ndarray, rivals: np.ndarray, tested: np.ndarray) -> Any:
        rows, places, _ = np.nonzero(tested)
        state.pending.append(np.stack([rows, candidates[rows, places], rivals[tested]], axis=1))
        return real_margins(distances, candidates, rivals, tested)

    def open_comparisons(self: Any) -> np.ndarray:
        found = real_open(self)
        state.unknown.append((self, found))
        return found

    def table(sums: SecureSums, rows: Any, restarts: list[Any]) -> np.ndarray:
        known = state.restarts.setdefault(id(sums), [])
        known += [one for one in restarts if not any(one is other for other in known)]
        numbers = [next(n for n, other in enumerate(known) if other is one) for one in restarts]
        found = real_table(sums, rows, restarts)
        state.tables[id(sums)] = np.array(numbers), found
        return found

    async def margin_step(sums: SecureSums, rows: Any, sizes: Any, restarts: Any, starts: np.ndarray) -> None:
        others = np.ones((len(starts), len(rows)), dtype=bool)
        others[np.arange(len(starts))[:, None], starts] = False
        state.others[id(sums)] = np.argwhere(others)
        await real_margin_step(sums, rows, sizes, restarts, starts)
        del state.others[id(sums)]

    async def nearest(sums: SecureSums, step: Any, distances: np.ndarray, *rest: Any, **options: Any) -> Any:
        known = state.others.get(id(sums))
        state.rows[id(sums)] = _places(state.tables.get(id(sums)), distances) if known is None else known
        return await real_nearest(sums, step, distances, *rest, **options)

    async def shared_round(run: Any, active: list[Any], others: list[Any]) -> Any:
        sums, numbers = id(run.rows.sums), [one.number for one in active]
        state.shared[sums] = numbers, None if active[0].labels is None else np.stack([one.labels for one in active])
        n = len(run.rows.share)
        state.rows[sums] = np.stack([np.repeat(numbers, n), np.tile(np.arange(n), len(active))], axis=1)
        return await real_round(run, active, others)

    async def search_rounds(rows: Any, plan: Any, *rest: Any) -> Any:
        sums, n = id(rows.sums), rows.n_nodes
        count = len(plan.sets)
        state.rows[sums] = np.stack([np.repeat(np.arange(count), n), np.tile(np.arange(n), count)], axis=1)
        found = await real_search(rows, plan, *rest)
        state.search.pop(sums, None)
        return found

    async def moved(sums: SecureSums, plan: Any, states: list[Any], *rest: Any) -> Any:
        state.search[id(sums)] = [(one.k, here.labels) for one, here in zip(plan.sets, states, strict=True)]
        return await real_moved(sums, plan, states, *rest)

    async def signs(self: SecureSums, step: Any, asked: Any, senders: tuple[str, ...] = ()) -> Any:
        pending, state.pending = state.pending, []
        unknown, state.unknown = state.unknown, []
        if len(asked):
            one = into.setdefault((self.group.name, self.number), Blinded())
            by_label[self.label()] = one
            if one.about is None:
                one.about = _about(state, self, len(asked), pending, unknown)
        return await real_signs(self, step, asked, senders)

    with ExitStack() as stack:
        for where, name, spy in (
            (Blinding, "from_key", classmethod(from_key)),
            (Blinding, "apply", apply),
            (secure_sum, "draw_positions", draw_positions),
            (tournament, "_differences", differences),
            (tournament, "_margins", margins),
            (joint_kmeans._Restart, "open_comparisons", open_comparisons),
            (joint_kmeans, "_distances", table),
            (joint_kmeans, "_margin_step", margin_step),
            (joint_kmeans, "nearest", nearest),
            (predict, "nearest", nearest),
            (weights, "nearest", nearest),
            (shared_kmeans._Run, "round", shared_round),
            (search, "_cluster", search_rounds),
            (search, "_moved", moved),
            (SecureSums, "signs", signs),
        ):
            stack.enter_context(patch.object(where, name, spy))
        yield


def _about(state: _State, sums: SecureSums, n: int, pending: list[np.ndarray], unknown: list[Any]) -> np.ndarray:
    """Return restart, row and both centres of each comparison of one call."""
    about = np.full((n, 4), -1)
    if pending:  # a tournament
        lines, first, second = np.concatenate(pending).T
        place = state.rows[id(sums)]
        about[:] = np.stack([place[lines, 0], place[lines, 1], first, second], axis=1)
    elif id(sums) in state.search:  # the same for each set of centres of a search
        parts = []
        for number, (k, labels) in enumerate(state.search[id(sums)]):
            row, center = np.nonzero(np.arange(k) != labels[:, None])
            parts.append(np.stack([np.full(len(row), number), row, labels[row], center], axis=1))
        about[:] = np.concatenate(parts)
    elif id(sums) in state.shared:  # an iteration on shares compares the last centre of a node with all others
        restarts, labels = state.shared[id(sums)]
        k = n // labels.size + 1  # there are few comparisons of costs
        which, row, center = np.nonzero(np.arange(k) != labels[:, :, None])
        about[: len(row)] = np.stack([np.array(restarts)[which], row, labels[which, row], center], axis=1)
    else:  # an iteration; the costs are at the end
        numbers, _ = state.tables[id(sums)]
        which, row, center = np.nonzero(np.stack([found for _, found in unknown]))
        base = np.stack([restart.base for restart, _ in unknown])
        about[: len(row)] = np.stack([numbers[which], row, base[which, row], center], axis=1)
    return about


def _places(table: tuple[np.ndarray, np.ndarray] | None, lines: np.ndarray) -> np.ndarray:
    """Return the restart and row of each line: the lines are some of a table's, in its order."""
    if table is None:  # a prediction
        return np.stack([np.zeros(len(lines), dtype=np.int64), np.arange(len(lines))], axis=1)
    numbers, distances = table
    _, rows, k = distances.shape
    every, found, at = distances.reshape(-1, k), np.empty((len(lines), 2), dtype=np.int64), 0
    for number, line in enumerate(lines):
        while not np.array_equal(every[at], line):
            at += 1
        found[number] = numbers[at // rows], at % rows
        at += 1
    return found
