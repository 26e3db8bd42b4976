"""What is wrong in a configuration file, in the words of people who write such files."""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from kcagc.deploy.sections import Document

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": 'text in quotes ("...")',
    "bool": "true or false",
    "array": "a list in brackets ([...])",
    "object": "a section",
    "null": "left out",
}


def said(message: str, *, root: Any = Document, inside: str = "") -> str:
    """Say what is wrong, and where, in the words of people who write such files rather than those of programmers.

    `root` is the type of what was read, and `inside` where in the file that stands.
    """
    found = re.fullmatch(r"(?s)(.*?)(?: - at `\$\.?(.*)`)?", message)
    what, where = (found.group(1), found.group(2) or "") if found else (message, "")
    known = _type_at(where, root)
    where = f"{inside}.{where}".strip(".") if inside else where
    name = re.fullmatch(r"Object (contains unknown|missing required) field `(.*)`", what)
    kinds = re.fullmatch(r"Expected `(.*)`, got `(.*)`", what)
    if name:
        thing = "setting" if where else "section"
        what = f"there is no {thing} called {name[2]!r}" if name[1] == "contains unknown" else f"{name[2]!r} is missing"
        if name[1] == "contains unknown":
            what += f"; there are {', '.join(get_type_hints(known))}"
    elif kinds:
        wanted = [_KINDS.get(kind, kind) for kind in kinds[1].split(" | ") if kind != "null"]
        what = f"must be {' or '.join(wanted)}, not {_KINDS.get(kinds[2], kinds[2])}"
    elif what.startswith("Invalid enum value") and get_origin(known) is Literal:
        listed = [f'"{choice}"' for choice in get_args(known)]
        what = f"must be {', '.join(listed[:-1])} or {listed[-1]}, not {what.removeprefix('Invalid enum value ')}"
    return f"{where}: {what}" if where else what


def _type_at(where: str, root: Any) -> Any:
    """Give the type of what stands at a place of the file, as "roles[0].role"."""
    known = root
    for part in re.findall(r"[^.\[\]]+", where):
        known = get_args(known)[0] if get_origin(known) is list else get_type_hints(known)[part]
        if get_origin(known) in (Union, UnionType):  # what may be left out
            known = next(one for one in get_args(known) if one is not type(None))
    return known
