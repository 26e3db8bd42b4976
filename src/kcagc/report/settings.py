"""With what the run was made: parameters, roles, packages, digests."""

from __future__ import annotations

from typing import Any

from kcagc.report.folder import SUMMARY, RunFolder
from kcagc.report.markup import Html, Part, table, tag
from kcagc.text import count, number

_MEANINGS = {
    "task": "fit: find clusters; predict: place new nodes in them",
    "method": "cells: on cells, all at once; tree: merge by merge; basic: on every node",
    "n_clusters": "joint clusters that were asked for",
    "n_local_clusters": "clusters of each party alone",
    "filter": "how columns are smoothed along the graph",
    "n_components": "singular vectors that each party projects on",
    "scaling": "how projected rows are scaled",
    "unit": "what rows are divided by, where scaling is US",
    "virtual_nodes": "where a cell stands",
    "seeding": "how starts are found",
    "fan_in": "children of a merge in the tree",
    "aggregator": "who sums: a coordinator without data, or the last party",
    "max_iter": "the most Lloyd iterations",
    "n_init": "starts side by side",
    "graph": "whether all parties have the same edges",
    "model": "the fit that a prediction continues",
}
_TOLD = {  # what other sections show, or this one in a table of its own
    "format", "name", "role", "task", "begun", "finished", "seconds", "roles", "parameters", "packages",
    "session", "nodes", "cluster_sizes", "merges", "files", "data",
}  # fmt: skip


def settings_section(run: RunFolder) -> Html:
    """Show the configuration, who took part, and what proves which files this page is about."""
    summary = run.summary
    parameters: list[list[Part]] = [
        [tag("code", name), _value(value), _MEANINGS.get(name, "")]
        for name, value in dict(summary.get("parameters", {})).items()
        if value != ""
    ]
    roles: list[list[Part]] = [
        [str(one.get("name", "")), _role(one, run), tag("code", str(one.get("identity", "")), class_="key")]
        for one in summary.get("roles", ())
    ]
    packages: list[list[Part]] = [[name, str(version)] for name, version in dict(summary.get("packages", {})).items()]
    digests: list[list[Part]] = [[name, tag("code", value, class_="key")] for name, value in run.digests.items()]
    facts: list[list[Part]] = [[_called(name), _value(value)] for name, value in summary.items() if name not in _TOLD]
    facts = [row for row in facts if row[1]] + _brought(summary.get("data"))
    if summary.get("session"):
        facts.insert(0, ["session", tag("code", str(summary["session"]), class_="key")])
    parts: list[Part] = [
        tag("h2", "Configuration, versions, digests"),
        tag(
            "p",
            "The first two tables are the same at all roles: a difference would have ended the run at its first words.",
            class_="lede",
        ),
        tag("div", table("Parameters", ["Name", "Value", "Meaning"], parameters), class_="card"),
        tag(
            "div",
            table("Who took part, and the identity key that all others pinned", ["Name", "Role", "Public key"], roles),
            class_="card",
        ),
        tag("div", table("This run", ["What", "Value"], facts), class_="card"),
        tag(
            "div",
            tag("div", table("Software", ["Package", "Version"], packages), class_="card"),
            tag("div", table(f"SHA-256 of the files beside {SUMMARY}", ["File", "Digest"], digests), class_="card"),
            class_="pair",
        ),
    ]
    return tag("section", parts, id="settings")


def _brought(data: Any) -> list[list[Part]]:
    """Say which nodes took part and what became of the columns, where the summary tells."""
    if not isinstance(data, dict):
        return []
    policy = {"all": "all nodes of the table and the graph", "list": "the nodes of an agreed list"}
    said: list[list[Part]] = [["nodes that took part", policy.get(str(data.get("nodes")), _value(data.get("nodes")))]]
    said += [[_called(name), _value(value)] for name, value in data.items() if name not in ("nodes", "rules")]
    rules = {name: value for name, value in dict(data.get("rules") or {}).items() if value not in (None, [], {}, "")}
    return [*said, ["rules for columns", _value(rules)]] if rules else said


def _role(one: dict[str, Any], run: RunFolder) -> str:
    role = str(one.get("role", ""))
    return f"{role}, sums" if one.get("name") == run.aggregator and role == "party" else role


def _called(name: str) -> str:
    return name.replace("_", " ")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return "; ".join(f"{_called(str(name))}: {_value(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(_value(one) for one in value)
    return "" if value is None else str(value)
