"""Real tables, with words, gaps and scales in them, made into numbers by the party that holds them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kcagc.tables.fitting import fit_table
from kcagc.tables.kept import KeptTable
from kcagc.tables.rules import ColumnRule, TableRules

if TYPE_CHECKING:
    from kcagc.tables.preparation import TablePreprocessor

__all__ = ["ColumnRule", "KeptTable", "TablePreprocessor", "TableRules", "fit_table"]


def __getattr__(name: str) -> Any:
    """Import the transformer when it is first asked for: a role does not need it, nor scikit-learn."""
    if name == "TablePreprocessor":
        return import_module("kcagc.tables.preparation").TablePreprocessor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what is imported lazily, too."""
    return sorted({*globals(), *__all__})
