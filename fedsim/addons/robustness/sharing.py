"""Ends of transfers over one link, in many worlds.

Transfers with individual caps share the capacity of the link max-min fairly. This is the law of
`fedsim.sim.network.processor_sharing`, computed world by world in compiled code, with sums in the
order of the source.
"""

from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.problems.evaluators.kernel_cache import Function, cached_kernel, kernel_folder

Order = NDArray[np.intp]

# Fast-math would reassociate sums; NumPy's error model divides by zero without an exception.
_OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}


def _part(function: Function) -> Function:
    """Return a function that kernels and Python can call."""
    return cast("Function", numba.njit(**_OPTIONS)(function))


def ends(begins: Array, bits: Array, caps: Array, capacity: float | Array) -> Array:
    """Return the end of each transfer, s, shape (n, W).

    Args:
        begins: the time at which bits begin to flow, s, shape (n, W).
        bits: the bits of each transfer, shape (n, 1) or (n, W).
        caps: the rate of each transfer alone on the link, bit/s, shape (n, W).
        capacity: the capacity of the link, bit/s, shape (W,) or one number.
    """
    # Worlds become rows, so that each one is contiguous in the kernel.
    # `left` is a copy, as the kernel counts it down.
    over, left = np.empty((2, *begins.shape[::-1]))
    left[:] = bits.T
    first, rates = np.ascontiguousarray(begins.T), np.ascontiguousarray(caps.T)
    _ends(first, left, rates, np.full(len(first), capacity), over)
    return np.ascontiguousarray(over.T)


@_part
def fair_level(caps: Array, flows: Order, capacity: float) -> float:
    """Return the rate that no transfer exceeds, bit/s; infinite if each runs at its cap.

    Transfers are visited in ascending order of their caps. Each one takes its cap, as long as it
    does not exceed an equal share of the remaining capacity. From the first that does, all run at
    that share.

    Args:
        caps: see `ends`, shape (n,).
        flows: the active transfers, in ascending order of their caps, shape (k,).
        capacity: the capacity of the link, bit/s.
    """
    wanted = 0.0
    for i in flows:
        wanted += caps[i]
    # All transfers run at their caps.
    if wanted <= capacity:
        return np.inf
    left, rest = capacity, len(flows)
    for i in flows:
        # Water filling: the smaller caps are satisfied first.
        share = left / rest
        if caps[i] > share:
            return share
        left -= caps[i]
        rest -= 1
    return np.inf


@_part
def _insert(i: int, keys: Array, order: Order, count: int) -> None:
    """Insert `i` into the first `count` entries of `order`, which ascend by key."""
    place = count
    while place > 0 and keys[order[place - 1]] > keys[i]:
        order[place] = order[place - 1]
        place -= 1
    order[place] = i


@_part
def _time_left(left: Array, caps: Array, flows: Order, level: float, lasts: Array) -> float:
    """Return the time to the next end, s; set `lasts` to the remaining time of each transfer, s."""
    least = np.inf
    for k in range(len(flows)):
        i = flows[k]
        # The minimum rather than the level: a transfer whose cap is below the level runs at its
        # cap.
        lasts[k] = left[i] / min(caps[i], level)
        least = min(least, lasts[k])
    return least


@_part
def _play(
    begins: Array,
    left: Array,
    caps: Array,
    capacity: float,
    turns: Order,
    flows: Order,
    lasts: Array,
    over: Array,
) -> None:
    """Compute the end of each transfer of one world, shape (n,).

    Rates are constant between changes, which are beginnings and ends of transfers. With n transfers
    there are at most 2n changes, each of which visits all active transfers.

    Arguments are as in `ends`; `left` (bits) is overwritten. `turns`, `flows` and `lasts` are
    buffers: all transfers by beginning, the active ones by ascending cap, and their remaining
    times.
    """
    # Nothing flows at first: the step is infinite, and the first change is the first beginning.
    n, started, count, now = len(begins), 0, 0, -np.inf
    # Insertion sort: n is a cohort, and beginnings are often sorted already.
    for i in range(n):
        _insert(i, begins, turns, i)
    while started < n or count > 0:
        # Rates are constant up to the next change.
        level = fair_level(caps, flows[:count], capacity)
        step = _time_left(left, caps, flows[:count], level, lasts)
        then = now + step
        # A beginning takes its exact time: now + (begin - now) may round to a time just before it,
        # and the loop would not advance from there.
        if started < n and begins[turns[started]] - now <= step:
            then = begins[turns[started]]
            step = then - now
        kept = 0
        for k in range(count):
            i = flows[k]
            # `lasts` and `step` come from the same divisions, so the transfer that defines the step
            # ends here exactly.
            if lasts[k] <= step:
                over[i] = then
            else:
                left[i] = max(left[i] - min(caps[i], level) * step, 0.0)
                # Compaction keeps the ascending order of caps.
                flows[kept] = i
                kept += 1
        now, count = then, kept
        while started < n and begins[turns[started]] <= now:
            _insert(turns[started], caps, flows, count)
            started += 1
            count += 1


def _play_worlds(begins: Array, left: Array, caps: Array, capacity: Array, over: Array) -> None:
    """Compute the end of each transfer, shape (W, n); see `ends`."""
    n = begins.shape[1]
    turns, flows, lasts = np.empty(n, np.intp), np.empty(n, np.intp), np.empty(n)
    for w in range(len(begins)):
        if caps[w].sum() <= capacity[w]:  # the link never limits any transfer
            over[w] = begins[w] + left[w] / caps[w]
        else:
            _play(begins[w], left[w], caps[w], capacity[w], turns, flows, lasts, over[w])


_ends = cached_kernel(_play_worlds, kernel_folder([Path(__file__)]), nogil=True, **_OPTIONS)
