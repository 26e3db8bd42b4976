"""What the figures mean, in sentences for somebody who has not read the paper; the most important come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcagc.analysis.bound import Bound
from kcagc.analysis.clusters import Name
from kcagc.analysis.conditions import Conditions, Pair
from kcagc.text import count, listed, number, percent

MOST = 5  # pairs, or parties, that a sentence names before it counts the rest

_HELP = "More smoothing (psi), other columns, or one cluster in place of two may help"


def party_verdict(name: str, own: Conditions, target: Conditions | None, enough: float) -> tuple[str, ...]:
    """Say what one party's data show, to that party alone."""
    lines = []
    if target is not None and target.merged:
        lines.append(
            f"{name}'s data do not separate {_pairs(target.merged)}. The joint result rests on the other parties "
            f"there. {_HELP}, if none of them does."
        )
    elif target is not None and len(target.sizes) > 1:
        lines.append(f"{name}'s data alone keep most nodes of every target cluster apart from every other cluster.")
    k = None if target is None else len(target.sizes)
    return (*lines, _own_clusters({name: own}, k, enough))


def joint_verdict(
    bound: Bound,
    joint: Conditions,
    own: Mapping[str, Conditions],
    seen: Mapping[str, Conditions],
    enough: float,
    *,
    tree: bool,
) -> tuple[str, ...]:
    """Say what all data together show: the theorem's word, then pairs that somebody does not separate, then parties.

    `seen` are the target clusters in each party's rows alone.
    """
    lines = [_theorem(bound)]
    if joint.merged:
        lines.append(f"All data together do not separate {_pairs(joint.merged)}. {_HELP}.")
    lost = {(pair.first, pair.second) for pair in joint.merged}
    blind: dict[tuple[Name, Name], dict[str, Pair]] = {}
    for name, conditions in seen.items():
        for pair in conditions.merged:
            if (pair.first, pair.second) not in lost:
                blind.setdefault((pair.first, pair.second), {})[name] = pair
    # A pair that more parties lose comes first; then the one that loses more nodes.
    ranked = sorted(blind.values(), key=lambda who: (-len(who), -max(pair.wrong for pair in who.values())))
    lines += [_rests(who, [name for name in seen if name not in who]) for who in ranked[:MOST]]
    if len(ranked) > MOST:
        lines.append(f"Some parties' data do not separate {count(len(ranked) - MOST, 'further pair')} of clusters.")
    unclear = {name: one for name, one in own.items() if not _clear(one, enough)}
    lines.append(_own_clusters(unclear or own, len(joint.sizes), enough))
    if tree:
        lines.append("Clusters are merged in a tree, a few parties at a time; the theorem is about all at once.")
    return tuple(lines)


def _theorem(bound: Bound) -> str:
    if bound.holds and bound.epsilon == 0:
        return "Theorem 1 holds: all its conditions are met and every node is locally 1-good, so none is misclassified."
    if bound.holds:
        return (
            f"Theorem 1 holds: at most {number(bound.nodes)} of {bound.n_nodes:,} nodes are misclassified, "
            f"with c = {number(bound.c)} and at most {percent(bound.epsilon)} of nodes 1-bad at a party."
        )
    more = f" ({count(len(bound.unmet) - 1, 'more condition')} unmet)" if len(bound.unmet) > 1 else ""
    return (
        f"Theorem 1 promises nothing here: {bound.unmet[0]}{more}. That is usual for real data and says nothing "
        "against the clusters; how good they are has to be seen otherwise, by known classes or by other starts."
    )


def _rests(who: Mapping[str, Pair], able: Sequence[str]) -> str:
    """Say of one pair who does not separate it, and on whom the joint result rests."""
    worst = max(who.values(), key=lambda pair: pair.wrong)
    told = f"{_whose(list(who))} data do not separate clusters {_pair(worst)}"
    if not able:
        return f"{told}. No other party's do, but all data together."
    return f"{told}. The joint result rests on {_whose(able)} data there."


def _clear(own: Conditions, enough: float) -> bool:
    return own.c > enough and not own.n_bad


def _own_clusters(own: Mapping[str, Conditions], k: int | None, enough: float) -> str:
    """Say how clear the clusters are that parties find alone; `k` is the number of target clusters."""
    worst = sorted(own, key=lambda name: (-own[name].n_bad, own[name].c))
    each = [_own(name, own[name]) for name in worst[:MOST]]
    if len(worst) > MOST:
        each.append(f"{len(worst) - MOST} more")
    if all(_clear(one, enough) for one in own.values()):
        return f"Own clusters are as clear as the theorem asks: {listed(each)}."
    more = max(len(one.sizes) for one in own.values())
    advice = "More smoothing (psi) or other columns may make them clearer."
    if k is not None and more > k:
        advice = (
            f"The target has {count(k, 'cluster')}: fewer than {more} local ones (n_local_clusters) may be clearer."
        )
    return f"Own clusters are less clear than the theorem asks (c above {number(enough)}): {listed(each)}. {advice}"


def _own(name: str, own: Conditions) -> str:
    limit = "" if own.pair is None else f" by clusters {own.pair[0]!r} and {own.pair[1]!r}"
    bad = "no node" if own.n_bad == 0 else f"{own.n_bad:,} of {count(own.n_nodes, 'node')}"
    return f"{name}'s {len(own.sizes)} (c = {number(own.c)}{limit}, {bad} 1-bad)"


def _pairs(pairs: Sequence[Pair]) -> str:
    each = [_pair(pair) for pair in pairs[:MOST]]
    if len(pairs) > MOST:
        each.append(count(len(pairs) - MOST, "further pair"))
    return f"clusters {listed(each)}"


def _pair(pair: Pair) -> str:
    more, other = (pair.first, pair.second) if pair.more_in == pair.first else (pair.second, pair.first)
    return (
        f"{pair.first!r} and {pair.second!r} ({100 * pair.confused:.0f} % of {more!r} nearer to the mean of {other!r})"
    )


def _whose(names: Sequence[str]) -> str:
    """Write the possessive of some parties, of many by number."""
    return f"{len(names)} parties'" if len(names) > 3 else listed([f"{name}'s" for name in names])
