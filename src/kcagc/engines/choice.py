"""Which engine does a party's own work: the setting, the rule of "auto", and the engine itself.

Each party chooses for itself. The choice is no part of the agreed settings, and no other role learns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, get_args

import msgspec

from kcagc._types import check_choice
from kcagc.engines.engine import LOCAL, Engine
from kcagc.errors import ParameterError
from kcagc.text import listed

EngineName = Literal["auto", "local", "gpu"]
LARGE = 20_000_000  # values of a table (nodes times columns) from which on "auto" takes a GPU


class EngineSection(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where this party's own work runs: filter, projection and clusters.

    Every party chooses for itself, and no other role learns the choice.

    Parameters
    ----------
    name : {"auto", "local", "gpu"}
        "local" works in the process of the party, "gpu" on one NVIDIA GPU with CuPy. "auto" takes the GPU if there is
        one and the table has at least 20 million values (nodes times columns), and otherwise "local".
    """

    name: EngineName = "auto"


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
    if asked.name == "auto":
        return _automatic(*shape)
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
