"""What the code says of itself, in Markdown: ledger, risks, messages, settings, constants, commands, public names."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, get_args, get_origin

import click
import msgspec
from claims import claims

import kcagc
from kcagc.cli.main import cli
from kcagc.cluster import joint
from kcagc.data.preprocessing import ColumnRule
from kcagc.deploy.config import DataSection, Document
from kcagc.disclosure.texts import RISKS, TEXTS
from kcagc.net import frames
from kcagc.protocol import messages, parameters, shared_rows, subspace
from kcagc.protocol.parameters import PARAMETERS, RunSettings
from kcagc.secagg import masks, shares


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table."""
    names = list(head)
    written = [names, ["---"] * len(names), *(list(row) for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in written)


def ledger_lines() -> str:
    """List every kind of disclosure, and what its receiver learns."""
    titles = {
        "link": "Connections",
        "message": "Messages",
        "encrypted": "Content of encrypted messages, from party to party",
        "opened": "Sums that become visible to the aggregator (opened sums)",
        "output": "Results",
    }
    parts = []
    for group, title in titles.items():
        rows = [
            (f"`{kind}`" + (" ⚠" if text.weaker else ""), text.learns, text.paper or "–")
            for kind, text in TEXTS.items()
            if kind.startswith(f"{group}/")
        ]
        parts.append(f"### {title}\n\n" + table(("kind", "what the receiver learns", "where the paper names it"), rows))
    return "\n".join(parts)


def risks() -> str:
    """List what must be accepted by name."""
    return table(("name", "what it discloses"), ((f"`{risk.name}`", risk.discloses) for risk in RISKS.values()))


def message_fields() -> str:
    """List every message with its fields."""
    return _structs(get_args(messages.AnyMessage))


def box_contents() -> str:
    """List what travels in boxes."""
    return _structs(get_args(messages.EncryptedContent))


def frame_fields() -> str:
    """List every frame with its fields."""
    return _structs(get_args(frames.AnyFrame))


def _structs(kinds: Iterable[Any]) -> str:
    rows = []
    for kind in kinds:
        info = msgspec.inspect.type_info(kind)
        fields = ", ".join(f"`{field.encode_name}`: {_shape(field.type)}" for field in info.fields) or "–"
        rows.append((f"`{info.tag}`", fields, _prose(kind)))
    return table(("kind", "fields", "what it is"), rows)


def _prose(one: Any) -> str:
    """Give a docstring as one line."""
    return " ".join((inspect.getdoc(one) or "").split())


_SIMPLE = {
    "StrType": "text",
    "BytesType": "bytes",
    "IntType": "whole number",
    "FloatType": "number",
    "BoolType": "true or false",
    "NoneType": "nothing",
}


def _shape(kind: Any) -> str:
    """Say in words what a field holds."""
    name = type(kind).__name__
    if name == "Metadata":
        return _shape(kind.type)
    limit = getattr(kind, "max_length", None)
    most = f" ≤ {limit:,}" if limit else ""
    if name == "VarTupleType":
        return f"list{most} of {_shape(kind.item_type)}"
    if name == "TupleType":
        return f"({', '.join(_shape(item) for item in kind.item_types)})"
    if name == "DictType":
        return f"map{most} of {_shape(kind.key_type)} to {_shape(kind.value_type)}"
    if name == "StructType":
        return f"`{kind.tag}`" if kind.tag else kind.cls.__name__
    return _SIMPLE.get(name, name) + most


def settings() -> str:
    """List every setting of a role's configuration file with its meaning and default."""
    parts = []
    for field in msgspec.structs.fields(Document):
        section = _section(field.type)
        title = f"[[{field.name}]]" if get_origin(field.type) is list else f"[{field.name}]"
        parts.append(f"## `{title}`\n\n{_opening(section)}\n\n{_settings_of(section)}")
        if section is DataSection:
            parts.append(f"### Rules for columns\n\n{_opening(ColumnRule)}\n\n{_settings_of(ColumnRule)}")
    return "\n".join(parts)


def sections() -> list[Any]:
    """List the structures that declare the settings."""
    return [*(_section(field.type) for field in msgspec.structs.fields(Document)), ColumnRule]


def meanings(section: Any) -> dict[str, str]:
    """Return what the settings of a section mean: from their declaration, or else from the docstring of the section."""
    if section is RunSettings:
        return {name: one.meaning for name, one in PARAMETERS.items()}
    inherited: dict[str, str] = {}
    for base in reversed(section.__mro__):
        inherited |= _documented(base) if issubclass(base, msgspec.Struct) else {}
    return inherited


def _documented(section: Any) -> dict[str, str]:
    """Read the section "Parameters" of a docstring in the form of numpydoc."""
    text = inspect.cleandoc(section.__doc__ or "").partition("Parameters\n----------\n")[2]
    found: dict[str, str] = {}
    for name, meaning in re.findall(r"^(\w+) : [^\n]+\n((?: {4}[^\n]*\n?)+)", text, flags=re.MULTILINE):
        found[name] = " ".join(meaning.split())
    return found


def _opening(section: Any) -> str:
    """Return the text of a docstring before its first numpydoc section."""
    if section is RunSettings:  # its docstring is for those who read the code
        return "Settings of the run. They must be the same at all roles."
    return " ".join(re.split(r"\n\w+\n-{3,}\n", inspect.getdoc(section) or "")[0].split())


def _settings_of(section: Any) -> str:
    said = meanings(section)
    rows = []
    for one in msgspec.structs.fields(section):
        takes = PARAMETERS[one.name].expected.replace("'", '"') if section is RunSettings else _written(one.type)
        default = "required" if one.required else f"`{_toml(_default(one))}`"
        rows.append((f"`{one.name}`", said[one.name], takes, default))
    return table(("setting", "meaning", "what it takes", "default"), rows)


def _section(kind: Any) -> Any:
    for inner in get_args(kind):
        if inner is not types.NoneType:
            return _section(inner) if get_args(inner) else inner
    return kind


def _default(field: Any) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def _toml(value: Any) -> str:
    if value is None:
        return "left out"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, msgspec.Struct):
        return "{}"
    if isinstance(value, int) and value > 1 << 20:
        return f"{value:_}"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _written(kind: Any) -> str:
    """Say in words what a setting takes."""
    if str(get_origin(kind)) == "typing.Literal":
        return " or ".join(f'`"{one}"`' for one in get_args(kind))
    if get_origin(kind) is list:
        return f"list of {_written(get_args(kind)[0])}"
    if get_origin(kind) is dict:
        return f"table of {_written(get_args(kind)[1])}"
    if get_args(kind):
        return " or ".join(_written(one) for one in get_args(kind) if one is not types.NoneType)
    plain = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
    return plain.get(kind, getattr(kind, "__name__", str(kind)))


