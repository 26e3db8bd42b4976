"""Declarations of parameters: the fields of a structure, with their types, defaults, valid values and meanings."""

from __future__ import annotations

from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Meta

from kcagc.errors import ParameterError
from kcagc.text import listed


@dataclass(frozen=True)
class Parameter:
    """Declaration of one parameter.

    Attributes
    ----------
    name : str
        Name in the estimator, in the configuration file and, with dashes, on the command line.
    type : str
        Type as text, for example "int or None".
    default : object
        Default value; `msgspec.NODEFAULT` if the parameter is required.
    choices : tuple of str
        Valid values, if these are a fixed list; otherwise empty.
    meaning : str
        Description in one or two sentences.
    expected : str
        Valid values in words, for error messages.
    """

    name: str
    type: str
    default: Any
    choices: tuple[str, ...]
    meaning: str
    expected: str
    annotation: Any

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is msgspec.NODEFAULT

    def check(self, value: Any) -> Any:
        """Return a value as plain Python data, or raise `ParameterError`."""
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, tuple | list):
            plain = tuple(one.item() if isinstance(one, np.generic) else one for one in plain)
        try:
            return msgspec.convert(plain, self.annotation)
        except (msgspec.ValidationError, TypeError) as error:
            raise ParameterError(f"{self.name}: must be {self.expected}, not {value!r}") from error


def declared(struct: type[msgspec.Struct]) -> dict[str, Parameter]:
    """Return the parameters that the fields of a struct declare."""
    found = {}
    for field in msgspec.structs.fields(struct):
        base, notes = _unannotated(field.type)
        kinds = [_unannotated(kind) for kind in (get_args(base) if get_origin(base) in (Union, UnionType) else (base,))]
        types = list(dict.fromkeys(_TYPES.get(get_origin(kind) or kind, "str") for kind, _ in kinds))
        expected = [_expected(kind, (*inner, *notes)) for kind, inner in kinds if kind is not type(None)]
        found[field.name] = Parameter(
            name=field.name,
            type=listed(types, last="or"),
            default=field.default,
            choices=get_args(base) if get_origin(base) is Literal else (),
            meaning=next((note.description for note in notes if note.description), ""),
            expected=", or ".join(expected),
            annotation=field.type,
        )
    return found


_TYPES = {int: "int", float: "float", type(None): "None", tuple: "tuple"}


def _unannotated(annotation: Any) -> tuple[Any, tuple[Meta, ...]]:
    notes = getattr(annotation, "__metadata__", ())
    return (annotation.__origin__, notes) if notes else (annotation, ())


def _expected(kind: Any, notes: tuple[Meta, ...]) -> str:
    """Return the valid values of a type in words."""
    if get_origin(kind) is Literal:
        return listed([repr(value) for value in get_args(kind)], last="or")
    if get_origin(kind) is tuple:
        return "two whole numbers such as [2, 20]"
    if kind is int:
        return f"a whole number, {next(note.ge for note in notes if note.ge is not None)} or more"
    if kind is float:
        return "a positive number"
    return 'a multiple of k such as "2k"' if any(note.pattern for note in notes) else "text"
