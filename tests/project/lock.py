"""Write the lock files: exact versions with the SHA-256 of each of their archives, as the package index lists them.

`make lock` calls this with the Python of an environment in which everything has just been installed. All archives that
a supported Python can use are listed, for all platforms; pip refuses any other. No address of an index is written.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
EVERYTHING = ROOT / "requirements.lock"
IMAGE = ROOT / "deploy" / "requirements.lock"
OLDEST = 11  # the oldest Python 3 that is supported

# What packages need on other systems than the one that makes the lock, with the condition of pip.
ELSEWHERE = {
    "appnope": 'sys_platform == "darwin"',
    "colorama": 'sys_platform == "win32"',
    "pywin32-ctypes": 'sys_platform == "win32"',
}
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", flags=re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    """Return the version of each package in the text of a lock file, or in what `pip freeze` prints."""
    return {normal(name): version for name, version in _PIN.findall(text)}


def normal(name: str) -> str:
    """Return the one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def usable(file: str) -> bool:
    """Return whether a supported Python can install an archive: its tags, or that it is a source archive."""
    if not file.endswith(".whl"):
        return file.endswith((".tar.gz", ".zip"))
    python, abi = file.removesuffix(".whl").split("-")[-3:-1]
    for tag in python.split("."):
        if tag.startswith("py3"):
            return True
        if found := re.fullmatch(r"cp3(\d+)", tag):
            return int(found[1]) >= OLDEST or abi == "abi3"
    return False


def version_of(file: str, name: str) -> str:
    """Return the version of an archive of a package; "" if the file is of another package."""
    stem = file.removesuffix(".tar.gz").removesuffix(".zip")
    if file.endswith(".whl"):
        stem = "-".join(file.split("-")[:2])
    for place in range(len(stem)):
        if stem[place] == "-" and normal(stem[:place]) == name:
            return stem[place + 1 :]
    return ""


def indexes() -> list[str]:
    """Return the package indexes that pip uses here."""
    from pip._internal.commands import create_command

    options, _ = create_command("download").parse_args([])
    return [options.index_url, *options.extra_index_urls]


def listed(index: str, name: str) -> dict[str, str]:
    """Return the SHA-256 of each archive of a package that an index lists."""
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    address = f"{index.rstrip('/')}/{name}/"
    if address.startswith("file:"):
        address += "index.html"
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers={"Accept": accept}), timeout=60) as answer:  # noqa: S310
            text = answer.read().decode()
    except OSError:  # an index need not have every package
        return {}
    if text.lstrip().startswith("{"):
        return {one["filename"]: one["hashes"].get("sha256", "") for one in json.loads(text)["files"]}
    found = re.findall(r'href="([^"#]+)#sha256=([0-9a-f]{64})"', text)
    return {urllib.parse.unquote(link.rpartition("/")[2]): digest for link, digest in found}


def hashes(name: str, version: str, where: Iterable[str]) -> list[str]:
    """Return the SHA-256 of all usable archives of a version, sorted."""
    found = {
        digest
        for index in where
        for file, digest in listed(index, name).items()
        if digest and usable(file) and version_of(file, name) == version
    }
    if not found:
        raise SystemExit(f"no index shows a SHA-256 of {name} {version}")
    return sorted(found)


def newest(name: str, where: Iterable[str]) -> str:
    """Return the newest final version of a package."""
    versions = {version_of(file, name) for index in where for file in listed(index, name) if usable(file)}
    final = [one for one in versions if re.fullmatch(r"\d+(\.\d+)*", one)]
    return max(final, key=lambda one: tuple(map(int, one.split("."))))


def needed(roots: Iterable[str]) -> set[str]:
    """Return the installed packages that some requirements need, directly or not."""
    from packaging.requirements import Requirement

    found: set[tuple[str, str]] = set()
    waiting = [Requirement(one) for one in roots]
    while waiting:
        one = waiting.pop()
        for extra in ("", *one.extras):
            if (normal(one.name), extra) in found:
                continue
            found.add((normal(one.name), extra))
            for line in metadata.requires(one.name) or ():
                required = Requirement(line)
                if required.marker is None or required.marker.evaluate({"extra": extra}):
                    waiting.append(required)
    return {name for name, _ in found}


def entries(versions: dict[str, str], digests: dict[str, list[str]]) -> Iterator[str]:
    """Yield the lines of a lock file."""
    for name, version in sorted(versions.items()):
        condition = f" ; {ELSEWHERE[name]}" if name in ELSEWHERE else ""
        lines = [f"{name}=={version}{condition}", *(f"    --hash=sha256:{digest}" for digest in digests[name])]
        yield " \\\n".join(lines) + "\n"


def main() -> None:
    """Write both lock files from what `pip freeze` prints on stdin."""
    versions, where = pins(sys.stdin.read()), indexes()
    versions |= {name: newest(name, where) for name in ELSEWHERE if name not in versions}
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda one: hashes(*one, where), versions.items())
        digests = dict(zip(versions, found, strict=True))
    head = "# The exact versions kcagc was tested with, and the SHA-256 of their archives. Made by 'make lock'.\n"
    EVERYTHING.write_text(head + "".join(entries(versions, digests)))
    image = needed(["kcagc[parquet]", "hatchling"]) - {"kcagc"}
    head = "# Of requirements.lock, what the container image needs and what builds it. Made by 'make lock'.\n"
    IMAGE.write_text(head + "".join(entries({name: versions[name] for name in image}, digests)))


if __name__ == "__main__":
    main()
