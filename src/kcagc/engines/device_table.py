"""Filtered features on a device: the sparse product, and a table that may be larger than the memory of the device.

All functions take `xp`, the array library: CuPy on a GPU. With NumPy the same code runs on any machine, which is how it
is tested where there is no GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from kcagc._types import AnyFloatArray, Features, FloatArray, IntArray
from kcagc.graph.filters import Filter
from kcagc.graph.graph import Graph

_BLOCK_BYTES = 1 << 28  # of a block of rows in float64
_LANES = 32  # threads of a warp, which reads one row of a neighbour at once
_ROWS = 8  # warps of a block
_WIDTH = 64  # columns filtered at a time where the table fits, but not with the buffers of a filter
_LARGE = 1 << 24  # bytes from which on several threads copy an array
_THREADS = 8
_BUFFERS = 5  # additional copies of a block that a filter needs

# Each warp computes one row, for 64 columns. The row pointers have 64 bits, so that a graph may have more than 2^31
# entries. Every thread adds the neighbours in their order, so the result is the same in every run.
_KERNEL = r"""
template <typename T>
__global__ void product(const long long n, const int m, const long long* starts, const int* neighbours,
                        const T* weights, const T* degrees, const T a, const T b, const T* x, T* y) {
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= n) return;
    const int first = blockIdx.y * 64 + threadIdx.x, second = first + 32;
    const bool one = first < m, two = second < m;
    const T left = one ? x[row * m + first] : T(0), right = two ? x[row * m + second] : T(0);
    T left_sum = left, right_sum = right;
    const long long end = starts[row + 1];
    #pragma unroll 4
    for (long long at = starts[row]; at < end; ++at) {
        const long long place = (long long)neighbours[at] * m;
        const T weight = weights ? weights[at] : T(1);
        if (one) left_sum += weight * x[place + first];
        if (two) right_sum += weight * x[place + second];
    }
    const T share = b / degrees[row];
    if (one) y[row * m + first] = a * left + share * left_sum;
    if (two) y[row * m + second] = a * right + share * right_sum;
}
"""


class DeviceGraph:
    """A graph on the device, and filters on it.

    Filters are polynomials of Â = D^(-1/2) (A + I) D^(-1/2). On columns multiplied by D^(-1/2), Â acts as
    D^(-1) (A + I): a product then reads nothing but the neighbours and one degree for each row.
    """

    def __init__(self, xp: Any, graph: Graph, dtype: Any) -> None:
        adjacency, self._xp, self.n_nodes = graph.adjacency, xp, graph.n_nodes
        self.dtype = np.dtype(dtype)
        weighted = adjacency.nnz > 0 and not adjacency.data.min() == adjacency.data.max() == 1
        counts = adjacency.sum(axis=1, dtype=np.float64) if weighted else np.diff(adjacency.indptr)
        degrees = np.asarray(counts, dtype=np.float64).ravel() + 1
        self._degrees = xp.asarray(degrees.astype(dtype))
        self._roots = xp.asarray(np.sqrt(degrees).astype(dtype))[:, None]
        if xp is np:
            self._adjacency = adjacency.astype(dtype)
            return
        self._starts = to_device(xp, adjacency.indptr.astype(np.int64, copy=False))
        self._neighbours = to_device(xp, adjacency.indices.astype(np.int32, copy=False))
        self._weights = to_device(xp, adjacency.data.astype(dtype, copy=False)) if weighted else None

    def smooth(self, chosen: Filter, block: Any) -> Any:
        """Filter a block of columns that lies on the device."""
        a, b = chosen.mix or (1.0, 0.0)
        found = chosen.run(lambda one: self._product(a, b, one), block / self._roots)
        found *= self._roots
        return found

    def _product(self, a: float, b: float, block: Any) -> Any:
        if self._xp is np:
            return a * block + b * (block + self._adjacency @ block) / self._degrees[:, None]
        n, m = block.shape
        result, kind = self._xp.empty_like(block), self.dtype.type
        grid = (-(-n // _ROWS), -(-m // (2 * _LANES)))
        weights = self._weights if self._weights is not None else np.uintp(0)
        graph = (np.int64(n), np.int32(m), self._starts, self._neighbours, weights, self._degrees)
        self._kernel(grid, (_LANES, _ROWS), (*graph, kind(a), kind(b), block, result))
        return result

    @cached_property
    def _kernel(self) -> Any:
        name = "float" if self.dtype == np.float32 else "double"
        module = self._xp.RawModule(code=_KERNEL, options=("-std=c++11",), name_expressions=(f"product<{name}>",))
        return module.get_function(f"product<{name}>")


@dataclass(frozen=True, eq=False)
class DeviceTable:
    """Filtered features, n × m: on the device if they fit, otherwise in the memory of the host."""

    xp: Any
    values: Any  # an array of xp, or of NumPy

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the table."""
        n, m = self.values.shape
        return int(n), int(m)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the features were filtered."""
        dtype: np.dtype[Any] = np.dtype(self.values.dtype)
        return dtype

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield blocks of rows in float64, on the device."""
        n, m = self.shape
        rows = max(_BLOCK_BYTES // (8 * m), 1)
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            held = self.values[part]
            if isinstance(held, np.ndarray):
                held = to_device(self.xp, held)
            yield part, held.astype(np.float64)

    def gram(self) -> Any:
        """Return X̄ᵀ X̄, on the device."""
        m = self.shape[1]
        total = self.xp.zeros((m, m))
        for _, rows in self.blocks():
            total += rows.T @ rows
        return total

    def times(self, vectors: Any) -> Any:
        """Return X̄ times vectors, on the device, in float64."""
        right = self.xp.asarray(vectors)
        found = self.xp.empty((self.shape[0], right.shape[1]))
        for part, rows in self.blocks():
            found[part] = rows @ right
        return found

    def largest(self) -> float:
        """Return the largest magnitude of a value."""
        return max(float(max(rows.max(), -rows.min())) for _, rows in self.blocks())

    def take(self, nodes: IntArray) -> AnyFloatArray:
        """Return the rows of some nodes, in the memory of the host."""
        held = isinstance(self.values, np.ndarray)
        rows: AnyFloatArray = to_host(self.values[nodes] if held else self.values[self.xp.asarray(nodes)])
        return rows

    def to_host(self) -> AnyFloatArray:
        """Return the table in the memory of the host."""
        table: AnyFloatArray = to_host(self.values)
        return table


def smooth_on_device(
    xp: Any, chosen: Filter, graph: DeviceGraph, features: Features, *, room: int | None = None
) -> DeviceTable:
    """Filter features on the device; `room` is the memory in bytes that may be taken there, None for any."""
    n, m = features.shape
    dtype = np.dtype(features.dtype)
    columns = sparse.csc_array(features) if sparse.issparse(features) else features
    each = n * dtype.itemsize  # bytes of one column
    whole = room is None or (m + _BUFFERS * min(m, _WIDTH)) * each <= room
    width = m if room is None else min(m, room // ((_BUFFERS + 1) * each))
    if width == m:
        return DeviceTable(xp, graph.smooth(chosen, _uploaded(xp, columns)))
    width = min(m, _WIDTH) if whole else max(width, 1)
    values = (xp if whole else np).empty((n, m), dtype=dtype)
    for start in range(0, m, width):
        block = graph.smooth(chosen, _uploaded(xp, columns[:, start : start + width]))
        values[:, start : start + width] = block if whole else to_host(block)
        del block
    return DeviceTable(xp, values)


def _uploaded(xp: Any, columns: Features) -> Any:
    return to_device(xp, columns.toarray() if sparse.issparse(columns) else columns)


def to_device(xp: Any, values: AnyFloatArray | IntArray) -> Any:
    """Return an array of the device with these values."""
    source = np.ascontiguousarray(values)
    if xp is np or source.nbytes < _LARGE:
        return xp.asarray(source)
    result = xp.empty(source.shape, dtype=source.dtype)
    _copy_parts(xp, result, lambda part, stream: result[part].set(source[part], stream=stream))
    return result


def to_host(values: Any) -> Any:
    """Return an array of NumPy with these values."""
    if isinstance(values, np.ndarray):
        return values
    if values.nbytes < _LARGE or not values.flags.c_contiguous:
        return values.get()
    result = np.empty(values.shape, dtype=values.dtype)
    _copy_parts(_cupy_of(values), values, lambda part, stream: values[part].get(stream=stream, out=result[part]))
    return result


def _cupy_of(values: Any) -> Any:
    return sys.modules[type(values).__module__.partition(".")[0]]


def _copy_parts(xp: Any, values: Any, copy: Callable[[slice, Any], Any]) -> None:
    """Copy a large array of the device in parts, each in a thread and a stream of its own.

    One thread reaches a fraction of the rate of the bus: it also has to bring the pages of the host into being.
    """
    xp.cuda.get_current_stream().synchronize()  # the values are there
    device = values.device

    def copy_part(part: slice) -> None:
        with device:
            stream = xp.cuda.Stream(non_blocking=True)
            copy(part, stream)
            stream.synchronize()

    step = -(-len(values) // _THREADS)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(copy_part, (slice(start, start + step) for start in range(0, len(values), step))))


def scaled_rows(xp: Any, projected: Any, singular_values: FloatArray, noise_floor: float, scaling: str) -> Any:
    """Scale projected rows on the device as `Projection.transform` does."""
    if scaling == "U":
        inverse = np.divide(1.0, singular_values, out=np.zeros_like(singular_values), where=singular_values > 0)
        return projected * xp.asarray(inverse)
    if scaling == "unit":
        length = xp.sqrt((projected * projected).sum(axis=1))
        short = length <= noise_floor
        projected = xp.where(short[:, None], 0.0, projected)
        return projected / xp.where(short, 1.0, length)[:, None]
    return projected
