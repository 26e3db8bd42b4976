"""Example datasets: the four graphs of the paper, a generator of graphs of any size, and a small embedded dataset."""

from kcagc.datasets.catalog import load, names
from kcagc.datasets.dataset import Column, Dataset, split_columns
from kcagc.datasets.generator import generate

__all__ = ["Column", "Dataset", "generate", "load", "names", "split_columns"]
