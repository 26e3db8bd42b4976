"""Tables and graphs of parties, from files and from memory: reading, alignment by node id, preprocessing, writing."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcagc.data.csv_format import CsvFormat
    from kcagc.data.files import check_labels_path, write_bytes, write_labels, write_text
    from kcagc.data.fitted_rules import FittedRules
    from kcagc.data.node_lists import common_nodes, graph_nodes, present_nodes, write_ids
    from kcagc.data.party_files import PartyInput, read_graph, read_party
    from kcagc.data.preprocessing import ColumnRule, TableRules
    from kcagc.data.table import Table
    from kcagc.data.table_files import read_features
    from kcagc.data.transformer import TablePreprocessor

__all__ = [
    "ColumnRule", "CsvFormat", "FittedRules", "PartyInput", "Table", "TablePreprocessor", "TableRules",
    "check_labels_path", "common_nodes", "graph_nodes", "present_nodes", "read_features", "read_graph", "read_party",
    "write_bytes", "write_ids", "write_labels", "write_text",
]  # fmt: skip

_MODULES = {
    "csv_format": ("CsvFormat",),
    "files": ("check_labels_path", "write_bytes", "write_labels", "write_text"),
    "fitted_rules": ("FittedRules",),
    "node_lists": ("common_nodes", "graph_nodes", "present_nodes", "write_ids"),
    "party_files": ("PartyInput", "read_graph", "read_party"),
    "preprocessing": ("ColumnRule", "TableRules"),
    "table": ("Table",),
    "table_files": ("read_features",),
    "transformer": ("TablePreprocessor",),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: a party that reads CSV files needs neither Parquet nor scikit-learn."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"kcagc.data.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names that are imported when first used, too."""
    return sorted({*globals(), *__all__})
