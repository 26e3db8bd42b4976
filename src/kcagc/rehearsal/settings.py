"""The settings that a rehearsal tries: every combination of numbers of clusters, filter orders and methods."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from kcagc.errors import ParameterError
from kcagc.protocol.parameters import PARAMETERS, RunSettings

MOST_SETTINGS = 400
_SWEPT = ("n_clusters", "psi", "method")
_MOST_NUMBERS = 100  # of one range


@dataclass(frozen=True)
class Setting:
    """One combination: number of clusters k, filter order ψ ("auto" or a number) and method."""

    n_clusters: int
    psi: int | str
    method: str

    @property
    def title(self) -> str:
        """The setting in a few words."""
        return f"k = {self.n_clusters}, ψ = {self.psi}, method {self.method}"


@dataclass(frozen=True)
class Grid:
    """What is tried: values of k, ψ and the method, all other settings, and the seeds of the runs of each setting."""

    n_clusters: tuple[int, ...]
    psi: tuple[int | str, ...]
    method: tuple[str, ...]
    others: Mapping[str, Any]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, session: Mapping[str, Any], given: Mapping[str, Any], seeds: Sequence[int]) -> Grid:
        """Return what is tried: what is given on the command line replaces what the parties agreed on.

        Raises
        ------
        ParameterError
            If no number of clusters is given, or there are too many settings.
        """
        wanted = {**session, **{name: value for name, value in given.items() if value is not None}}
        if "n_clusters" not in wanted:
            raise ParameterError(
                "n_clusters: is missing; give one number or several, for example --n-clusters 5 or --n-clusters 4,5,6"
            )
        values = {name: _several(wanted.pop(name, PARAMETERS[name].default)) for name in _SWEPT}
        if isinstance(session.get("n_clusters"), tuple | list) and given.get("n_clusters") is None:
            least, most = session["n_clusters"]  # a range: its numbers are tried one by one
            values["n_clusters"] = tuple(range(least, most + 1))
        for name in _SWEPT:
            for one in values[name]:
                PARAMETERS[name].check(one)
        grid = cls(values["n_clusters"], values["psi"], values["method"], wanted, tuple(seeds))
        if len(grid.settings) > MOST_SETTINGS:
            raise ParameterError(
                f"n_clusters, psi, method: {len(grid.settings):,} settings, but a rehearsal tries at most "
                f"{MOST_SETTINGS}; give fewer values"
            )
        return grid

    @property
    def settings(self) -> list[Setting]:
        """All combinations."""
        return [Setting(k, psi, method) for method, psi, k in product(self.method, self.psi, self.n_clusters)]

    def session(self, setting: Setting) -> RunSettings:
        """Return the whole settings of a run with this combination."""
        changed = {name: getattr(setting, name) for name in _SWEPT}
        return RunSettings.read({**self.others, **changed})


def _several(value: Any) -> tuple[Any, ...]:
    found = tuple(value) if isinstance(value, tuple | list) else (value,)
    return tuple(dict.fromkeys(found))


def values_of(text: str, name: str, words: Sequence[str] = ()) -> tuple[int | str, ...]:
    """Return the values of an option such as "4,5,6", "4-8" or "auto,2"; `words` are those that stand for a value.

    Raises
    ------
    ParameterError
        If a value is neither a whole number, a range of them, nor one of the words.
    """
    expected = "whole numbers or ranges, such as 4,5,6 or 4-8" + (f", or {' or '.join(words)}" if words else "")
    found: list[int | str] = []
    for part in (one.strip() for one in text.split(",")):
        if part in words:
            found.append(part)
        elif re.fullmatch(r"[0-9]{1,9}", part):
            found.append(int(part))
        elif between := re.fullmatch(r"([0-9]{1,9})\s*-\s*([0-9]{1,9})", part):
            least, most = int(between[1]), int(between[2])
            if not 0 <= most - least < _MOST_NUMBERS:
                raise ParameterError(f"{name}: the range {part} must go up, over at most {_MOST_NUMBERS} numbers")
            found += range(least, most + 1)
        else:
            raise ParameterError(f"{name}: must be {expected}, not {part!r}")
    return tuple(dict.fromkeys(found))


def words_of(text: str, name: str) -> tuple[str, ...]:
    """Return the values of an option such as "joint,cells", each of which the parameter must allow."""
    found = tuple(dict.fromkeys(one.strip() for one in text.split(",")))
    for one in found:
        PARAMETERS[name].check(one)
    return found


def toml_block(session: RunSettings, accept: Sequence[str] = ()) -> str:
    """Return the lines for kcagc.toml: k, ψ, the method and whatever is not a default, and the accepted risks."""
    lines = ["[session]"]
    for name, parameter in PARAMETERS.items():
        value = getattr(session, name)
        if name in _SWEPT or value != parameter.default:
            lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    if accept:
        lines += ["", "[policy]", f"accept = {json.dumps(list(accept))}"]
    return "\n".join(lines) + "\n"
