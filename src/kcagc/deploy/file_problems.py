"""Find what is wrong in a configuration file, with its place, before it is read as a whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from kcagc.errors import ParameterError
from kcagc.protocol.parameters import RunSettings
from kcagc.text import quoted

_RENAMED = {
    "roles": "[[participants]]",
    "waiting": "[limits], with peer_timeout, message_timeout and max_message_bytes",
}
_EXPECTED = {
    int: "a whole number",
    float: "a number",
    str: 'text in quotes ("...")',
    bool: "true or false",
    list: "a list in brackets ([...])",
    tuple: 'a list of texts in brackets (["..."])',
}


def find_problem(value: Any, kind: Any, where: str = "") -> str | None:
    """Return what is wrong in a part of the file, with its place; None if that part can be read as `kind`.

    Structures are walked field by field, so that the place and the expected type are known here.
    """
    before = f"{where}: " if where else ""
    if get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind) and len(get_args(kind)) == 2:
        kind = next(one for one in get_args(kind) if one is not NoneType)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if not isinstance(value, dict):
            return f"{before}must be a section, not {_toml(value)}"
        return _session_problem(value, where) if kind is RunSettings else _section_problem(value, kind, where)
    if get_origin(kind) is list and isinstance(value, list):
        parts = [(f"{where}[{number}]", one) for number, one in enumerate(value)]
    elif get_origin(kind) is dict and isinstance(value, dict):
        parts = [(f"{where}.{name}", one) for name, one in value.items()]
    else:
        try:
            msgspec.convert(value, type=kind)
        except msgspec.ValidationError:
            return f"{before}must be {_expected(kind)}, not {_toml(value)}"
        return None
    found = (find_problem(one, get_args(kind)[-1], place) for place, one in parts)
    return next((problem for problem in found if problem), None)


def _session_problem(value: dict[str, Any], where: str) -> str | None:
    try:
        RunSettings.read(value)
    except ParameterError as error:
        return f"{where}.{error}"
    return None


def _section_problem(value: dict[str, Any], kind: type[msgspec.Struct], where: str) -> str | None:
    before = f"{where}: " if where else ""
    hints = get_type_hints(kind, include_extras=True)
    for name in value:
        if not where and name in _RENAMED:
            return f"the section {name!r} of earlier versions is now {_RENAMED[name]}"
        if name not in hints:
            return f"{before}there is no {'setting' if where else 'section'} {name!r}; there are {', '.join(hints)}"
    for field in msgspec.structs.fields(kind):
        if field.name in value:
            problem = find_problem(value[field.name], hints[field.name], f"{where}.{field.name}".lstrip("."))
            if problem:
                return problem
        elif field.required:
            return f"{before}{field.name!r} is missing"
    return None


def _expected(kind: Any) -> str:
    """Describe the values that a setting may have."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_expected(one) for one in get_args(kind) if one is not NoneType)
    if get_origin(kind) is Literal:
        *some, last = (_toml(one) for one in get_args(kind))
        return f"{', '.join(some)} or {last}" if some else last
    return _EXPECTED.get(get_origin(kind) or kind, "a section")


def _toml(value: Any) -> str:
    """Return a value as it stands in the file; only the kind of a section or a list."""
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "a list"
    return quoted(value) if not isinstance(value, str | bool) else json.dumps(value, ensure_ascii=False)


@contextlib.contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Put a place in front of the parameter errors inside this context."""
    try:
        yield
    except ParameterError as error:
        raise ParameterError(f"{place}{error}") from error
