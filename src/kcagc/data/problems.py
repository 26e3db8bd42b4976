"""All problems of a table, collected before one error: what is wrong, how often, in which places, what to do.

A reader records each wrong cell and reads on. The error has the message of a single problem if there is one kind in one
column, and otherwise a line for each column under a heading for each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kcagc._types import IntArray
from kcagc.errors import DataError
from kcagc.graph.ids import NodeIds
from kcagc.text import count, listed, quoted

_EXAMPLES = 3  # places that an error names for each column
_LONGEST = 30  # characters of an example
_LINES = 20  # columns that an error lists for each kind
WORDS = 'set kind = "categorical" or "drop" for the column'
MOSTLY_NUMBERS = (
    'correct the cells, or set missing_values = ["..."] to the texts that stand for a missing value, or '
    'unreadable = "missing", and a rule for missing values'
)
PROPOSE = "`kcagc columns` shows every column and proposes a rule for each"

Place = int | str  # the number of a row of the table, or words


@dataclass
class Problem:
    """One kind of problem in one column, or in the whole table.

    Attributes
    ----------
    kind : str
        A stable name, such as "missing" or "word".
    title : str
        What is wrong, as the heading above all columns that have it.
    column : str or None
        The column; None for problems of the table.
    first : str
        What is wrong in the first cell.
    advice : str
        What to do.
    count : int
        The number of cells.
    examples : list of (int or str, str or None)
        The places of the first cells, and their content if it helps.
    """

    kind: str
    title: str
    column: str | None
    first: str
    advice: str
    count: int = 0
    examples: list[tuple[Place, str | None]] = field(default_factory=list)

    def as_dict(self, place: Callable[[Place], str]) -> dict[str, Any]:
        """Return the problem for scripts."""
        examples = [{"place": place(where), "value": value} for where, value in self.examples]
        return {"kind": self.kind, "column": self.column, "count": self.count, "examples": examples, "do": self.advice}


class Problems:
    """Collects problems in the order in which they are found."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None], Problem] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def __iter__(self) -> Any:
        return iter(self._found.values())

    def known(self, kind: str, column: str | None = None) -> Problem | None:
        """Return a problem that has been found; None if there is none of this kind in this column."""
        return self._found.get((kind, column))

    def add(
        self,
        kind: str,
        title: str,
        column: str | None,
        place: Place,
        first: str,
        *,
        advice: str = "",
        value: str | None = None,
        more: int = 0,
    ) -> Problem:
        """Add a cell, and `more` cells like it; the first cell of a column decides the text and the advice."""
        found = self._found.setdefault((kind, column), Problem(kind, title, column, first, advice))
        found.count += 1 + more
        if len(found.examples) < _EXAMPLES:
            found.examples.append((place, value))
        return found

    def error(
        self, where: str, place: Callable[[Place], str], *, party: str = "", note: str = "", always: bool = False
    ) -> DataError:
        """Return one error about all problems; `place` puts the place of a row into words.

        `note` ends an error about several problems and, with `always`, one about a single problem.
        """
        found = list(self._found.values())
        problems = [one.as_dict(place) for one in found]
        if len(found) == 1:
            more = f". {note}" if always else ""
            return DataError(f"{where}: {_single(found[0], place)}{more}", party=party, problems=problems)
        columns = {one.column for one in found if one.column is not None}
        among = f" in {count(len(columns), 'column')}" if columns else ""
        lines = [f"{where}: {count(len(found), 'problem')}{among}", *_lines(found, place)]
        return DataError("\n".join([*lines, f"  {note}"] if note else lines), party=party, problems=problems)


def _single(one: Problem, place: Callable[[Place], str]) -> str:
    where = place(one.examples[0][0])
    if one.column is not None:
        where = f"{where}, column {one.column!r}" if where else f"column {one.column!r}"
    others = ""
    if one.count > 1:
        named = [_example(place(spot), value) for spot, value in one.examples[1:]]
        rest = one.count - 1 - len(named)
        named += [f"{rest:,} more"] if rest else []
        others = f", and {one.count - 1:,} more {'in this column ' if one.column is not None else ''}({listed(named)})"
    return f"{where}{': ' if where else ''}{one.first}{others}{'; ' if one.advice else ''}{one.advice}"


def _lines(found: list[Problem], place: Callable[[Place], str]) -> list[str]:
    lines: list[str] = []
    kinds = dict.fromkeys((one.kind, one.title, one.advice) for one in found)
    for kind in kinds:
        same = [one for one in found if (one.kind, one.title, one.advice) == kind]
        _, title, advice = kind
        if len(same) == 1 and same[0].column is None:
            lines.append(f"  - {_single(same[0], place)}")
            continue
        lines.append(f"  - {title}{': ' if advice else ''}{advice}")
        for one in same[:_LINES]:
            named = [_example(place(spot), value) for spot, value in one.examples]
            rest = one.count - len(named)
            named += [f"{rest:,} more"] if rest > 0 else []
            before = "" if one.column is None else f"column {one.column!r}: "
            shown = "; ".join(text for text in named if text)
            lines.append(
                f"      {before}{count(one.count, 'cell')}{' (' if shown else ''}{shown}{')' if shown else ''}"
            )
        if len(same) > _LINES:
            lines.append(f"      and {len(same) - _LINES:,} more columns")
    return lines


def _example(place: str, value: str | None) -> str:
    if value is None:
        return place
    cut = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
    return f"{place} {quoted(cut)}" if place else quoted(cut)


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a table came from: `where` names the file or the argument, `first` is the number of its first row.

    `first` may also be an array with the number of every row. `unit` is "line" for text files, "node" for rows that
    have been sorted by their ids, and "row" otherwise. `in_file`: the table was read from a file, for which there are
    settings.
    """

    where: str
    unit: str = "row"
    first: IntArray | int = 0
    note: str = ""
    ids: NodeIds | None = None
    party: str = ""
    in_file: bool = False

    def fail(self, message: str) -> DataError:
        """Return an error about the whole table."""
        return DataError(f"{self.where}: {message}", party=self.party)

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
        if self.unit == "node" and self.ids is not None:  # rows in memory are sorted, so their numbers mean nothing
            return f"node {quoted(self.ids.values[row])}"
        number = self.first + row if isinstance(self.first, int) else self.first[row]
        called = "" if self.ids is None else f" (id {quoted(self.ids.values[row])})"
        return f"{self.unit} {number}{self.note}{called}"

    def error(self, row: int, column: str, message: str) -> DataError:
        """Return an error about one cell."""
        return self.fail(f"{self.place(row)}, column {column!r}: {message}")
