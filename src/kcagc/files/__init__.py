"""Files of organisations: a party's table and the shared graph are read here, and the labels written."""

from kcagc.files.atomic import write_bytes, write_text
from kcagc.files.features import FeatureTable, read_features
from kcagc.files.labels import check_labels_path, write_labels
from kcagc.files.party import PartyFiles, read_party
from kcagc.files.shared_graph import read_graph

__all__ = [
    "FeatureTable",
    "PartyFiles",
    "check_labels_path",
    "read_features",
    "read_graph",
    "read_party",
    "write_bytes",
    "write_labels",
    "write_text",
]
