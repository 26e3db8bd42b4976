"""The options of a role: each goes before its environment variable, and that before the configuration file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kcagc.deploy.config import Config

FILE = click.Path(dir_okay=False, path_type=Path)

_OPTIONS = {
    "config": click.option("--config", type=FILE, required=True, envvar="KCAGC_CONFIG", help="The role's TOML file."),
    "address": click.option("--address", envvar="KCAGC_ADDRESS", help="Where the aggregator listens, HOST:PORT."),
    "listen": click.option("--listen", envvar="KCAGC_LISTEN", help="Where to listen, for the aggregator."),
    "features": click.option("--features", envvar="KCAGC_FEATURES", help="The party's table."),
    "graph": click.option("--graph", envvar="KCAGC_GRAPH", help="The shared edges."),
    "output": click.option("--output", envvar="KCAGC_OUTPUT", help="Folder for results."),
    "state": click.option("--state", envvar="KCAGC_STATE", help="Folder for the journal."),
    "random_state": click.option(
        "--random-state", type=int, envvar="KCAGC_RANDOM_STATE", help="For tests: the same labels again."
    ),
    "peer_timeout": click.option(
        "--peer-timeout",
        type=float,
        envvar="KCAGC_PEER_TIMEOUT",
        help="Seconds to wait for a participant that is not connected.",
    ),
    "model": click.option(
        "--model", type=FILE, required=True, envvar="KCAGC_MODEL", help="What the fit left: model.kcagc."
    ),
    "new_session": click.option("--new-session", is_flag=True, help="Forget what the journal has, and begin anew."),
    "report": click.option(
        "--report/--no-report", default=True, envvar="KCAGC_REPORT", help="Write report.html at the end  [default: do]."
    ),
    "watch": click.option("--watch", is_flag=True, envvar="KCAGC_WATCH", help="Show the run as it goes on, in full."),
    "as_json": click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON."),
}
_PLACES = {
    "address": "network.address",
    "listen": "network.listen",
    "output": "output.folder",
    "state": "output.state",
    "random_state": "me.random_state",
    "peer_timeout": "limits.peer_timeout",
}
_PATHS = ("output", "state", "features", "graph")
WITHOUT_DATA = ("config", "listen", "output", "state", "random_state", "peer_timeout")
WITH_DATA = ("config", "address", "listen", "features", "graph", "output", "state", "random_state", "peer_timeout")


def options(*names: str) -> Callable[[Any], Any]:
    """Give a command these options."""

    def decorate(command: Any) -> Any:
        for name in reversed(names):
            command = _OPTIONS[name](command)
        return command

    return decorate


def loaded(path: Path, *, predicting: bool = False, **given: Any) -> Config:
    """Read a configuration with what was given on the command line or in the environment in its place."""
    from kcagc.deploy.config import Config

    section = "predict" if predicting else "data"
    places = {**_PLACES, "features": f"{section}.features", "graph": f"{section}.graph"}
    # What is given here is relative to where one is, not to the configuration.
    changes = {
        places[name]: str(Path(value).absolute()) if name in _PATHS and value is not None else value
        for name, value in given.items()
        if name in places
    }
    return Config.load(path, changes)
