"""`kcagc party`, `kcagc coordinator` and `kcagc predict`: one role of a run, on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kcagc.cli import screen
from kcagc.cli.watching import Watching

_FILE = click.Path(dir_okay=False, path_type=Path)


def _options(*, data: bool) -> Callable[[Any], Any]:
    """Give the options that all roles have; each goes before the environment, which goes before the file."""
    listed = [
        click.option("--config", type=_FILE, required=True, envvar="KCAGC_CONFIG", help="The role's TOML file."),
        click.option("--address", envvar="KCAGC_ADDRESS", help="Where the aggregator listens, HOST:PORT."),
        click.option("--listen", envvar="KCAGC_LISTEN", help="Where to listen, for the aggregator."),
        click.option("--output", envvar="KCAGC_OUTPUT", help="Folder for results."),
        click.option("--state", envvar="KCAGC_STATE", help="Folder for the journal."),
        click.option("--random-state", type=int, envvar="KCAGC_RANDOM_STATE", help="For tests: the same labels again."),
        click.option("--missing", type=float, envvar="KCAGC_MISSING", help="Seconds to wait for who is not there."),
        click.option("--new-session", is_flag=True, help="Forget what the journal has, and begin anew."),
        click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
    ]
    if data:
        listed[5:5] = [
            click.option("--features", envvar="KCAGC_FEATURES", help="The party's table."),
            click.option("--graph", envvar="KCAGC_GRAPH", help="The shared edges."),
        ]

    def decorate(command: Any) -> Any:
        for option in reversed(listed):
            command = option(command)
        return command

    return decorate


@click.command()
@_options(data=True)
def party(config: Path, **options: Any) -> None:
    """Run a data party: connect to the aggregator, cluster with the others, write results.

    Started again with the same command after an interruption, it goes on where it was.
    """
    _run("party", config, None, **options)


@click.command()
@_options(data=False)
def coordinator(config: Path, **options: Any) -> None:
    """Run the coordinator: listen for the parties, pass their boxes on, add up what they mask."""
    _run("coordinator", config, None, **options)


@click.command()
@_options(data=True)
@click.option("--model", type=_FILE, required=True, envvar="KCAGC_MODEL", help="What the fit left: model.kcagc.")
def predict(config: Path, model: Path, **options: Any) -> None:
    """Place new nodes, as any role: every role of the fit runs this with its own model.

    It is a session of its own, with new keys. The tables are those of [predict] in the configuration.
    """
    _run("predict", config, model, **options)


def _run(command: str, path: Path, model: Path | None, *, new_session: bool, as_json: bool, **changes: Any) -> None:
    from kcagc.deployment.config import Config
    from kcagc.deployment.running import run
    from kcagc.deployment.task import Task
    from kcagc.errors import ParameterError
    from kcagc.transport.grpc_log import plain_refusals

    section = "data" if model is None else "predict"
    config = Config.load(
        path,
        {
            "network.address": changes.get("address"),
            "network.listen": changes.get("listen"),
            "output.folder": _absolute(changes.get("output")),
            "output.state": _absolute(changes.get("state")),
            "me.random_state": changes.get("random_state"),
            "waiting.missing": changes.get("missing"),
            f"{section}.features": _absolute(changes.get("features")),
            f"{section}.graph": _absolute(changes.get("graph")),
        },
    )
    if command not in ("predict", config.role):
        raise ParameterError(
            f"{path}: is the configuration of a {config.role}; run: kcagc {config.role} --config {path}"
        )
    task = Task(config) if model is None else Task.predict(config, model)
    said: list[Watching] = []

    def refused(words: str) -> None:
        # A party hears in words of our own why it cannot connect; only the aggregator needs gRPC's.
        if config.listens and said:
            said[0].log(words)

    with plain_refusals(refused), Watching(config.me).shown() as watching:
        said.append(watching)
        summary = run(task, new_session=new_session, log=watching.log, watcher=watching.watch)
    if as_json:
        screen.print_json(summary)
    else:
        _show(task.places.folder, summary)


def _absolute(name: str | None) -> str | None:
    """Take what is given on the command line as relative to where one is, not to the configuration."""
    return None if name is None else str(Path(name).absolute())


def _found(task: str, nodes: int, sizes: list[int]) -> str:
    if task == "predict":  # which cluster got how many: most of them may have got none
        listed = ", ".join(f"{size} in cluster {cluster}" for cluster, size in enumerate(sizes) if size)
        return f"[bold]{nodes:,} new nodes[/]: {listed}"
    return f"[bold]{nodes:,} nodes in {len(sizes)} clusters[/] of {' '.join(map(str, sorted(sizes, reverse=True)))}"


def _show(folder: Path, summary: dict[str, Any]) -> None:
    from rich.markup import escape

    console = screen.out()
    if "cluster_sizes" in summary:
        console.print(_found(summary["task"], summary["nodes"], summary["cluster_sizes"]))
    sent = f"{summary['messages_sent']} messages, {screen.size(summary['bytes_sent'])} sent"
    console.print(f"{sent}. What left, and what was learned from it: {escape(str(folder / 'ledger.jsonl'))}")
    files = ", ".join(summary["files"].values())
    console.print(f"In {escape(str(folder))}: {files}, run.json", soft_wrap=True)
