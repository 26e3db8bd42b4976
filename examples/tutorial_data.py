"""Write the CSV files of the tutorial: tables of a bank, a telecom and a shop about the same 400 people.

    python examples/tutorial_data.py FOLDER

The people are invented, and the same in every run. They live in four situations that no file names; the columns of each
organisation depend on them. Numbers have units, some columns are words, and some cells are empty.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

SITUATIONS = ("student", "family", "commuter", "retired")
N_PEOPLE, N_NEW = 400, 20

# For each column: the mean in each situation, the spread, and the digits that are kept.
BANK = {
    "income": ((900, 2900, 3300, 2100), 1000, 0),
    "savings": ((1500, 9000, 14000, 30000), 15000, 0),
    "card_payments": ((34, 42, 30, 17), 15, 0),
    "cash_withdrawals": ((4, 3, 2, 7), 3.2, 0),
}
TELECOM = {
    "minutes_by_day": ((60, 130, 210, 150), 105, 0),
    "minutes_by_night": ((140, 60, 45, 25), 70, 0),
    "data_gb": ((28, 17, 14, 5), 13, 1),
    "cells_visited": ((9, 7, 19, 5), 8, 0),
}
SHOP = {
    "groceries": ((90, 410, 190, 210), 170, 2),
    "toys": ((4, 38, 9, 14), 25, 2),
    "electronics": ((45, 30, 60, 12), 38, 2),
    "garden": ((2, 24, 16, 42), 27, 2),
    "visits": ((6, 9, 5, 10), 4, 0),
}
# For each column of words: how often each word occurs in each situation.
LOANS = {"none": (7, 2, 4, 8), "mortgage": (0, 6, 3, 1), "car": (1, 2, 4, 1), "study": (5, 0, 0, 0)}
PLANS = {"prepaid": (6, 1, 1, 4), "contract": (3, 3, 7, 4), "family": (1, 6, 2, 2)}


def situations(random: np.random.RandomState) -> np.ndarray:
    """Draw the situation of each person."""
    return random.randint(len(SITUATIONS), size=N_PEOPLE + N_NEW)


def contacts(lives: np.ndarray, random: np.random.RandomState) -> list[tuple[int, int]]:
    """Draw who is in contact with whom: six contacts each on average, two thirds of them in the same situation."""
    found: set[tuple[int, int]] = set()
    while len(found) < 3 * len(lives):
        one = random.randint(len(lives))
        alike = random.uniform() < 2 / 3
        others = np.flatnonzero((lives == lives[one]) == alike)
        other = int(random.choice(others))
        if one != other:
            found.add((min(one, other), max(one, other)))
    return sorted(found)


def numbers(columns: dict, lives: np.ndarray, random: np.random.RandomState) -> dict[str, list[str]]:
    """Draw columns of numbers; one cell in fifty is empty."""
    drawn = {}
    for name, (means, spread, digits) in columns.items():
        values = np.clip(np.array(means)[lives] + spread * random.standard_normal(len(lives)), 0, None)
        empty = random.uniform(size=len(lives)) < 0.02
        drawn[name] = ["" if gone else f"{value:.{digits}f}" for value, gone in zip(values, empty, strict=True)]
    return drawn


def words(frequencies: dict[str, tuple[int, ...]], lives: np.ndarray, random: np.random.RandomState) -> list[str]:
    """Draw a column of words."""
    names, table = list(frequencies), np.array(list(frequencies.values()), dtype=float)
    shares = table / table.sum(axis=0)
    return [names[random.choice(len(names), p=shares[:, life])] for life in lives]


def write(path: Path, head: list[str], rows: list[list[str]]) -> None:
    """Write a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def main(folder: Path) -> None:
    """Write every organisation's table, the contacts that all of them know, and both again with 20 new people."""
    random = np.random.RandomState(7)  # its stream is the same in all versions of NumPy
    lives = situations(random)
    names = [f"p{number:03}" for number in range(len(lives))]
    pairs = contacts(lives, random)
    tables = {
        "bank": numbers(BANK, lives, random) | {"loan": words(LOANS, lives, random)},
        "telecom": numbers(TELECOM, lives, random) | {"plan": words(PLANS, lives, random)},
        "shop": numbers(SHOP, lives, random),
    }
    for last, prefix in ((N_PEOPLE, ""), (N_PEOPLE + N_NEW, "more-")):
        for name, columns in tables.items():
            order = np.random.RandomState(len(name)).permutation(last)  # each organisation has another order of rows
            rows = [[names[row], *(column[row] for column in columns.values())] for row in order]
            write(folder / f"{prefix}{name}.csv", ["id", *columns], rows)
        edges = [[names[one], names[other]] for one, other in pairs if other < last]
        write(folder / f"{prefix}contacts.csv", ["source", "target"], edges)
    truth = [[name, SITUATIONS[life]] for name, life in zip(names, lives, strict=True)]
    write(folder / "truth.csv", ["id", "situation"], truth)
    among = sum(other < N_PEOPLE for _, other in pairs)
    print(f"wrote {N_PEOPLE} people and {among:,} contacts to {folder}, and {N_NEW} more people for later")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/tutorial_data.py FOLDER")
    main(Path(sys.argv[1]))
