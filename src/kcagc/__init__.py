"""Cluster the nodes of a graph that several organisations share, using features that each holds and none may show."""

__version__ = "0.1.0"
