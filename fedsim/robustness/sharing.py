"""When transfers over one link end, in many worlds.

The link's capacity is shared max-min fairly by transfers, each with a cap of its own: the law of
`fedsim.sim.network.processor_sharing`, one world after the other in compiled code, whose sums are
taken in the order in which they are written.
"""

from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from fedsim.computing.kernel_cache import Function, cached_kernel, kernel_folder
from fedsim.ports import Array

Order = NDArray[np.intp]

Flags = NDArray[np.bool_]

_OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}


def _part(function: Function) -> Function:
    """Return a function that the kernel calls, and Python can."""
    return cast("Function", numba.njit(**_OPTIONS)(function))


def by_cap(caps: Array) -> Order:
    """Return the transfers of each world in the order of their caps, shape (n, W)."""
    return np.argsort(caps, axis=0, kind="stable")


def ends(begins: Array, bits: Array, caps: Array, order: Order, capacity: float | Array) -> Array:
    """Return the end of each transfer, s, shape (n, W).

    Args:
        begins: when the bits begin to flow, s, shape (n, W).
        bits: of each transfer, shape (n, 1) or (n, W).
        caps: the rate of each transfer alone on the link, bit/s, shape (n, W).
        order: from `by_cap`.
        capacity: of the link, bit/s, shape (W,) or one number.
    """
    over, left = np.empty((2, *begins.shape[::-1]))
    left[:] = bits.T
    first, rates = np.ascontiguousarray(begins.T), np.ascontiguousarray(caps.T)
    bounds = np.full(len(first), capacity)
    _ends(first, left, rates, np.ascontiguousarray(order.T), bounds, over)
    return np.ascontiguousarray(over.T)


@_part
def fair_level(flows: Flags, caps: Array, order: Order, capacity: float) -> float:
    """Return the rate that no transfer exceeds, bit/s; infinite if each runs at its cap.

    Transfers are taken in ascending order of their caps. Each leaves its cap; from the first one on
    whose cap exceeds an equal share of the rest of the capacity, all run at that share.

    Args:
        flows: which transfers flow, shape (n,).
        caps: see `ends`, shape (n,).
        order: the transfers by their caps, shape (n,).
        capacity: of the link, bit/s.
    """
    wanted, rest = 0.0, 0
    for i in range(len(caps)):
        if flows[i]:
            wanted += caps[i]
            rest += 1
    if wanted <= capacity:
        return np.inf
    left = capacity
    for i in order:
        if flows[i]:
            share = left / rest
            if caps[i] > share:
                return share
            left -= caps[i]
            rest -= 1
    return np.inf


@_part
def _time_left(left: Array, caps: Array, level: float, flows: Flags, lasts: Array) -> float:
    """Return the time to the next change, s; fill in how long each flowing transfer lasts, s."""
    step = np.inf
    for i in range(len(left)):
        if flows[i]:
            lasts[i] = left[i] / min(caps[i], level) if left[i] > 0.0 else 0.0
        step = min(step, lasts[i])
    return step


@_part
def _next_time(now: float, step: float, begins: Array, lasts: Array) -> float:
    """Return the time of the next change, s.

    A begin is set to its exact time: now + (begin - now) may round to a time just before it, from
    which no step of the clock's resolution leads further.
    """
    then = now + step
    for i in range(len(begins)):
        if lasts[i] <= step and begins[i] > now:
            then = begins[i]
    return then


@_part
def _play(
    begins: Array,
    left: Array,
    caps: Array,
    order: Order,
    capacity: float,
    flows: Flags,
    lasts: Array,
    over: Array,
) -> None:
    """Fill in the end of each transfer of one world, shape (n,).

    A change is the begin or the end of a transfer: rates are constant in between. With n transfers
    there are at most 2n changes.

    Arguments are as in `ends`; into `left`, the bits, it is written, and `flows` and `lasts` are
    room for which transfers flow, and for how long: until each ends, or begins.
    """
    now, rest = begins.min(), len(begins)
    for i in range(len(begins)):
        flows[i], lasts[i] = begins[i] <= now, begins[i] - now
    while rest > 0:
        level = fair_level(flows, caps, order, capacity)
        step = _time_left(left, caps, level, flows, lasts)
        then = _next_time(now, step, begins, lasts)
        for i in range(len(begins)):
            if flows[i]:
                left[i] = max(left[i] - min(caps[i], level) * step, 0.0)
                if lasts[i] <= step:
                    flows[i], lasts[i], over[i] = False, np.inf, then
                    rest -= 1
            elif lasts[i] < np.inf:  # it has not begun
                flows[i], lasts[i] = begins[i] <= then, begins[i] - then
        now = then


def _play_worlds(
    begins: Array, left: Array, caps: Array, order: Order, capacity: Array, over: Array
) -> None:
    """Fill in the end of each transfer, shape (W, n); see `ends`."""
    flows, lasts = np.empty(begins.shape[1], np.bool_), np.empty(begins.shape[1])
    for w in range(len(begins)):
        _play(begins[w], left[w], caps[w], order[w], capacity[w], flows, lasts, over[w])


_ends = cached_kernel(_play_worlds, kernel_folder([Path(__file__)]), nogil=True, **_OPTIONS)
