"""Conclusions from the measured conditions, in sentences for readers who do not know the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcagc.analysis.clusters import Name
from kcagc.analysis.conditions import ClusterPair, Conditions
from kcagc.analysis.theorem import Bound
from kcagc.text import count, listed, number, percent

PURPOSE = (
    "This is a research tool. It checks the conditions under which the paper proves that most nodes are clustered "
    'correctly. They are sufficient, not necessary. On real data the answer is nearly always "no guarantee", which '
    "says nothing about the quality of the clusters."
)
_MOST = 5  # pairs, or parties, that a sentence names
_HELP = "more smoothing (psi), other columns or fewer clusters may help"


def party_conclusions(name: str, own: Conditions, target: Conditions | None, enough: float) -> tuple[str, ...]:
    """Return what one party's data show, for that party alone."""
    lines = []
    if target is not None and target.not_separated:
        lines.append(
            f"{name}'s data do not separate clusters {_pairs(target.not_separated)}. There the joint result depends on "
            f"the other parties. If no party separates them, {_HELP}."
        )
    elif target is not None and len(target.sizes) > 1:
        lines.append(f"{name}'s data alone separate most nodes of every target cluster from every other cluster.")
    k = None if target is None else len(target.sizes)
    return (*lines, _own_clusters({name: own}, k, enough))


def joint_conclusions(
    bound: Bound,
    joint: Conditions,
    own: Mapping[str, Conditions],
    seen: Mapping[str, Conditions],
    enough: float,
    *,
    tree: bool,
) -> tuple[str, ...]:
    """Return what all data together show: the theorem first, then pairs that are not separated, then local clusters.

    `seen` holds the conditions of the target clusters in each party's rows alone.
    """
    lines = [_theorem(bound)]
    if joint.not_separated:
        lines.append(f"All data together do not separate clusters {_pairs(joint.not_separated)}. Here {_HELP}.")
    lost = {(pair.first, pair.second) for pair in joint.not_separated}
    by_pair: dict[tuple[Name, Name], dict[str, ClusterPair]] = {}
    for name, conditions in seen.items():
        for pair in conditions.not_separated:
            if (pair.first, pair.second) not in lost:
                by_pair.setdefault((pair.first, pair.second), {})[name] = pair
    # Pairs that more parties do not separate come first, then pairs with more nodes on the wrong side.
    ranked = sorted(by_pair.values(), key=lambda who: (-len(who), -max(pair.wrong_side for pair in who.values())))
    lines += [_one_pair(who, [name for name in seen if name not in who]) for who in ranked[:_MOST]]
    if len(ranked) > _MOST:
        lines.append(f"Some parties' data do not separate {count(len(ranked) - _MOST, 'further pair')} of clusters.")
    unclear = {name: one for name, one in own.items() if not _clear(one, enough)}
    lines.append(_own_clusters(unclear or own, len(joint.sizes), enough))
    if tree:
        lines.append("The run merges clusters in a tree, a few parties at a time; the theorem merges all at once.")
    return tuple(lines)


def _theorem(bound: Bound) -> str:
    if bound.holds and bound.epsilon == 0:
        return "Theorem 1 guarantees that no node is misclassified: all its conditions hold, and every node is 1-good."
    if bound.holds:
        return (
            f"Theorem 1 guarantees that at most {number(bound.nodes)} of {bound.n_nodes:,} nodes are misclassified: "
            f"c = {number(bound.c)}, and at most {percent(bound.epsilon)} of the nodes are 1-bad at any party."
        )
    more = f" ({count(len(bound.unmet) - 1, 'more condition')} unmet)" if len(bound.unmet) > 1 else ""
    return (
        f"Theorem 1 gives no guarantee: {bound.unmet[0]}{more}. This is normal for real data and says nothing about "
        "the quality of the clusters. To measure quality, compare them with known classes or with other restarts."
    )


def _one_pair(who: Mapping[str, ClusterPair], able: Sequence[str]) -> str:
    """Return which parties do not separate a pair of clusters, and which do."""
    worst = max(who.values(), key=lambda pair: pair.wrong_side)
    text = f"{_whose(list(who))} data do not separate clusters {_pair(worst)}."
    if not able:
        return f"{text} No other party's data do, but all data together do."
    return f"{text} There the joint result depends on {_whose(able)} data."


def _clear(own: Conditions, enough: float) -> bool:
    return own.c > enough and not own.n_bad


def _own_clusters(own: Mapping[str, Conditions], k: int | None, enough: float) -> str:
    """Return how clear the parties' local clusters are; `k` is the number of target clusters."""
    worst = sorted(own, key=lambda name: (-own[name].n_bad, own[name].c))
    each = listed([_own(name, own[name]) for name in worst], at_most=_MOST)
    if all(_clear(one, enough) for one in own.values()):
        return f"Local clusters are as clear as the theorem requires: {each}."
    most = max(len(one.sizes) for one in own.values())
    advice = "More smoothing (psi) or other columns may make them clearer."
    if k is not None and most > k:
        advice = (
            f"The target has {count(k, 'cluster')}: fewer than {most} local ones (n_local_clusters) may be clearer."
        )
    return f"Local clusters are less clear than the theorem requires (c above {number(enough)}): {each}. {advice}"


def _own(name: str, own: Conditions) -> str:
    limit = "" if own.pair is None else f" limited by clusters {own.pair[0]!r} and {own.pair[1]!r}"
    bad = "no node" if own.n_bad == 0 else f"{own.n_bad:,} of {count(own.n_nodes, 'node')}"
    return f"{name}'s {len(own.sizes)} (c = {number(own.c)}{limit}, {bad} 1-bad)"


def _pairs(pairs: Sequence[ClusterPair]) -> str:
    each = [_pair(pair) for pair in pairs[:_MOST]]
    if len(pairs) > _MOST:
        each.append(count(len(pairs) - _MOST, "further pair"))
    return listed(each)


def _pair(pair: ClusterPair) -> str:
    more, other = (pair.first, pair.second) if pair.more_in == pair.first else (pair.second, pair.first)
    return (
        f"{pair.first!r} and {pair.second!r} ({percent(pair.confused, 0)} of {more!r} nearer to the mean of {other!r})"
    )


def _whose(names: Sequence[str]) -> str:
    """Return the possessive of some parties; of many only their number."""
    return f"{len(names)} parties'" if len(names) > 3 else listed([f"{name}'s" for name in names])
