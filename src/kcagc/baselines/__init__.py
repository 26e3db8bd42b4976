"""The centralised methods that kCAGC is compared with, as scikit-learn estimators on pooled features."""

from kcagc.baselines.agc import AGC
from kcagc.baselines.gcc import GCC

__all__ = ["AGC", "GCC"]
