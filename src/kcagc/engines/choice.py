"""Which engine does a party's own work: the setting, the rule of "auto", and the engine itself.

Each party chooses for itself. The choice is no part of the agreed settings, and no other role learns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from kcagc._types import check_choice
from kcagc.engines.engine import LOCAL, Engine
from kcagc.errors import ParameterError
from kcagc.text import listed

EngineName = Literal["auto", "local", "dask", "gpu"]
LARGE = 20_000_000  # values of a table (nodes times columns) from which on "auto" takes a GPU


class EngineSection(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where this party's own work runs: filter, projection and clusters.

    Every party chooses for itself, and no other role learns the choice.

    Parameters
    ----------
    name : {"auto", "local", "dask", "gpu"}
        "local" works in the process of the party, "dask" on a Dask cluster, "gpu" on one NVIDIA GPU with CuPy. "auto"
        takes the GPU if there is one and the table has at least 20 million values (nodes times columns), and otherwise
        "local". All other settings of this section are for "dask".
    scheduler : str
        The address of the scheduler of a Dask cluster: `tls://HOST:PORT`. Empty starts a cluster on this machine.
    ca : str
        The file with the certificate authority of that cluster (PEM).
    certificate : str
        The file with the certificate of this client of the cluster (PEM).
    key : str
        The file with the private key of that certificate (PEM).
    folder : str
        The folder for pieces of the table, under the same path on this machine and all workers, one for each party.
        Needed with `scheduler`. Without it, a cluster on this machine uses a temporary folder, and an interrupted run
        filters from the beginning.
    workers : int or None
        The number of processes of a cluster on this machine. Without it, the number of cores.
    memory : str or None
        The memory limit of each of these processes, such as `2.5GiB`. Without it, they share all memory.
    worker_timeout : float
        How many seconds to wait for a worker when the cluster has none.
    """

    name: EngineName = "auto"
    scheduler: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    folder: str = ""
    workers: int | None = None
    memory: str | None = None
    worker_timeout: float = 300.0

    def cluster_settings(self) -> dict[str, Any]:
        """Return the settings for a Dask cluster."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name != "name"}

    def located(self, place: Callable[[str], Path]) -> EngineSection:
        """Return the section with the paths of its files, as `place` gives them."""
        given = {name: getattr(self, name) for name in ("ca", "certificate", "key", "folder")}
        return msgspec.structs.replace(self, **{name: str(place(text)) for name, text in given.items() if text})

    def check(self, *, others: Path | None = None) -> None:
        """Raise an error for settings that would have no effect, or that cannot be used.

        `others` is the file of the authorities of all roles, which must not be those of the cluster.
        """
        if self.name == "auto":
            default = EngineSection()
            for name, value in self.cluster_settings().items():
                if value != getattr(default, name):
                    raise ParameterError(f'engine.{name}: is for a Dask cluster; set engine.name = "dask" too')
        if self.name == "dask":
            from kcagc.engines.cluster import ClusterSettings  # noqa: PLC0415 - only for this engine

            ClusterSettings(**self.cluster_settings())
            with suppress(OSError):
                if self.ca and others is not None and Path(self.ca).read_bytes() == others.read_bytes():
                    raise ParameterError(
                        "engine.ca: is the authority of [network]; other roles with its certificates could run code "
                        "on the machines of this party. Make an authority for the Dask cluster alone"
                    )


@dataclass(frozen=True, eq=False)
class EngineChoice:
    """The engine of a party, and in words why it was taken."""

    engine: Engine
    reason: str

    def __str__(self) -> str:
        return f"{self.engine.name}, because {self.reason}"


def choose_engine(asked: EngineSection | Engine | str, shape: tuple[int, int]) -> EngineChoice:
    """Return the engine for a table of this shape; `asked` is a setting, the name of an engine, or an engine.

    Raises
    ------
    ParameterError
        If there is no engine of this name, or it cannot work on this machine.
    """
    if isinstance(asked, str):
        check_choice("engine", asked, get_args(EngineName))
        asked = msgspec.convert({"name": asked}, EngineSection)
    if not isinstance(asked, EngineSection):
        if not isinstance(getattr(asked, "name", None), str) or not callable(getattr(asked, "smooth", None)):
            names = listed([f'"{name}"' for name in get_args(EngineName)], last="or")
            raise ParameterError(f"engine: must be {names}, or an engine of kcagc.engines, not {asked!r}")
        return EngineChoice(asked, "it is set")
    asked.check()
    if asked.name == "auto":
        return _automatic(*shape)
    if asked.name == "dask":
        return EngineChoice(_dask(asked), "it is set")
    return EngineChoice(_gpu() if asked.name == "gpu" else LOCAL, "it is set")


def _automatic(n: int, m: int) -> EngineChoice:
    """Return the engine that "auto" takes for a table of n rows and m columns."""
    if n * m < LARGE:
        return EngineChoice(LOCAL, f"the table has {n * m:,} values, fewer than {LARGE:,}")
    if find_spec("cupy") is None:
        return EngineChoice(LOCAL, "CuPy is not installed")
    try:
        return EngineChoice(_gpu(), f"there is a GPU, and the table has {n * m:,} values")
    except ParameterError:
        return EngineChoice(LOCAL, "CuPy finds no GPU")


def _gpu() -> Engine:
    from kcagc.engines.gpu import GpuEngine  # noqa: PLC0415 - an extra

    return GpuEngine()


def _dask(asked: EngineSection) -> Engine:
    from kcagc.engines.dask import DaskEngine  # noqa: PLC0415 - an extra

    engine = DaskEngine(**asked.cluster_settings())
    if asked.scheduler:
        engine.connect()  # a cluster that cannot be used is an error before anything is sent
    return engine


def report_progress(engine: Engine, watcher: Callable[[str, int, int], None]) -> None:
    """Set the function of stage, done and total to which an engine reports its progress, if it reports any."""
    if hasattr(engine, "on_progress"):
        engine.on_progress = watcher


def close_engine(engine: Engine) -> None:
    """End the processes that an engine has started, if any; further work starts them again."""
    if hasattr(engine, "close"):
        engine.close()


def engines_by_party(asked: Any, shapes: Mapping[str, tuple[int, int]]) -> dict[str, EngineChoice]:
    """Return the engine of each party; `asked` is that of all parties, or a dictionary by party.

    A party that the dictionary does not name takes "auto".
    """
    if not isinstance(asked, Mapping):
        return {name: choose_engine(asked, shape) for name, shape in shapes.items()}
    _check_names(asked, shapes)
    return {name: choose_engine(asked.get(name, "auto"), shape) for name, shape in shapes.items()}


def _check_names(named: Iterable[Any], known: Iterable[str]) -> None:
    unknown = [name for name in named if name not in known]
    if unknown:
        raise ParameterError(f"engine: there is no party {unknown[0]!r}; the parties are {listed(list(known))}")
