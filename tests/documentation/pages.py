"""Reads the code blocks of a page and runs them: shell and Python, in their order, in one folder."""

import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PORTS = ("7443", "9443")  # as written on the pages


@dataclass
class Block:
    """A fenced block, and the output that the page shows below it, if any."""

    language: str
    text: str
    shown: str | None = None


def pages():
    """Return all pages of the site, by their name without .md."""
    return {
        str(path.relative_to(DOCS).with_suffix("")): path
        for path in sorted(DOCS.rglob("*.md"))
        if "_build" not in path.parts
    }


def blocks(path):
    """Return the fenced blocks of a page. A text block directly after code is the output of that code."""
    found, end = [], 0
    text = path.read_text(encoding="utf-8")
    for match in re.finditer(r"^( *)```([^\n`]*)\n(.*?)^\1```$", text, flags=re.DOTALL | re.MULTILINE):
        language, content = match[2].strip(), match[3]
        follows = not text[end : match.start()].strip()
        end = match.end()
        if language == "text" and follows and found and found[-1].language in ("sh", "python"):
            found[-1].shown = content
        else:
            found.append(Block(language, content))
    return found


def script(found):
    """Return one shell script of all code. It prints a numbered line after each block, to separate their outputs."""
    parts, inside = ["set -e"], False
    for number, block in enumerate(found):
        if block.language not in ("sh", "python"):
            continue
        if block.language == "python" and not inside:  # neighbours share what they define
            parts.append("python - <<'END_OF_PYTHON'")
        if block.language == "sh" and inside:
            parts.append("END_OF_PYTHON")
        inside = block.language == "python"
        parts.append(block.text)
        parts.append(f"print('@@{number}', flush=True)" if inside else f"echo @@{number}")
    if inside:
        parts.append("END_OF_PYTHON")
    return "\n".join(parts)


def follow(path, folder, **settings):
    """Run a page's code in a folder, on free ports; return the output of each block, by its number."""
    text = script(blocks(path))
    for port in PORTS:
        text = text.replace(port, str(free_port()))
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONWARNINGS": "error",
        "KCAGC_RANDOM_STATE": "0",
        "OMP_NUM_THREADS": "1",  # several processes run in parallel
        "OPENBLAS_NUM_THREADS": "1",
        **settings,
    }
    done = subprocess.run(
        ["bash", "-c", text],  # noqa: S607
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    printed, before = {}, ""
    for line in done.stdout.splitlines():
        separator = re.fullmatch(r"@@(\d+)", line)
        if separator:
            printed[int(separator[1])], before = before, ""
        else:
            before += f"{line}\n"
    return printed


def agrees(shown, printed):
    """Return whether the output has the words of the page in the same order; "…" matches any text."""
    pattern = r"\s+".join(re.escape(word).replace("…", ".*") for word in shown.split())
    return re.fullmatch(pattern, printed.strip(), flags=re.DOTALL) is not None


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
