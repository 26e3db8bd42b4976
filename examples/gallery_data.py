"""Write the files of two cases of the gallery: a fraud ring and two banks, and patients of three hospitals.

    python examples/gallery_data.py ring FOLDER
    python examples/gallery_data.py hospitals FOLDER

All names and numbers are invented, and the same in every run. `truth.csv` has the group of each node, which no
organisation knows.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# For each column: the mean in each group, the spread, and the digits that are kept.
Columns = dict[str, tuple[tuple[float, ...], float, int]]


@dataclass(frozen=True)
class Case:
    """The groups with their sizes, the links of a node, the share of links in its group, and the organisations."""

    groups: dict[str, int]
    degree: int
    homophily: float
    stem: str
    parties: dict[str, Columns]
    gaps: float = 0.0  # share of nodes that an organisation does not know


RING = Case(
    groups={"shop": 130, "restaurant": 90, "payment agent": 90, "consultant": 66, "ring": 24},
    degree=6,
    homophily=0.6,
    stem="firm",
    parties={
        # To this bank, the ring looks like restaurants: much cash, often just below the limit for a report.
        "north": {
            "cash deposits (EUR/month)": ((9000, 24000, 6000, 1500, 25000), 4500, 0),
            "cash just below the limit (per month)": ((2, 5, 2, 0.5, 5.5), 1.6, 1),
            "card sales (per month)": ((900, 700, 250, 40, 600), 220, 0),
            "age of the account (years)": ((11, 8, 7, 10, 7), 4, 1),
        },
        # To this bank, the ring looks like payment agents: money leaves on the day on which it comes.
        "south": {
            "money forwarded within a day (%)": ((12, 10, 70, 15, 72), 11, 1),
            "new payees (per month)": ((3, 2, 14, 4, 15), 3.2, 1),
            "payments abroad (per month)": ((2, 1, 9, 5, 8), 2.6, 1),
            "payroll (EUR/month)": ((21000, 26000, 18000, 30000, 17000), 7000, 0),
        },
    },
)
HOSPITALS = Case(
    groups={"heart failure": 90, "kidney disease": 90, "heart and kidney": 60, "diabetes": 90, "healthy": 90},
    degree=6,
    homophily=0.7,
    stem="patient",
    parties={
        "heart-centre": {
            "ejection fraction (%)": ((34, 55, 36, 57, 60), 8, 0),
            "systolic pressure (mmHg)": ((128, 148, 145, 138, 122), 13, 0),
            "NT-proBNP (pg/mL)": ((2400, 700, 2900, 300, 120), 800, 0),
            "pulse (per min)": ((86, 74, 84, 76, 68), 10, 0),
        },
        "kidney-centre": {
            "eGFR (mL/min)": ((74, 31, 33, 70, 92), 14, 0),
            "potassium (mmol/L)": ((4.3, 5.1, 5.2, 4.3, 4.2), 0.4, 1),
            "albumin in urine (mg/g)": ((40, 420, 380, 150, 12), 130, 0),
            "haemoglobin (g/dL)": ((13.2, 10.9, 10.8, 13.4, 14.1), 1.1, 1),
        },
        "diabetes-clinic": {
            "HbA1c (%)": ((5.9, 6.0, 6.2, 8.3, 5.3), 0.7, 1),
            "fasting glucose (mg/dL)": ((101, 103, 108, 168, 89), 20, 0),
            "body mass index (kg/m2)": ((28, 27, 28, 33, 24), 4, 1),
            "visits of the foot clinic (per year)": ((0.4, 0.5, 0.6, 2.4, 0.2), 0.6, 1),
        },
    },
    gaps=0.15,
)
CASES = {"ring": RING, "hospitals": HOSPITALS}


def links(groups: np.ndarray, case: Case, random: np.random.RandomState) -> list[tuple[int, int]]:
    """Draw who is linked with whom."""
    found: set[tuple[int, int]] = set()
    while len(found) < case.degree * len(groups) // 2:
        one = random.randint(len(groups))
        alike = random.uniform() < case.homophily
        other = int(random.choice(np.flatnonzero((groups == groups[one]) == alike)))
        if one != other:
            found.add((min(one, other), max(one, other)))
    return sorted(found)


def write(path: Path, head: list[str], rows: list[list[object]]) -> None:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def main(case: Case, folder: Path) -> None:
    """Write the tables, the links and the truth."""
    random = np.random.RandomState(1)
    folder.mkdir(parents=True, exist_ok=True)
    groups = random.permutation(np.repeat(np.arange(len(case.groups)), list(case.groups.values())))
    names = [f"{case.stem}-{number:03}" for number in range(len(groups))]
    pairs = [[names[one], names[other]] for one, other in links(groups, case, random)]
    write(folder / "links.csv", ["source", "target"], pairs)
    for party, columns in case.parties.items():
        table = []
        for means, spread, digits in columns.values():
            drawn = random.normal(np.array(means)[groups], spread)
            table.append(np.round(np.maximum(drawn, 0), digits))
        known = random.uniform(size=len(groups)) >= case.gaps
        rows = [[names[node], *(column[node] for column in table)] for node in np.flatnonzero(known)]
        write(folder / f"{party}.csv", ["id", *columns], rows)
    truth = [[name, list(case.groups)[group]] for name, group in zip(names, groups, strict=True)]
    write(folder / "truth.csv", ["id", "group"], truth)
    print(f"wrote {len(names)} nodes, {len(pairs):,} links and {len(case.parties)} tables to {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    main(CASES[sys.argv[1]], Path(sys.argv[2]))