def commands() -> str:
    """Write what --help says of every command."""
    return "\n".join(_command(name, command) for name, command in _every(cli, "kcagc"))


def _every(command: click.Command, name: str) -> list[tuple[str, click.Command]]:
    found = [] if name == "kcagc" else [(name, command)]
    if isinstance(command, click.Group):
        context = click.Context(command, **cli.context_settings)
        for inner in command.list_commands(context):
            if one := command.get_command(context, inner):
                found += _every(one, f"{name} {inner}")
    return found


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, **cli.context_settings)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    rows: list[tuple[str, ...]] = []
    for parameter in command.get_params(context):
        if not isinstance(parameter, click.Option):
            continue
        record = parameter.get_help_record(context)
        if record is None:
            continue
        words = re.sub(r"\s*\[([^\]]*)\]\.?", lambda found: f" ({found[1]})", record[1] or "")
        rows.append((f"`{record[0]}`", words, f"`{parameter.envvar}`" if parameter.envvar else ""))
    said = inspect.cleandoc(command.help or "").replace("<", "&lt;")
    if not any(row[2] for row in rows):
        rows = [row[:2] for row in rows]
    head = ("option", "what it does", "variable")[: len(rows[0]) if rows else 0]
    options = f"\n{table(head, rows)}" if rows else ""
    return f"## {name}\n\n```text\n{usage}\n```\n\n{said}\n{options}"


