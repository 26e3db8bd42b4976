"""Names for the array types that appear in signatures.

SciPy and scikit-learn carry no type information, so a sparse matrix is `Any` to the type checker; the alias still
tells the reader.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
AnyFloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.int64]
Labels: TypeAlias = NDArray[np.intp]
Flags: TypeAlias = NDArray[np.bool_]
Sparse: TypeAlias = Any  # scipy.sparse array or matrix
Features: TypeAlias = Any  # a dense 2-d array or a scipy.sparse array or matrix
