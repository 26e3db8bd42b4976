"""The examples in the docstrings of the numerical packages print what they show."""

import doctest
from importlib import import_module

import pytest

MODULES = [
    "kcagc.baselines.agc",
    "kcagc.baselines.gcc",
    "kcagc.cluster.kmeans",
    "kcagc.cluster.lloyd",
    "kcagc.cluster.local",
    "kcagc.datasets.catalog",
    "kcagc.datasets.dataset",
    "kcagc.datasets.generator",
    "kcagc.graph.adaptive",
    "kcagc.graph.chebyshev",
    "kcagc.graph.filters",
    "kcagc.graph.graph",
    "kcagc.metrics",
]


@pytest.mark.parametrize("name", MODULES)
def test_an_example_prints_what_it_shows(name):
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
