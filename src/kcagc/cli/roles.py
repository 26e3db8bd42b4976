"""`kcagc party`, `kcagc coordinator` and `kcagc predict`: run one role. Their options serve other commands, too.

An option overrides its environment variable, and both override the configuration file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcagc.cli import terminal
from kcagc.text import printable, size

if TYPE_CHECKING:
    from kcagc.deploy.config import Config
    from kcagc.deploy.run import RoleRun

FILE = click.Path(dir_okay=False, path_type=Path)
CONFIG_NAME = "kcagc.toml"  # as `kcagc init` calls it


def own_config() -> Path:
    """Return the configuration in the working directory; an error names the folder if there is none."""
    own = Path(CONFIG_NAME)
    if not own.is_file():
        raise click.UsageError(
            f"there is no {CONFIG_NAME} in {Path.cwd()}; go to the folder of a role, or name its file with --config "
            "(kcagc init makes the folders of all roles)"
        )
    return own


def _given_or_own(context: click.Context, _: click.Parameter, given: Path | None) -> Path | None:
    return given if given is not None or context.resilient_parsing else own_config()


CONFIG = click.option(
    "--config",
    type=FILE,
    envvar="KCAGC_CONFIG",
    callback=_given_or_own,
    help=f"The role's TOML file  [default: ./{CONFIG_NAME}].",
)

_SETTINGS = {  # options that replace a setting of the file, and where it is
    "address": "network.address",
    "listen": "network.listen",
    "features": "data.features",
    "graph": "data.graph",
    "output": "output.folder",
    "state": "output.state",
    "engine": "engine.name",
    "scheduler": "engine.scheduler",
    "random_state": "me.random_state",
    "peer_timeout": "limits.peer_timeout",
}
_PATHS = ("output", "state", "features", "graph")
WITH_DATA = ("config", *_SETTINGS)
WITHOUT_DATA = ("config", "listen", "output", "state", "random_state", "peer_timeout")
_RUN = ("new_session", "watch", "log_format", "log_json", "report", "as_json")


def _option(name: str, help_: str, **more: Any) -> Any:
    return click.option(f"--{name}", envvar=f"KCAGC_{name.upper().replace('-', '_')}", help=help_, **more)


_OPTIONS = {
    "config": CONFIG,
    "address": _option("address", "Address of the aggregator, HOST:PORT."),
    "listen": _option("listen", "Address on which the aggregator listens, HOST:PORT."),
    "features": _option("features", "The party's table."),
    "graph": _option("graph", "The shared edges."),
    "output": _option("output", "Folder of the results."),
    "state": _option("state", "Folder of the journal."),
    "engine": _option("engine", "Where this party's own work runs: auto, local, dask or gpu."),
    "scheduler": _option("scheduler", "Scheduler of a Dask cluster, tls://HOST:PORT, for the engine dask."),
    "random_state": _option("random-state", "For tests only: the same number gives the same labels.", type=int),
    "peer_timeout": _option("peer-timeout", "Seconds to wait for a disconnected participant.", type=float),
    "model": _option("model", "The file model.kcagc of the fit.", type=FILE, required=True),
    "new_session": click.option("--new-session", is_flag=True, help="Erase the journal and start a new session."),
    "watch": _option("watch", "Show the full status: phases, waiting, bytes, time left.", is_flag=True),
    "log_format": _option(
        "log-format",
        "Log lines as text, or as one JSON object each.",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
    ),
    "log_json": click.option("--log-json", "log_format", flag_value="json", help="The same as --log-format json."),
    "report": click.option(
        "--report/--no-report",
        default=True,
        show_default=True,
        envvar="KCAGC_REPORT",
        help="Write report.html after the run.",
    ),
    "wait": _option(
        "wait",
        "Stay, and take part in every run that another party starts on a coordinator that stays (kcagc serve).",
        is_flag=True,
    ),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print the summary of the run as JSON."),
}


def options(*names: str) -> Callable[[Any], Any]:
    """Add these options to a command."""

    def decorate(command: Any) -> Any:
        for name in reversed(names):
            command = _OPTIONS[name](command)
        return command

    return decorate


def load_config(path: Path, *, predicting: bool = False, **given: Any) -> Config:
    """Read a configuration; options and environment variables override it."""
    from kcagc.deploy.config import Config

    changes = {}
    for name, value in given.items():
        if value is not None and name in _SETTINGS:
            place = _SETTINGS[name].replace("data.", "predict.") if predicting else _SETTINGS[name]
            # A path in an option is relative to the working directory, not to the configuration.
            changes[place] = str(Path(value).absolute()) if name in _PATHS else value
    return Config.load(path, changes)


@click.command()
@options(*WITH_DATA, *_RUN, "wait")
def party(config: Path, *, wait: bool, **given: Any) -> None:
    """Run a data party: connect to the aggregator, cluster with the other parties, write results.

    After an interruption, the same command resumes the run.
    """
    if wait:
        _run_whenever_one_opens(config, **given)
    else:
        _run("party", config, None, **given)


@click.command()
@options(*WITHOUT_DATA, *_RUN)
def coordinator(config: Path, **given: Any) -> None:
    """Run the coordinator: listen for the parties, relay their encrypted messages, add their masked vectors."""
    _run("coordinator", config, None, **given)


@click.command()
@options(*WITH_DATA, "model", *_RUN)
def predict(config: Path, model: Path, **given: Any) -> None:
    """Predict the clusters of new nodes: every role of the fit runs this with its own model.

    This is a session of its own, with new keys. The tables are those of [predict] in the configuration.
    """
    _run("predict", config, model, **given)


def _run(
    command: str,
    path: Path,
    model: Path | None,
    *,
    new_session: bool,
    watch: bool,
    log_format: str,
    report: bool,
    as_json: bool,
    **changes: Any,
) -> None:
    from kcagc.deploy.run import RoleRun, execute
    from kcagc.errors import ParameterError

    config = load_config(path, predicting=model is not None, **changes)
    if command not in ("predict", config.role):
        raise ParameterError(
            f"{path}: is the configuration of a {config.role}; run: kcagc {config.role} --config {path}"
        )
    role_run = RoleRun(config) if model is None else RoleRun.predict(config, model)
    if config.document.approval.required:
        config, new_session = agreed_config(role_run, new_session=new_session)
        role_run = replace(role_run, config=config)
    with terminal.StatusDisplay(config.me, full=watch, as_json=log_format == "json").shown() as display:
        summary = execute(
            role_run,
            new_session=new_session,
            watcher=display.progress,
            on_status=display.connections if watch else None,
            report=report,
        )
    if as_json:
        terminal.print_json(summary)
    else:
        _show(role_run.files.folder, summary)


def agreed_config(run: RoleRun, *, new_session: bool) -> tuple[Config, bool]:
    """Return the configuration with the approved proposal of the next run, and whether it is a new session.

    A prediction or a matching has a coordinator's process of its own, and an option names its address. The address in
    the file is that of the coordinator that stays, which knows the proposals.
    """
    import asyncio

    from kcagc.federation.agreeing import for_next_run

    task, config = run.agreement.parameters.task, run.config
    address = (config if task == "fit" else load_config(config.path)).document.network.address
    return asyncio.run(for_next_run(config, task, run.status(), new_session=new_session, ask_at=address))


def _run_whenever_one_opens(path: Path, **given: Any) -> None:
    """Take part in one run after the other; an error that needs a person ends this."""
    import asyncio

    from kcagc.deploy.interrupts import until_stopped
    from kcagc.deploy.run import RoleRun
    from kcagc.errors import AbortedError, EngineError, PeerTimeoutError, SessionError
    from kcagc.federation.agreeing import AgreeingRole
    from kcagc.federation.waiting import next_run

    changes = {name: value for name, value in given.items() if name in _SETTINGS}
    erase = given.pop("new_session")
    while True:
        run = RoleRun(load_config(path, **changes))
        status = "new" if erase else run.status()
        if status != "running":
            before = AgreeingRole(run.config).update if run.config.document.approval.required else None
            with terminal.StatusDisplay(run.config.me, as_json=given["log_format"] == "json").shown():
                asyncio.run(until_stopped(next_run(run, before)))
        try:
            _run("party", path, None, new_session=erase or status == "finished", **given)
        except EngineError:
            raise
        except (AbortedError, PeerTimeoutError, SessionError) as error:
            if isinstance(error, SessionError) and run.status() == "running":  # it would end in the same way again
                raise
            click.echo(f"kcagc: {printable(str(error))}; waiting for the next run", err=True)
        erase = False


def _show(folder: Path, summary: dict[str, Any]) -> None:
    from rich.markup import escape

    from kcagc.cluster.sweep import Sweep

    console = terminal.out()
    if "cluster_sizes" in summary:
        console.print(_sizes(summary["task"], summary["nodes"], summary["cluster_sizes"]))
    if "sweep" in summary:
        console.print(Sweep.from_document(summary["sweep"]).table(), highlight=False)
    if "method" in summary:
        console.print(f"Method: {summary['method']}")
    if "psi" in summary:
        console.print(f"ψ: {summary['psi']}")
    if "worth" in summary:
        from kcagc.report.insights.worth import Worth
        from kcagc.report.worth import worth_sentences

        first, moved, *_ = worth_sentences(Worth.from_dict(summary["worth"]), summary["name"])
        console.print(f"Was it worth it? {escape(first)} {escape(moved)}", highlight=False)
    sent = f"{summary['messages_sent']} messages, {size(summary['bytes_sent'])} sent"
    console.print(f"{sent}. What each message disclosed: {escape(str(folder / 'ledger.jsonl'))}", soft_wrap=True)
    files = ", ".join(summary["files"].values())
    console.print(f"In {escape(str(folder))}: {files}, run.json", soft_wrap=True)
    page = folder / "report.html"
    if page.exists():
        console.print(f"Report: [bold]{escape(str(page))}[/]", soft_wrap=True)


def _sizes(task: str, nodes: int, sizes: list[int]) -> str:
    if task == "predict":  # most clusters may have received no node
        listed = ", ".join(f"{size} in cluster {cluster}" for cluster, size in enumerate(sizes) if size)
        return f"[bold]{nodes:,} new nodes[/]: {listed}"
    return f"[bold]{nodes:,} nodes in {len(sizes)} clusters[/] of {' '.join(map(str, sorted(sizes, reverse=True)))}"
