"""How the run came to its end, round by round."""

from __future__ import annotations

from typing import Any

from kcagc.report.drawing import Frame, Names, picture
from kcagc.report.folder import RunFolder
from kcagc.report.markup import Html, Part, figure, table, tag
from kcagc.text import count, number

_WIDE, _HIGH = 520.0, 260.0


def convergence_section(run: RunFolder, names: Names) -> Html | None:
    """Show what each merge took; where it is told, who moved in each round, and the joint inertia."""
    merges = run.summary.get("merges") or []
    rounds = run.summary.get("rounds")
    if not merges:
        if rounds is None:
            return None
        words = f"{count(rounds)} masked sums" + (" placed the new nodes." if run.predicts else " opened.")
        if not run.is_party:
            words += f" {run.name} adds up and does not see labels, so that it cannot tell how many nodes moved."
        return tag("section", tag("h2", "Rounds"), tag("p", words, class_="lede"), id="rounds")
    figures = [_figures(one, names, len(merges) > 1) for one in merges if one.get("history")]
    rows: list[list[Part]] = [
        [
            str(one["group"]),
            str(one["parties"]),
            count(one["rows"]),
            count(one["rows_of_one_node"]),
            str(one["clusters"]),
            str(one["iterations"]),
            "yes" if one["converged"] else "no, stopped at the limit",
            str(one["rounds"]),
        ]
        for one in merges
    ]
    header: list[Part] = ["Merge", "Parties", "Cells", "of one node", "Clusters", "Iterations", "Converged", "Rounds"]
    if run.summary.get("parameters", {}).get("method") == "basic":
        header[2] = "Rows"
    words = _words(run, merges)
    shown = tag(
        "div", table("Merges, and what each took", header, rows, numeric=(1, 2, 3, 4, 5, 7), seen=False), class_="card"
    )
    return tag("section", tag("h2", "Convergence"), tag("p", words, class_="lede"), figures, shown, id="rounds")


def _words(run: RunFolder, merges: list[dict[str, Any]]) -> str:
    rounds, last = run.summary.get("rounds", 0), merges[-1]
    how = "converged" if last["converged"] else "was stopped at the limit of iterations before it converged"
    tree = f" in {len(merges)} merges on the way from this party to the root of the tree" if len(merges) > 1 else ""
    delays = run.summary.get("delays")
    waited = f" The whole run took {count(delays)} one-way delays after each other." if isinstance(delays, int) else ""
    return f"{count(rounds)} masked sums{tree}. The winning start {how} after {last['iterations']} iterations.{waited}"


def _figures(merge: dict[str, Any], names: Names, several: bool) -> Html:
    history = merge["history"]
    of = f" (merge {merge['group']})" if several else ""
    moved = [(float(one["round"]), float(one["moved"])) for one in history if one.get("moved") is not None]
    inertia = [(float(one["round"]), float(one["inertia"])) for one in history if one.get("inertia") is not None]
    if len(moved) > 1 and moved[0][1] == 0:  # before the first round no node was anywhere
        del moved[0]
    drawn = []
    if moved:
        drawn.append(_chart(names, f"Nodes that changed cluster{of}", "moved", moved, count))
    if inertia:
        drawn.append(_chart(names, f"Joint inertia{of}", "inertia", inertia, number))
    return tag("div", drawn, class_="pair" if len(drawn) > 1 else None)


def _chart(names: Names, title: str, what: str, points: list[tuple[float, float]], say: Any) -> Html:
    first, last = points[0], points[-1]
    highest = max(value for _, value in points)
    rounds = [one for one, _ in points]
    frame = Frame(_WIDE, _HIGH, max(rounds), highest, least_x=min(rounds))
    step = max(1, -(-len(rounds) // 8))
    axes = frame.axes(rounds[::step], lambda one: f"{one:.0f}", lambda one: f"{one:,g}", "round")
    if what == "moved":
        busiest = next(one for one, value in points if value == highest)
        told = f"At most {say(highest)}, in round {busiest:.0f}; in the last round {say(last[1])}."
    else:
        told = f"From {say(first[1])} in round {first[0]:.0f} to {say(last[1])} in round {last[0]:.0f}."
    rows: list[list[Part]] = [[f"{one:.0f}", say(value)] for one, value in points]
    data = table(f"{title}, by round", ["Round", title], rows, numeric=(0, 1))
    kind = "c1" if what == "inertia" else "accent"
    whole = picture(names, _WIDE, _HIGH, title, told, axes, frame.line(points, kind))
    return figure(whole, [tag("strong", f"{title}. "), told], data, class_="card")
