"""`kcagc match`: find the ids that all parties have, before a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kcagc.cli import terminal
from kcagc.cli.roles import FILE, WITH_DATA, agreed_config, load_config, options
from kcagc.text import size


@click.command()
@options(*WITH_DATA)
@click.option("--ids", type=FILE, help="A list of ids in place of those of the party's table.")
@click.option("--count", is_flag=True, help="Only count common ids, of two parties; neither learns which they are.")
@options("new_session", "watch", "log_format", "as_json")
def match(
    config: Path,
    ids: Path | None,
    count: bool,
    new_session: bool,
    watch: bool,
    log_format: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Find the ids that all parties have, and write the list of nodes for `node_list`; every role runs this.

    No party sees an id of another one that it does not have itself. With three or more parties, the first ones also
    learn ids that they have in common although later ones do not have them: each party must accept "partial-matches".
    The ids are those of the nodes of the shared graph for which the table has a row; without a shared graph, all ids of
    the table. This is a session of its own, with new keys. It needs kcagc[psi].
    """
    from kcagc.deploy.match import MatchRun
    from kcagc.deploy.run import execute

    run = MatchRun(load_config(config, **given), counts_only=count, list_file=ids)
    if run.config.document.approval.required:
        own, new_session = agreed_config(run, new_session=new_session)
        run = replace(run, config=own)
    with terminal.StatusDisplay(run.config.me, full=watch, as_json=log_format == "json").shown() as display:
        connections = display.connections if watch else None
        summary = execute(run, new_session=new_session, watcher=display.progress, on_status=connections)
    if as_json:
        terminal.print_json(summary)
    else:
        _show(config, run.files.folder, summary)


def _show(config: Path, folder: Path, summary: dict[str, Any]) -> None:
    from rich.markup import escape

    console = terminal.out()
    if "common" in summary:
        common, own = summary["common"], summary["ids"]
        line = f"[bold]{common:,} common ids[/]; {own - common:,} only here"
        if "ids_of_other" in summary:
            other = next(one["name"] for one in summary["roles"] if one["role"] == "party" and not _is_me(one, summary))
            line += f", {summary['ids_of_other'] - common:,} only at {escape(other)}"
        console.print(line, soft_wrap=True)
    if "node_list" in summary["files"]:
        path = folder / summary["files"]["node_list"]
        console.print(f"{escape(str(path))}: the list of them. In \\[data], write", soft_wrap=True)
        console.print(f"node_list = {json.dumps(_from(config.parent, path))}", markup=False, soft_wrap=True)
    sent = f"{summary['messages_sent']} messages, {size(summary['bytes_sent'])} sent"
    console.print(f"{sent}. What each message disclosed: {escape(str(folder / 'ledger.jsonl'))}", soft_wrap=True)


def _from(folder: Path, path: Path) -> str:
    """Return a path as a configuration in this folder names it."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path.absolute())


def _is_me(role: dict[str, Any], summary: dict[str, Any]) -> bool:
    return bool(role["name"] == summary["name"])
