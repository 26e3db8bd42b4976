"""Real tables, with words, gaps and scales in them, made into numbers by the party that holds them."""

from kcagc.tables.fitting import fit_table
from kcagc.tables.kept import KeptTable
from kcagc.tables.preparation import TablePreparation
from kcagc.tables.rules import ColumnRule, TableRules

__all__ = ["ColumnRule", "KeptTable", "TablePreparation", "TableRules", "fit_table"]
