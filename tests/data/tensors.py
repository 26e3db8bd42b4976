"""As much of PyTorch and PyTorch Geometric as is looked at: neither is installed for the tests."""

import numpy as np


class Tensor:
    """A tensor on a device: it becomes an array only after `detach` and `cpu`, as those with gradients on a GPU do."""

    def __init__(self, values, *, ready=0):
        self._values, self._ready = np.asarray(values), ready

    def detach(self):
        return Tensor(self._values, ready=max(self._ready, 1))

    def cpu(self):
        return Tensor(self._values, ready=2 if self._ready else 0)

    def numpy(self):
        if self._ready < 2:
            raise RuntimeError("can't call numpy() on a tensor that requires grad, or is not on the CPU")
        return self._values


class Data:
    """A graph with features."""

    def __init__(self, *, edge_index, num_nodes, x=None, edge_weight=None, edge_attr=None):
        self.edge_index, self.num_nodes, self.x = edge_index, num_nodes, x
        self.edge_weight, self.edge_attr = edge_weight, edge_attr
