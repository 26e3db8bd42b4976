"""`kcagc party`, `kcagc coordinator` and `kcagc predict`: one role of a run, on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from kcagc.cli import terminal
from kcagc.cli.settings import WITH_DATA, WITHOUT_DATA, loaded, options
from kcagc.cli.watching import Watching
from kcagc.text import size

# gRPC writes a line to stderr for every TLS handshake that it refuses. These lines need knowledge of gRPC; the refused
# party explains the reason itself. Set GRPC_VERBOSITY=INFO to see them. gRPC reads the variable when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@click.command()
@options(*WITH_DATA, "new_session", "watch", "report", "as_json")
def party(config: Path, **given: Any) -> None:
    """Run a data party: connect to the aggregator, cluster with the others, write results.

    Started again with the same command after an interruption, it goes on where it was.
    """
    _run("party", config, None, **given)


@click.command()
@options(*WITHOUT_DATA, "new_session", "watch", "report", "as_json")
def coordinator(config: Path, **given: Any) -> None:
    """Run the coordinator: listen for the parties, pass their boxes on, add up what they mask."""
    _run("coordinator", config, None, **given)


@click.command()
@options(*WITH_DATA, "model", "new_session", "watch", "report", "as_json")
def predict(config: Path, model: Path, **given: Any) -> None:
    """Place new nodes, as any role: every role of the fit runs this with its own model.

    It is a session of its own, with new keys. The tables are those of [predict] in the configuration.
    """
    _run("predict", config, model, **given)


def _run(
    command: str,
    path: Path,
    model: Path | None,
    *,
    new_session: bool,
    watch: bool,
    report: bool,
    as_json: bool,
    **changes: Any,
) -> None:
    from kcagc.deploy.run import RoleRun, execute
    from kcagc.errors import ParameterError

    config = loaded(path, predicting=model is not None, **changes)
    if command not in ("predict", config.role):
        raise ParameterError(
            f"{path}: is the configuration of a {config.role}; run: kcagc {config.role} --config {path}"
        )
    role_run = RoleRun(config) if model is None else RoleRun.predict(config, model)
    with Watching(config.me, in_full=watch).shown() as watching:
        summary = execute(
            role_run,
            new_session=new_session,
            watcher=watching.watch,
            look=watching.look if watch else None,
            report=report,
        )
    if as_json:
        terminal.print_json(summary)
    else:
        _show(role_run.files.folder, summary)


def _show(folder: Path, summary: dict[str, Any]) -> None:
    from rich.markup import escape

    console = terminal.out()
    if "cluster_sizes" in summary:
        console.print(_found(summary["task"], summary["nodes"], summary["cluster_sizes"]))
    sent = f"{summary['messages_sent']} messages, {size(summary['bytes_sent'])} sent"
    console.print(f"{sent}. What left, and what was learned from it: {escape(str(folder / 'ledger.jsonl'))}")
    files = ", ".join(summary["files"].values())
    console.print(f"In {escape(str(folder))}: {files}, run.json", soft_wrap=True)
    page = folder / "report.html"
    if page.exists():
        console.print(f"All of it on one page: [bold]{escape(str(page))}[/]", soft_wrap=True)


def _found(task: str, nodes: int, sizes: list[int]) -> str:
    if task == "predict":  # which cluster got how many: most of them may have got none
        listed = ", ".join(f"{size} in cluster {cluster}" for cluster, size in enumerate(sizes) if size)
        return f"[bold]{nodes:,} new nodes[/]: {listed}"
    return f"[bold]{nodes:,} nodes in {len(sizes)} clusters[/] of {' '.join(map(str, sorted(sizes, reverse=True)))}"
