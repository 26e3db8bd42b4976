"""Was it worth it? A party's own clustering beside the joint one, in plain sentences and a table."""

from __future__ import annotations

from kcagc.report.drawing import cluster_name
from kcagc.report.folder import RunFolder
from kcagc.report.insights.worth import FOUND, OwnView, Worth
from kcagc.report.markup import Html, Part, section, table, tag, tiles
from kcagc.report.names import ClusterNames
from kcagc.text import count, listed, percent

_NAMED = 4  # clusters that a sentence names
_LIKE = (
    (0.95, "nearly the same"),
    (0.7, "similar"),
    (0.3, "partly other"),
)  # adjusted Rand indices, and words for them
_NEAR = 0.05  # of two such indices that count as equal
_UNSURE = 0.75


def worth_section(run: RunFolder) -> Html | None:
    """Show what the party's own columns would have found alone; None if the folder does not say."""
    if "worth" not in run.summary or run.predicts:
        return None
    worth = Worth.from_dict(run.summary["worth"])
    intro = (
        f"After the run, {run.name} clustered the nodes again with its own columns alone: the same numbers of clusters "
        "and smoothing steps, the same steps of k-means. No other role took part, and nothing was sent. Without known "
        "classes, nothing can say which clusters are right. These figures say what the columns of the others changed."
    )
    said = tag("ul", [tag("li", one) for one in worth_sentences(worth, run.name)], class_="said")
    drawn = worth_table(worth, run.name, run.names)
    return section("worth", "Was it worth it?", intro, tiles(_figures(worth)), said, drawn)


def worth_sentences(worth: Worth, name: str) -> list[str]:
    """Return in sentences what the columns of the others changed for a party."""
    found = [_agreement(worth, name), _moved(worth)]
    if worth.modularity_together is not None and worth.modularity_alone is not None:
        found.append(
            f"In the graph, the joint clusters have the modularity {worth.modularity_together:.2f}, those of {name} "
            f"alone {worth.modularity_alone:.2f}. Both clusterings used the graph, and a higher modularity means that "
            "more edges lie inside clusters."
        )
    found.append(_hidden(worth, name))
    if worth.sure is not None:
        found.append(_sure(worth))
    return found


def _agreement(worth: Worth, name: str) -> str:
    like = next((word for least, word in _LIKE if worth.agreement >= least), "mostly other")
    text = (
        f"With its own columns alone, {name} would have found {like} clusters: the agreement with the joint clusters "
        f"is {worth.agreement:.2f} (adjusted Rand index: 1 is equal, 0 is chance)."
    )
    own = (
        f"Own clusterings of {worth.clusterings - 1} random samples of the nodes agree with each other by "
        f"{worth.own_agreement:.2f}"
    )
    if worth.own_agreement <= worth.agreement + _NEAR:
        return f"{text} {own}, which is hardly more: the difference to the joint clusters may be chance."
    return f"{text} {own}."


def _moved(worth: Worth) -> str:
    share = percent(worth.moved / worth.nodes)
    return (
        f"{count(worth.moved)} of {count(worth.nodes, 'node')} ({share}) moved: after the best matching of the "
        "clusters, they are in another cluster than alone."
    )


def _hidden(worth: Worth, name: str) -> str:
    hidden = worth.hidden
    if not hidden:
        return f"The columns of {name} alone find every joint cluster in most of the own clusterings."
    text = f"Only the columns of others separate {_named([one.cluster for one in hidden], _NAMED)}."
    details = [one for one in (_own_view(view, name) for view in hidden[:_NAMED]) if one]
    return " ".join([text, *details])


def _own_view(view: OwnView, name: str) -> str:
    if view.alone == "scattered":
        return f"The columns of {name} alone scatter cluster {view.cluster} over several clusters."
    if view.alone == "merged" and view.together_with:
        others = (
            f"cluster{'' if len(view.together_with) == 1 else 's'} {listed([str(one) for one in view.together_with])}"
        )
        return f"The columns of {name} alone put most of cluster {view.cluster} together with nodes of {others}."
    return ""


def _named(clusters: list[int], at_most: int | None = None) -> str:
    return f"cluster{'' if len(clusters) == 1 else 's'} {listed([str(one) for one in clusters], at_most)}"


def _sure(worth: Worth) -> str:
    other = "the other restart" if worth.restarts == 1 else f"all {worth.restarts} other restarts"
    text = (
        f"{percent(worth.sure)} of the nodes are in the same cluster in {other} of this run that ran to the end; their "
        "clusters do not depend on the start."
    )
    unsure = [one for one in worth.clusters if one.sure is not None and one.sure < _UNSURE]
    if unsure:
        which = listed([f"cluster {one.cluster} ({percent(one.sure, 0)})" for one in unsure], _NAMED)
        text += f" Least sure, with the share of agreeing restarts: {which}."
    return text


def _figures(worth: Worth) -> list[tuple[str, str, str]]:
    own = f"of both clusterings (adjusted Rand index); own clusterings with each other: {worth.own_agreement:.2f}"
    figures = [
        ("Agreement", f"{worth.agreement:.2f}", own),
        ("Moved", percent(worth.moved / worth.nodes), f"{count(worth.moved, 'node')} in another cluster than alone"),
    ]
    if worth.modularity_together is not None and worth.modularity_alone is not None:
        figures.append(
            ("Modularity", f"{worth.modularity_together:.2f}", f"together; alone {worth.modularity_alone:.2f}")
        )
    hidden = len(worth.hidden)
    figures.append(("Clusters", str(hidden), f"of {len(worth.clusters)} that only the columns of others separate"))
    if worth.sure is not None:
        figures.append(("Sure", percent(worth.sure), "nodes that all restarts put into the same cluster"))
    return figures


def worth_table(worth: Worth, name: str, names: ClusterNames | None = None) -> Html:
    """Return each joint cluster as the party's own columns show it."""
    named = names or ClusterNames()
    with_sure = worth.sure is not None
    header: list[Part] = ["Cluster", "Nodes", f"In the columns of {name} alone", "Largest overlap", "Found alone"]
    header += ["Restarts that agree"] if with_sure else []
    rows: list[list[Part]] = []
    for view in worth.clusters:
        words = {"found": "found", "merged": "merged", "scattered": "scattered"}[view.alone]
        if view.together_with:
            words += f" with {listed([str(one) for one in view.together_with])}"
        sure = [percent(view.sure, 0)] if with_sure else []
        found = f"{view.found_in} of {worth.clusterings}"
        cluster = cluster_name(view.cluster, named.of(view.cluster))
        rows.append([cluster, count(view.size), words, percent(view.overlap, 0), found, *sure])
    numeric = (1, 3, 4, 5) if with_sure else (1, 3, 4)
    drawn = table("Joint clusters in own columns", header, rows, numeric=numeric)
    hint = (
        "The overlap of two clusters is the number of nodes in both, divided by the number of nodes in either. A joint "
        f"cluster is found alone if an own cluster overlaps with it by more than {percent(FOUND, 0)}. It is merged if "
        "more than half of its nodes are in one own cluster, among many others. Otherwise it is scattered. These words "
        "and the overlap are of the own clustering of all nodes. “Found alone” counts this clustering and those of "
        f"{worth.clusterings - 1} random samples of {count(worth.sampled, 'node')}."
    )
    return tag("div", drawn, tag("p", hint, class_="hint"), class_="card")
