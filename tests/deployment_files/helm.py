"""Render the templates of the chart, in the part of the template language that they use; there is no helm here.

An action that this module does not know is an error. What helm itself does with the chart is not tested.
"""

from __future__ import annotations

import copy
import re
import textwrap
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "kcagc"
_ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", flags=re.DOTALL)


def values(**changes: Any) -> dict[str, Any]:
    """Return the values of the chart with changes; a change of a section is a mapping."""
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, change in changes.items():
        found[name] = {**found[name], **change} if isinstance(change, dict) else change
    return found


def render(given: dict[str, Any], release: str = "standing") -> list[dict[str, Any]]:
    """Return the objects that the chart makes with these values."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    context = {
        "Values": copy.deepcopy(given),
        "Release": {"Name": release},
        "Chart": {"AppVersion": chart["appVersion"]},
    }
    renderer = _Renderer(context)
    texts = [renderer.text(path.read_text()) for path in sorted((CHART / "templates").iterdir())]
    return [one for text in texts for one in yaml.safe_load_all(text) if one is not None]


class _Renderer:
    def __init__(self, context: dict[str, Any]) -> None:
        self._context = context
        self._defined: dict[str, list[Any]] = {}
        for path in (CHART / "templates").glob("*.tpl"):
            self._run(_tokens(path.read_text()), 0)

    def text(self, template: str) -> str:
        """Return a template with its actions carried out."""
        return self._run(_tokens(template), 0)[0]

    def _run(self, tokens: list[Any], place: int, *, quiet: bool = False) -> tuple[str, int]:
        """Carry out tokens up to the end of this block; return the text and the place of the `else` or `end`."""
        out = ""
        while place < len(tokens):
            kind, content = tokens[place]
            word = content.split()[0] if kind == "action" else ""
            if kind == "text":
                out += "" if quiet else content
            elif word in ("end", "else"):
                return out, place
            elif word == "define":
                begin = place + 1
                _, place = self._run(tokens, begin, quiet=True)
                self._defined[content.split('"')[1]] = tokens[begin:place]
            elif word == "if":
                holds = not quiet and bool(self._value(content[3:]))
                first, place = self._run(tokens, place + 1, quiet=not holds)
                second = ""
                if tokens[place][1] == "else":
                    second, place = self._run(tokens, place + 1, quiet=quiet or holds)
                out += first + second
            elif not quiet:
                out += str(self._value(content))
            place += 1
        return out, place

    def _value(self, expression: str) -> Any:
        first, *filters = (one.strip() for one in expression.split(" | "))
        value = self._term(first)
        for one in filters:
            name, *arguments = one.split()
            if name == "quote":
                value = '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
            elif name == "default":
                value = value or self._term(arguments[0])
            elif name == "nindent":
                value = "\n" + textwrap.indent(str(value), " " * int(arguments[0]))
            else:
                raise ValueError(f"unknown filter: {one}")
        return value

    def _term(self, term: str) -> Any:
        if found := re.fullmatch(r'include "([\w.]+)" \.', term):
            return self._run(self._defined[found[1]], 0)[0].strip("\n")
        if found := re.fullmatch(r"toYaml (\S+)", term):
            return yaml.safe_dump(self._term(found[1])).rstrip()
        if found := re.fullmatch(r'eq (\S+) "(\w+)"', term):
            return self._term(found[1]) == found[2]
        if found := re.fullmatch(r'printf "([^"]*)" (\S+)', term):
            return found[1] % self._term(found[2])
        if not re.fullmatch(r"(\.\w+)+", term):
            raise ValueError(f"unknown action: {term}")
        value: Any = self._context
        for name in term[1:].split("."):
            value = value[name]  # a value that does not exist is an error
        return value


def _tokens(template: str) -> list[tuple[str, str]]:
    """Split a template into texts and actions; a dash removes the white space on its side."""
    found, place, trim = [], 0, False
    for action in _ACTION.finditer(template):
        text = template[place : action.start()]
        text = text.lstrip() if trim else text
        found.append(("text", text.rstrip() if action[1] else text))
        found.append(("action", action[2]))
        place, trim = action.end(), bool(action[3])
    found.append(("text", template[place:].lstrip() if trim else template[place:]))
    return found
