"""What a process holds at a moment, and how that grows with the work that it has done."""

import ctypes
import gc
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

WINDOWS = 12
"""Of the samples between the first quarter, in which caches fill, and the end."""

FEWEST = 4 * 4 * WINDOWS // 3
"""So many samples are needed: four a window, and the first quarter."""

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Hands free memory back to the operating system: glibc keeps it, in pieces that come and go."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """What a process held when so much work was done.

    Attributes:
        done: events, rounds or runs.
        memory: bytes: resident, or traced by Python's allocator while `tracemalloc` is at work.
        handles: how many files are open.
        seconds: of the processor, since the process began.
    """

    done: int
    memory: int
    handles: int
    seconds: float


def sample(done: int) -> Sample:
    """Look at this process, with what is garbage gone and what is free handed back.

    What the log's thread is writing is in memory, and its file open, for a moment only: it is
    waited for.
    """
    for thread in threading.enumerate():
        if thread.name == "events":
            thread.join()
    gc.collect()
    pa.default_memory_pool().release_unused()
    if _TRIM is not None:
        _TRIM(0)
    traced = tracemalloc.is_tracing()
    memory = tracemalloc.get_traced_memory()[0] if traced else _resident()
    return Sample(done, memory, _handles(), time.process_time())


@contextmanager
def young_only() -> Iterator[None]:
    """Let the garbage collector look only at what comes from now on: it is called often."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


def _handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def after_warming_up(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return those after the first quarter, in which caches fill and buffers grow."""
    return samples[len(samples) // 4 :]


def growth(samples: Sequence[Sample]) -> float:
    """Return the bytes of memory that each further piece of work takes for good.

    Buffers that fill and are emptied go up and down many times: what counts is the least of each
    of some windows, and the slope of the line through those (least squares).

    Args:
        samples: in order; at least `FEWEST`, and a buffer should be emptied in every window: a
            log's holds 65,536 rows at most.

    Raises:
        ValueError: there are fewer.
    """
    steady = after_warming_up(samples)
    if len(samples) < FEWEST:
        raise ValueError(f"{len(samples)} samples are too few for {WINDOWS} windows")
    windows = np.array_split(np.array([(each.done, each.memory) for each in steady]), WINDOWS)
    low = np.array([window[window[:, 1].argmin()] for window in windows], np.float64)
    return float(np.polyfit(low[:, 0] - low[0, 0], low[:, 1], 1)[0])


def slowing(samples: Sequence[Sample]) -> float:
    """Return the processor's time of a piece of work in the last tenth, over that in the first."""
    tenth = max(1, (len(samples) - 1) // 10)
    first, last = (
        (part[-1].seconds - part[0].seconds) / (part[-1].done - part[0].done)
        for part in (samples[: tenth + 1], samples[-tenth - 1 :])
    )
    return last / first


def left_open(samples: Sequence[Sample]) -> int:
    """Return how many more files are open at the end than when the process had warmed up."""
    return samples[-1].handles - after_warming_up(samples)[0].handles
