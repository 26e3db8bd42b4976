"""Write tables of three organisations that know the packages of a Debian or Ubuntu system, and their dependencies.

    python examples/package_graph.py FOLDER

The packages and dependencies are those that `apt-cache dumpavail` prints on this machine; on another system the program
says so and writes nothing. `archive.csv`, `maintainers.csv` and `users.csv` are as messy as real exports: ids, free
text, a column with a single value, sizes over six orders of magnitude, gaps, and columns with thousands of levels.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

WORDS = 150  # words of descriptions, each a column of the users' table
COMMON = 0.2  # a word in more than this share of all descriptions says nothing
STOP = {
    "and",
    "the",
    "for",
    "with",
    "that",
    "this",
    "from",
    "are",
    "can",
    "its",
    "use",
    "used",
    "using",
    "which",
    "via",
}
ROLES = ("implemented-in", "devel", "role", "interface", "uitoolkit", "field", "use", "works-with")  # facets of debtags
Package = dict[str, str]


def stanzas(lines: Iterable[str]) -> Iterator[Package]:
    """Read packages, each a block of fields; a line that begins with a space continues its field."""
    fields: Package = {}
    name = ""
    for line in lines:
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif line[0].isspace():
            fields[name] += " " + line.strip()
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    if fields:
        yield fields


def packages() -> dict[str, Package]:
    """Return the available packages by name; of several versions the first one."""
    command = [shutil.which("apt-cache") or "apt-cache", "dumpavail"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, Package] = {}
    for one in stanzas(printed.splitlines()):
        found.setdefault(one["Package"], one)
    return found


def dependencies(known: dict[str, Package]) -> set[tuple[str, str]]:
    """Return the edges: a package, and the first alternative of each of its dependencies that is a known package."""
    edges = set()
    for name, fields in known.items():
        wanted = ",".join(fields.get(field, "") for field in ("Pre-Depends", "Depends", "Recommends"))
        for alternatives in wanted.split(","):
            names = (re.split(r"[\s(:]", one.strip())[0] for one in alternatives.split("|"))
            first = next((one for one in names if one in known), None)
            if first is not None and first != name:
                edges.add((min(name, first), max(name, first)))
    return edges


def archive(known: dict[str, Package]) -> Iterator[list[object]]:
    """Yield the table of the archive, which stores the packages: sections, sizes, checksums."""
    yield ["package", "version", "section", "priority", "architecture", "multi_arch", "installed_kb", "download_bytes",
           "provides", "origin", "md5"]  # fmt: skip
    fields = ("Priority", "Architecture", "Multi-Arch", "Installed-Size", "Size")
    for name, one in known.items():
        section = one.get("Section", "").rpartition("/")[2]
        provides = len(one["Provides"].split(",")) if "Provides" in one else 0
        own = (one.get(field, "") for field in fields)
        yield [name, one.get("Version", ""), section, *own, provides, "Debian", one.get("MD5sum", "")]


def maintainers(known: dict[str, Package]) -> Iterator[list[object]]:
    """Yield the table of the maintainers: who looks after a package, and where it comes from."""
    yield ["package", "source", "maintainer", "team", "upstream", "homepage", "binaries_of_source"]
    source = {name: one.get("Source", name).split()[0] for name, one in known.items()}
    binaries = Counter(source.values())
    for name, one in known.items():
        maintainer = one.get("Maintainer", "")
        address = re.search(r"<([^>]*)>", maintainer)
        team = address[1] if address and re.search(r"team|group|maintainers|lists", maintainer.lower()) else ""
        homepage = one.get("Homepage", "")
        host = re.search(r"//(?:www\.)?([^/:]+)", homepage)
        yield [name, source[name], maintainer, team, host[1] if host else "", homepage, binaries[source[name]]]


def users(known: dict[str, Package]) -> Iterator[list[object]]:
    """Yield the table of a site for users: tags, and frequent words of the descriptions as columns of 0 and 1."""
    said = {name: set(re.findall(r"[a-z][a-z+#]{2,}", one.get("Description", "").lower())) - STOP
            for name, one in known.items()}  # fmt: skip
    frequency = Counter(word for words in said.values() for word in words)
    usable = [word for word, count in frequency.items() if count <= COMMON * len(known)]
    columns = sorted(sorted(usable, key=lambda word: (-frequency[word], word))[:WORDS])
    yield ["package", "description", "tags", *ROLES, *(f"says_{word}" for word in columns)]
    for name, one in known.items():
        tags = one.get("Tag", "").split(", ")
        first = {facet: next((tag for tag in tags if tag.startswith(f"{facet}::")), "::") for facet in ROLES}
        values = [first[facet].partition("::")[2] for facet in ROLES]
        count = len(tags) if tags != [""] else ""
        yield [name, one.get("Description", ""), count, *values, *(int(word in said[name]) for word in columns)]


def write(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def main(folder: Path) -> None:
    """Write the four files."""
    if shutil.which("apt-cache") is None:
        print("skipped: there is no apt-cache on this machine; this example needs Debian or Ubuntu")
        return
    known = packages()
    edges = dependencies(known)
    if len(edges) < 10:
        print("skipped: apt-cache knows too few packages; run: apt-get update")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("archive", archive(known)), ("maintainers", maintainers(known)), ("users", users(known))):
        write(folder / f"{name}.csv", rows)
    write(folder / "depends.csv", [("source", "target"), *sorted(edges)])
    print(f"wrote {len(known):,} packages and {len(edges):,} dependencies to {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
