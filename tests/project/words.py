"""Find words that the glossary replaces: in names of the code, and in all text that a reader sees.

`python tests/project/words.py` prints every place that is left; with paths it prints those places only, such as
`python tests/project/words.py src/kcagc/net docs`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
GLOSSARY = ROOT / "docs" / "glossary.md"  # names the replaced words to say what replaces them

# No class, module, function or message kind has one of these among the words of its name.
REPLACED_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        hub hubs receiver receivers seat seats roster rosters card cards play plays played player players cast
        bag bags box boxes boxed letter letters seal sealed seals sealing unseal ninth ninths faced accused accuse
        blamed blame odd glimpse glimpses board boards farewell goodbye foreign foreigner meaning meanings mark marks
        enemy enemies zygote verdict verdicts judge judged judges judgement told tell tells telling hear hears heard
        hearing say says said saying speak speaks speaker speakers spoken speaking witness witnesses whoever somebody
        nobody anybody earnest anew begun
        """,
    )
)
# Ordinary words that are wrong only as the whole name of a class, module, function or message kind.
REPLACED_NAMES = frozenset({"look", "use", "once", "leave", "stage", "missing", "refused", "broken"})

# Phrases that no reader should meet, in lower case.
REPLACED_PHRASES = (
    "who sums",
    "whoever",
    "in earnest",
    "is least",
    "sealed",
    "told",
    "two-faced",
    "goes before it",
    "what left",
    "what was learned",
    "anew",
    "beside it",
    "begun",
    "somebody",
    "anybody",
    "nobody",
    "one's own",
    "not let in",
    "hub",
    "roster",
    "seat",
    "ninth",
    "glimpse",
    "farewell",
    "goodbye",
    "zygote",
    "enemy",
    "enemies",
    "verdict",
    "accused",
    "blamed",
    "is no name",
    "make one",
)
_PHRASE = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, REPLACED_PHRASES))})(?![\w-])", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IMPERATIVE = re.compile(r"\s*(?:Give|Gives|Say|Says|Tell|Tells|Hear|See|Be|Let)\b")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Finding(NamedTuple):
    """A place where a replaced word is still used."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


def replaced_words(name: str) -> list[str]:
    """Return the words of a name that the glossary replaces."""
    words = [word.lower() for word in _WORD.findall(name)]
    found = [word for word in words if word in REPLACED_WORDS]
    if not found and len(words) == 1 and words[0] in REPLACED_NAMES:
        found = words
    return found


def names(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the kind and the name of every class, module, function and message kind of a file."""
    if path.stem != "__init__":
        yield 1, "module", path.stem
    elif path.parent != SOURCE:
        yield 1, "package", path.parent.name
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef):
            yield node.lineno, "class", node.name
            for keyword in node.keywords:
                if keyword.arg == "tag" and isinstance(keyword.value, ast.Constant):
                    yield node.lineno, "message kind", str(keyword.value.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, "function", node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_disclosure_kind(node.value):
            yield node.lineno, "message kind", node.value


def _is_disclosure_kind(text: str) -> bool:
    return bool(re.fullmatch(r"(?:link|message|inside|encrypted|opened|output)/[\w.-]*", text))


def names_left(source: Path = SOURCE) -> list[Finding]:
    """Return the names of the code with a word that the glossary replaces."""
    found = []
    for path in sorted(source.rglob("*.py")):
        for line, kind, name in names(path):
            if words := replaced_words(name):
                found.append(Finding(path, line, f"{kind} {name} ({', '.join(words)})"))
    return found


def text_of_code(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings, docstrings and comments of a file, each whole, with its first line."""
    text = path.read_text("utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    for node in formatted:
        yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value
    comments: list[list[tuple[int, str]]] = []  # adjacent lines are one comment
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            if not comments or comments[-1][-1][0] != line - 1:
                comments.append([])
            comments[-1].append((line, token.string.lstrip("# ")))
    for comment in comments:
        yield comment[0][0], " ".join(words for _, words in comment)


def phrases(path: Path, line: int, text: str) -> Iterator[Finding]:
    """Yield every replaced phrase of a text, with the words around it."""
    joined = " ".join(text.split())
    for match in _PHRASE.finditer(joined):
        around = joined[max(0, match.start() - 40) : match.end() + 40]
        yield Finding(path, line, f'"{match.group()}" in "…{around}…"')


def phrases_left() -> list[Finding]:
    """Return the phrases left in the source with its texts and templates, in the README, the pages and the help."""
    found: list[Finding] = []
    for path in sorted(SOURCE.rglob("*.py")):
        found += sorted(finding for line, text in text_of_code(path) for finding in phrases(path, line, text))
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted(SOURCE.rglob("*.toml")),
    ]:
        if path != GLOSSARY and "_build" not in path.parts:
            for line, paragraph in _paragraphs(path.read_text("utf-8")):
                found += phrases(path, line, paragraph)
    for command, text in help_texts():
        found += [finding._replace(text=f"{command}: {finding.text}") for finding in phrases(SOURCE, 0, text)]
    return found


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    line = 1
    for paragraph in re.split(r"(\n[ \t]*\n)", text):
        if paragraph.strip():
            yield line, paragraph
        line += paragraph.count("\n")


def docstrings_left() -> list[Finding]:
    """Return the docstrings that start with a word the rules for sentences exclude."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, _DOCUMENTED):
                text = ast.get_docstring(node) or ""
                if _IMPERATIVE.match(text):
                    line = 1 if isinstance(node, ast.Module) else node.lineno
                    found.append(Finding(path, line, f'docstring starts with "{text.splitlines()[0]}"'))
    return found


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield the help text of every command."""
    from kcagc.cli.main import cli

    def visit(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
        yield f"{context.command_path} --help", command.get_help(context)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                if child is not None:
                    yield from visit(child, click.Context(child, parent=context, info_name=name))

    yield from visit(cli, click.Context(cli, info_name="kcagc", **cli.context_settings))


def main() -> None:
    """Print what is left."""
    chosen = [Path(argument).resolve() for argument in sys.argv[1:]]
    for title, found in (
        ("names", names_left()),
        ("docstrings", docstrings_left()),
        ("phrases", phrases_left()),
    ):
        shown = [one for one in found if not chosen or any(one.path.resolve().is_relative_to(path) for path in chosen)]
        for finding in shown:
            print(finding)
        print(f"{len(shown)} {title} left\n")


if __name__ == "__main__":
    main()
