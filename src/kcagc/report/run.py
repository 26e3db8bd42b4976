"""How the run went: rounds and convergence, messages over time, settings and checksums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kcagc.protocol.parameters import describe_parameter
from kcagc.report.disclosures import FAMILIES, FAMILY_OF_KIND
from kcagc.report.drawing import ChartArea, ElementIds, legend_key, picture
from kcagc.report.folder import SUMMARY, LedgerLine, RunFolder
from kcagc.report.markup import Html, Part, figure, panel, section, table, tag
from kcagc.text import count, number, seconds, size

_WIDE, _HIGH = 520.0, 260.0  # of a chart of rounds
_BINS, _STRIP_HIGH, _LEAST = 240, 40.0, 3.0  # moments, and heights of the highest and the lowest bar, of messages


def rounds_section(run: RunFolder, ids: ElementIds) -> Html | None:
    """Show each merge and, if it is known, how many nodes moved in each iteration."""
    merges = run.summary.get("merges") or []
    rounds = run.summary.get("rounds")
    if not merges:
        return None if rounds is None else section("rounds", "Rounds", _sums(run, rounds))
    charts = [_merge_chart(one, ids, len(merges) > 1) for one in merges if one.get("history")]
    drawn = [tag("div", charts, class_="pair")] if charts else []
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "Merge": lambda one: str(one["group"]),
        "Parties": lambda one: str(one["parties"]),
        **_clustered(run),
        "Clusters": lambda one: str(one["clusters"]),
        "Iterations": lambda one: str(one["iterations"]),
        "Converged": lambda one: "yes" if one["converged"] else "no, iteration limit reached",
        "Rounds": lambda one: str(one["rounds"]),
    }
    if _opens_rows(run):
        del columns["Iterations"], columns["Converged"]
    rows = [[text(one) for text in columns.values()] for one in merges]
    numeric = [place for place, name in enumerate(columns) if name not in ("Merge", "Converged")]
    merged = panel(table("Merges", list(columns), rows, numeric=numeric, hidden_caption=True))
    return section("rounds", "Convergence", _convergence(run, merges), *drawn, merged)


def _opens_rows(run: RunFolder) -> bool:
    """Return whether the coordinator saw the rows and clustered them itself."""
    return run.parameters.get("method") == "joint" and run.parameters.get("joint_rows") == "coordinator"


def _clustered(run: RunFolder) -> dict[str, Callable[[dict[str, Any]], str]]:
    """Return the columns that count what a merge clustered: nodes, or cells."""
    method = run.parameters.get("method")
    name = {"basic": "Rows", "joint": "Nodes in the sample"}.get(str(method), "Cells")
    counted: dict[str, Callable[[dict[str, Any]], str]] = {name: lambda one: count(one["rows"])}
    if method != "joint":
        counted[f"{name} of one node"] = lambda one: count(one["rows_of_one_node"])
    return counted


def _sums(run: RunFolder, rounds: int) -> str:
    if run.predicts:
        return f"The new nodes were assigned with {count(rounds, 'secure sum')}."
    text = f"The run needed {count(rounds, 'secure sum')}."
    if not run.is_party:
        text += " A coordinator does not see labels, so it cannot count the nodes that changed cluster."
    return text


def _convergence(run: RunFolder, merges: list[dict[str, Any]]) -> str:
    last, method = merges[-1], run.parameters.get("method")
    opened = _opens_rows(run)
    text = f"The run needed {count(run.summary.get('rounds', 0), 'secure sum')}"
    text += f" in {len(merges)} merges from this party to the root of the tree. " if len(merges) > 1 else ". "
    if opened:
        text += "The coordinator found the clusters in points without names, so the parties cannot count iterations."
    elif last["converged"]:
        text += f"The best attempt of k-means (restart) converged after {count(last['iterations'], 'iteration')}."
    else:
        limit = count(last["iterations"], "iteration")
        text += f"The best attempt of k-means (restart) reached the limit of {limit} and did not converge."
    if not opened:
        text += " Before the first iteration, a few secure sums assign the nodes to the initial centres."
    delays = run.summary.get("delays")
    if isinstance(delays, int):
        text += " The longest chain of messages between participants, in which each message waited for the one before, "
        text += f"has {count(delays)} messages."
    text += " A merge is one joint clustering by a group of parties."
    if method == "joint":
        if last["rows"] < run.summary.get("nodes", 0):
            text += f" The clusters were found on a sample of {count(last['rows'], 'node')}. Then every other node "
            text += "went to the cluster whose centre has the most similar direction."
    elif method != "basic":
        text += " A cell is a set of nodes with the same labels at all parties of the merge."
    return text


def _merge_chart(merge: dict[str, Any], ids: ElementIds, several: bool) -> Html:
    of = f" (merge {merge['group']})" if several else ""
    moved = [(float(one["round"]), float(one["moved"])) for one in merge["history"]]
    # The first iteration only confirms the first assignment, or is the first assignment itself.
    if len(moved) > 1 and moved[0][1] in (0, merge["rows"]):
        del moved[0]
    most = max(value for _, value in moved)
    busiest = next(one for one, value in moved if value == most)
    caption = "No node changed its cluster after the first iteration."
    if most:
        caption = f"The largest number is {count(most)}, in iteration {busiest:.0f}. "
        caption += f"The last has {count(moved[-1][1])}."
    return _chart(ids, f"Nodes that changed cluster{of}", caption, moved, count, "accent")


def _chart(
    ids: ElementIds,
    title: str,
    description: str,
    points: list[tuple[float, float]],
    text: Callable[[float], str],
    class_: str,
) -> Html:
    rounds = [one for one, _ in points]
    area = ChartArea(_WIDE, _HIGH, max(rounds), max(value for _, value in points), low_x=min(rounds))
    step = max(1, -(-len(rounds) // 8))
    axes = area.axes(rounds[::step], lambda one: f"{one:.0f}", lambda one: f"{one:,g}", "iteration")
    drawn = picture(ids, _WIDE, _HIGH, title, description, axes, area.line(points, class_))
    rows = [[f"{one:.0f}", text(value)] for one, value in points]
    data = table(f"{title}, by iteration", ["Iteration", title], rows, numeric=(0, 1))
    return figure(drawn, [tag("strong", f"{title}. "), description], data)


def traffic_section(run: RunFolder, ids: ElementIds) -> Html | None:
    """Show the messages that this role sent, along the time of the run."""
    sent = [one for one in run.ledger if one.kind.startswith("message/")]
    if not sent or not any(one.at for one in sent):  # results in memory have no times
        return None
    total, duration = sum(one.bytes for one in sent), max(one.at for one in sent)
    intro = (
        f"In this run, {run.name} sent {count(len(sent), 'message')}, {size(total)} in total, within "
        f"{seconds(duration)}. The reports of the other participants show what they sent."
    )
    return section("traffic", "Messages over time", intro, _traffic(sent, duration, ids))


def _family(line: LedgerLine) -> str:
    return FAMILY_OF_KIND.get(line.kind, "setup")


def _traffic(sent: list[LedgerLine], duration: float, ids: ElementIds) -> Html:
    lanes: dict[tuple[str, str], dict[int, dict[str, int]]] = {}
    span = duration or 1.0
    for one in sent:
        at = min(int(one.at / span * _BINS), _BINS - 1)
        moment = lanes.setdefault((one.sender, one.receiver), {}).setdefault(at, dict.fromkeys(FAMILIES, 0))
        moment[_family(one)] += one.bytes
    largest = max(sum(moment.values()) for lane in lanes.values() for moment in lane.values()) or 1
    strips = [_strip(ids, *who, lane, largest) for who, lane in lanes.items()]
    ticks = tag("div", [tag("span", seconds(span * step / 4)) for step in range(5)], class_="ticks", aria_hidden="true")
    used = {_family(one) for one in sent}
    legend = tag("ul", [tag("li", legend_key(*FAMILIES[one])) for one in FAMILIES if one in used], class_="legend")
    caption = "Each bar shows the data sent at one moment. A higher bar is more data, on a square-root scale."
    return figure(tag("div", strips, ticks), [legend, caption], _traffic_table(sent))


def _strip(ids: ElementIds, sender: str, receiver: str, lane: dict[int, dict[str, int]], largest: int) -> Html:
    parts: list[Part] = [tag("line", x1=0.0, x2=float(_BINS), y1=_STRIP_HIGH, y2=_STRIP_HIGH, class_="grid")]
    for at, moment in sorted(lane.items()):
        total, low = sum(moment.values()), _STRIP_HIGH
        # With square roots a hello can be seen next to a vector that is a thousand times as long.
        height = max(_LEAST, math.sqrt(total / largest) * _STRIP_HIGH)
        for family, (_, colour) in FAMILIES.items():
            part = height * moment[family] / total if total else 0.0
            if part:
                low -= part
                parts.append(tag("rect", x=float(at), y=low, width=1.2, height=part, class_=f"{colour} filled"))
    whole = size(sum(sum(moment.values()) for moment in lane.values()))
    title = f"Messages from {sender} to {receiver}"
    drawn = picture(ids, _BINS, _STRIP_HIGH, title, f"{whole} in total.", parts, stretched=True)
    heading = tag("p", tag("strong", f"{sender} → {receiver}"), tag("span", whole, class_="hint"), class_="lane")
    return tag("div", heading, drawn)


def _traffic_table(sent: list[LedgerLine]) -> Html:
    groups: dict[tuple[str, str, str], list[LedgerLine]] = {}
    for one in sent:
        groups.setdefault((one.sender, one.receiver, _family(one)), []).append(one)
    rows = [
        [
            f"{sender} → {receiver}",
            FAMILIES[family][0],
            count(len(found)),
            size(sum(one.bytes for one in found)),
            f"{seconds(found[0].at)} to {seconds(found[-1].at)}",
        ]
        for (sender, receiver, family), found in groups.items()
    ]
    header = ["Sender → receiver", "Type", "Messages", "Size", "Time"]
    return table("Messages by receiver and type", header, rows, numeric=(2, 3))


_ELSEWHERE = {  # shown in other sections, or in tables of their own
    "format", "name", "role", "task", "started", "finished", "seconds", "roles", "parameters", "packages",
    "session", "nodes", "cluster_sizes", "merges", "files", "data", "sweep", "psi_search", "agreement", "worth",
}  # fmt: skip
_FACTS = {
    "method": "method, and why it was taken",
    "seconds_in_sums": "seconds in secure sums",
    "delays": "messages in the longest chain (each waited for the one before)",
    "columns_read": "columns in the file",
    "columns_made": "columns after preprocessing",
    "columns_weighted": "columns weighted by inverse document frequency",
}
_NODES = {"all": "all nodes of the table", "list": "the nodes of an agreed list"}


def settings_section(run: RunFolder) -> Html:
    """Show parameters, participants, facts of this run, package versions and checksums of the result files."""
    summary = run.summary
    parameters = [
        [tag("code", name), _value(value), describe_parameter(name)]
        for name, value in run.parameters.items()
        if value not in ("", [])
    ]
    participants = [
        [str(one.get("name", "")), _role(one, run), tag("code", str(one.get("identity", "")), class_="key")]
        for one in summary.get("roles", ())
    ]
    facts: list[list[Part]] = []
    if summary.get("session"):
        facts.append(["session", tag("code", str(summary["session"]), class_="key")])
    facts += [[_fact(name), _value(value)] for name, value in summary.items() if name not in _ELSEWHERE]
    facts += _data_facts(summary.get("data"))
    packages = [[name, str(version)] for name, version in dict(summary.get("packages", {})).items()]
    digests = [[name, tag("code", value, class_="key")] for name, value in run.digests.items()]
    intro = "All participants have the same parameters and the same list of participants. Otherwise no run starts."
    return section(
        "settings",
        "Settings, versions and checksums",
        intro,
        panel(table("Parameters", ["Name", "Value", "Meaning"], parameters)),
        panel(table("Participants and their identity keys", ["Name", "Role", "Public key"], participants)),
        _proposal(summary.get("agreement")),
        panel(table("This run", ["Fact", "Value"], [row for row in facts if row[1]])),
        tag(
            "div",
            panel(table("Software", ["Package", "Version"], packages)),
            panel(table(f"SHA-256 checksums of the files next to {SUMMARY}", ["File", "Checksum"], digests)),
            class_="pair",
        ),
    )


def _proposal(agreed: Any) -> Html | None:
    """Show under which proposal the run took place, and who approved it; None if the run needed none."""
    if not isinstance(agreed, dict):
        return None
    title = (
        f"Proposal {agreed.get('number')} of {agreed.get('proposer')}, made {agreed.get('made')}, valid until "
        f"{agreed.get('expires')}, for {count(agreed.get('runs', 0), 'run')}; all have signed it"
    )
    rows: list[list[Part]] = [
        [
            str(one.get("name", "")),
            "approved" if one.get("approves") else "declined",
            str(one.get("made", "")),
            ", ".join(one.get("accepts") or ()) or "nothing beyond the default settings",
        ]
        for one in agreed.get("decisions") or ()
    ]
    return panel(table(title, ["Participant", "Decision", "Time", "Accepts by name"], rows))


def _data_facts(data: Any) -> list[list[Part]]:
    """Return which nodes took part and how the columns were preprocessed, if the summary has it."""
    if not isinstance(data, dict):
        return []
    facts: list[list[Part]] = [["nodes that took part", _NODES.get(str(data.get("nodes")), _value(data.get("nodes")))]]
    facts += [[_fact(name), _value(value)] for name, value in data.items() if name not in ("nodes", "rules")]
    rules = {name: value for name, value in dict(data.get("rules") or {}).items() if value not in (None, [], {}, "")}
    return [*facts, ["rules for columns", _value(rules)]] if rules else facts


def _role(one: dict[str, Any], run: RunFolder) -> str:
    role = str(one.get("role", ""))
    return f"{role}, aggregator" if one.get("name") == run.aggregator and role == "party" else role


def _fact(name: str) -> str:
    return _FACTS.get(name, name.replace("_", " "))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return "; ".join(f"{str(name).replace('_', ' ')}: {_value(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(_value(one) for one in value)
    return "" if value is None else str(value)
