"""One thread for linear algebra, where products are so small that threads cost more than they give."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra on one core for a while.

    Threads that wait for the next small product spin, and take a core from whoever else computes: another party on the
    same machine, or the threads that filter.
    """
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@lru_cache(maxsize=1)
def _libraries() -> Any:
    return ThreadpoolController()  # looks through all libraries of the process, which takes milliseconds
