"""What a user hands to the estimator, checked and brought into one form; an error names the party or the argument."""

from kcagc.inputs.data import Brought, bring
from kcagc.inputs.given import check_tables, graphs_of
from kcagc.inputs.wanted import wanted_rows

__all__ = [
    "Brought",
    "bring",
    "check_tables",
    "graphs_of",
    "wanted_rows",
]
