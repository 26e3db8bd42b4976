"""Measure how much code there is: lines, files, the longest files, and names that two classes share.

`python tests/project/size.py` prints the figures and what exceeds the limits.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
MAX_CODE_LINES = 29_700
MAX_FILES = 215
MAX_LINES_OF_A_FILE = 450

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(text: str) -> int:
    """Count the lines of a module that hold code: no docstrings, comments or blank lines."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, docstring.end_lineno + 1))
    return len(lines)


def modules(source: Path = SOURCE) -> dict[str, str]:
    """Return the text of every module, by its path in the source folder."""
    return {path.relative_to(source).as_posix(): path.read_text("utf-8") for path in sorted(source.rglob("*.py"))}


def code_lines_by_package(texts: dict[str, str]) -> dict[str, tuple[int, int]]:
    """Return the lines of code and the number of files of every package."""
    found: dict[str, list[int]] = defaultdict(list)
    for path, text in texts.items():
        package = path.split("/")[1]
        found["(top level)" if package.endswith(".py") else package].append(code_lines(text))
    return {package: (sum(lines), len(lines)) for package, lines in found.items()}


def long_files(texts: dict[str, str], limit: int = MAX_LINES_OF_A_FILE) -> dict[str, int]:
    """Return the files with more lines than the limit, comments and docstrings included."""
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
    return {path: length for path, length in lengths.items() if length > limit}


def shared_class_names(texts: dict[str, str]) -> dict[str, list[str]]:
    """Return the class names that are defined more than once, with the files that define them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return {name: paths for name, paths in sorted(found.items()) if len(paths) > 1}


def main() -> None:
    """Print the figures."""
    texts = modules()
    by_package = code_lines_by_package(texts)
    for package, (lines, files) in by_package.items():
        print(f"{package:12} {lines:6,} lines of code in {files:3} files")
    total = sum(lines for lines, _ in by_package.values())
    print(f"{'all':12} {total:6,} lines of code in {len(texts):3} files (at most {MAX_CODE_LINES:,} in {MAX_FILES})")
    for path, length in long_files(texts).items():
        print(f"{path}: {length} lines, more than {MAX_LINES_OF_A_FILE}")
    for name, paths in shared_class_names(texts).items():
        print(f"class {name}: defined in {', '.join(paths)}")


if __name__ == "__main__":
    main()
