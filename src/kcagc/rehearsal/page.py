"""The page of a rehearsal: curves, time, bytes and disclosures of each setting; one offline file without a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np

from kcagc.data.files import PRIVATE, write_text
from kcagc.rehearsal.advice import Advice
from kcagc.rehearsal.runs import Outcome, Rehearsal
from kcagc.report.document import document
from kcagc.report.drawing import ChartArea, ElementIds, cluster_class, legend_key, picture
from kcagc.report.markup import Html, Part, figure, section, table, tag, tiles
from kcagc.report.worth import worth_sentences
from kcagc.text import count, listed, number, percent, seconds, size

_WIDE, _HIGH = 520.0, 260.0  # of a chart
_MANY = 14  # values from which on only some have their number below the axis

_MEASURES = {
    "ari": (
        "ARI",
        "Agreement of the clusters with the known classes, on pairs of nodes: 1 is full agreement, 0 chance.",
    ),
    "accuracy": ("Accuracy", "Share of nodes whose cluster matches their known class."),
    "held": (
        "Modularity of held-out edges",
        "Clusters were found again without a fifth of the edges. The curve shows how many of these edges lie inside "
        "clusters, less the share expected by chance. Smoothing did not use them, so too much smoothing, or too many "
        "clusters, do not raise it.",
    ),
    "stability": ("Stability", "Agreement of the runs with each other (adjusted Rand index): 1 is full agreement."),
    "modularity": (
        "Modularity of all edges",
        "It rises with ψ even where smoothing goes too far, because smoothing has used the same edges. Do not choose "
        "by it.",
    ),
    "seconds": ("Seconds", "Time of one run with all roles in one process, without a network."),
    "megabytes": ("Megabytes", "Size of all messages of one run, of all roles together."),
}


def write_page(path: Path, rehearsal: Rehearsal, advice: Advice) -> None:
    """Write the page, readable by its owner only; the file is complete or absent."""
    write_text(path, page_of(rehearsal, advice), mode=PRIVATE)


def page_of(rehearsal: Rehearsal, advice: Advice) -> str:
    """Return the page."""
    ids, ran = ElementIds(), [one for one in rehearsal.outcomes if one.ok]
    sections = {
        "At a glance": ("overview", _overview(rehearsal, advice)),
        "Settings": ("settings", _settings(rehearsal, advice)),
        "Curves": ("curves", _curves(rehearsal, ran, ids) if len(ran) > 1 else None),
        "Was it worth it?": ("worth", _worth(rehearsal, advice) if ran else None),
        "Disclosures": ("disclosures", _disclosures(ran) if ran else None),
        "To copy": ("copy", _to_copy(advice) if advice.block else None),
    }
    return document("Rehearsal", _header(rehearsal), sections, _footer())


def _header(rehearsal: Rehearsal) -> Html:
    graph, names = rehearsal.parties.first.graph, rehearsal.parties.names
    intro = (
        f"All roles ran on one machine: the parties {listed(names)}"
        + (", and a coordinator without data" if rehearsal.grid.others.get("aggregator") != "party" else "")
        + f". They have {count(graph.n_nodes, 'node')} and {count(graph.n_edges, 'edge')}. Messages and masks were "
        "those of a run between organisations, but nothing left this machine."
    )
    return tag(
        "header",
        tag("p", tag("span", "kcagc", class_="brand"), " rehearsal", class_="kicker"),
        tag("h1", f"{count(len(rehearsal.outcomes), 'setting')} rehearsed"),
        tag("p", intro, class_="intro"),
        [tag("p", note, class_="hint") for note in rehearsal.parties.notes],
        class_="masthead",
    )


def _overview(rehearsal: Rehearsal, advice: Advice) -> Html:
    refused = sum(not one.ok for one in rehearsal.outcomes)
    equally = len(advice.best)
    figures = [
        ("Settings", str(len(rehearsal.outcomes)), f"{refused} refused" if refused else "all of them ran"),
        (
            "Runs of each",
            str(len(rehearsal.grid.seeds)),
            f"with the seeds {listed([str(one) for one in rehearsal.grid.seeds], 6)}",
        ),
        (
            "Equally good",
            str(equally),
            "settings that chance cannot tell apart" if equally > 1 else "settings at the top",
        ),
        (
            "Duration",
            seconds(rehearsal.seconds),
            "with the runs without held-out edges" if rehearsal.edges else "in all",
        ),
    ]
    said = tag("ul", [tag("li", one) for one in advice.sentences], class_="said")
    return section("overview", "At a glance", None, tiles(figures), said)


def taken(outcome: Outcome) -> tuple[str, str]:
    """Return ψ and the method of a setting in words, with what "auto" took in its runs."""
    psis = sorted({one.psi for one in outcome.runs if one.psi is not None})
    psi, method = str(outcome.setting.psi), outcome.setting.method
    if psi == "auto" and psis:
        psi += f" ({', '.join(map(str, psis))})"
    return psi, f"auto ({outcome.method})" if method == "auto" and outcome.method else method


def _settings(rehearsal: Rehearsal, advice: Advice) -> Html:
    known, edges, several = rehearsal.parties.classes is not None, bool(rehearsal.edges), len(rehearsal.grid.seeds) > 1
    header: list[Part] = ["k", "ψ", "Method"]
    header += ["Accuracy", "NMI", "ARI"] if known else []
    header += ["Held-out modularity"] if edges else []
    header += ["Modularity", *(["Stability"] if several else []), "Nodes in a cluster", "Rounds", "Sent", "Time"]
    rows: list[list[Part]] = []
    for one in rehearsal.outcomes:
        if not one.ok:
            continue
        psi, method = taken(one)
        name = tag(
            "span", str(one.setting.n_clusters), tag("span", " ★", class_="brand") if one in advice.best else None
        )
        sizes = np.bincount(one.runs[0].labels, minlength=one.setting.n_clusters)
        row: list[Part] = [tag("span", name, class_="chip"), tag("span", psi, class_="chip"), method]
        if known:
            mean = {measure: float(np.mean(rehearsal.known(one, measure))) for measure in ("accuracy", "nmi", "ari")}
            row += [percent(mean["accuracy"]), f"{mean['nmi']:.3f}", f"{mean['ari']:.3f}"]
        held, stable = rehearsal.held_out(one), rehearsal.stability(one)
        row += ["–" if held is None else f"{held:.3f}"] if edges else []
        row += [f"{rehearsal.modularity(one):.3f}", *(["–" if stable is None else f"{stable:.2f}"] if several else [])]
        row += [f"{sizes.min():,} to {sizes.max():,}", count(float(np.mean([run.rounds for run in one.runs])))]
        row += [size(float(np.mean([run.bytes for run in one.runs])))]
        row += [seconds(float(np.mean([run.seconds for run in one.runs])))]
        rows.append(row)
    intro = (
        "Figures are means over the runs of a setting. A star marks the best setting, and all that are equally good: "
        "their difference to the best is no larger than chance explains."
    )
    parts: list[Part] = []
    if rows:
        parts.append(
            tag("div", table("Each setting that ran", header, rows, numeric=range(3, len(header))), class_="card")
        )
    refused = [one for one in rehearsal.outcomes if one.error is not None]
    if refused:
        reasons: list[list[Part]] = [[tag("span", one.setting.title, class_="chip"), str(one.error)] for one in refused]
        parts.append(tag("div", table("Settings that were refused", ["Setting", "Reason"], reasons), class_="card"))
    return section("settings", "Settings", intro, *parts)


# Curves


def _curves(rehearsal: Rehearsal, ran: Sequence[Outcome], ids: ElementIds) -> Html:
    """Draw each measure over k, or over ψ if there is only one k; a line for each of the other settings."""
    by_k = len({one.setting.n_clusters for one in ran}) > 1
    by_psi = not by_k and len({one.setting.psi for one in ran}) > 1
    known, several = rehearsal.parties.classes is not None, len(rehearsal.grid.seeds) > 1
    shown: dict[str, Callable[[Outcome], float | None]] = {}
    if known:
        shown["ari"] = lambda one: float(np.mean(rehearsal.known(one, "ari")))
        shown["accuracy"] = lambda one: float(np.mean(rehearsal.known(one, "accuracy")))
    if rehearsal.edges:
        shown["held"] = rehearsal.held_out
    if several:
        shown["stability"] = rehearsal.stability
    shown["modularity"] = rehearsal.modularity
    shown["seconds"] = lambda one: float(np.mean([run.seconds for run in one.runs]))
    shown["megabytes"] = lambda one: float(np.mean([run.bytes for run in one.runs])) / 1e6
    label = "number of clusters k" if by_k else "ψ" if by_psi else "method"

    def place(one: Outcome) -> str:
        return str(one.setting.n_clusters) if by_k else str(one.setting.psi) if by_psi else one.setting.method

    def line(one: Outcome) -> str:
        parts = [f"ψ = {one.setting.psi}"] if by_k else []
        return ", ".join([*parts, f"method {one.setting.method}"]) if by_k or by_psi else "all methods"

    axis = list(dict.fromkeys(place(one) for one in ran))
    lines = list(dict.fromkeys(line(one) for one in ran))
    figures = [
        _chart(ids, name, label, axis, lines, [(place(one), line(one), measure(one)) for one in ran])
        for name, measure in shown.items()
    ]
    pairs = [tag("div", figures[at : at + 2], class_="pair") for at in range(0, len(figures), 2)]
    intro = f"Each measure over {label}. Each line is one combination of the other settings; a dot is one setting."
    return section("curves", "Curves", intro, *pairs)


def _chart(
    ids: ElementIds,
    name: str,
    label: str,
    axis: Sequence[str],
    lines: Sequence[str],
    values: Sequence[tuple[str, str, float | None]],
) -> Html:
    title, meaning = _MEASURES[name]
    drawn = [(axis.index(place), lines.index(line), height) for place, line, height in values if height is not None]
    highest = max([height for _, _, height in drawn] or [1.0])
    area = ChartArea(_WIDE, _HIGH, len(axis) - 0.5, max(highest, 1e-9), low_x=-0.5)
    step = -(-len(axis) // _MANY)
    parts: list[Part] = [
        area.axes([float(at) for at in range(0, len(axis), step)], lambda at: axis[round(at)], "{:g}".format, label)
    ]
    for which, _ in enumerate(lines):
        points = sorted((float(at), max(height, 0.0)) for at, own, height in drawn if own == which)
        if points:
            parts.append(area.line(points, cluster_class(which)))
    words = f"{count(len(lines), 'line')} over {label}. {meaning}"
    whole = picture(ids, _WIDE, _HIGH, title, words, parts)
    legend = tag("ul", [tag("li", legend_key(one, cluster_class(at))) for at, one in enumerate(lines)], class_="legend")
    rows: list[list[Part]] = [
        [place, line, "–" if height is None else number(height)] for place, line, height in values
    ]
    data = table(title, [label, "Line", title], rows, numeric=(2,))
    return figure(whole, [legend if len(lines) > 1 else None, tag("strong", f"{title}. "), meaning], data)


# The other sections


def _worth(rehearsal: Rehearsal, advice: Advice) -> Html:
    intro = (
        "After each run, every party clustered the nodes again with its own columns alone: the same k and ψ, the same "
        "steps of k-means. Agreement is the adjusted Rand index of both clusterings (1 is equal, 0 is chance). A node "
        "moved if it is in another cluster than alone. The last column counts the joint clusters that only the columns "
        "of others separate. In a run between organisations, each party sees its own figures only."
    )
    rows: list[list[Part]] = []
    for one in rehearsal.outcomes:
        for name, worth in one.worth.items():
            pair = [worth.modularity_alone, worth.modularity_together]
            modularity = "–" if None in pair else f"{worth.modularity_alone:.3f} → {worth.modularity_together:.3f}"
            moved = percent(worth.moved / worth.nodes)
            hidden = f"{len(worth.hidden)} of {len(worth.clusters)}"
            rows.append(
                [
                    tag("span", one.setting.title, class_="chip"),
                    name,
                    f"{worth.agreement:.2f}",
                    moved,
                    modularity,
                    hidden,
                ]
            )
    header: list[Part] = ["Setting", "Party", "Agreement", "Moved", "Modularity alone → together", "Only by others"]
    said: list[Part] = []
    if advice.chosen is not None:
        said.append(tag("h3", f"With {advice.chosen.setting.title}"))
        for name, worth in advice.chosen.worth.items():
            items = tag("ul", [tag("li", one) for one in worth_sentences(worth, name)], class_="said")
            said.append(tag("div", tag("strong", name), items, class_="card"))
    drawn = tag("div", table("Own clusters beside the joint ones", header, rows, numeric=range(2, 6)), class_="card")
    return section("worth", "Was it worth it?", intro, drawn, *said)


def _disclosures(ran: Sequence[Outcome]) -> Html:
    """Show who learns what, once for all settings that disclose the same."""
    groups: dict[tuple[tuple[str, str, bool], ...], list[Outcome]] = {}
    for one in ran:
        groups.setdefault(one.learned, []).append(one)
    intro = (
        "What each role learns about the data in one run. The bytes are in the table of settings. A run between "
        "organisations is refused by the software of a party unless its policy accepts what is marked."
    )
    parts: list[Part] = []
    for learned, members in groups.items():
        title = "All settings" if len(groups) == 1 else listed(_titles(members, ran), 6)
        by_receiver: dict[str, list[tuple[str, bool]]] = {}
        for who, text, more in learned:
            by_receiver.setdefault(who, []).append((text, more))
        items = [_learned(who, texts) for who, texts in by_receiver.items()]
        parts += [tag("h3", title), tag("ul", items, class_="ledger")]
    return section("disclosures", "What each role learns", intro, *parts)


def _titles(members: Sequence[Outcome], ran: Sequence[Outcome]) -> list[str]:
    """Return the titles of settings; all that differ only in k have one title if all of them are among the members."""
    found = []
    for one in members:
        alike = [other for other in ran if _without_k(other) == _without_k(one)]
        whole = len(alike) > 1 and all(other in members for other in alike)
        found.append(_without_k(one) if whole else one.setting.title)
    return list(dict.fromkeys(found))


def _without_k(outcome: Outcome) -> str:
    return f"ψ = {outcome.setting.psi}, method {outcome.setting.method}"


def _learned(who: str, texts: Sequence[tuple[str, bool]]) -> Html:
    more = any(one for _, one in texts)
    flag = tag("span", "more than the default", class_="flag")
    paragraphs = [tag("p", text, [" ", flag] if weaker else None) for text, weaker in texts]
    head = tag("div", tag("strong", who), class_="what")
    return tag("li", head, paragraphs, class_="card weaker" if more else "card")


def _to_copy(advice: Advice) -> Html:
    setting = "" if advice.chosen is None else f" of {advice.chosen.setting.title}"
    intro = f"The lines{setting} for kcagc.toml. All roles must have the same values in [session]."
    return section(
        "copy", "The settings to copy", intro, tag("div", tag("pre", tag("code", advice.block)), class_="card")
    )


def _footer() -> str:
    return (
        f"kcagc {metadata.version('kcagc')} made this page. It shows figures about the tables of all parties of the "
        "rehearsal, but no row, label or id. The page loads nothing from a network."
    )
