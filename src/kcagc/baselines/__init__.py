"""Methods on pooled features, as scikit-learn estimators: those that the paper compares with, and two newer ones."""

from kcagc.baselines.agc import AGC
from kcagc.baselines.gcc import GCC
from kcagc.baselines.smoothing import MS2CAG, S2GC

__all__ = ["AGC", "GCC", "MS2CAG", "S2GC"]