def public_names(module: str) -> list[str]:
    """List what a public module offers: its `__all__`, or what it defines without an underscore."""
    loaded = import_module(module)
    if hasattr(loaded, "__all__"):
        return [name for name in loaded.__all__ if name != "__version__"]
    return [
        name
        for name, one in vars(loaded).items()
        if not name.startswith("_") and getattr(one, "__module__", None) == module and callable(one)
    ]


def public_api() -> str:
    """List all public names, by module."""
    rows = [(f"`{module}`", ", ".join(f"`{name}`" for name in public_names(module))) for module in _modules()]
    return table(("module", "names"), rows)


def _modules() -> tuple[str, ...]:
    return ("kcagc", *kcagc.PUBLIC_MODULES)


def joint_numbers() -> str:
    """List the constants of the joint method."""
    many, few = f"more than {joint.FEW_CLUSTERS} clusters", f"up to {joint.FEW_CLUSTERS} clusters"
    plans = [
        (few, joint.schedule(1, joint.FEW_CLUSTERS, joint.MAX_ROUNDS)),
        (
            f"{many}, at most {joint.SAMPLE_VALUES:,} / k nodes",
            joint.schedule(1, joint.FEW_CLUSTERS + 1, joint.MAX_ROUNDS),
        ),
        (f"{many}, larger graphs", joint.schedule(joint.SAMPLE_VALUES, joint.FEW_CLUSTERS + 1, joint.MAX_ROUNDS)),
    ]
    values = f"{joint.SAMPLE_VALUES:,} / k"
    rows = [
        (
            "components of a party (q)",
            f"{parameters.JOINT_COMPONENTS}k or {parameters.MIN_JOINT_COMPONENTS}, whichever is more; "
            "the number of its columns if that is smaller",
        ),
        (
            "rows for covariances (S)",
            f"all nodes up to {subspace.MIXTURES:,}; {subspace.MIXTURES:,} mixtures of nodes if there are more",
        ),
        (
            "sample (T)",
            f"{joint.MIN_SAMPLE:,} nodes or {values}, whichever is more; all nodes if n is smaller",
        ),
        (
            f"sample (T) in shares if n·k is above {joint.LARGE_VALUES:,} and k above {joint.FEW_CLUSTERS}",
            f"half of that, if it has {joint.CLUSTER_NODES} nodes for each cluster",
        ),
        ("nodes in the mean that is a starting centre", str(joint.START_NODES)),
        *(
            (
                f"{case}: restarts (a), rounds (R)",
                f"{plan.restarts}, from round {joint.FIRST_ROUNDS + 1} on {plan.late_restarts}; "
                f"at most {plan.rounds} rounds",
            )
            for case, plan in plans
        ),
        ("fraction bits of components", str(shares.COMPONENT_BITS)),
        ("fraction bits of joint directions", str(shares.DIRECTION_BITS)),
        ("fraction bits of joint rows", str(shares.JOINT_BITS)),
        ("fraction bits of unit rows and centres", str(shares.ROW_BITS)),
        ("fraction bits of secret rotations", str(shares.ROTATION_BITS)),
        ("fraction bits of scores that are compared", str(shared_rows.SCORE_BITS)),
        (
            "secret factors of row lengths",
            f"{shares.LENGTH_OCTAVES} octaves: the largest is 2^{shares.LENGTH_OCTAVES} times the smallest",
        ),
        ("largest number of parties", str(masks.MAX_PARTIES)),
    ]
    return table(("constant", "value"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "claims": claims,
    "ledger-lines": ledger_lines,
    "risks": risks,
    "messages": message_fields,
    "box-contents": box_contents,
    "frames": frame_fields,
    "settings": settings,
    "joint-numbers": joint_numbers,
    "commands": commands,
    "public-api": public_api,
}
