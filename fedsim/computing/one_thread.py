"""Threads of linear algebra: with more than one, the last bits depend on their number."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import cast

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Return a context within which every library that is loaded does linear algebra by one."""
    # Looking for these libraries takes 4 ms, and no new one is there without a new module.
    found = _libraries(len(sys.modules), next(reversed(sys.modules)))
    return cast("AbstractContextManager[object]", found.limit(limits=1))


@lru_cache(maxsize=1)
def _libraries(_count: int, _last: str) -> ThreadpoolController:
    return ThreadpoolController()
