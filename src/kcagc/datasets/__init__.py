"""Graphs to try things on: the paper's four, a generator of any size, and one small instance that comes along."""

from kcagc.datasets.generate import generate
from kcagc.datasets.loading import load, names
from kcagc.datasets.model import Dataset, split_columns

__all__ = ["Dataset", "generate", "load", "names", "split_columns"]
