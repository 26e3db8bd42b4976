"""Propose a rule for each column of a table, with the reason, from the profile of the column.

The rules are written so that a table with them is accepted, and so that no column outweighs the others. They are a
start: a person who knows the columns decides.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import sparse

from kcagc._types import Features
from kcagc.data.csv_format import read_number, readings
from kcagc.data.fitted_rules import MOST_LEVELS
from kcagc.data.preprocessing import ColumnRule, TableRules
from kcagc.data.profile import BINS, ColumnProfile, skewness
from kcagc.data.table import MISSING
from kcagc.text import count, percent

Type = Literal[
    "empty", "constant", "flag", "counts", "whole numbers", "numbers", "categories", "names", "text", "ids", "dates",
    "nested",
]  # fmt: skip

MANY_COLUMNS = 100  # from here on, the commonest rule becomes the default
_FEW_GAPS = 0.05  # share of gaps up to which the median fills them
_MOSTLY_GAPS = 0.95
_FEW_WORDS = 0.2  # share of words among numbers up to which the column is one of numbers
_LISTED_WORDS = 20  # different words that `missing_values` lists
_MOSTLY = 0.8
_COVERED = 0.2  # share of rows that the kept levels must have
_NEARLY = 0.95  # share of different values from which a column that is called like ids may name the nodes
_ID_ROWS = 10  # rows from which a column of different values is one of ids
_MAY_BE_LEVELS = {"none", "na", "nil"}
_SKEWED = 2.0
_HUGE = 1e100
_SMALL_COUNT = 20
_ID_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|ids|nr|no|num|number|key|uuid|guid|hash|index|idx|phone|tel|mobile|iban|ssn|email|mail|url|link|"
    r"account|nummer|md5sum|sha\d*)$|[a-z]I[dD]$|^(?:md5sum|sha\d+|uuid|index)$"
)
_SIGNS = re.compile(r"[€$£¥%()]|\b(?:EUR|USD|GBP|CHF)\b|\s+(?=[€$£¥%)]|$)|^\s+")
_CODE_NAME = re.compile(
    r"(?:^|[\W_])(?:zip|plz|postal|postcode|post_code|code|codes|kode|type|typ|class|category|sector|branch|status|grade|"
    r"region|country|state|gender|sex)(?:$|[\W_])",
    flags=re.IGNORECASE,
)


@dataclass(frozen=True)
class Proposal:
    """The proposed rule of one column.

    Attributes
    ----------
    profile : ColumnProfile
        What the column holds.
    type : str
        What the column seems to be.
    n_missing : int
        The number of cells that the rule takes as missing.
    rule : ColumnRule
        The rule.
    reason : str
        Why, without any value of the column.
    """

    profile: ColumnProfile
    type: Type
    n_missing: int
    rule: ColumnRule
    reason: str

    @property
    def n_levels(self) -> int:
        """The number of different cells that are no gaps."""
        if self.type != "categories":
            return self.profile.n_levels
        return len(self._levels())

    def histogram(self) -> list[int]:
        """Count the numbers in bins of equal width, or the most frequent levels."""
        if self.type != "categories":
            return self.profile.histogram()
        return [many for _, many in self._levels().most_common(BINS)]

    def _levels(self) -> Counter[str]:
        gaps = set(self.rule.missing_values)
        return Counter({text: many for text, many in self.profile.texts.items() if text not in gaps})

    def as_dict(self) -> dict[str, Any]:
        """Return the proposal for scripts."""
        values = self.profile.values[np.isfinite(self.profile.values)]
        found: dict[str, Any] = {
            "column": self.profile.name,
            "type": self.type,
            "rows": self.profile.n_rows,
            "missing": self.n_missing,
            "levels": self.n_levels,
        }
        if len(values) and self.type in ("flag", "counts", "whole numbers", "numbers", "constant"):
            found |= {"smallest": float(values.min()), "median": float(np.median(values))}
            found |= {"mean": float(values.mean()), "largest": float(values.max()), "skew": self.profile.skew()}
        found["histogram"] = self.histogram()
        return found | {"rule": self.rule.settings(), "reason": self.reason}


@dataclass(frozen=True)
class TableProposal:
    """The proposed rules of a table.

    Attributes
    ----------
    columns : list of Proposal
        A proposal for each column but that of the ids.
    id_column : str or None
        The column of ids.
    default : ColumnRule
        The rule of the columns that are not named.
    reason : str
        The reason of the default, if it is not the usual one.
    """

    columns: list[Proposal]
    id_column: str | None = None
    default: ColumnRule = field(default_factory=ColumnRule)
    reason: str = ""
    notes: list[str] = field(default_factory=list)

    def rules(self) -> TableRules:
        """Return the rules: all columns by name, or in a wide table those that differ from the default."""
        if len(self.columns) <= MANY_COLUMNS:
            return TableRules(self.default, {one.profile.name: one.rule for one in self.columns})
        return TableRules(
            self.default, {one.profile.name: one.rule for one in self.columns if one.rule != self.default}
        )


def propose_table(profiles: list[ColumnProfile], id_column: str | None, *, absent: int = 0) -> TableProposal:
    """Propose a rule for each column; `absent` nodes have no row, so every column needs a rule for missing values."""
    found = [propose(one, absent=absent > 0) for one in profiles if one.name != id_column]
    if len(found) <= MANY_COLUMNS:
        return TableProposal(found, id_column)
    commonest = Counter(one.rule for one in found if one.rule.kind == "number").most_common(1)
    default = commonest[0][0] if commonest else ColumnRule()
    return TableProposal(found, id_column, default, f"the rule of {commonest[0][1]:,} columns" if commonest else "")


def likely_ids(profiles: list[ColumnProfile]) -> str | None:
    """Return the column that most likely names the nodes: the first without gaps or repeats, preferably called id."""
    unique = [one for one in profiles if not one.n_empty and one.n_levels == one.n_rows and not _fractions(one)]
    named = [one for one in unique if one.name.strip().lower() == "id"] or [
        one for one in unique if _ID_NAME.search(one.name.strip()) or (one.stored == "text" and one.n_words)
    ]
    return (named or unique)[0].name if unique else None


def nearly_ids(profiles: list[ColumnProfile]) -> ColumnProfile | None:
    """Return a column that is called like ids, but has a few gaps or repeats."""
    return next(
        (
            one
            for one in profiles
            if _ID_NAME.search(one.name.strip())
            and not one.many_texts
            and _NEARLY * one.n_rows <= one.n_levels < one.n_rows
            and one.n_rows >= _ID_ROWS
        ),
        None,
    )


def _fractions(one: ColumnProfile) -> bool:
    return bool(len(one.values) and (one.values != np.floor(one.values)).any())


def propose(one: ColumnProfile, *, absent: bool = False) -> Proposal:
    """Propose the rule of a column."""
    gap_words = one.gap_words()
    known = one.n_filled - sum(gap_words.values())
    if one.stored in ("times", "other"):
        what = "times" if one.stored == "times" else "lists or records"
        kind: Type = "dates" if one.stored == "times" else "nested"
        return Proposal(
            one, kind, one.n_empty, ColumnRule(kind="drop"), f"{what}; {_NO_TIMES if kind == 'dates' else _NO_LISTS}"
        )
    if not known:
        return Proposal(one, "empty", one.n_rows, ColumnRule(kind="drop"), "no cell has a value")
    words = Counter({text: many for text, many in one.words.items() if text not in gap_words})
    n_words = sum(words.values())
    numeric = one.stored == "numbers" or (len(one.values) > 0 and n_words <= _FEW_WORDS * known) or one.logical()
    numeric = numeric and not _is_code(one)
    if not numeric:  # there "none" may be a level, and "NA" Namibia
        gap_words = Counter({text: many for text, many in gap_words.items() if text.lower() not in _MAY_BE_LEVELS})
        known = one.n_filled - sum(gap_words.values())
    missing = one.n_rows - known
    if missing > _MOSTLY_GAPS * one.n_rows and one.n_rows >= _ID_ROWS:
        reason = f"{percent(missing / one.n_rows)} of the cells are missing"
        return Proposal(one, "empty", missing, ColumnRule(kind="drop"), reason)
    if not numeric:
        return _texts(one, gap_words, known, absent=absent)
    return _numbers(one, words, known, absent=absent)


_NO_TIMES = "to use them, write an age in days or a year as a number"
_NO_LISTS = "write them as numbers or levels to use them"


def _is_code(one: ColumnProfile) -> bool:
    """Return whether numbers are codes: written with leading zeros, or named so and with few different values."""
    if one.leading_zeros:
        return True
    return bool(_CODE_NAME.search(one.name)) and not _fractions(one) and 2 < one.n_levels <= MOST_LEVELS


def _numbers(one: ColumnProfile, words: Counter[str], known: int, *, absent: bool) -> Proposal:
    values = one.values[np.isfinite(one.values)]
    if one.logical():
        values = np.array([1.0 if text.lower() == "true" else 0.0 for text in one.texts.elements()])
        words = Counter()
    if not len(values):
        return Proposal(one, "empty", one.n_rows, ColumnRule(kind="drop"), "no cell has a usable number")
    infinite = len(one.values) - int(np.isfinite(one.values).sum())
    n_missing = one.n_rows - len(values)
    whole, different = bool((values == np.floor(values)).all()), np.unique(values)
    dropped = _not_a_measure(one, values, different, whole=whole, n_missing=n_missing)
    if dropped is not None:
        return dropped
    kind, scale, reason = _scale(values, different, whole=whole)
    may_be_ids = whole and len(different) == len(values) >= _ID_ROWS
    settings: dict[str, Any] = {"scale": scale}
    reasons = [reason, *(["all values are different: if this is an id, drop it"] if may_be_ids else [])]
    if n_missing or absent:
        share = n_missing / one.n_rows
        if len(different) == 1:
            settings["missing"], how = "zero", "become 0"
        elif share <= _FEW_GAPS or kind == "flag":
            settings["missing"], how = "median", "get the median"
        else:
            settings["missing"], how = "indicator", "get the mean, and a column of their own marks them"
        reasons.append(f"{f'gaps ({percent(share)})' if n_missing else 'nodes without a row'} {how}")
    n_words = sum(words.values())
    logical = one.logical()
    unusual = [text for text in one.words if text.lower() not in MISSING and text not in words and not logical]
    if infinite:
        unusual += [text for text in one.texts if "inf" in text.lower()]
    if n_words:
        reasons.append(
            f"{count(n_words, 'cell')} ({percent(n_words / one.n_rows)}) are no numbers and count as missing"
        )
    if n_words and (len(words) > _LISTED_WORDS or one.stored == "numbers"):
        settings["unreadable"] = "missing"
        unusual = [text for text in unusual if "inf" in text.lower()]
    else:
        unusual += list(words)
    if unusual:
        settings["missing_values"] = tuple(sorted(unusual))
    return Proposal(one, kind, n_missing, ColumnRule(**settings), "; ".join(reasons))


def _not_a_measure(one: ColumnProfile, values: Any, different: Any, *, whole: bool, n_missing: int) -> Proposal | None:
    """Propose to drop a column of numbers that measure nothing: constants, ids and dates."""

    def drop(kind: Type, reason: str) -> Proposal:
        return Proposal(one, kind, n_missing, ColumnRule(kind="drop"), reason)

    if len(different) == 1 and (not n_missing or different[0] == 0):
        return drop("constant", "all values are the same")
    if not whole or len(different) < len(values) or len(values) < _ID_ROWS:
        if whole and len(values) >= _ID_ROWS and all(map(_is_day, different[:1000].tolist())):
            return drop("dates", f"dates as whole numbers (YYYYMMDD); {_NO_TIMES}")
        return None
    dense = different[-1] - different[0] < 1.5 * len(different)
    long = different[0] >= 1e7
    if dense or long or _ID_NAME.search(one.name.strip()):
        return drop("ids", "whole numbers, a different one in every row, as of a row number or an id")
    return None


def _is_day(value: float) -> bool:
    year, rest = divmod(int(value), 10_000)
    return 1900 <= year <= 2100 and 1 <= rest // 100 <= 12 and 1 <= rest % 100 <= 31


def _scale(values: Any, different: Any, *, whole: bool) -> tuple[Type, str, str]:
    """Return the type of a column of numbers, its scale, and the reason."""
    low, high = float(different[0]), float(different[-1])
    if set(different.tolist()) <= {0.0, 1.0}:
        return "flag", "none", "0 and 1: a flag stays as it is"
    mostly_zero = float(np.mean(values == 0)) >= 0.5
    if whole and low >= 0 and mostly_zero and high <= _SMALL_COUNT:
        return "counts", "none", "small counts, mostly 0: weighted as events"
    if max(-low, high) > _HUGE:  # the square of such a number may be infinite
        return "numbers", "log-standard" if low > -1 else "minmax", "huge numbers: a scale that they fit on"
    kind: Type = "counts" if whole and low >= 0 and mostly_zero else "whole numbers" if whole else "numbers"
    skew = skewness(values)
    if low > -1 and skew > _SKEWED and abs(skewness(np.log1p(values))) < skew:
        reason = f"skewed ({skew:.1f}): the logarithm, then mean 0 and standard deviation 1"
        return kind, "log-standard", reason
    few = " (if these few numbers are codes, make it categorical)" if whole and 2 < len(different) <= 10 else ""
    return kind, "standard", f"mean 0 and standard deviation 1{few}"


def _texts(  # noqa: PLR0911 - a list of kinds of columns, each with its reason
    one: ColumnProfile, gap_words: Counter[str], known: int, *, absent: bool
) -> Proposal:
    levels = Counter({text: many for text, many in one.texts.items() if text not in gap_words})
    n_missing = one.n_rows - known

    def drop(kind: Type, reason: str) -> Proposal:
        return Proposal(one, kind, n_missing, ColumnRule(kind="drop"), reason)

    if one.dates() >= _MOSTLY * known:
        return drop("dates", f"dates or times; {_NO_TIMES}")
    if len(levels) == 1 and not n_missing:
        return drop("constant", "all values are the same")
    amounts = sum(many for text, many in levels.items() if _is_amount(text))
    signs = "; most are numbers with a sign such as % or written in another way: change them in the file to use them"
    signs = signs if amounts >= _MOSTLY * known else ""
    if known >= _ID_ROWS and (one.many_texts or len(levels) > _MOSTLY * known):
        spaces = sum(text.count(" ") * many for text, many in levels.items()) / max(known, 1)
        if spaces >= 3:
            return drop("text", f"free text: {percent(len(levels) / known)} of the values are different")
        if not len(one.values) and sum(map(_numeric, list(levels)[:1000])) > _MOSTLY * min(len(levels), 1000):
            return drop("numbers", "numbers stored as text; store them as numbers to use them")
        return drop("ids", f"{len(levels):,} different values in {known:,} cells, as of an id or a name{signs}")
    settings: dict[str, Any] = {"kind": "categorical"}
    kept = len(levels)
    reason = f"{len(levels):,} levels{signs}"
    if len(levels) > MOST_LEVELS:
        least = max(2, round(known / 1000))
        often = sorted((many for many in levels.values() if many >= least), reverse=True)[:MOST_LEVELS]
        kept, covered = len(often), sum(often) / known
        if kept < 2 or covered < _COVERED:
            return drop(
                "names",
                f"{len(levels):,} different values, and the {kept} commonest hold only {percent(covered)} of the rows",
            )
        settings["max_levels"] = kept
        reason = f"{len(levels):,} levels, of which the {kept} commonest hold {percent(covered)} of the rows"
    if n_missing or absent:
        settings["missing"] = "zero" if len(levels) == 1 else "indicator"
        share = f"gaps ({percent(n_missing / one.n_rows)})" if n_missing else "nodes without a row"
        reason += f"; {share} get {'no level' if len(levels) == 1 else 'a level of their own'}"
        if gap_words:
            settings["missing_values"] = tuple(sorted(gap_words))
    return Proposal(one, "categories", n_missing, ColumnRule(**settings), reason)


def _is_amount(text: str) -> bool:
    """Return whether a text is no number, but would be one without a currency, a percent sign or brackets."""
    return read_number(text) is None and bool(readings(_SIGNS.sub("", text)))


def _numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def propose_matrix(matrix: Features, *, absent: int = 0) -> TableProposal:
    """Propose one rule for all columns of a matrix, whose columns have no names."""
    values = matrix.data if sparse.issparse(matrix) else np.asarray(matrix).ravel()
    known = values[~np.isnan(values)]
    n_missing = len(values) - len(known)
    share = (np.count_nonzero(known)) / max(matrix.shape[0] * matrix.shape[1], 1)
    settings: dict[str, Any] = {}
    if n_missing or absent:
        settings["missing"] = "zero"
    if set(np.unique(known[:100_000]).tolist()) <= {0.0, 1.0} and ((known == 0) | (known == 1)).all():
        reason = "all values are 0 and 1: flags stay as they are"
    elif share < 0.5 and (known >= 0).all():
        reason = (
            f"only {percent(share)} of the values are not 0, and none is negative: counts or weights stay as they are"
        )
    else:
        settings["scale"] = "standard"
        reason = "real numbers: each column gets the same spread"
    if n_missing:
        reason += f"; {n_missing:,} missing values become 0"
    return TableProposal([], None, ColumnRule(**settings), reason)
