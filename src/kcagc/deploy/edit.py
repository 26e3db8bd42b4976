"""Changes of the section [data] of a configuration file, which keep every other line and comment as it is.

The file is changed as text. Before anything is written, the old and the new text are parsed, and the new one must hold
exactly the wanted changes; otherwise the file stays as it is.
"""

from __future__ import annotations

import copy
import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kcagc.data.files import write_text
from kcagc.data.preprocessing import ColumnRule
from kcagc.errors import ParameterError
from kcagc.text import listed, printable, read_toml

BEGIN = "# Rules proposed by `kcagc columns`"
END = "# End of the proposed rules."
_RULES = ("columns", "default")
_WIDTH = 118
_SHOWN = 5  # rules that an error names


def toml_value(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{toml_key(name)} = {toml_value(one)}' for name, one in value.items())} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """Return a key as TOML, in quotes if it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def rule_settings(rule: ColumnRule) -> dict[str, Any]:
    """Return the settings of a rule as the file holds them; a rule without settings names its kind."""
    found = {name: list(one) if isinstance(one, tuple) else one for name, one in rule.settings().items()}
    return found or {"kind": rule.kind}


def rules_block(
    title: str, rules: Mapping[str, ColumnRule], reasons: Mapping[str, str], default: ColumnRule | None = None
) -> str:
    """Return the lines for [data] that state rules, each below its reason; the rule "default" is that of the others."""
    lines = _comment(f"{BEGIN.removeprefix('# ')} {title}. Change what you know better.")
    if default is not None and default.settings():
        lines += [*_comment(reasons.get("", "")), f"default = {toml_value(rule_settings(default))}"]
    for name, rule in rules.items():
        lines += [*_comment(reasons.get(name, "")), f"columns.{toml_key(name)} = {toml_value(rule_settings(rule))}"]
    return "".join(f"{line}\n" for line in (*lines, END))


def _comment(text: str) -> list[str]:
    clean = printable(text)
    return textwrap.wrap(clean, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def change_data(
    path: Path,
    settings: Mapping[str, Any],
    rules: Mapping[str, ColumnRule] | None = None,
    default: ColumnRule | None = None,
    *,
    block: str = "",
    replace: bool = False,
) -> Path:
    """Write settings and, with `block`, rules into the section [data] of a file; return the copy of the old file.

    Rules that are there already are an error, or with `replace` are removed.
    """
    path = path.resolve()
    text = path.read_text(encoding="utf-8")
    before = read_toml(text)
    section = before.get("data")
    if not isinstance(section, dict):
        raise ParameterError(f"{path}: has no section [data]")
    wanted = copy.deepcopy(before)
    wanted["data"] |= dict(settings)
    lines = text.splitlines(keepends=True)
    if block:
        old = [f"columns.{name}" for name in section.get("columns", {})] + ["default"] * ("default" in section)
        if old and not replace:
            raise ParameterError(
                f"{path}: has rules for columns already ({listed(old, at_most=_SHOWN)}); --replace removes them, and "
                "keeps a copy of the file"
            )
        for name in _RULES:
            wanted["data"].pop(name, None)
        if rules:
            wanted["data"]["columns"] = {name: rule_settings(rule) for name, rule in rules.items()}
        if default is not None and default.settings():
            wanted["data"]["default"] = rule_settings(default)
        lines = _without_rules(lines) if replace else lines
    for new in _candidates(lines, settings, block):
        try:
            if read_toml(new) == wanted:
                break
        except tomllib.TOMLDecodeError:
            continue
    else:
        by_hand = "".join(f"{name} = {toml_value(value)}\n" for name, value in settings.items()) + block
        raise ParameterError(f"{path}: its section [data] cannot be changed safely; write there by hand:\n{by_hand}")
    copied = _free_name(path)
    mode = path.stat().st_mode & 0o777
    write_text(copied, text, mode=mode)
    write_text(path, new, mode=mode)
    return copied


def _free_name(path: Path) -> Path:
    number = 1
    while (found := path.with_name(f"{path.name}.bak{'' if number == 1 else number}")).exists():
        number += 1
    return found


def _header(line: str) -> tuple[str, ...] | None:
    """Return the path of the section that a line opens; None for other lines."""
    if not line.lstrip().startswith("["):
        return None
    try:
        found: Any = read_toml(line)
    except tomllib.TOMLDecodeError:
        return None
    names = []
    while isinstance(found, dict | list) and found:
        if isinstance(found, list):
            found = found[0]
            continue
        name, found = next(iter(found.items()))
        names.append(name)
    return tuple(names)


def _section(lines: list[str]) -> tuple[int, int]:
    """Return the first line below [data], and the line that opens the next section or the end."""
    headers = [(number, found) for number, line in enumerate(lines) if (found := _header(line)) is not None]
    start = next((number + 1 for number, found in headers if found == ("data",)), len(lines))
    return start, next((number for number, _ in headers if number >= start), len(lines))


def _without_rules(lines: list[str]) -> list[str]:
    """Remove rules for columns: a block that was proposed, single lines of [data], and sections below [data]."""
    kept: list[str] = []
    inside = False
    section: tuple[str, ...] = ()
    waiting: list[str] = []  # the lines of a setting that is not complete yet
    for line in lines:
        if waiting:
            waiting.append(line)
            if _complete("".join(waiting)):
                waiting = []
            continue
        if line.startswith(BEGIN) and not inside:
            inside = True
        if inside:
            inside = not line.startswith(END)
            continue
        section = _header(line) or section
        if section[:1] == ("data",) and section[1:2] and section[1] in _RULES:
            if _header(line) is None and (not line.strip() or line.lstrip().startswith("#")):
                kept.append(line)
            elif _header(line) is None and not _complete(line):
                waiting = [line]
            continue
        if section == ("data",) and re.match(rf"\s*({'|'.join(_RULES)})\s*[.=]", line):
            waiting = [] if _complete(line) else [line]
            continue
        kept.append(line)
    return kept


def _complete(text: str) -> bool:
    try:
        read_toml(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _candidates(lines: list[str], settings: Mapping[str, Any], block: str) -> Iterable[str]:
    """Yield new texts: first with every line at its usual place, then with all lines at the top of [data]."""
    changed = _with_settings(lines, settings)
    start, end = _section(changed)
    hints = [
        number for number in range(start, end) if re.match(r"(#\s*)?(columns\.|default\s*=)", changed[number])
    ] or [number for number in range(start, end) if changed[number].strip() and not changed[number].startswith("#")]
    for place in ((hints[-1] + 1) if hints else start, start):
        yield "".join([*_ended(changed[:place]), block, *changed[place:]])
    start, _ = _section(lines)
    added = "".join(f"{name} = {toml_value(value)}\n" for name, value in settings.items())
    yield "".join([*_ended(lines[:start]), added, block, *lines[start:]])


def _ended(lines: list[str]) -> list[str]:
    return [*lines[:-1], lines[-1] if lines[-1].endswith("\n") else f"{lines[-1]}\n"] if lines else lines


def _with_settings(lines: list[str], settings: Mapping[str, Any]) -> list[str]:
    """Set settings of [data]: in their own line, below the comment that shows them, or at the top."""
    changed = list(lines)
    for name, value in settings.items():
        start, end = _section(changed)
        new = f"{name} = {toml_value(value)}\n"
        own = [number for number in range(start, end) if re.match(rf"\s*{name}\s*=", changed[number])]
        shown = [number for number in range(start, end) if re.match(rf"#\s*{name}\s*=", changed[number])]
        if own:
            changed[own[0]] = new
        else:
            place = shown[-1] + 1 if shown else start
            changed = [*_ended(changed[:place]), new, *changed[place:]]
    return changed
