"""Tables as people export them: decimal commas, thousands separators, gaps in many spellings, ids, dates, free text."""

import csv
from pathlib import Path

import numpy as np

ROWS = 300


class Draw:
    """Random values of the kinds that tables have."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def random(self) -> float:
        return float(self._random.random())

    def randint(self, low: int, high: int) -> int:
        return int(self._random.integers(low, high + 1))

    def choice(self, options: list[str]) -> str:
        return options[self.randint(0, len(options) - 1)]

    def gauss(self, mean: float, deviation: float) -> float:
        return float(self._random.normal(mean, deviation))

    def lognormvariate(self, mean: float, deviation: float) -> float:
        return float(self._random.lognormal(mean, deviation))

    def expovariate(self, rate: float) -> float:
        return float(self._random.exponential(1 / rate))


def write(
    path: Path, header: list[str], rows: list[list[str]], *, delimiter: str = ",", encoding: str = "utf-8"
) -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return path


def names(count: int = ROWS) -> list[str]:
    return [f"K{100_000 + number}" for number in range(count)]


def german(value: float, digits: int = 2) -> str:
    return f"{value:,.{digits}f}".translate(str.maketrans({",": ".", ".": ","}))


def bank(path: Path) -> Path:
    """Write a table from a German spreadsheet on Windows."""
    draw = Draw(5)
    header = [
        "Kunden-Nr",
        "Name",
        "PLZ",
        "Geburtstag",
        "Umsatz",
        "Saldo",
        "Straße",
        "Aktiv",
        "Kinder",
        "Mandant",
        "Notiz",
    ]
    rows = [
        [
            name,
            f"Müller {name}",
            f"{draw.randint(1000, 99_999):05d}",
            f"{draw.randint(1, 28):02d}.{draw.randint(1, 12):02d}.{draw.randint(1940, 2005)}",
            draw.choice(["", "-", "NA"]) if draw.random() < 0.04 else german(draw.lognormvariate(7, 1.6)),
            german(draw.gauss(300, 2000)),
            draw.choice(["Am Wall", "Ring", "Süd"]) if draw.random() < 0.9 else "",
            draw.choice(["ja", "nein"]),
            str(min(5, int(draw.expovariate(1.2)))),
            "042",
            f"ruft oft an, zuletzt wegen {draw.randint(0, 10**6)} Euro auf dem Konto",
        ]
        for name in names()
    ]
    return write(path, header, rows, delimiter=";", encoding="cp1252")


def shop(path: Path) -> Path:
    """Write a table with thousands separators, a byte order mark, and words in columns of numbers."""
    draw = Draw(6)
    header = ["id", "signup", "amount", "vip", "category", "score", "mixed", "sku", "visits", "const", "sold", "flag"]
    rows = [
        [
            name,
            f"20{draw.randint(10, 24)}-0{draw.randint(1, 9)}-1{draw.randint(0, 9)}",
            f"{draw.lognormvariate(8, 2):,.2f}",
            draw.choice(["yes", "no", "-"]),
            f"cat{int(draw.random() ** 3 * 500)}",
            "n/a" if draw.random() < 0.3 else f"{draw.random():.3f}",
            f"?{number}" if number % 10 == 3 else f"{draw.gauss(50, 9):.2f}",
            f"SKU-{number}",
            "0" if draw.random() < 0.8 else str(draw.randint(1, 9)),
            "USD",
            f"{draw.randint(-9_000, 9_000_000):,}",
            draw.choice(["true", "FALSE"]),
        ]
        for number, name in enumerate(names())
    ]
    return write(path, header, rows, encoding="utf-8-sig")


def telecom(path: Path) -> Path:
    """Write a table with tabs, 4-digit cell names, row numbers and codes."""
    draw = Draw(7)
    header = ["row", "msisdn", "plan", "cell", "minutes", "data_gb", "region_code", "imei"]
    rows = [
        [
            str(number),
            name,
            draw.choice(["A", "B", "C", "unknown"]),
            f"cell{int(draw.random() ** 2 * 5000)}",
            str(int(draw.expovariate(1 / 80))),
            "" if draw.random() < 0.2 else f"{draw.expovariate(1 / 7):.1f}",
            draw.choice(["11", "23", "42", "17"]),
            str(350_000_000_000_000 + draw.randint(0, 10**14)),
        ]
        for number, name in enumerate(names())
    ]
    return write(path, header, rows, delimiter="\t")


def edges(path: Path, *, more: tuple[str, ...] = ()) -> Path:
    draw = Draw(8)
    nodes = [*names(), *more]
    pairs = {tuple(sorted((draw.choice(nodes), draw.choice(nodes)))) for _ in range(3 * len(nodes))}
    return write(path, ["source", "target"], [[one, two] for one, two in sorted(pairs) if one != two])
