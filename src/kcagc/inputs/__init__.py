"""What a user hands to the estimator, checked and brought into one form; an error names the party or the argument."""

from kcagc.inputs.data import Brought, bring
from kcagc.inputs.given import check_tables, graphs_of
from kcagc.inputs.settings import Settings, filter_of, local_clusters, parameters_of, seeds_of
from kcagc.inputs.wanted import wanted_rows

__all__ = [
    "Brought",
    "Settings",
    "bring",
    "check_tables",
    "filter_of",
    "graphs_of",
    "local_clusters",
    "parameters_of",
    "seeds_of",
    "wanted_rows",
]
