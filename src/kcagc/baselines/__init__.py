"""The methods on pooled features that the paper compares with, as scikit-learn estimators."""

from kcagc.baselines.agc import AGC
from kcagc.baselines.gcc import GCC

__all__ = ["AGC", "GCC"]
