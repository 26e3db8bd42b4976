"""Computations with kcagc that are not part of the package."""
