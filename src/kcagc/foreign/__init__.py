"""Tables and graphs of other libraries, known by their shape: none of these libraries is ever imported here."""

from kcagc.foreign.frames import is_frame
from kcagc.foreign.graphs import graph_of
from kcagc.foreign.tensors import plain

__all__ = ["graph_of", "is_frame", "plain"]
